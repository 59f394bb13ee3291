"""``config``: prints gateway configuration to paste."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TypeVar

from extproc.cli import FINE, PROGRAM, UsageError
from extproc.gateway import options as opt

TARGETS: Mapping[str, str] = {
    "envoy": "filter and cluster; with --server a whole bootstrap",
    "envoy-gateway": "EnvoyExtensionPolicy, ClientTrafficPolicy and filter order",
    "istio": "EnvoyFilter",
    "agentgateway": "standalone file (needs --server)",
    "agentgateway-kubernetes": "AgentgatewayPolicy",
}
KUBERNETES = ("envoy-gateway", "istio", "agentgateway-kubernetes")

T = TypeVar("T")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "config",
        help="print gateway configuration to paste",
        description="Print the configuration that attaches the processor to a gateway.",
        epilog="targets: " + "; ".join(f"{name}: {text}" for name, text in TARGETS.items()),
        allow_abbrev=False,
    )
    default = opt.Options()
    parser.add_argument("target", choices=list(TARGETS), metavar="TARGET", help=", ".join(TARGETS))
    add = parser.add_argument_group("processor").add_argument
    add(
        "--listen",
        default=str(default.processor),
        help="where the processor listens: HOST:PORT or unix:/path",
    )
    add(
        "--tls-ca",
        metavar="FILE",
        help="mutual TLS: CA of the processor's certificate, as the gateway sees it",
    )
    add("--tls-cert", metavar="FILE", help="mutual TLS: the gateway's certificate")
    add("--tls-key", metavar="FILE", help="mutual TLS: the gateway's key")
    add("--tls-server-name", metavar="NAME", help="mutual TLS: name in the processor's certificate")
    add = parser.add_argument_group("gateway").add_argument
    add(
        "--server", action="append", default=[], metavar="NAME=HOST:PORT[/path]", help="an MCP server; repeat"
    )
    add("--router", choices=["mcp_router", "router"], help="Envoy: merge servers, or carry one unchanged")
    add("--gateway-listen", default=str(default.gateway), metavar="HOST:PORT", help="where clients connect")
    add("--path", default=default.path, help="path of the MCP route")
    add("--catalogue-path", metavar="PATH", help="also an unfiltered route, for catalog.url")
    add("--catalogue-listen", metavar="HOST:PORT", help="the unfiltered route on a listener of its own")
    add("--direct-listen", metavar="HOST:PORT", help="Envoy: also each server by itself, unfiltered")
    add("--profile", action="append", default=[], metavar="PATH=NAME", help="Envoy: a route with a profile")
    add("--mode", choices=["buffered", "full-duplex"], default=default.mode, help="how bodies travel")
    add(
        "--repeat",
        action="store_true",
        help="Envoy: send a request once more when its processor died before a server got it; "
        "a further hop inside Envoy",
    )
    add("--message-timeout", type=float, default=default.message_timeout, metavar="SECONDS")
    add("--buffer-limit", type=int, default=default.buffer_limit, metavar="BYTES")
    add = parser.add_argument_group("authentication").add_argument
    add("--jwt-issuer", metavar="URL")
    add("--jwt-audience", metavar="TEXT")
    add("--jwt-jwks", metavar="URL|FILE", help="the issuer's keys")
    add(
        "--attribute",
        action="append",
        default=[],
        metavar="CLAIM",
        help="claim that tells callers apart (sub)",
    )
    add(
        "--token-attribute",
        default="",
        metavar="NAME",
        help="agentgateway: pass the token itself on, for the processor's catalog.token_attribute",
    )
    add = parser.add_argument_group("Kubernetes").add_argument
    add("--namespace", default=default.namespace)
    add("--service", default=default.service, help="the processor's Service")
    add("--route", default=default.route, help="the HTTPRoute to attach to")
    add("--gateway", default=default.gateway_name, help="the Gateway whose limits are raised")
    return parser


def run(args: argparse.Namespace) -> int:
    try:
        text = render(args.target, build_options(args))
    except opt.OptionError as error:
        raise UsageError(str(error)) from None
    sys.stdout.write(text)
    return FINE


def build_options(args: argparse.Namespace) -> opt.Options:
    """Raises OptionError with the flag's name."""
    agentgateway = args.target == "agentgateway"
    gateway = _parse("--gateway-listen", opt.host_port, args.gateway_listen)
    if agentgateway and args.gateway_listen == str(opt.Options().gateway):
        gateway = opt.HostPort(gateway.host, 3000)
    backends = tuple(_parse("--server", opt.backend, text) for text in args.server)
    names = [backend.name for backend in backends]
    if len(set(names)) != len(names):
        raise opt.OptionError("--server: every server needs a name of its own")
    if not 1 <= args.message_timeout <= 3600:
        raise opt.OptionError("--message-timeout: from 1 to 3600 seconds")
    if not 64 * 1024 <= args.buffer_limit <= 2**32 - 1:
        raise opt.OptionError("--buffer-limit: from 65536 to 4294967295 bytes")
    return opt.Options(
        processor=_parse("--listen", opt.address, args.listen),
        gateway=gateway,
        path=_parse("--path", opt.route_path, args.path),
        router=args.router or ("router" if len(backends) == 1 else "mcp_router"),
        backends=backends,
        catalogue=_catalogue(args),
        direct=None
        if args.direct_listen is None
        else _parse("--direct-listen", opt.host_port, args.direct_listen),
        profiles=tuple(_profile(text) for text in args.profile),
        jwt=_jwt(args),
        tls=_tls(args),
        mode=args.mode,
        repeat=args.repeat,
        message_timeout=args.message_timeout,
        buffer_limit=args.buffer_limit,
        namespace=args.namespace,
        service=args.service,
        route=args.route,
        gateway_name=args.gateway,
    )


