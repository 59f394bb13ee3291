"""Requests that are sent again when their processor died before it had decided on them.

Envoy's retries of the processor end with the processor's first word in an exchange.  Past that only the whole
request can be repeated, by a router in front of everything, and only while no server has it: the filter
behind the processor notes that a request went on, and the local reply for one that did not carries a header
that means "again" to that router.
"""

from __future__ import annotations

from extproc.exchange.messages import METADATA_NAMESPACE, REPEATABLE
from extproc.gateway import envoy_pieces as pieces
from extproc.gateway.envoy_auth import TYPE
from extproc.gateway.options import Internal, Options
from extproc.gateway.yamltext import Noted, Tree, note

LISTENER = "filtered"
"""Name of the internal listener that has the filter, and of the cluster that leads to it."""
HEADER = "x-toolsearch-undecided"
_DECIDED_NAMESPACE = "toolsearch.gateway"
_DECIDED = "decided"


def extensions() -> Tree:
    return [
        {
            "name": "envoy.bootstrap.internal_listener",
            "typed_config": {
                "@type": f"{TYPE}envoy.extensions.bootstrap.internal_listener.v3.InternalListener"
            },
        }
    ]


def front_routes() -> list[Tree]:
    """The one route of the listener that clients reach."""
    return [
        {
            "name": "front",
            "match": {"prefix": "/"},
            "route": {
                "cluster": LISTENER,
                "timeout": note("Tool calls take as long as they take; the default is 15 s.", "0s"),
                "retry_policy": note(
                    """A request whose processor died before a server got it is sent once more, and reaches
                    another replica. One that a server has is never repeated, unless it only read the tool
                    list.""",
                    {
                        "retry_on": "retriable-headers",
                        "num_retries": 1,
                        "retriable_headers": [{"name": HEADER, "present_match": True}],
                    },
                ),
            },
            "response_headers_to_remove": [HEADER],
        }
    ]


def cluster(options: Options) -> Tree:
    """Leads to the internal listener; a hop inside Envoy, not over a network."""
    raw: Tree = {
        "name": "envoy.transport_sockets.raw_buffer",
        "typed_config": {"@type": f"{TYPE}envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"},
    }
    upstream = f"{TYPE}envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport"
    return pieces.cluster(
        LISTENER,
        Internal(LISTENER),
        per_connection_buffer_limit_bytes=options.buffer_limit,
        typed_extension_protocol_options=pieces.HTTP2,
        circuit_breakers=pieces.processor_breakers(options),
        transport_socket={
            "name": "envoy.transport_sockets.internal_upstream",
            "typed_config": {"@type": upstream, "transport_socket": raw},
        },
    )


def decided_filter() -> Noted:
    """Directly behind the processor."""
    return note(
        "Reached by what the processor has decided on: from here on a request is not repeated.",
        {
            "name": "envoy.filters.http.set_metadata",
            "typed_config": {
                "@type": f"{TYPE}envoy.extensions.filters.http.set_metadata.v3.Config",
                "metadata": [{"metadata_namespace": _DECIDED_NAMESPACE, "value": {_DECIDED: True}}],
            },
        },
    )


def local_replies() -> Noted:
    """``local_reply_config`` of the connection manager that has the filter."""
    failed: Tree = {
        "status_code_filter": {
            "comparison": {
                "op": "EQ",
                "value": {"default_value": 500, "runtime_key": "toolsearch.repeated_status"},
            }
        }
    }
    undecided = _metadata(_DECIDED_NAMESPACE, _DECIDED, false_or_absent=True)
    repeatable = _metadata(METADATA_NAMESPACE, REPEATABLE, false_or_absent=False)
    return note(
        "Envoy's own 500 for a request that no server has, or that only reads the tool list.",
        {
            "mappers": [
                {
                    "filter": {
                        "and_filter": {
                            "filters": [failed, {"or_filter": {"filters": [undecided, repeatable]}}]
                        }
                    },
                    "headers_to_add": [
                        {
                            "header": {"key": HEADER, "value": "1"},
                            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                        }
                    ],
                }
            ]
        },
    )


def _metadata(namespace: str, key: str, *, false_or_absent: bool) -> Tree:
    return {
        "metadata_filter": {
            "matcher": {
                "filter": namespace,
                "path": [{"key": key}],
                "value": {"bool_match": not false_or_absent},
            },
            "match_if_key_not_found": false_or_absent,
        }
    }
