"""agentgateway: standalone configuration and the Kubernetes policy, as commented trees."""

from __future__ import annotations

from dataclasses import replace

from extproc.gateway.options import HostPort, Jwt, OptionError, Options, UnixSocket
from extproc.gateway.yamltext import Noted, Tree, note

TOKEN = "token"
GUARD = 'source.address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"]'


def standalone(options: Options) -> Tree:
    """A whole configuration over ``options.backends``.  Raises OptionError."""
    if not options.backends:
        raise OptionError("a whole gateway needs at least one --server NAME=HOST:PORT")
    if options.catalogue and options.jwt and not options.jwt.token:
        options = replace(options, jwt=replace(options.jwt, token=TOKEN))
    binds: list[Tree] = [_bind(options, options.gateway.port, _policies(options))]
    if options.catalogue:
        port = options.catalogue.listener.port if options.catalogue.listener else options.gateway.port + 1
        if port == options.gateway.port:
            raise OptionError(f"--catalogue-listen {port} is the gateway's own port; take another")
        binds.append(
            note(
                """The unfiltered tool list for the processor's catalog.url. agentgateway listens on every
                interface, so the rule below turns away whoever does not come from this host.""",
                _bind(
                    options,
                    port,
                    {**_authentication(options.jwt, raw=True), "authorization": {"rules": [GUARD]}},
                ),
            )
        )
    return {"frontendPolicies": _buffer(options), "binds": binds}


def _bind(options: Options, port: int, policies: dict[str, Tree]) -> Tree:
    route: dict[str, Tree] = {}
    if options.jwt and "extProc" in policies:
        route["matches"] = note(
            "The second path is where OAuth clients find out whom to ask for a token.",
            [
                {"path": {"exact": options.path}},
                {"path": {"exact": f"/.well-known/oauth-protected-resource{options.path}"}},
            ],
        )
    elif "extProc" in policies:
        route["matches"] = [{"path": {"exact": options.path}}]
    elif options.catalogue:
        route["matches"] = [{"path": {"exact": options.catalogue.path}}]
    return {
        "port": port,
        "listeners": [
            {
                "routes": [
                    {**route, "policies": policies, "backends": [{"mcp": {"targets": _targets(options)}}]}
                ]
            }
        ],
    }


def _targets(options: Options) -> Tree:
    return note(
        "Tools are named <target>_<tool>; with one target they keep their own names.",
        [
            {"name": backend.name, "mcp": {"host": f"http://{backend.address}{backend.path}"}}
            for backend in options.backends
        ],
    )


def _policies(options: Options) -> dict[str, Tree]:
    return {**_authentication(options.jwt), "extProc": _ext_proc(options)}


def _authentication(jwt: Jwt | None, *, raw: bool = False) -> dict[str, Tree]:
    if jwt is None:
        return {}
    text = """Runs before extProc whatever the order in this file. It takes the Authorization header off the
            request."""
    if raw:
        text = """Here too, so that every caller is shown its own tools only. The processor sends the token
            that it was given as an attribute."""
    keys: Tree = {"url": jwt.jwks} if "://" in jwt.jwks else {"file": jwt.jwks}
    return {
        "mcpAuthentication": note(
            text,
            {
                "mode": "strict",
                "issuer": jwt.issuer,
                "audiences": [jwt.audience],
                "jwks": keys,
                "resourceMetadata": {"resource": jwt.audience, "bearerMethodsSupported": ["header"]},
            },
        )
    }


def _ext_proc(options: Options) -> Noted:
    policy: dict[str, Tree] = {
        "host": _host(options),
        "failureMode": note(
            "With failOpen a processor that is down would leave the whole tool list and every tool open.",
            "failClosed",
        ),
        "processingOptions": _modes(options, pascal=False),
    }
    if options.jwt:
        policy["requestAttributes"] = _attributes(options.jwt)
    if options.mode == "full-duplex":
        return note(
            """Streamed both ways, which is what agentgateway does when only host is given. Only POST goes
            through the processor: GET streams stay open for hours and would hold a gRPC stream each.""",
            {"conditional": [{"condition": 'request.method == "POST"', **policy}]},
        )
    return note("The processor: six tools in place of the whole list.", policy)


