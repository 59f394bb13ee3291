"""Envoy's own message types as the judge of what may be printed.

Needs the ``config`` extra (envoy-data-plane).  It costs most of a second to import, so nothing that serves
imports this module.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

with warnings.catch_warnings():
    # Generated code of thousands of lines warns about its own style while it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    import betterproto2
    from envoy_data_plane.envoy.config.bootstrap.v3 import Bootstrap
    from envoy_data_plane.envoy.config.cluster.v3 import Cluster
    from envoy_data_plane.envoy.config.listener.v3 import Filter, Listener
    from envoy_data_plane.envoy.config.route.v3 import RouteConfiguration
    from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import ExternalProcessor
    from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter

    for _package in (
        "bootstrap.internal_listener",
        "filters.http.ext_proc",
        "filters.http.jwt_authn",
        "filters.http.mcp",
        "filters.http.mcp_router",
        "filters.http.rbac",
        "filters.http.router",
        "filters.http.set_metadata",
        "retry.host.previous_hosts",
        "transport_sockets.internal_upstream",
        "transport_sockets.raw_buffer",
        "transport_sockets.tls",
        "upstreams.http",
    ):
        importlib.import_module(f"envoy_data_plane.envoy.extensions.{_package}.v3")

from extproc.gateway.yamltext import Plain

KINDS: Final[Mapping[str, type[betterproto2.Message]]] = {
    "bootstrap": Bootstrap,
    "listener": Listener,
    "clusters": Cluster,
    "http_filters": HttpFilter,
    "network_filters": Filter,
    "route_config": RouteConfiguration,
    "ext_proc": ExternalProcessor,
}


def check(kind: str, value: Plain) -> None:
    """Raises ValueError unless ``value`` is exactly one message of ``kind``: no field unknown, none lost."""
    message = KINDS[kind]
    try:
        parsed = message.from_dict(_mapping(value))
        back = message.parse(bytes(parsed)).to_dict(
            casing=betterproto2.Casing.SNAKE, include_default_values=True
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"not a valid {message.__name__}: {error}") from error
    lost = _lost(value, back, "")
    if lost:
        raise ValueError(f"{message.__name__} does not keep {lost}")


def _mapping(value: Plain) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping")
    return dict(value)


def _lost(before: Any, after: Any, path: str) -> str:
    """The first path whose value the message did not keep; unset and default values are the same."""
    if isinstance(before, Mapping):
        if not isinstance(after, Mapping):
            return path if any(before.values()) else ""
        return next(
            (hit for key in before if (hit := _lost(before[key], after.get(key), f"{path}.{key}"))), ""
        )
    if isinstance(before, Sequence) and not isinstance(before, str):
        if not isinstance(after, Sequence) or len(after) != len(before):
            return path if before else ""
        return next(
            (hit for i, item in enumerate(before) if (hit := _lost(item, after[i], f"{path}[{i}]"))), ""
        )
    if before == after or (not before and after is None):
        return ""
    if isinstance(before, int) and isinstance(after, str):
        # Protobuf's JSON form writes 64-bit integers as text.
        return "" if after == str(before) else path
    if isinstance(before, str) and isinstance(after, str) and before.endswith("s") and after.endswith("s"):
        return "" if float(before[:-1]) == float(after[:-1]) else path
    return path
