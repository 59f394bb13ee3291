"""Every configuration file in ``envoy/`` and ``agentgateway/`` is output of this module.

``python -m extproc.gateway.shipped [FOLDER]`` writes them; a test keeps files and output equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from extproc.gateway import agentgateway_files, envoy_files, kubernetes_files, processor_files
from extproc.gateway.options import (
    Backend,
    Catalogue,
    HostPort,
    Jwt,
    Options,
    Tls,
    UnixSocket,
)
from extproc.gateway.yamltext import Tree, render, render_all

SERVERS: Final = (
    Backend("everything", HostPort("127.0.0.1", 9101)),
    Backend("files", HostPort("127.0.0.1", 9102), "/servers/files/mcp"),
    Backend("memory", HostPort("127.0.0.1", 9103), "/servers/memory/mcp"),
    Backend("time", HostPort("127.0.0.1", 9104), "/servers/time/mcp"),
    Backend("git", HostPort("127.0.0.1", 9105), "/servers/git/mcp"),
    Backend("office", HostPort("127.0.0.1", 9106)),
)
OFFICE: Final = SERVERS[5:]
COMPOSE_SERVERS: Final = (
    Backend("everything", HostPort("everything", 9101)),
    Backend("time", HostPort("time", 9104)),
    Backend("git", HostPort("git", 9105)),
)
JWT: Final = Jwt(
    issuer="https://id.example.com/",
    audience="https://mcp.example.com/mcp",
    jwks="https://id.example.com/.well-known/jwks.json",
)
MTLS: Final = Tls(
    ca="/etc/envoy/tls/ca.pem",
    cert="/etc/envoy/tls/envoy.pem",
    key="/etc/envoy/tls/envoy-key.pem",
    server_name="toolsearch.internal",
)
LOOPBACK: Final = Catalogue(listener=HostPort("127.0.0.1", 10001))

BASE: Final = Options(backends=SERVERS, catalogue=Catalogue())
SINGLE: Final = replace(BASE, router="router", backends=OFFICE)
COMPOSE: Final = Options(
    processor=HostPort("processor", 50051),
    gateway=HostPort("0.0.0.0", 10000),
    admin=HostPort("127.0.0.1", 9901),
    backends=COMPOSE_SERVERS,
)
AGENTGATEWAY: Final = Options(
    gateway=HostPort("127.0.0.1", 3000),
    backends=SERVERS[:2],
    catalogue=Catalogue(listener=HostPort("127.0.0.1", 3001)),
)


def envoy(options: Options, head: str) -> str:
    """A bootstrap, checked.  Raises OptionError, or ValueError when Envoy has no such field."""
    tree = envoy_files.bootstrap(options)
    envoy_files.check_bootstrap(tree)
    return render(tree, head)


def envoy_fragment(options: Options, head: str) -> str:
    """Filter and cluster, checked."""
    tree = envoy_files.fragment(options)
    envoy_files.check_fragment(tree)
    return render(tree, head)


def istio(options: Options, head: str) -> str:
    documents = kubernetes_files.istio(options)
    kubernetes_files.check_istio(documents)
    return render_all(documents, head)


def _kubernetes(documents: Callable[[Options], list[Tree]], options: Options, head: str) -> str:
    return render_all(documents(options), head)


FILTER_HEAD: Final = """The filter and its cluster alone, to paste into an Envoy that already serves MCP.
    docs/envoy.md explains every line; `mcp-toolsearch-extproc doctor FILE` checks the result."""

FILES: Final[Mapping[str, Callable[[], str]]] = {
    "envoy/filter.yaml": lambda: envoy_fragment(Options(), FILTER_HEAD),
    "envoy/mcp-router.yaml": lambda: envoy(
        BASE,
        """Envoy's own MCP router over several MCP servers, with the tool-search filter in front of it.

        /mcp: six tools instead of all of them. /mcp/all: the same servers without the filter, for comparison
        and for the processor's own catalogue fetches.

        Limits that are higher than Envoy's defaults say why.""",
    ),
    "envoy/single-upstream.yaml": lambda: envoy(
        SINGLE,
        """One MCP server behind Envoy's plain router. This also carries MCP 2026-07-28, which mcp_router does
        not speak yet.

        /mcp: six tools instead of all of them. /mcp/all: the same server without the filter.""",
    ),
    "envoy/jwt-rbac.yaml": lambda: envoy(
        replace(SINGLE, jwt=JWT, catalogue=None),
        """With authentication and authorization in front: jwt_authn, then rbac, then the processor. The order
        of http_filters is the order of these checks.""",
    ),
    "envoy/loopback-catalogue.yaml": lambda: envoy(
        replace(BASE, gateway=HostPort("0.0.0.0", 10000), catalogue=LOOPBACK),
        """The gateway for everybody on port 10000, and the unfiltered tool list on a loopback listener for
        the processor on the same host: catalog.url = http://127.0.0.1:10001/mcp/all""",
    ),
    "envoy/unix-socket.yaml": lambda: envoy(
        replace(SINGLE, processor=UnixSocket("/run/toolsearch/processor.sock"), catalogue=None),
        """The processor on the same host behind a unix socket: no port, a little faster, and file permissions
        decide who may connect. Start it with `serve --listen unix:/run/toolsearch/processor.sock`.""",
    ),
    "envoy/mtls.yaml": lambda: envoy(
        replace(SINGLE, processor=HostPort("toolsearch.internal", 50051), tls=MTLS, catalogue=None),
        """The processor on another host, both sides proving themselves by certificate.""",
    ),
    "envoy/full-duplex.yaml": lambda: envoy(
        replace(SINGLE, mode="full-duplex", catalogue=None),
        """Bodies streamed through the processor both ways, for bodies larger than Envoy may hold.""",
    ),
    "envoy/replicas.yaml": lambda: envoy(
        replace(SINGLE, repeat=True),
        """For several replicas of the processor: a request whose replica dies before a server has got it is
        sent once more, by a router in front of the filter. Add the replicas to the cluster toolsearch, or let
        its name resolve to all of them; catalog.store lets each know what the others have learned.""",
    ),
    "envoy/profiles.yaml": lambda: envoy(
        replace(BASE, catalogue=LOOPBACK, profiles=(("/mcp/readonly", "readonly"),)),
        """Two routes, two profiles on one processor: /mcp with its main settings, /mcp/readonly with the
        profile of that name, which has to be among the processor's settings: profiles: {readonly: {…}}""",
    ),
    "envoy/direct-routes.yaml": lambda: envoy(
        replace(BASE, catalogue=LOOPBACK, direct=HostPort("127.0.0.1", 10002)),
        """The filtered route over all servers on port 10000, and beside it on port 10002 each server by
        itself: /mcp/files, /mcp/git and so on, unfiltered.""",
    ),
    "envoy/compose.yaml": lambda: envoy(
        COMPOSE, """The gateway of docker-compose.yml, profile envoy. Hosts are the services' names there."""
    ),
    "envoy/kubernetes/envoy-gateway.yaml": lambda: _kubernetes(
        kubernetes_files.envoy_gateway,
        Options(),
        """Envoy Gateway: attach the processor to the HTTPRoute of an MCP server. docs/kubernetes.md explains
        every line. Change the names of route and gateway to yours.""",
    ),
    "envoy/kubernetes/istio.yaml": lambda: istio(
        Options(),
        """Istio: the filter and its cluster in the gateway named below. docs/kubernetes.md explains it.""",
    ),
    "envoy/kubernetes/processor.yaml": lambda: _kubernetes(
        lambda options: processor_files.processor(options, "envoy-gateway-system"),
        Options(),
        """The processor. With Istio, change envoy-gateway-system to the namespace of your gateway.""",
    ),
    "agentgateway/buffered.yaml": lambda: _agentgateway(
        AGENTGATEWAY,
        """agentgateway, standalone, recommended: request bodies buffered, response bodies on demand.""",
    ),
    "agentgateway/buffered-auth.yaml": lambda: _agentgateway(
        replace(AGENTGATEWAY, jwt=JWT, catalogue=None),
        """agentgateway, standalone, buffered, with mcpAuthentication in front.""",
    ),
    "agentgateway/buffered-auth-catalogue.yaml": lambda: _agentgateway(
        replace(AGENTGATEWAY, jwt=JWT),
        """agentgateway, standalone, buffered, with mcpAuthentication in front of both routes: the processor
        authenticates to the catalogue route with the caller's token. Its settings: caller.attributes: [sub],
        catalog.url: http://127.0.0.1:3001/mcp/all, catalog.token_attribute: token""",
    ),
    "agentgateway/full-duplex.yaml": lambda: _agentgateway(
        replace(AGENTGATEWAY, mode="full-duplex"),
        """agentgateway, standalone, bodies streamed both ways.""",
    ),
    "agentgateway/full-duplex-auth.yaml": lambda: _agentgateway(
        replace(AGENTGATEWAY, mode="full-duplex", jwt=JWT, catalogue=None),
        """agentgateway, standalone, bodies streamed both ways, with mcpAuthentication in front.""",
    ),
    "agentgateway/compose.yaml": lambda: _agentgateway(
        replace(COMPOSE, gateway=HostPort("0.0.0.0", 3000)),
        """The gateway of docker-compose.yml, profile agentgateway. Hosts are the services' names there.""",
    ),
    "agentgateway/kubernetes/policy.yaml": lambda: _kubernetes(
        agentgateway_files.kubernetes,
        Options(),
        """agentgateway on Kubernetes: attach the processor to the HTTPRoute of an MCP backend.
        docs/kubernetes.md explains every line. Change the names of route and gateway to yours.""",
    ),
    "agentgateway/kubernetes/policy-auth.yaml": lambda: _kubernetes(
        agentgateway_files.kubernetes,
        Options(jwt=JWT),
        """The same where a JWT policy stands in front: identity travels as attributes.""",
    ),
    "agentgateway/kubernetes/processor.yaml": lambda: _kubernetes(
        lambda options: processor_files.processor(options, "agentgateway-system"),
        Options(),
        """The processor.""",
    ),
}


def _agentgateway(options: Options, head: str) -> str:
    return render(agentgateway_files.standalone(options), head)


def write(folder: Path) -> None:
    """Write every file below ``folder``."""
    for name, make in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
