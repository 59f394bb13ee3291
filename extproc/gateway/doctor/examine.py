"""Files in, findings out: tells the kinds of configuration apart and runs the checks of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extproc.gateway.doctor import agentgateway, envoy_chain, envoy_view, kubernetes
from extproc.gateway.doctor.context import Context
from extproc.gateway.doctor.findings import Finding, worst_first
from extproc.gateway.doctor.located import At, Source, Unreadable

ENVOY_KEYS = (
    "static_resources",
    "dynamic_resources",
    "configs",
    "resources",
    "http_filters",
    "filter_chains",
)


def examine(sources: Sequence[Source], context: Context) -> list[Finding]:
    """Findings about all files together, worst first.  Raises Unreadable for a file of an unknown kind."""
    kinds: dict[str, list[At]] = {"kubernetes": [], "agentgateway": [], "envoy": []}
    for source in sources:
        for document in source.documents:
            kinds[_kind(document)].append(document)
    found = [
        Finding("duplicate-key", at, f"{at.path[-1]} stands twice", "one of the two")
        for source in sources
        for at in source.duplicates
    ]
    if kinds["envoy"]:
        view = envoy_view.view(kinds["envoy"])
        if not view.chains:
            raise Unreadable(_no_listeners(kinds["envoy"][0]))
        found += envoy_chain.check(view, context)
    for document in kinds["agentgateway"]:
        found += agentgateway.check(document, context)
    if kinds["kubernetes"]:
        found += kubernetes.check(kinds["kubernetes"], context)
    return worst_first(found)


def _kind(document: At) -> str:
    tests: dict[str, Callable[[At], bool]] = {
        "kubernetes": kubernetes.looks_like,
        "agentgateway": agentgateway.looks_like,
        "envoy": _is_envoy,
    }
    for name, test in tests.items():
        if test(document):
            return name
    keys = ", ".join(name for name, _ in list(document.members())[:5]) or "no mapping at all"
    raise Unreadable(
        f"{document.source}:{document.line}: not an Envoy, agentgateway or Kubernetes configuration "
        f"(it has {keys})"
    )


def _is_envoy(document: At) -> bool:
    return any(document[name].exists for name in ENVOY_KEYS) or envoy_view.kind(document) == "ext_proc"


def _no_listeners(document: At) -> str:
    if document["dynamic_resources"].exists:
        return (
            f"{document.source}: its listeners come from a control plane; give the address of the running "
            "Envoy's config_dump, for example http://127.0.0.1:9901/config_dump"
        )
    return f"{document.source}: no HTTP connection manager and no ext_proc filter in it"
