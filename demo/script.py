"""What the demo shows, step by step; every step says whether it did what it should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import CallToolResult

from demo import paper
from extproc.cli.savings import as_shown, counter
from tests.harness.client import official, text_of
from tests.harness.stack import Stack

NEED = "what time is it now in another timezone"
SERVERS = "everything, files, memory, time, git (written by others) and office (made up, 600 tools)"


class Script:
    """Runs the steps and counts what went wrong."""

    def __init__(self, stack: Stack, work: Path) -> None:
        self.stack, self.work = stack, work
        self.failures = 0
        self.count, self.exact = counter()

    def expect(self, fine: bool, text: str) -> None:
        if fine:
            paper.good(text)
        else:
            self.failures += 1
            paper.bad(f"not so: {text}")

    async def run(self) -> int:
        """All steps; returns the number of failures."""
        full = await self.full_list()
        async with official(self.stack.url) as client:
            await self.six(client, full)
            answer = await self.search(client)
            await self.describe(client)
            await self.calls(client)
            await self.wrong_class(client)
        await self.comparison(full, answer)
        return self.failures

    async def full_list(self) -> int:
        paper.heading("The full tool list: the route without the filter")
        async with official(self.stack.raw_url) as client:
            listed = await client.list_tools()
        tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
        tokens = self.count(as_shown(tools))
        unit = "o200k tokens" if self.exact else "tokens (estimated)"
        paper.say(f"{len(tools)} tools of {SERVERS}")
        paper.say(f"{tokens:,} {unit} in every request of the model")
        self.expect(len(tools) > 300, "all servers are listed")
        return tokens

    async def six(self, client: Client, full: int) -> None:
        paper.heading("The same servers through the filter")
        listed = await client.list_tools()
        tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
        tokens = self.count(as_shown(tools))
        paper.table(
            [(tool.name, (tool.description or "").split(". ")[0].rstrip(".")) for tool in listed.tools]
        )
        paper.say(f"{tokens:,} tokens: {100 - 100 * tokens / full:.1f} % less")
        self.expect(len(tools) == 6, "six tools are listed")
        self.expect(tokens <= 1200, "they cost at most 1,200 tokens")

    async def search(self, client: Client) -> int:
        paper.heading("A search in plain words")
        asked = {"queries": [NEED, "remember a fact about a person"], "limit": 3}
        result = await self._call(client, "search_tools", asked)
        said = text_of(result)
        for group in json.loads(said).get("results", []):
            paper.say(f"“{group['query']}”")
            paper.table([self._hit(hit) for hit in group["tools"]])
        paper.say(f"{self.count(said):,} tokens for both needs, schemas of the best hits included")
        self.expect("time__get_current_time" in said, "the tool that tells the time is among the hits")
        return self.count(said)

    @staticmethod
    def _hit(hit: dict[str, Any]) -> tuple[str, str, str]:
        description = str(hit.get("description", "")).splitlines()
        return ("", f"{hit['name']}", f"{hit.get('call', '')}: {description[0] if description else ''}"[:70])

    async def describe(self, client: Client) -> None:
        paper.heading("One tool in full")
        result = await self._call(client, "describe_tool", {"names": ["time__get_current_time"]})
        paper.say(text_of(result))
        self.expect('"timezone"' in text_of(result), "its input schema is there")

    async def calls(self, client: Client) -> None:
        paper.heading("A call that reads")
        asked = {"name": "time__get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}
        result = await self._call(client, "call_read_tool", asked)
        paper.say(text_of(result))
        self.expect(not result.is_error and "Asia/Tokyo" in text_of(result), "the time server answered")

        paper.heading("A call that writes")
        fact = {"name": "Ada", "entityType": "person", "observations": ["prefers tea"]}
        asked = {"name": "memory__create_entities", "arguments": {"entities": [fact]}}
        result = await self._call(client, "call_write_tool", asked)
        paper.say(text_of(result))
        stored = self.work / "memory.jsonl"
        remembered = stored.exists() and "prefers tea" in stored.read_text("utf-8")
        self.expect(not result.is_error and remembered, "the memory server stored it")

    async def wrong_class(self, client: Client) -> None:
        paper.heading("A destructive tool through the read-only call")
        asked = {"name": "memory__delete_entities", "arguments": {"entityNames": ["Ada"]}}
        result = await self._call(client, "call_read_tool", asked)
        paper.say(text_of(result))
        kept = "prefers tea" in (self.work / "memory.jsonl").read_text("utf-8")
        self.expect(bool(result.is_error) and kept, "refused, and nothing was deleted")

    async def comparison(self, full: int, answer: int) -> None:
        paper.heading("The same need on the route without the filter")
        async with official(self.stack.raw_url) as client:
            listed = await client.list_tools()
        fitting = [tool.name for tool in listed.tools if "time" in tool.name]
        paper.say(
            f"There is no search there: the model reads all {len(listed.tools)} tools, {full:,} tokens, and "
            f"picks by itself among the {len(fitting)} that have “time” in their names. "
            f"Through the filter it read {answer:,} tokens."
        )
        self.expect(answer * 10 < full, "the search cost less than a tenth of the list")

    @staticmethod
    async def _call(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
        paper.call(name, arguments)
        return await client.call_tool(name, arguments)


def configuration(url: str) -> str:
    """Ready-made configuration for three clients."""
    cursor = json.dumps({"mcpServers": {"tools": {"url": url}}})
    vscode = json.dumps({"servers": {"tools": {"type": "http", "url": url}}})
    return "\n".join(
        (
            f"Claude Code   claude mcp add --transport http tools {url}",
            f"Cursor        .cursor/mcp.json   {cursor}",
            f"VS Code       .vscode/mcp.json   {vscode}",
        )
    )
