"""Broken agentgateway configurations."""

from __future__ import annotations

from extproc.gateway.doctor.context import Context
from extproc.settings import Catalog
from tests.doctor.cases import Case, edit, settings

AGW = "agentgateway/buffered.yaml"
AGW_JWT = "agentgateway/buffered-auth.yaml"
AGW_RAW = "agentgateway/buffered-auth-catalogue.yaml"
RAW_URL = "http://127.0.0.1:3001/mcp/all"
AGW_DUPLEX = "agentgateway/full-duplex.yaml"

CASES: list[Case] = [
    # agentgateway, standalone
    edit("failure-mode-open", AGW, "failureMode: failClosed", "failureMode: failOpen", "failOpen"),
    edit(
        "request-body-mode",
        AGW,
        "requestBodyMode: buffered",
        "requestBodyMode: bufferedPartial",
        "bufferedPartial",
    ),
    edit("request-body-mode", AGW, "requestBodyMode: buffered", "requestBodyMode: none", "requestBodyMode"),
    edit(
        "response-body-buffered",
        AGW,
        "responseBodyMode: none",
        "responseBodyMode: buffered",
        "responseBodyMode",
    ),
    edit("mixed-duplex", AGW, "            responseBodyMode: none\n", ""),
    edit(
        "mode-override-off", AGW, "allowModeOverride: true", "allowModeOverride: false", "allowModeOverride"
    ),
    edit(
        "request-headers-skipped",
        AGW,
        "requestHeaderMode: send",
        "requestHeaderMode: skip",
        "requestHeaderMode",
    ),
    edit("response-headers-skipped", AGW, "responseHeaderMode: send", "responseHeaderMode: skip"),
    edit(
        "duplex-trailers",
        AGW_DUPLEX,
        "requestTrailerMode: send",
        "requestTrailerMode: skip",
        "requestTrailerMode",
    ),
    edit("wrong-spelling", AGW, "requestBodyMode: buffered", "requestBodyMode: Buffered", "Buffered"),
    edit("wrong-spelling", AGW, "allowModeOverride: true", "allowModeOveride: true", "allowModeOveride"),
    edit("wrong-spelling", AGW, "failureMode: failClosed", "failureMode: closed", "failureMode"),
    edit("identity-lost", AGW_JWT, "requestAttributes:", "responseAttributes:"),
    edit("redacted-attribute", AGW_JWT, "sub: jwt.sub", "token: jwt.rawToken", "jwt.rawToken"),
    edit(
        "catalogue-token-lost",
        AGW_RAW,
        "            token: jwt.rawToken.unredacted()\n",
        "",
        "requestAttributes",
        context=Context(catalogue_url=RAW_URL),
    ),
    Case(
        "catalogue-token-lost",
        AGW_RAW,
        mark="rawToken",
        context=Context(settings(catalog=Catalog(url=RAW_URL)).settings, RAW_URL),
    ),
    edit("catalogue-token-lost", AGW_JWT, "sub: jwt.sub", "sub: jwt.sub", context=Context(None, RAW_URL)),
    edit(
        "raw-route-anonymous",
        AGW_RAW,
        "given as an attribute.\n        mcpAuthentication:",
        "given as an attribute.\n        localRateLimit:",
        "matches",
    ),
    edit("bad-address", AGW, "host: 127.0.0.1:50051", "host: http://127.0.0.1:50051", "http://"),
    edit("bad-address", AGW, "host: 127.0.0.1:50051", "host: unix:/run/p.sock", "unix:"),
    edit("buffer-limit", AGW, "maxBufferSize: 33554432", "maxBufferSize: 2097152", "maxBufferSize"),
    edit("buffer-limit", AGW, "frontendPolicies:\n  http:\n", "config:\n  http:\n"),
    edit("duplex-get", AGW_DUPLEX, "condition: 'request.method == \"POST\"'", "condition: 'true'"),
    edit("raw-route-open", AGW, "        authorization:\n", "        localRateLimit:\n"),
    edit(
        "backend-policy",
        AGW,
        "      - mcp:\n",
        "      - policies: {extProc: {host: '127.0.0.1:50051'}}\n        mcp:\n",
    ),
    edit(
        "two-filters",
        AGW,
        "- port: 3000\n  listeners:\n  - routes:",
        "- port: 3000\n  listeners:\n  - policies: {extProc: {host: '127.0.0.1:50051'}}\n    routes:",
    ),
    edit("no-filter", AGW, "        extProc:\n", "        extAuthz:\n"),
    edit(
        "catalogue-loop",
        AGW,
        "port: 3000",
        "port: 3000",
        context=Context(catalogue_url="http://127.0.0.1:3000/mcp"),
    ),
    edit(
        "catalogue-loop",
        AGW,
        "port: 3000",
        "port: 3000",
        context=settings(catalog=Catalog(targets={"files": "http://127.0.0.1:3000/mcp"})),
    ),
    edit(
        "catalogue-nowhere",
        AGW,
        "port: 3001",
        "port: 3002",
        context=Context(catalogue_url="http://127.0.0.1:3001/mcp/all"),
    ),
]
