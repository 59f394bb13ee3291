"""Body and header modes, the same checks for every way of writing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At

NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX = (
    "NONE",
    "STREAMED",
    "BUFFERED",
    "BUFFERED_PARTIAL",
    "FULL_DUPLEX_STREAMED",
)
DEFAULT, SEND, SKIP = "DEFAULT", "SEND", "SKIP"
BODY_NUMBERS: Final = (NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX, "GRPC")
HEADER_NUMBERS: Final = (DEFAULT, SEND, SKIP)


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one gateway writes modes: field names, and its word for each of ours."""

    request_body: str
    response_body: str
    request_headers: str
    response_headers: str
    request_trailers: str
    response_trailers: str
    override: str
    words: Mapping[str, str]
    default_body: str = NONE
    default_headers: str = SEND
    default_trailers: str = SKIP

    def read(self, at: At, default: str) -> str | None:
        """Our word for the value at ``at``; None when the gateway has no such value."""
        if not at.exists:
            return default
        value = at.scalar
        numbers = BODY_NUMBERS if "ody" in str(at.path[-1]) else HEADER_NUMBERS
        if isinstance(value, int) and not isinstance(value, bool):
            return numbers[value] if value < len(numbers) else None
        found = next((ours for ours, theirs in self.words.items() if theirs == value), None)
        return default if found == DEFAULT else found


ENVOY: Final = Spelling(
    "request_body_mode",
    "response_body_mode",
    "request_header_mode",
    "response_header_mode",
    "request_trailer_mode",
    "response_trailer_mode",
    "allow_mode_override",
    {word: word for word in (NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX, DEFAULT, SEND, SKIP)},
)
_AGENTGATEWAY = {
    NONE: "none",
    BUFFERED: "buffered",
    PARTIAL: "bufferedPartial",
    DUPLEX: "fullDuplexStreamed",
    SEND: "send",
    SKIP: "skip",
}
_FIELDS = (
    "requestBodyMode",
    "responseBodyMode",
    "requestHeaderMode",
    "responseHeaderMode",
    "requestTrailerMode",
    "responseTrailerMode",
    "allowModeOverride",
)
STANDALONE: Final = Spelling(*_FIELDS, _AGENTGATEWAY, default_body=DUPLEX, default_trailers=SEND)
POLICY: Final = Spelling(
    *_FIELDS,
    {ours: theirs[0].upper() + theirs[1:] for ours, theirs in _AGENTGATEWAY.items()},
    default_body=DUPLEX,
    default_trailers=SEND,
)


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of one filter; ``override`` is None where the gateway decides by itself."""

    spelling: Spelling
    at: At
    request: str
    response: str

    @property
    def duplex(self) -> bool:
        return DUPLEX in (self.request, self.response)


def read_modes(at: At, spelling: Spelling) -> Modes:
    request = spelling.read(at[spelling.request_body], spelling.default_body)
    response = spelling.read(at[spelling.response_body], spelling.default_body)
    return Modes(spelling, at, request or "", response or "")


def check_modes(at: At, spelling: Spelling, override: At) -> Iterator[Finding]:
    """``at`` holds the modes, ``override`` says whether mode_override is allowed."""
    modes = read_modes(at, spelling)
    yield from _spelling(at, spelling)
    words = spelling.words
    request, response = at[spelling.request_body], at[spelling.response_body]
    shown = f"{spelling.request_body} is {request.text or 'not set'}"
    if modes.request in (NONE, STREAMED, PARTIAL):
        yield Finding("request-body-mode", request, shown, f"{spelling.request_body}: {words[BUFFERED]}")
    elif modes.request == DUPLEX != modes.response and modes.response:
        yield Finding(
            "mixed-duplex",
            response,
            f"{shown}, {spelling.response_body} is {response.text or 'not set'}",
            f"{spelling.request_body}: {words[BUFFERED]}, or {spelling.response_body}: {words[DUPLEX]}",
        )
    elif modes.response == DUPLEX != modes.request and modes.request:
        yield Finding(
            "mixed-duplex",
            request,
            f"{shown}, {spelling.response_body} is {words[DUPLEX]}",
            f"{spelling.response_body}: {words[NONE]}",
        )
    yield from _response(modes, response)
    yield from _headers(modes)
    if modes.request == BUFFERED and modes.response == NONE and not override.truth:
        yield Finding(
            "mode-override-off",
            override,
            f"{spelling.override} is {override.text or 'not set'}",
            f"{spelling.override}: true",
        )


def _response(modes: Modes, at: At) -> Iterator[Finding]:
    spelling = modes.spelling
    mend = f"{spelling.response_body}: {spelling.words[NONE]}"
    if modes.response == PARTIAL:
        yield Finding("response-body-mode", at, f"{spelling.response_body} is {at.text}", mend)
    elif modes.response == BUFFERED:
        yield Finding("response-body-buffered", at, f"{spelling.response_body} is {at.text}", mend)


def _headers(modes: Modes) -> Iterator[Finding]:
    spelling, at = modes.spelling, modes.at
    for name, finding in (
        (spelling.request_headers, "request-headers-skipped"),
        (spelling.response_headers, "response-headers-skipped"),
    ):
        if spelling.read(at[name], spelling.default_headers) == SKIP:
            yield Finding(finding, at[name], f"{name} is {at[name].text}", f"{name}: {spelling.words[SEND]}")
    if not modes.duplex:
        return
    for name in (spelling.request_trailers, spelling.response_trailers):
        if spelling.read(at[name], spelling.default_trailers) == SKIP:
            shown = f"{name} is {at[name].text or 'not set'}"
            yield Finding("duplex-trailers", at[name], shown, f"{name}: {spelling.words[SEND]}")


def _spelling(at: At, spelling: Spelling) -> Iterator[Finding]:
    names = [
        spelling.request_body,
        spelling.response_body,
        spelling.request_headers,
        spelling.response_headers,
        spelling.request_trailers,
        spelling.response_trailers,
    ]
    for name in names:
        if spelling.read(at[name], DEFAULT) is None:
            text = at[name].text
            allowed = [
                word
                for word in spelling.words.values()
                if ("ody" in name) == (word.upper() not in HEADER_NUMBERS)
            ]
            folded = {word.lower().replace("_", ""): word for word in allowed}
            close = get_close_matches(text.lower().replace("_", ""), folded, n=1, cutoff=0.5)
            best = folded[close[0]] if close else spelling.words[BUFFERED if "ody" in name else SEND]
            yield Finding("wrong-spelling", at[name], f"{name} is {text}", f"{name}: {best}")
    yield from unknown_names(at, [*names, spelling.override], certain=True)


def unknown_names(at: At, known: list[str], *, certain: bool) -> Iterator[Finding]:
    """Keys the gateway does not have.  Unless ``certain``, only those that look like a slip of the pen."""
    for name, child in at.members():
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        if name in known or snake in known or name.startswith("@"):
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.6 if certain else 0.75)
        if near or certain:
            mend = f"{near[0]}: {child.text or '…'}" if near else f"take {name} out"
            yield Finding("wrong-spelling", child, f"{name} is not a field here", mend)
