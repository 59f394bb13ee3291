"""Checks of the processor's own container in a manifest."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from extproc.gateway.doctor.context import seconds
from extproc.gateway.doctor.findings import Finding
from extproc.gateway.doctor.located import At
from extproc.settings import Server, Settings

PREFIX = "TOOLSEARCH_"
OURS = "toolsearch"
SHORT = {"--listen": "server.listen", "--admin": "server.admin"}
OTHER_FLAGS = ("--config", "--check", "--help")


def check(document: At) -> Iterator[Finding]:
    """A Deployment, StatefulSet, DaemonSet or Pod."""
    spec = document["spec"] if document["kind"].text == "Pod" else document.at("spec", "template", "spec")
    containers = list(spec["containers"].items())
    for container in containers:
        words = [container["image"].text, *_words(container)]
        if any(OURS in word for word in words):
            yield from _container(container, spec, alone=len(containers) == 1)


def setting_names() -> tuple[str, ...]:
    """``section.name`` of every setting."""
    sections = [name for name in Settings.model_fields if name != "profiles"]
    return tuple(
        f"{section}.{name}"
        for section in sections
        for name in type(getattr(Settings(), section)).model_fields
    )


def _words(container: At) -> list[str]:
    return [at.text for name in ("command", "args") for at in container[name].items()]


def _container(container: At, spec: At, *, alone: bool) -> Iterator[Finding]:
    known = setting_names()
    given: dict[str, At] = {}
    flags = [at for name in ("command", "args") for at in container[name].items()]
    for index, at in enumerate(flags):
        if not at.text.startswith("--"):
            continue
        flag, equals, _ = at.text.partition("=")
        key = SHORT.get(flag, flag.removeprefix("--"))
        if key in known:
            given[key] = at if equals else (flags[index + 1] if index + 1 < len(flags) else at)
        elif flag not in OTHER_FLAGS:
            near = difflib.get_close_matches(flag, [*SHORT, *(f"--{name}" for name in known)], 1, 0.5)
            yield Finding(
                "unknown-flag", at, f"{flag} is not a flag", near[0] if near else f"take {flag} out"
            )
    for variable in container["env"].items():
        name = variable["name"].text
        if not name.startswith(PREFIX) or name == f"{PREFIX}CONFIG":
            continue
        key = name.removeprefix(PREFIX).lower().replace("__", ".")
        if key in known:
            given.setdefault(key, variable["value"])
        elif not key.startswith("profiles."):
            names = [PREFIX + each.upper().replace(".", "__") for each in known]
            near = difflib.get_close_matches(name, names, 1, 0.5)
            yield Finding(
                "unknown-flag", variable, f"{name} is no setting", near[0] if near else f"take {name} out"
            )
    listen, admin = _value(given, "server.listen"), _value(given, "server.admin")
    if alone and _host(listen) in ("127.0.0.1", "localhost"):
        at = given.get("server.listen", container)
        yield Finding("bad-address", at, f"the processor listens on {listen}", "--listen 0.0.0.0:50051")
    yield from _probes(container, listen, admin)
    yield from _grace(container, spec, given)


def _value(given: dict[str, At], key: str) -> str:
    at = given.get(key)
    if at is None:
        return str(getattr(Server(), key.partition(".")[2]))
    return at.text.partition("=")[2] if at.text.startswith("--") else at.text


def _host(address: str) -> str:
    return "" if address.startswith("unix:") else address.rpartition(":")[0].strip("[]")


def _port(address: str) -> int | None:
    text = address.rpartition(":")[2]
    return int(text) if not address.startswith("unix:") and text.isdigit() else None


def _probes(container: At, listen: str, admin: str) -> Iterator[Finding]:
    names = {at["name"].text: at["containerPort"].scalar for at in container["ports"].items()}
    if not container["readinessProbe"].exists:
        yield Finding(
            "no-probe",
            container,
            "no readinessProbe",
            "readinessProbe: {httpGet: {path: /readyz, port: 9090}}",
        )
    for name in ("readinessProbe", "livenessProbe", "startupProbe"):
        probe = container[name]
        for kind, served, label in (
            ("httpGet", admin, "--admin"),
            ("tcpSocket", listen, "--listen"),
            ("grpc", listen, "--listen"),
        ):
            at = probe[kind]["port"]
            if not at.exists:
                continue
            port = names.get(at.text, at.scalar)
            if served.startswith("unix:"):
                yield Finding(
                    "probe-misses-socket",
                    at,
                    f"{name} looks at port {at.text}, the processor listens on {served}",
                    "httpGet: {path: /readyz, port: 9090} with --admin 0.0.0.0:9090",
                )
            elif port != _port(served):
                yield Finding(
                    "probe-misses-socket",
                    at,
                    f"{name} looks at port {at.text}, {label} is {served}",
                    f"port: {_port(served)}",
                )
            elif _host(served) in ("127.0.0.1", "localhost"):
                yield Finding(
                    "probe-misses-socket",
                    at,
                    f"{name} comes from outside the pod, {label} is {served}",
                    f"{label} 0.0.0.0:{_port(served)}",
                )
        path = probe["httpGet"]["path"]
        if path.exists and path.text not in ("/healthz", "/readyz"):
            yield Finding("probe-misses-socket", path, f"{name} asks for {path.text}", "path: /readyz")


def _grace(container: At, spec: At, given: dict[str, At]) -> Iterator[Finding]:
    at = spec["terminationGracePeriodSeconds"]
    grace = at.scalar if isinstance(at.scalar, int) else 30
    drain = float(_value(given, "server.drain")) if _number(_value(given, "server.drain")) else Server().drain
    pause = container.at("lifecycle", "preStop", "sleep", "seconds").scalar
    needed = drain + (pause if isinstance(pause, int) else 0)
    if grace <= needed:
        yield Finding(
            "short-grace",
            at,
            f"terminationGracePeriodSeconds is {grace}; the pause and server.drain need {needed:g}",
            f"terminationGracePeriodSeconds: {int(needed) + 15}",
        )


def _number(text: str) -> bool:
    return seconds(f"{text}s") is not None
