"""Gateways that carry other things beside MCP are not complained about."""

from __future__ import annotations

from pathlib import Path

from extproc.gateway.doctor.context import Context
from extproc.gateway.doctor.examine import examine
from extproc.gateway.doctor.located import parse
from tests.doctor.cases_envoy import COPY, RAW

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "envoy" / "single-upstream.yaml").read_text("utf-8")
OTHER_FILTER = COPY.replace("cluster_name: toolsearch", "cluster_name: guardrails").replace(
    "BUFFERED", "NONE"
)


def ids(text: str) -> list[str]:
    return [finding.id for finding in examine([parse(text.encode(), "x")], Context())]


def test_another_external_processor_is_left_alone() -> None:
    text = TEXT.replace("          http_filters:\n", "          http_filters:\n" + OTHER_FILTER)
    text = text.replace("  - name: office\n", "  - name: guardrails\n    type: STATIC\n  - name: office\n")
    assert ids(text) == []
    unnamed = text.replace("toolsearch", "filter-service")
    assert ids(unnamed) == [], "known by its port"


def test_a_route_may_speak_to_another_external_processor() -> None:
    text = TEXT.replace("          http_filters:\n", "          http_filters:\n" + OTHER_FILTER)
    text = text.replace("  - name: office\n", "  - name: guardrails\n    type: STATIC\n  - name: office\n")
    words = '              domains: ["*"]\n              typed_per_filter_config: {KEY: {"@type": TYPE}}\n'
    route = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
    for key, of, found in (
        ("second", route, []),
        ("third", route, ["route-misses-filter"]),
        ("third", "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute", []),
    ):
        spoken = words.replace("KEY", key).replace("TYPE", of)
        assert ids(text.replace('              domains: ["*"]\n', spoken)) == found


def test_routes_that_are_not_mcp_may_have_time_outs() -> None:
    route = "              - match: {prefix: /shop}\n                route: {cluster: office, timeout: 5s}\n"
    text = TEXT.replace("prefix: /\n", "prefix: /mcp\n")
    assert text != TEXT
    assert ids(text.replace("              routes:\n", "              routes:\n" + route)) == []


def test_a_public_listener_with_other_servers_is_no_raw_route() -> None:
    listener = """  - name: shop
    address: {socket_address: {address: 0.0.0.0, port_value: 80}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/x.HttpConnectionManager
          http_filters: [{name: envoy.filters.http.router}]
          route_config:
            virtual_hosts: [{domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: CLUSTER}}]}]
"""
    for cluster, found in (("shop", []), ("office", ["raw-route-open"])):
        text = TEXT.replace("  listeners:\n", "  listeners:\n" + listener.replace("CLUSTER", cluster))
        assert ids(text) == found


def test_a_catalogue_listener_that_asks_too_is_not_anonymous() -> None:
    text = (ROOT / "envoy" / "jwt-rbac.yaml").read_text("utf-8")
    open_one = text.replace("  clusters:\n", f"{RAW}  clusters:\n", 1)
    assert ids(open_one) == ["raw-route-anonymous"]
    asking = RAW.replace("http.rbac.v3.RBAC", "jwt_authn.v3.JwtAuthentication")
    assert ids(text.replace("  clusters:\n", f"{asking}  clusters:\n", 1)) == []
    assert ids(text.replace("  clusters:\n", RAW.replace("office", "shop") + "  clusters:\n", 1)) == []
    # Without authentication in front of the filter there is nothing to lose.
    assert ids(TEXT.replace("  clusters:\n", f"{RAW}  clusters:\n", 1)) == []
