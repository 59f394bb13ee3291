"""The smallest MCP server that a benchmark can use: answers from memory, so that it is never what is
measured.

    python -m bench.upstream PORT LIST.json

``LIST.json`` holds the ``tools`` array.  A request with the header ``x-vary: N`` gets a list of the same
size that nobody has seen before.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import cast

import uvloop

_ID = re.compile(rb'"id":\s*("[^"]*"|-?[0-9]+)')
_LENGTH = re.compile(rb"content-length:\s*([0-9]+)", re.I)
_VARY = re.compile(rb"x-vary:\s*([0-9]+)", re.I)
_RESULT = b'{"content":[{"type":"text","text":"done"}],"isError":false}'


class Server(asyncio.Protocol):
    tools = b"[]"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[: end + 2]
            found = _LENGTH.search(head)
            stop = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < stop:
                return
            self._answer(head, self._buffer[end + 4 : stop])
            self._buffer = self._buffer[stop:]

    def _answer(self, head: bytes, body: bytes) -> None:
        found = _ID.search(body)
        if b'"tools/list"' in body:
            vary = _VARY.search(head)
            tools = self.tools.replace(b"@@", vary[1] if vary else b"0")
            result = b'{"tools":' + tools + b"}"
        else:
            result = _RESULT
        answer = b'{"jsonrpc":"2.0","id":' + (found[1] if found else b"null") + b',"result":' + result + b"}"
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (len(answer), answer)
        )


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    listed = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    Server.tools = json.dumps(listed, separators=(",", ":")).encode()
    uvloop.run(main(int(sys.argv[1])))