def render(target: str, options: opt.Options) -> str:
    """The text for one target.  Raises OptionError."""
    head = f"Printed by `{PROGRAM} config {target}`; check what you make of it with `{PROGRAM} doctor FILE`."
    unused = _unused(target, options)
    if unused:
        raise opt.OptionError(f"{', '.join(unused)}: not used by {target}{_instead(target, options)}")
    if target in ("envoy", "istio") and find_spec("envoy_data_plane") is None:
        raise opt.OptionError(
            "Envoy's message types are missing, and nothing is printed unchecked: "
            "pip install 'mcp-toolsearch-extproc[config]'"
        )
    from extproc.gateway import agentgateway_files, kubernetes_files, shipped
    from extproc.gateway.yamltext import render as to_text
    from extproc.gateway.yamltext import render_all

    match target:
        case "envoy" if options.backends:
            return shipped.envoy(options, head)
        case "envoy":
            return shipped.envoy_fragment(options, head)
        case "envoy-gateway":
            return render_all(kubernetes_files.envoy_gateway(options), head)
        case "istio":
            return shipped.istio(options, head)
        case "agentgateway":
            return to_text(agentgateway_files.standalone(options), head)
        case _:
            return render_all(agentgateway_files.kubernetes(options), head)


def _unused(target: str, options: opt.Options) -> list[str]:
    """Flags that would silently change nothing."""
    given = {
        "--server": bool(options.backends),
        "--catalogue-path/--catalogue-listen": options.catalogue is not None,
        "--direct-listen": options.direct is not None,
        "--profile": bool(options.profiles),
        "--repeat": options.repeat,
        "--tls-*": options.tls is not None,
        "--token-attribute": options.jwt is not None and bool(options.jwt.token),
    }
    if target in KUBERNETES:
        taken = {"istio": "--tls-*", "agentgateway-kubernetes": "--token-attribute"}.get(target)
        return [name for name, set_ in given.items() if set_ and name != taken]
    if target == "agentgateway":
        return [name for name in ("--direct-listen", "--profile", "--repeat", "--tls-*") if given[name]]
    if not options.backends:
        return [name for name in given if given[name] and name not in ("--server", "--tls-*")]
    return ["--token-attribute"] if given["--token-attribute"] else []


def _instead(target: str, options: opt.Options) -> str:
    if target == "envoy" and options.backends:
        return ": Envoy leaves Authorization where it is"
    if target == "envoy":
        return " without --server, which is what a whole bootstrap needs"
    return "; see docs/kubernetes.md" if target in KUBERNETES else "; see docs/agentgateway.md"


def _catalogue(args: argparse.Namespace) -> opt.Catalogue | None:
    if args.catalogue_path is None and args.catalogue_listen is None:
        return None
    listener = args.catalogue_listen
    return opt.Catalogue(
        _parse("--catalogue-path", opt.route_path, args.catalogue_path or opt.Catalogue().path),
        None if listener is None else _parse("--catalogue-listen", opt.host_port, listener),
    )


def _profile(text: str) -> tuple[str, str]:
    path, equals, name = text.partition("=")
    if not equals or not name:
        raise opt.OptionError(f"--profile: {text!r} is not PATH=NAME")
    return _parse("--profile", opt.route_path, path), name


def _jwt(args: argparse.Namespace) -> opt.Jwt | None:
    given = {
        "--jwt-issuer": args.jwt_issuer,
        "--jwt-audience": args.jwt_audience,
        "--jwt-jwks": args.jwt_jwks,
    }
    if not _all_or_none(given):
        if args.attribute or args.token_attribute:
            flag = "--attribute" if args.attribute else "--token-attribute"
            raise opt.OptionError(f"{flag} needs --jwt-issuer, --jwt-audience and --jwt-jwks")
        return None
    claims = tuple(args.attribute or ["sub"])
    if args.token_attribute in claims:
        raise opt.OptionError(
            f"--token-attribute: {args.token_attribute} is a claim already, take another name"
        )
    return opt.Jwt(args.jwt_issuer, args.jwt_audience, args.jwt_jwks, claims, args.token_attribute)


def _tls(args: argparse.Namespace) -> opt.Tls | None:
    given = {
        "--tls-ca": args.tls_ca,
        "--tls-cert": args.tls_cert,
        "--tls-key": args.tls_key,
        "--tls-server-name": args.tls_server_name,
    }
    if not _all_or_none(given):
        return None
    return opt.Tls(args.tls_ca, args.tls_cert, args.tls_key, args.tls_server_name)


def _all_or_none(given: Mapping[str, str | None]) -> bool:
    missing = [name for name, value in given.items() if not value]
    if missing and len(missing) != len(given):
        raise opt.OptionError(f"{', '.join(missing)} missing: give all of {', '.join(given)}, or none")
    return not missing


def _parse(flag: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except opt.OptionError as error:
        raise opt.OptionError(f"{flag}: {error}") from None
