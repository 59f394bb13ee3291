"""A small MCP client over streamable HTTP: enough to read a tool list, in both eras."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from extproc.mcp.sse import FrameSplitter

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
MAX_PAGES = 100
MAX_ANSWER = 64 * 1024 * 1024
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_META = "io.modelcontextprotocol/"
_BOTH = "application/json, text/event-stream"


class RemoteError(Exception):
    """The tool list could not be read; the text says what happened and what to try."""


def parse_headers(lines: Iterable[str]) -> dict[str, str]:
    """``Name: value`` lines as a mapping.  Raises RemoteError for a line without a name."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise RemoteError("a header must look like 'Name: value', for example 'Authorization: Bearer …'")
        headers[name.strip().lower()] = value.strip()
    return headers


def fetch_tools(url: str, headers: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every tool that ``url`` lists, all pages, duplicates of a name dropped.

    Speaks 2026-07-28 where the server does, else opens a legacy session and ends it.
    Raises RemoteError.
    """
    if not url.startswith(("http://", "https://")):
        raise RemoteError(f"{url}: an MCP URL starts with http:// or https://")
    try:
        with httpx.Client(timeout=TIMEOUT) as http:
            return _Session(http, url, headers).tools()
    except httpx.ConnectError:
        raise RemoteError(f"{url}: nothing answers there; is the gateway running?") from None
    except httpx.TimeoutException:
        raise RemoteError(f"{url}: no answer within {TIMEOUT.read:.0f} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeEncodeError) as error:
        raise RemoteError(f"{url}: {type(error).__name__}: {error}") from None


class _Session:
    def __init__(self, http: httpx.Client, url: str, headers: Mapping[str, str]) -> None:
        self._http, self._url = http, url
        self._headers = {"accept": _BOTH, "content-type": "application/json", **headers}
        self._modern = False
        self._opened = False
        self._number = 0

    def tools(self) -> list[dict[str, Any]]:
        try:
            self._open()
            return self._pages()
        finally:
            if self._opened:
                self._http.delete(self._url, headers=self._headers)

    def _open(self) -> None:
        self._modern = True
        self._headers["mcp-protocol-version"] = MODERN
        answer = self._post("server/discover", {})
        message = self._message(answer) if answer.status_code == 200 else None
        if message is not None and MODERN in message.get("result", {}).get("supportedVersions", ()):
            return
        self._modern = False
        del self._headers["mcp-protocol-version"]
        self._initialize()

    def _initialize(self) -> None:
        info = {"name": "mcp-toolsearch-extproc", "version": "0"}
        answer = self._post("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info})
        result = self._result(answer)
        if (session := answer.headers.get("mcp-session-id")) is not None:
            self._headers["mcp-session-id"] = session
            self._opened = True
        self._headers["mcp-protocol-version"] = str(result.get("protocolVersion", LEGACY))
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self._http.post(self._url, content=json.dumps(body), headers=self._headers)

    def _pages(self) -> list[dict[str, Any]]:
        tools: dict[str, dict[str, Any]] = {}
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            result = self._result(self._post("tools/list", {} if cursor is None else {"cursor": cursor}))
            listed = result.get("tools")
            if not isinstance(listed, list):
                raise RemoteError(f"{self._url}: the answer to tools/list has no tools")
            for tool in listed:
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    tools.setdefault(tool["name"], tool)
            cursor = result.get("nextCursor")
            if cursor is None:
                return list(tools.values())
            if not isinstance(cursor, str) or cursor in seen:
                raise RemoteError(f"{self._url}: the pages of tools/list go round in a circle")
            seen.add(cursor)
        raise RemoteError(f"{self._url}: tools/list has more than {MAX_PAGES} pages")

    def _post(self, method: str, params: dict[str, Any]) -> httpx.Response:
        self._number += 1
        headers = dict(self._headers)
        if self._modern:
            headers["mcp-method"] = method
            meta = {f"{_META}protocolVersion": MODERN, f"{_META}clientCapabilities": {}}
            params = {**params, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        answer = self._http.post(self._url, content=json.dumps(body), headers=headers)
        self._check(answer)
        return answer

    def _check(self, answer: httpx.Response) -> None:
        """Refuse what no other revision would cure."""
        status = answer.status_code
        if status in (401, 403):
            hint = "--header 'Authorization: Bearer …' passes a credential"
            raise RemoteError(f"{self._url}: {status} {answer.reason_phrase}; {hint}")
        if status >= 500 and not self._modern:
            raise RemoteError(f"{self._url}: the gateway answered {status} {answer.reason_phrase}")
        if answer.is_redirect:
            raise RemoteError(f"{self._url}: redirected to {answer.headers.get('location')}; use that URL")

    def _result(self, answer: httpx.Response) -> dict[str, Any]:
        message = self._message(answer)
        if message is None:
            kind = answer.headers.get("content-type", "no content type")
            raise RemoteError(
                f"{self._url}: not an MCP answer ({answer.status_code}, {kind}); is the path right?"
            )
        if "error" in message:
            error = message["error"]
            text = error.get("message") if isinstance(error, dict) else error
            raise RemoteError(f"{self._url}: the server answered with an error: {text}")
        result = message.get("result")
        if not isinstance(result, dict):
            raise RemoteError(f"{self._url}: the answer has no result")
        return result

    def _message(self, answer: httpx.Response) -> dict[str, Any] | None:
        """The JSON-RPC response in an answer, whichever way it is written; None when there is none."""
        if "text/event-stream" in answer.headers.get("content-type", ""):
            frames = FrameSplitter(MAX_ANSWER).feed(answer.content + b"\n\n", end=True)
            texts = [frame.data for frame in frames if frame.data]
        else:
            texts = [answer.content]
        for text in texts:
            try:
                message = json.loads(text)
            except ValueError:
                continue
            if isinstance(message, dict) and message.get("id") == self._number and "method" not in message:
                return message
        return None
