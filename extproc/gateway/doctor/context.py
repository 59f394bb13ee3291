"""What the operator told the doctor besides the files."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from extproc.settings import Settings

MIN_TIMEOUT = 1.0
"""Seconds; learning a large tool list for the first time may take most of one."""
MIN_BUFFER = 4 * 1024 * 1024
"""Bytes; a list of 1,500 tools has about 2 MB, and servers accept uploads of 4 MiB."""
MIN_ROUTE_TIMEOUT = 60.0
DEFAULT_STREAMS = 1024
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Context:
    """``settings`` are the processor's, None when not given; ``catalogue_url`` stands for catalog.url."""

    settings: Settings | None = None
    catalogue_url: str = ""

    @property
    def side_routes(self) -> tuple[tuple[str, Url], ...]:
        """Settings that name an unfiltered route, and the route; what is no URL is left out."""
        targets = self.settings.catalog.targets if self.settings else {}
        named = {"catalog.url": self.catalogue_url}
        named |= {f"catalog.targets, {name}": url for name, url in targets.items()}
        found = ((name, split_url(url)) for name, url in named.items())
        return tuple((name, url) for name, url in found if url is not None)

    @property
    def min_timeout(self) -> float:
        """Seconds that the gateway has to wait for an answer."""
        return max(MIN_TIMEOUT, self.settings.server.deadline) if self.settings else MIN_TIMEOUT

    @property
    def caller_headers(self) -> tuple[str, ...]:
        return self.settings.caller.headers if self.settings else ("authorization",)


@dataclass(frozen=True, slots=True)
class Url:
    host: str
    port: int
    path: str


def split_url(text: str) -> Url | None:
    """None when ``text`` is no http or https URL with a host."""
    try:
        parts = urlsplit(text)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return Url(parts.hostname, port, parts.path or "/")


def seconds(text: object) -> float | None:
    """A duration in protobuf's or Go's notation, in seconds; None when it is none."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    if not isinstance(text, str):
        return None
    units = {"ms": 0.001, "us": 0.000001, "h": 3600.0, "m": 60.0, "s": 1.0}
    total, rest = 0.0, text.strip()
    while rest:
        number = ""
        while rest and (rest[0].isdigit() or rest[0] == "."):
            number, rest = number + rest[0], rest[1:]
        unit = next((unit for unit in ("ms", "us", "h", "m", "s") if rest.startswith(unit)), None)
        try:
            if unit is None:
                return None
            total += float(number) * units[unit]
        except ValueError:
            return None
        rest = rest[len(unit) :]
    return total if text.strip() else None


def size(value: object) -> int | None:
    """A Kubernetes quantity or a plain number, in bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    units = {
        "Ki": 1024,
        "Mi": 1024**2,
        "Gi": 1024**3,
        "k": 1000,
        "K": 1000,
        "M": 1000**2,
        "G": 1000**3,
        "": 1,
    }
    number = value.rstrip("KMGik")
    try:
        return int(float(number) * units[value[len(number) :]])
    except (ValueError, KeyError):
        return None
