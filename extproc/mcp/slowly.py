"""Objects and arrays taken apart by the standard library: slower than msgspec, for every valid JSON text."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]

_SPACE = re.compile(r"[ \t\n\r]*")
_CLOSING = {"{": "}", "[": "]"}


class NotAnObject(ValueError):
    """The text is no JSON object (or array, where one is asked for)."""


class TooDeep(ValueError):
    """The text nests deeper than the parser goes (about a thousand levels)."""


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse, parse_int=len, parse_float=len)


def elements(text: str, opening: str) -> list[tuple[str, bytes]]:
    """Names and raw values of the one object (``{``) or array (``[``, names empty) that ``text`` is.

    Raises :class:`NotAnObject` or :class:`TooDeep`.
    """
    try:
        return list(_elements(text, opening))
    except RecursionError:
        raise TooDeep("nested too deeply") from None
    except (ValueError, IndexError, UnicodeError) as error:
        raise NotAnObject(str(error)) from None


def _elements(text: str, opening: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    at = _expect(text, _skip(text, 0), opening)
    if text[at] == _CLOSING[opening]:
        at += 1
    else:
        while True:
            name = ""
            if opening == "{":
                name, at = scanstring(text, _expect(text, at, '"', skip=False), True)
                at = _expect(text, _skip(text, at), ":")
            _, end = _decoder.raw_decode(text, at)
            found.append((name, text[at:end].encode()))
            at = _skip(text, end)
            if text[at] != ",":
                break
            at = _skip(text, at + 1)
        at = _expect(text, at, _CLOSING[opening], skip=False)
    if _skip(text, at) != len(text):
        raise NotAnObject("trailing characters")
    return found


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _expect(text: str, at: int, char: str, *, skip: bool = True) -> int:
    if text[at] != char:
        raise NotAnObject(f"{char} expected")
    return _skip(text, at + 1) if skip else at + 1
