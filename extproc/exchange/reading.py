"""One response being read: JSON as a whole, server-sent events one by one."""

from __future__ import annotations

from collections import deque

from extproc.exchange.coding import Decoder, Undecodable
from extproc.exchange.messages import Headers, Keep, Replace, Response, ResponseDecision, ResponsePlan
from extproc.mcp import slices
from extproc.mcp.sse import Frame, FrameSplitter, parse_frame


class Reading:
    """Takes response bytes in, gives decisions to make and client bytes out.

    ``feed`` bytes, then ``step`` until it returns None; every message it returns is settled with ``settle``.
    ``take`` hands out what may be sent now.  Nothing wanted leaves before it is settled.
    """

    def __init__(
        self,
        plan: ResponsePlan,
        status: int,
        headers: Headers,
        *,
        events: bool,
        decoder: Decoder | None,
        limit: int,
    ) -> None:
        self._plan = plan
        self._status = status
        self._headers = headers
        self._events = events
        self._decoder = decoder
        self._limit = limit
        self._splitter = FrameSplitter(limit)
        self._frames: deque[Frame] = deque()
        self._body = bytearray()
        self._out: list[bytes] = []
        self._frame: Frame | None = None
        self._ended = False
        self._settled = False
        self._let_go = False
        self.broken = ""
        """Why the answer could not be read; empty while all is well."""

    @property
    def decodes(self) -> bool:
        """Whether what goes out is coded otherwise than what came in."""
        return self._decoder is not None

    def feed(self, chunk: bytes, *, end: bool) -> None:
        if self.broken or self._ended:
            return
        try:
            data = self._decoder.feed(chunk) if self._decoder else chunk
        except Undecodable as error:
            self.fail(f"content-encoding: {error}")
            return
        if self._events:
            self._frames.extend(self._splitter.feed(data, end=end))
            if end and (rest := self._splitter.rest):
                # Some servers leave out the blank line after the last event.
                self._frames.append(parse_frame(rest))
            if self._splitter.overflown or any(len(frame.raw) > self._limit for frame in self._frames):
                self.fail("an event is larger than limits.response_body")
        elif self._let_go:
            self._out.append(data)
        elif not self._settled:
            self._body += data
            if self._plan.gives_up is not None and len(self._body) > self._plan.gives_up:
                self._let_go = self._settled = True
                self._out.append(bytes(self._body))
                self._body.clear()
            elif len(self._body) > self._limit:
                self.fail("the answer is larger than limits.response_body")
        self._ended = end or self._is_whole()

    def _is_whole(self) -> bool:
        """Whether a JSON body is complete although more may come.

        A streamed response that ends in trailers has no last chunk to hold the answer back for.
        """
        if self._events or self._settled or self._body[-1:].strip() != b"}":
            return False
        if self._body.count(b"{") != self._body.count(b"}"):
            return False
        try:
            slices.members(bytes(self._body))
        except ValueError:
            return False
        return True

    def step(self) -> Response | None:
        """The next message to decide on, or None when more bytes are needed."""
        if self.broken:
            return None
        if not self._events:
            if self._settled or not self._ended:
                return None
            return Response(self._status, self._headers, bytes(self._body), self._plan, event=False)
        while self._frames:
            frame = self._frames.popleft()
            if frame.data and self._plan.wants(frame.data):
                self._frame = frame
                return Response(self._status, self._headers, frame.data, self._plan, event=True)
            self._out.append(frame.raw)
        return None

    def settle(self, decision: ResponseDecision) -> None:
        match decision, self._frame:
            case Keep(), None:
                self._out.append(bytes(self._body))
            case Keep(), Frame() as frame:
                self._out.append(frame.raw)
            case Replace(body), None:
                self._out.append(body)
            case Replace(body), Frame() as frame:
                self._out.append(frame.with_data(body))
        self._frame = None
        if not self._events:
            self._settled = True
            self._body.clear()

    def fail(self, reason: str) -> None:
        """Put the plan's failure in place of what has not been sent, and swallow the rest."""
        if self.broken:
            return
        self.broken = reason
        self._body.clear()
        self._frames.clear()
        if not self._settled:
            failure = self._plan.failure()
            self._out.append(b"data: " + failure + b"\n\n" if self._events else failure)
        self._settled = True

    def take(self) -> bytes:
        data = b"".join(self._out)
        self._out.clear()
        return data
