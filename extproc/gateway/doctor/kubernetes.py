"""Checks of Kubernetes manifests: gateway policies and the processor's own Deployment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from extproc.gateway.doctor import agentgateway, agentgateway_reach, workload
from extproc.gateway.doctor.context import MIN_BUFFER, Context, seconds, size
from extproc.gateway.doctor.envoy_filter import check_cluster, check_config, check_service
from extproc.gateway.doctor.envoy_view import View, kind
from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At
from extproc.gateway.doctor.modes import (
    BUFFERED,
    DUPLEX,
    NONE,
    PARTIAL,
    POLICY,
    STREAMED,
    read_modes,
    unknown_names,
)

EXT_PROC_FIELDS: Final = [
    "backendRefs",
    "backendSettings",
    "stage",
    "messageTimeout",
    "failOpen",
    "processingMode",
    "metadata",
]
WORDS: Final = {
    "Buffered": BUFFERED,
    "Streamed": STREAMED,
    "BufferedPartial": PARTIAL,
    "FullDuplexStreamed": DUPLEX,
}
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Pod")


def looks_like(document: At) -> bool:
    return document["apiVersion"].exists and document["kind"].exists


def check(documents: Iterable[At], context: Context) -> Iterator[Finding]:
    """Every manifest of one cluster together: some checks compare them."""
    flat = list(_flatten(documents))
    gateway = list(_envoy_gateway(flat, context))
    yield from gateway
    yield from _agentgateway(flat, context)
    for document in flat:
        if document["kind"].text == "EnvoyFilter":
            yield from _envoy_filter(document, context)
        elif document["kind"].text in WORKLOADS:
            yield from workload.check(document)


def _flatten(documents: Iterable[At]) -> Iterator[At]:
    for document in documents:
        if document["kind"].text == "List":
            yield from document["items"].items()
        else:
            yield document


def _of(documents: list[At], name: str) -> list[At]:
    return [document for document in documents if document["kind"].text == name]


# Envoy Gateway --------------------------------------------------------------------------------------------


def _envoy_gateway(documents: list[At], context: Context) -> Iterator[Finding]:
    policies = [at for at in _of(documents, "EnvoyExtensionPolicy") if at.at("spec", "extProc").exists]
    seen: dict[tuple[str, str], At] = {}
    for policy in policies:
        for entry in policy.at("spec", "extProc").items():
            yield from _extension(entry, context)
            for key in _copies(policy, entry):
                if key in seen:
                    yield Finding(
                        "two-filters",
                        entry,
                        f"{key[0]} has {key[1]} at line {seen[key].line} too",
                        "one of the two",
                    )
                seen.setdefault(key, entry)
    if not policies:
        return
    yield from _client_traffic(documents, policies)
    yield from _filter_order(documents, policies[0])


def _copies(policy: At, entry: At) -> Iterator[tuple[str, str]]:
    backends = [ref["name"].text for ref in entry["backendRefs"].items()]
    targets = [*policy.at("spec", "targetRefs").items(), policy.at("spec", "targetRef")]
    for target in targets:
        for backend in backends if target.exists else []:
            yield f"{target['kind'].text} {target['name'].text}", backend


def _extension(entry: At, context: Context) -> Iterator[Finding]:
    if entry["backendRef"].exists:
        yield Finding(
            "wrong-spelling", entry["backendRef"], "backendRef is not a field here", "backendRefs: […]"
        )
    yield from unknown_names(entry, EXT_PROC_FIELDS, certain=False)
    if entry["failOpen"].truth:
        yield Finding("failure-mode-open", entry["failOpen"], "failOpen is true", "failOpen: false")
    if entry["stage"].text in ("Backend", "All"):
        yield Finding(
            "processor-after-mcp", entry["stage"], f"stage is {entry['stage'].text}", "stage: Route"
        )
    timeout = entry["messageTimeout"]
    value = seconds(timeout.scalar) if timeout.exists else 0.2
    if value is not None and value < context.min_timeout:
        shown = f"is {timeout.text}" if timeout.exists else "is not set, which means 200 ms"
        yield Finding("message-timeout", timeout, f"messageTimeout {shown}", "messageTimeout: 10s")
    yield from _extension_modes(entry["processingMode"])


def _extension_modes(mode: At) -> Iterator[Finding]:
    request, response = mode["request"], mode["response"]
    if not request.present:
        yield Finding(
            "request-headers-skipped", mode, "processingMode.request is not set", "request: {body: Buffered}"
        )
        return
    body, answer = request["body"], response["body"]
    for at in (body, answer):
        if at.exists and at.text not in WORDS:
            yield Finding("wrong-spelling", at, f"body is {at.text}", "body: Buffered")
            return
    wanted, given = WORDS.get(body.text, NONE), WORDS.get(answer.text, NONE)
    if wanted in (NONE, STREAMED, PARTIAL):
        yield Finding(
            "request-body-mode", body, f"request.body is {body.text or 'not set'}", "body: Buffered"
        )
    elif (wanted == DUPLEX) != (given == DUPLEX):
        at = answer if wanted == DUPLEX else body
        yield Finding(
            "mixed-duplex", at, f"request {wanted}, response {given}", "body: FullDuplexStreamed in both"
        )
    if not response.present:
        yield Finding("response-headers-skipped", mode, "processingMode.response is not set", "response: {}")
    elif given == PARTIAL:
        yield Finding("response-body-mode", answer, f"response.body is {answer.text}", "response: {}")
    elif given == BUFFERED:
        yield Finding("response-body-buffered", answer, f"response.body is {answer.text}", "response: {}")
    override = mode["allowModeOverride"]
    if wanted == BUFFERED and given == NONE and not override.truth:
        shown = f"allowModeOverride is {override.text or 'not set'}"
        yield Finding("mode-override-off", override, shown, "allowModeOverride: true")


def _client_traffic(documents: list[At], policies: list[At]) -> Iterator[Finding]:
    limits = [at.at("spec", "connection", "bufferLimit") for at in _of(documents, "ClientTrafficPolicy")]
    small = [at for at in limits if at.exists and (size(at.scalar) or 0) < MIN_BUFFER]
    for at in small:
        yield Finding("buffer-limit", at, f"bufferLimit is {at.text}", "bufferLimit: 32Mi")
    if not any(at.exists for at in limits):
        yield Finding(
            "buffer-limit",
            policies[0],
            "no ClientTrafficPolicy raises the buffer of Envoy Gateway's listeners, 32 KiB",
            "ClientTrafficPolicy connection: {bufferLimit: 32Mi}, see envoy/kubernetes/envoy-gateway.yaml",
        )
    times = [
        at.at("spec", "timeout", "http", "requestReceivedTimeout")
        for at in _of(documents, "ClientTrafficPolicy")
    ]
    mend = "ClientTrafficPolicy timeout: {http: {requestReceivedTimeout: 60s}}"
    yield from _half_sent(times, policies[0], mend)


def _half_sent(times: list[At], policy: At, mend: str) -> Iterator[Finding]:
    """``times`` are the places where the time for a whole request may stand."""
    given = [at for at in times if at.exists]
    for at in given:
        if seconds(at.scalar) == 0:
            yield Finding("request-timeout", at, f"{at.path[-1]} is {at.text}, which means none", mend)
    if not given:
        yield Finding("request-timeout", policy, "no object says how long a request may take to arrive", mend)


def _filter_order(documents: list[At], policy: At) -> Iterator[Finding]:
    rules = [at.at("spec", "authorization") for at in _of(documents, "SecurityPolicy")]
    judged = next((at for at in rules if at.exists), None)
    if judged is None:
        return
    for proxy in _of(documents, "EnvoyProxy"):
        for position in proxy.at("spec", "filterOrder").items():
            name, before, after = position["name"].text, position["before"].text, position["after"].text
            if (name.endswith("rbac") and before.endswith("ext_proc")) or (
                name.endswith("ext_proc") and after.endswith("rbac")
            ):
                return
    yield Finding(
        "processor-before-auth",
        judged,
        f"Envoy Gateway runs authorization behind ext_proc (line {policy.line}) unless told otherwise",
        "EnvoyProxy spec.filterOrder: [{name: envoy.filters.http.rbac, before: envoy.filters.http.ext_proc}]",
    )


# Istio ----------------------------------------------------------------------------------------------------


def _envoy_filter(document: At, context: Context) -> Iterator[Finding]:
    patches = list(document.at("spec", "configPatches").items())
    values = {at["applyTo"].text: at for at in patches}
    clusters = [at.at("patch", "value") for at in patches if at["applyTo"].text == "CLUSTER"]
    view = View(clusters={at["name"].text: at for at in clusters}, complete=False)
    filters = [at for at in patches if kind(at.at("patch", "value")) == "ext_proc"]
    for patch in filters:
        config = patch.at("patch", "value", "typed_config")
        yield from check_config(config, context)
        yield from check_service(config, view, context)
        operation = patch.at("patch", "operation")
        if operation.text == "INSERT_FIRST":
            yield Finding(
                "processor-before-auth",
                operation,
                "INSERT_FIRST stands before Istio's own authentication and authorization",
                "operation: INSERT_BEFORE, with subFilter: {name: envoy.filters.http.router}",
            )
        elif (
            operation.text in ("INSERT_AFTER", "ADD")
            and "router" in patch.at("match", "listener", "filterChain", "filter", "subFilter", "name").text
        ):
            yield Finding(
                "processor-after-mcp", operation, f"{operation.text} the router", "operation: INSERT_BEFORE"
            )
    if len(filters) > 1:
        yield Finding("two-filters", filters[1], "two patches insert ext_proc", "one of the two")
    if filters and "LISTENER" not in values:
        yield Finding(
            "buffer-limit",
            filters[0],
            "no LISTENER patch raises per_connection_buffer_limit_bytes, 1 MiB",
            "applyTo: LISTENER, see envoy/kubernetes/istio.yaml",
        )
    if filters:
        managers = [at for at in patches if at["applyTo"].text == "NETWORK_FILTER"]
        times = [at.at("patch", "value", "typed_config", "request_timeout") for at in managers]
        yield from _half_sent(
            times, filters[0], "applyTo: NETWORK_FILTER with request_timeout, see envoy/kubernetes/istio.yaml"
        )
    for patch in patches:
        limit = patch.at("patch", "value", "per_connection_buffer_limit_bytes")
        if patch["applyTo"].text == "LISTENER" and limit.exists and (size(limit.scalar) or 0) < MIN_BUFFER:
            yield Finding(
                "buffer-limit", limit, f"{limit.path[-1]} is {limit.text}", f"{limit.path[-1]}: 33554432"
            )
    if not filters:
        for cluster in clusters:
            if "toolsearch" in cluster["name"].text:
                yield from check_cluster(cluster, context)


# agentgateway ---------------------------------------------------------------------------------------------


def _agentgateway(documents: list[At], context: Context) -> Iterator[Finding]:
    policies = _of(documents, "AgentgatewayPolicy")
    judged = [at for at in policies if at.at("spec", "traffic", "jwtAuthentication").exists]
    judged += [at for at in policies if at.at("spec", "backend", "mcp", "authentication").exists]
    limits = [at.at("spec", "frontend", "http", "maxBufferSize") for at in policies]
    attached = [at for at in policies if at.at("spec", "traffic", "extProc").exists]
    for policy in policies:
        if policy.at("spec", "backend", "extProc").exists:
            at = policy.at("spec", "backend", "extProc")
            yield Finding(
                "backend-policy", at, "extProc stands under spec.backend", "extProc under spec.traffic"
            )
    for policy in attached:
        ext_proc = policy.at("spec", "traffic", "extProc")
        for target in policy.at("spec", "targetRefs").items():
            if "Backend" in target["kind"].text:
                yield Finding(
                    "backend-policy",
                    target["kind"],
                    f"the target is {target['kind'].text}",
                    "kind: HTTPRoute",
                )
        yield from agentgateway.check_policy(ext_proc, POLICY)
        yield from agentgateway.get_streams(ext_proc, POLICY, policy)
        for entry in agentgateway_reach.entries(ext_proc):
            if judged and not entry["requestAttributes"].exists:
                yield Finding(
                    "identity-lost",
                    entry,
                    f"the JWT policy at line {judged[0].line} takes the Authorization header off",
                    "requestAttributes: {sub: jwt.sub}",
                )
            elif judged and context.catalogue_url:
                yield from agentgateway_reach.token(entry, context)
        if all(
            read_modes(entry["processingOptions"], POLICY).duplex
            for entry in agentgateway_reach.entries(ext_proc)
        ):
            continue
        if any(at.exists for at in limits):
            for at in limits:
                yield from agentgateway.buffer(at) if at.exists else ()
        else:
            yield from agentgateway.buffer(policy.at("spec", "frontend", "http", "maxBufferSize"))