def _host(options: Options) -> str:
    match options.processor:
        case UnixSocket():
            raise OptionError(
                "agentgateway reaches the processor by TCP: use --listen 127.0.0.1:50051, not a unix socket"
            )
        case HostPort():
            return str(options.processor)


def _attributes(jwt: Jwt) -> Noted:
    names: dict[str, Tree] = {name: f"jwt.{name}" for name in jwt.attributes}
    text = f"""The token is gone by now, so identity travels as attributes; without them every caller looks
        the same to the processor. Its caller.attributes: [{", ".join(jwt.attributes)}]."""
    if jwt.token:
        names[jwt.token] = "jwt.rawToken.unredacted()"
        text += f""" The token itself is for the catalogue route: the processor's catalog.token_attribute:
        {jwt.token}."""
    return note(text, names)


def _modes(options: Options, *, pascal: bool) -> Tree:
    def word(text: str) -> str:
        return text[0].upper() + text[1:] if pascal else text

    if options.mode == "full-duplex":
        return {
            "requestHeaderMode": word("send"),
            "requestBodyMode": word("fullDuplexStreamed"),
            "responseHeaderMode": word("send"),
            "responseBodyMode": word("fullDuplexStreamed"),
            "requestTrailerMode": note("Trailers end a streamed body.", word("send")),
            "responseTrailerMode": word("send"),
        }
    return {
        "requestHeaderMode": note("Credentials and the MCP session are in the headers.", word("send")),
        "requestBodyMode": note("One whole JSON-RPC message; calls are rewritten in it.", word("buffered")),
        "responseHeaderMode": note(
            "Here the processor asks for the few bodies it has to read.", word("send")
        ),
        "responseBodyMode": note(
            "Not sent unless asked for: server-sent events flow untouched.", word("none")
        ),
        "requestTrailerMode": word("skip"),
        "responseTrailerMode": word("skip"),
        "allowModeOverride": note("Without it that request for a body is ignored.", True),
    }


def _buffer(options: Options) -> Tree:
    return note(
        """The largest body agentgateway holds, in bytes. Its default of 2 MiB answers a longer tool list or a
        larger upload with 500.""",
        {"http": {"maxBufferSize": options.buffer_limit}},
    )


def kubernetes(options: Options) -> list[Tree]:
    """The AgentgatewayPolicy documents."""
    ext_proc: dict[str, Tree] = {
        "backendRef": {"name": options.service, "port": 50051},
        "failureMode": note(
            "Since v1.4.0. FailOpen would leave the whole tool list open while the processor is down.",
            "FailClosed",
        ),
        "processingOptions": note("Since v1.3.0.", _modes(options, pascal=True)),
    }
    if options.jwt:
        ext_proc["requestAttributes"] = _attributes(options.jwt)
    traffic: Tree = {"extProc": ext_proc}
    if options.mode == "full-duplex":
        traffic = {
            "extProc": note(
                "Only POST: GET streams stay open for hours and would hold a gRPC stream each.",
                {"conditional": [{"condition": 'request.method == "POST"', "policy": ext_proc}]},
            )
        }
    return [
        {
            "apiVersion": "agentgateway.dev/v1alpha1",
            "kind": "AgentgatewayPolicy",
            "metadata": {"name": "toolsearch", "namespace": options.namespace},
            "spec": {
                "targetRefs": note(
                    "The route that leads to the MCP backend; a policy on a backend is not run for extProc.",
                    [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": options.route}],
                ),
                "traffic": traffic,
            },
        },
        {
            "apiVersion": "agentgateway.dev/v1alpha1",
            "kind": "AgentgatewayPolicy",
            "metadata": {"name": "toolsearch-buffer", "namespace": options.namespace},
            "spec": {
                "targetRefs": note(
                    "Buffer limits belong to the gateway; change the name to yours.",
                    [
                        {
                            "group": "gateway.networking.k8s.io",
                            "kind": "Gateway",
                            "name": options.gateway_name,
                        }
                    ],
                ),
                "frontend": _buffer(options),
            },
        },
    ]
