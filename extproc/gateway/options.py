"""What the operator says about the gateway and the processor; every builder takes these."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from extproc.settings import Server, Settings

FILTER_NAME = "envoy.filters.http.ext_proc"
CLUSTER_NAME = "toolsearch"
PROFILE_METADATA = "x-toolsearch-profile"
IMAGE = "mcp-toolsearch-extproc:0.1.0"
MIB = 1024 * 1024

RouterKind: TypeAlias = Literal["mcp_router", "router"]
Mode: TypeAlias = Literal["buffered", "full-duplex"]


class OptionError(ValueError):
    """An option that cannot be used; the text says which and what it takes."""


@dataclass(frozen=True, slots=True)
class HostPort:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixSocket:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class Internal:
    """A listener of the same Envoy that has no address of its own."""

    listener: str


Address: TypeAlias = HostPort | UnixSocket


@dataclass(frozen=True, slots=True)
class Tls:
    """Files as the gateway sees them; ``cert`` and ``key`` make it mutual."""

    ca: str
    cert: str
    key: str
    server_name: str


@dataclass(frozen=True, slots=True)
class Jwt:
    issuer: str
    audience: str
    jwks: str
    """An ``https://`` URL or a file path, as the gateway sees it."""
    attributes: tuple[str, ...] = ("sub",)
    """Claims that tell callers apart; the processor's ``caller.attributes``."""
    token: str = ""
    """Attribute that carries the token itself; the processor's ``catalog.token_attribute``.  Empty: none."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One MCP server behind the gateway."""

    name: str
    address: HostPort
    path: str = "/mcp"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The unfiltered route; ``listener`` None puts it on the gateway's own listener."""

    path: str = "/mcp/all"
    listener: HostPort | None = None


@dataclass(frozen=True, slots=True)
class Options:
    processor: Address = field(default_factory=lambda: address(Server().listen))
    gateway: HostPort = HostPort("127.0.0.1", 10000)
    admin: HostPort = HostPort("127.0.0.1", 9901)
    path: str = "/mcp"
    router: RouterKind = "mcp_router"
    backends: tuple[Backend, ...] = ()
    catalogue: Catalogue | None = None
    direct: HostPort | None = None
    """A further listener for each server's own tools, unfiltered."""
    profiles: tuple[tuple[str, str], ...] = ()
    """Route path to the processor's profile."""
    jwt: Jwt | None = None
    tls: Tls | None = None
    mode: Mode = "buffered"
    repeat: bool = False
    """Whether a request is sent again when its processor died before it had decided on it."""
    message_timeout: float = 10.0
    """Seconds; above the processor's ``server.deadline``, so its answer wins the race."""
    buffer_limit: int = 2 * Settings().limits.request_body
    """Bytes of one body that the gateway holds; above the processor's limits.request_body, so that the
    processor's answer to a body that is too long is the one a client sees."""
    max_streams: int = Settings().limits.exchanges
    namespace: str = "mcp"
    service: str = "mcp-toolsearch-extproc"
    route: str = "mcp"
    gateway_name: str = "mcp-gateway"
    image: str = IMAGE


def address(text: str) -> Address:
    """``HOST:PORT``, ``[IPV6]:PORT`` or ``unix:/path``.  Raises OptionError."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise OptionError(
                f"{text!r}: a unix socket needs an absolute path, for example unix:/run/toolsearch/s.sock"
            )
        return UnixSocket(path)
    return host_port(text)


def host_port(text: str) -> HostPort:
    """Raises OptionError unless ``text`` is ``HOST:PORT`` with a port from 1 to 65535."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):([0-9]{1,5})", text)
    if not found or not 1 <= int(found[3]) <= 65535:
        raise OptionError(f"{text!r} is not HOST:PORT (port 1 to 65535)")
    return HostPort(found[1] or found[2], int(found[3]))


def backend(text: str) -> Backend:
    """``NAME=HOST:PORT[/path]`` or ``NAME=http://HOST:PORT/path``.  Raises OptionError."""
    name, equals, rest = text.partition("=")
    if not equals or not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", name):
        raise OptionError(
            f"{text!r} is not NAME=HOST:PORT[/path]; a name is lower-case letters, digits and -"
        )
    parts = urlsplit(rest if "://" in rest else f"http://{rest}")
    if parts.scheme != "http":
        raise OptionError(f"{text!r}: only http:// servers; put TLS to a server in its cluster by hand")
    return Backend(name, host_port(parts.netloc), parts.path or "/mcp")


def route_path(text: str) -> str:
    """Raises OptionError unless ``text`` is an absolute path."""
    if not re.fullmatch(r"/[A-Za-z0-9._~/-]*", text):
        raise OptionError(f"{text!r} is not a path such as /mcp")
    return text
