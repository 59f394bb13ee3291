"""Answering ``tools/call``: an echo, or the misbehaviour that was asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.fixture_server.rules import Refusal
from tests.fixture_server.state import Session, State, digest, label

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
QUESTION = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


class Reset(Exception):
    """The connection is to be torn down; ``half`` after part of an answer has gone out."""

    def __init__(self, *, half: bool) -> None:
        self.half = half


@dataclass
class Call:
    """One call with what it needs to talk while it runs.  ``say`` sends a message before the answer."""

    state: State
    token: str
    message: dict[str, Any]
    say: Callable[[dict[str, Any]], Awaitable[None]]
    modern: bool
    session: Session | None

    @property
    def params(self) -> dict[str, Any]:
        params = self.message.get("params")
        return params if isinstance(params, dict) else {}


def result(text: str, *, error: bool = False, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"content": [{"type": "text", "text": text}], **more}
    return {**body, "isError": True} if error else body


def echo(call: Call, **more: Any) -> dict[str, Any]:
    """Name, arguments and caller as JSON text, so that every answer can be checked against its request."""
    said = {
        "tool": call.params["name"],
        "arguments": call.params.get("arguments", {}),
        "caller": label(call.token),
        **more,
    }
    return result(json.dumps(said, ensure_ascii=False))


async def run(call: Call) -> dict[str, Any]:
    """The result of the call.  Raises Refusal for an error answer and Reset for a broken connection."""
    try:
        return await _run(call)
    except asyncio.CancelledError:
        call.state.cancelled.append(str(call.params.get("name")))
        raise


async def _run(call: Call) -> dict[str, Any]:
    name = call.params.get("name")
    if not isinstance(name, str):
        raise Refusal(200, -32602, "params.name must be a string")
    if name not in {tool["name"] for tool in call.state.tools(call.token)}:
        raise Refusal(200, -32602, f"Unknown tool: {name}")
    arguments = call.params.get("arguments") or {}
    match name:
        case "fixture_slow":
            return await _slow(call, float(arguments.get("seconds", 1)))
        case "fixture_progress":
            return await _progress(call, int(arguments.get("steps", 3)), float(arguments.get("delay", 0.05)))
        case "fixture_elicit":
            return await _elicit(call, str(arguments.get("question", "Are you sure?")))
        case "fixture_fail" | "fixture_fail_write" | "fixture_fail_delete":
            return _fail(str(arguments.get("how", "is_error")))
        case "fixture_big":
            return result("x" * int(arguments.get("bytes", 1_000_000)))
        case "fixture_content":
            image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            text = {"type": "text", "text": '{"answer": 42}'}
            return {"content": [text, image], "structuredContent": {"answer": 42}}
        case _:
            return echo(call)


async def _slow(call: Call, seconds: float) -> dict[str, Any]:
    await asyncio.sleep(seconds)
    return echo(call)


async def _progress(call: Call, steps: int, delay: float) -> dict[str, Any]:
    token = call.params.get("_meta", {}).get("progressToken")
    for step in range(1, steps + 1):
        await asyncio.sleep(delay)
        if token is not None:
            params = {"progressToken": token, "progress": step, "total": steps, "message": f"step {step}"}
            await call.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    return echo(call)


async def _elicit(call: Call, question: str) -> dict[str, Any]:
    asked = {"mode": "form", "message": question, "requestedSchema": QUESTION}
    if call.modern:
        return _elicit_modern(call, asked)
    if call.session is None:
        return result("elicitation needs a session", error=True)
    number = f"elicit-{len(call.session.pending)}-{id(call)}"
    answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    call.session.pending[number] = answer
    await call.say({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": asked})
    reply = await answer
    return echo(call, answer=reply.get("result", reply.get("error")))


def _elicit_modern(call: Call, asked: dict[str, Any]) -> dict[str, Any]:
    """Multi round trip: the state is bound to the tool and its arguments, so a changed retry is refused."""
    expected = "state-é-" + digest(call.params["name"], call.params.get("arguments", {}))
    given = call.params.get("requestState")
    if given is None:
        question = {"method": "elicitation/create", "params": asked}
        return {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": expected}
    if given != expected:
        raise Refusal(400, -32602, "Invalid request state", {"reason": "invalid_request_state"})
    return echo(call, answer=call.params.get("inputResponses", {}).get("q"))


def _fail(how: str) -> dict[str, Any]:
    match how:
        case "reset":
            raise Reset(half=False)
        case "half":
            raise Reset(half=True)
        case "is_error":
            return result("The upstream system said no.", error=True)
        case "invalid_params":
            raise Refusal(200, -32602, "Invalid params: how must be something else")
        case "unknown_tool":
            return result("Unknown tool: it went away", error=True)
        case "403":
            challenge = 'Bearer error="insufficient_scope", scope="tools:write"'
            raise Refusal(403, -32600, "Forbidden", headers=(("www-authenticate", challenge),))
        case "401":
            challenge = 'Bearer error="invalid_token", error_description="expired"'
            raise Refusal(401, -32600, "Unauthorized", headers=(("www-authenticate", challenge),))
        case _:
            raise Refusal(int(how) if how.isdigit() else 500, -32603, "Internal error")
