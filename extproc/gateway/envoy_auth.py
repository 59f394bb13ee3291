"""Who may: the filters in front of the processor, and TLS between the gateway and it."""

from __future__ import annotations

from extproc.gateway.options import Jwt, Tls
from extproc.gateway.yamltext import Noted, Tree, note

TYPE = "type.googleapis.com/"
JWT_FILTER = "envoy.filters.http.jwt_authn"


def claim_attribute(name: str) -> str:
    return f"metadata.filter_metadata['{JWT_FILTER}']['payload']['{name}']"


def upstream_tls(tls: Tls) -> Tree:
    return note(
        """Mutual TLS: Envoy proves itself with its certificate, the processor's is checked against this CA
        and name. On the processor: server.tls_cert, server.tls_key and server.tls_client_ca.""",
        {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": f"{TYPE}envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "sni": tls.server_name,
                "common_tls_context": {
                    "alpn_protocols": ["h2"],
                    "tls_certificates": [
                        {
                            "certificate_chain": {"filename": tls.cert},
                            "private_key": {"filename": tls.key},
                        }
                    ],
                    "validation_context": {
                        "trusted_ca": {"filename": tls.ca},
                        "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": tls.server_name}}
                        ],
                    },
                },
            },
        },
    )


def jwt_filter(jwt: Jwt) -> Noted:
    keys: dict[str, Tree]
    if jwt.jwks.startswith(("http://", "https://")):
        keys = {
            "remote_jwks": {
                "http_uri": {"uri": jwt.jwks, "cluster": "identity-provider", "timeout": "5s"},
                "cache_duration": "600s",
            }
        }
    else:
        keys = {"local_jwks": {"filename": jwt.jwks}}
    return note(
        """1. Who is it? A request without a valid token is answered 401 here, with the challenge that starts
        an MCP client's OAuth, before the processor sees it.""",
        {
            "name": JWT_FILTER,
            "typed_config": {
                "@type": f"{TYPE}envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
                "providers": {
                    "identity-provider": {
                        "issuer": jwt.issuer,
                        "audiences": [jwt.audience],
                        **keys,
                        "forward": note(
                            "Kept on the request: the processor's side fetches need the caller's token.", True
                        ),
                        "payload_in_metadata": note(
                            "Puts the verified claims where rbac and ext_proc can read them.", "payload"
                        ),
                    }
                },
                "rules": [
                    {
                        "match": {"prefix": "/"},
                        "requires": {"provider_name": "identity-provider"},
                    }
                ],
            },
        },
    )


def rbac_filter(scope: str = "mcp:tools") -> Noted:
    return note(
        f"""2. May they? Only tokens with the scope {scope}. It runs before the processor: it judges
        the request as the client sent it, and whoever is turned away costs no search.""",
        {
            "name": "envoy.filters.http.rbac",
            "typed_config": {
                "@type": f"{TYPE}envoy.extensions.filters.http.rbac.v3.RBAC",
                "rules": {
                    "action": "ALLOW",
                    "policies": {
                        "mcp-users": {
                            "permissions": [{"any": True}],
                            "principals": [
                                {"sourced_metadata": {"metadata_matcher": claim_matcher("scope", scope)}}
                            ],
                        }
                    },
                },
            },
        },
    )


def claim_matcher(claim: str, word: str) -> Tree:
    """Matches a verified claim that is a list of words with ``word`` among them."""
    return {
        "filter": JWT_FILTER,
        "path": [{"key": "payload"}, {"key": claim}],
        "value": {"string_match": {"safe_regex": {"regex": f"(.* )?{word}( .*)?"}}},
    }
