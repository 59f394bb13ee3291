"""Every plain-Envoy file in a real Envoy: loaded, started, and asked."""

from __future__ import annotations

import contextlib
import inspect
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from extproc.cli import main
from extproc.gateway import envoy_repeat, shipped
from extproc.gateway.doctor.live import Mark, Step, Target, run_live
from extproc.gateway.options import Jwt
from tests.gateway_config.conftest import AUDIENCE, ISSUER, Issuer, Pki
from tests.harness import servers
from tests.harness.client import MODERN, Wire
from tests.harness.gateway import Envoy, _envoy_binary
from tests.harness.processes import free_ports
from tests.harness.processor import Processor
from tests.harness.stack import single_upstream

ROOT = Path(__file__).parents[2]
WHOLE = sorted(
    name
    for name in shipped.FILES
    if name.startswith("envoy/") and "kubernetes" not in name and name != "envoy/filter.yaml"
)
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
OTHERS = ("toolsearch", "identity-provider")
HEADERS = {"accept": "application/json, text/event-stream"}


def text_of(name: str, pki: Pki) -> str:
    """The file with its certificates where this test has them."""
    text = (ROOT / name).read_text("utf-8")
    return text.replace("/etc/envoy/tls/", f"{pki.folder}/")


@pytest.mark.parametrize("name", WHOLE)
def test_envoy_accepts_the_file(name: str, tmp_path: Path, pki: Pki) -> None:
    file = tmp_path / "envoy.yaml"
    file.write_text(text_of(name, pki), "utf-8")
    done = subprocess.run(
        [_envoy_binary(), "--mode", "validate", "-c", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "OK" in done.stdout + done.stderr


def test_envoy_refuses_what_the_test_above_would_have_to_see(tmp_path: Path) -> None:
    file = tmp_path / "envoy.yaml"
    text = (ROOT / "envoy" / "mcp-router.yaml").read_text("utf-8")
    file.write_text(text.replace("allow_mode_override", "allow_mode_overide"), "utf-8")
    command = [_envoy_binary(), "--mode", "validate", "-c", str(file)]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


@contextlib.contextmanager
def running(name: str, tmp_path: Path, pki: Pki, processor_port: int, upstream: int) -> Iterator[Envoy]:
    file = tmp_path / Path(name).name
    file.write_text(text_of(name, pki), "utf-8")
    clusters = [
        each["name"] for each in yaml.safe_load(file.read_text("utf-8"))["static_resources"]["clusters"]
    ]
    own = {each: upstream for each in clusters if each not in (*OTHERS, envoy_repeat.LISTENER)}
    envoy = Envoy(file, own, processor_port, tmp_path)
    try:
        envoy.start()
        yield envoy
    finally:
        envoy.stop()


@pytest.mark.parametrize("name", [each for each in WHOLE if each != "envoy/jwt-rbac.yaml"])
def test_without_a_processor_nothing_leaks(name: str, tmp_path: Path, pki: Pki) -> None:
    """Envoy starts, answers, and stays closed; a live admin has nothing for the doctor to complain about."""
    upstream, nobody = free_ports(2)
    office = servers.fixture(upstream, tmp_path)
    with office.process:
        office.process.wait_ready(office.ready)
        with running(name, tmp_path, pki, nobody, upstream) as envoy:
            answer = httpx.post(envoy.url("/mcp"), json=INITIALIZE, headers=HEADERS, timeout=30)
            assert answer.status_code == 500
            assert answer.content == b""
            catalogue = f"http://127.0.0.1:{envoy.ports.get('catalogue', envoy.port)}/mcp/all"
            if "path: /mcp/all" in text_of(name, pki):
                answer = httpx.post(catalogue, json=INITIALIZE, headers=HEADERS, timeout=30)
                assert answer.status_code == 200
                assert "protocolVersion" in answer.text
            assert main(["doctor", f"http://127.0.0.1:{envoy.admin_port}"]) == 0


def test_the_token_is_asked_for_before_anything_else(tmp_path: Path, pki: Pki) -> None:
    """The issuer's keys cannot even be fetched: a request without a token needs none."""
    (nowhere,) = free_ports(1)
    processor = Processor(tmp_path)
    try:
        processor.start()
        with running("envoy/jwt-rbac.yaml", tmp_path, pki, processor.port, nowhere) as envoy:
            answer = httpx.post(envoy.url("/mcp"), json=INITIALIZE, headers=HEADERS, timeout=30)
            assert answer.status_code == 401
            assert "www-authenticate" in answer.headers
    finally:
        processor.stop()


def live(url: str, token: str = "") -> list[Step]:
    headers = (("authorization", f"Bearer {token}"),) if token else (("x-api-key", "somebody"),)
    return run_live(Target(url, headers))


def good(steps: list[Step]) -> bool:
    assert not any(step.failed for step in steps), "".join(step.shown for step in steps)
    assert [step.name.split(" ")[0] for step in steps if step.mark is Mark.OK].count("search_tools") >= 1
    return True


@pytest.mark.parametrize("name", ["single-upstream", "full-duplex", "replicas"])
def test_both_eras_through_the_file(name: str, tmp_path: Path) -> None:
    with single_upstream(tmp_path, ROOT / "envoy" / f"{name}.yaml") as stack:
        steps = live(stack.url)
        assert good(steps)
        assert {step.mark for step in steps} == {Mark.OK}
        assert main(["doctor", "--live", stack.url, "--header", "x-api-key: me"]) == 0
        assert main(["doctor", "--live", f"http://127.0.0.1:{free_ports(1)[0]}/mcp"]) == 1


def test_live_sees_that_the_raw_route_is_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with single_upstream(tmp_path) as stack:
        assert main(["doctor", "--live", stack.raw_url]) == 1
    assert "and not the six" in capsys.readouterr().out


def test_unix_socket(tmp_path: Path, pki: Pki) -> None:
    (upstream,) = free_ports(1)
    socket = tmp_path / "p.sock"
    office = servers.fixture(upstream, tmp_path)
    processor = Processor(tmp_path)
    processor.process.command[processor.process.command.index("--listen") + 1] = f"unix:{socket}"
    file = tmp_path / "unix.yaml"
    text = text_of("envoy/unix-socket.yaml", pki)
    file.write_text(text, "utf-8")
    envoy = Envoy(file, {"office": upstream}, processor.port, tmp_path)
    set_endpoint(envoy.config, {"pipe": {"path": str(socket)}})
    with serving(office, processor, envoy):
        assert good(live(envoy.url()))


def test_mutual_tls(tmp_path: Path, pki: Pki) -> None:
    (upstream,) = free_ports(1)
    office = servers.fixture(upstream, tmp_path)
    server = {
        "tls_cert": pki.file("processor.pem"),
        "tls_key": pki.file("processor-key.pem"),
        "tls_client_ca": pki.file("ca.pem"),
    }
    processor = Processor(tmp_path, server=server)
    file = tmp_path / "mtls.yaml"
    file.write_text(text_of("envoy/mtls.yaml", pki), "utf-8")
    envoy = Envoy(file, {"office": upstream}, processor.port, tmp_path)
    with serving(office, processor, envoy):
        assert good(live(envoy.url()))
        assert main(["doctor", f"http://127.0.0.1:{envoy.admin_port}"]) == 0
        # The same gateway without its certificate is turned away.
        bare = Envoy(file, {"office": upstream}, processor.port, tmp_path)
        context = cluster(bare.config)["transport_socket"]["typed_config"]["common_tls_context"]
        del context["tls_certificates"]
        bare.file = tmp_path / "bare.yaml"
        bare.process.command[bare.process.command.index("-c") + 1] = str(bare.file)
        try:
            bare.start()
            answer = httpx.post(bare.url(), json=INITIALIZE, headers=HEADERS, timeout=30)
            assert answer.status_code == 500
        finally:
            bare.stop()


def test_jwt_then_rbac_then_processor(tmp_path: Path, issuer: Issuer) -> None:
    (upstream,) = free_ports(1)
    office = servers.fixture(upstream, tmp_path)
    options = replace(shipped.SINGLE, jwt=Jwt(ISSUER, AUDIENCE, str(issuer.jwks)))
    file = tmp_path / "jwt.yaml"
    file.write_text(shipped.envoy(options, ""), "utf-8")
    claim = "metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['sub']"
    assert claim in file.read_text("utf-8")
    processor = Processor(tmp_path, caller={"attributes": [claim]})
    envoy = Envoy(file, {"office": upstream}, processor.port, tmp_path)
    with serving(office, processor, envoy):
        allowed = issuer.token(sub="ann", scope="mail mcp:tools")
        assert good(live(envoy.url(), allowed))
        assert good(live(envoy.url("/mcp"), issuer.token(sub="ann", scope="mcp:tools")))
        for token, status in (
            ("", 401),
            ("nonsense", 401),
            (issuer.token(sub="eve", scope="mail"), 403),
            (issuer.token(sub="eve", scope="mcp:tools-not"), 403),
            (issuer.token(sub="eve", scope="mcp:tools", aud="other"), 403),
        ):
            headers = {**HEADERS, **({"authorization": f"Bearer {token}"} if token else {})}
            answer = httpx.post(envoy.url(), json=INITIALIZE, headers=headers, timeout=30)
            assert answer.status_code == status
        seen = [name for request in office.received() for name, _ in request["headers"]]
        assert seen
        assert "authorization" not in {name.lower() for name in seen}


async def test_the_catalogue_listener_asks_for_the_same_token(tmp_path: Path, issuer: Issuer) -> None:
    """What ``config envoy`` prints for both: lists and calls of the processor carry the caller's token."""
    (upstream,) = free_ports(1)
    office = servers.fixture(upstream, tmp_path)
    jwt = Jwt(ISSUER, AUDIENCE, str(issuer.jwks))
    options = replace(shipped.SINGLE, jwt=jwt, catalogue=shipped.LOOPBACK)
    file = tmp_path / "jwt.yaml"
    file.write_text(shipped.envoy(options, ""), "utf-8")
    processor = Processor(tmp_path)
    envoy = Envoy(file, {"office": upstream}, processor.port, tmp_path)
    raw = f"http://127.0.0.1:{envoy.ports['catalogue']}/mcp/all"
    processor.configure("catalog", url=raw)
    with serving(office, processor, envoy):
        token = issuer.token(sub="ann", scope="mcp:tools")
        async with Wire(envoy.url(), MODERN, token) as wire:
            pair = [{"name": "fixture_echo", "arguments": {"text": text}} for text in ("a", "b")]
            cold = await wire.call("call_read_tools", {"calls": pair})
            refused = await wire.http.post(raw, json=INITIALIZE, headers=HEADERS)
        assert refused.status_code == 401
        assert [each["isError"] for each in cold.result["structuredContent"]["results"]] == [False, False]
        # The token is asked for by both listeners and given to no server.
        given = [name for request in office.received() for name, _ in request["headers"]]
        assert given
        assert "authorization" not in given
        assert main(["doctor", str(envoy.file), "--catalogue-url", raw]) == 0


def joined(
    name: str, tmp_path: Path, processor: Processor, server: str = "office"
) -> tuple[servers.Fixture, Envoy]:
    """The file with only one of its servers, which is the fixture."""
    (upstream,) = free_ports(1)
    file = tmp_path / Path(name).name
    config = yaml.safe_load((ROOT / name).read_text("utf-8"))
    for listener in config["static_resources"]["listeners"]:
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        router = manager["http_filters"][-1]["typed_config"]
        if "servers" in router:
            router["servers"] = [each for each in router["servers"] if each["name"] == server]
    file.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    return servers.fixture(upstream, tmp_path), Envoy(file, {server: upstream}, processor.port, tmp_path)


def ask(url: str, method: str, session: str = "", **params: Any) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or INITIALIZE["params"]}
    headers = {**HEADERS, "x-api-key": "me", **({"mcp-session-id": session} if session else {})}
    return httpx.post(url, json=body, headers=headers, timeout=60)


def test_profiles_and_long_arguments(tmp_path: Path) -> None:
    profile = {"instructions": {"text": "Only reading here; start with search_tools."}}
    processor = Processor(tmp_path, profiles={"readonly": profile})
    office, envoy = joined("envoy/profiles.yaml", tmp_path, processor)
    with serving(office, processor, envoy):
        assert good(live(envoy.url("/mcp/readonly")))
        there = ask(envoy.url("/mcp/readonly"), "initialize")
        assert there.json()["result"]["instructions"].startswith("Only reading here")
        here = ask(envoy.url("/mcp"), "initialize")
        assert not here.json()["result"]["instructions"].startswith("Only reading here")
        # A call far above what the mcp filter parses by default still reaches its server; with one server
        # mcp_router gives no prefix.
        session = here.headers["mcp-session-id"]
        ask(envoy.url("/mcp"), "tools/list", session, _meta={})
        arguments = {"name": "fixture_echo", "arguments": {"text": "long " * 40_000}}
        answer = ask(envoy.url("/mcp"), "tools/call", session, name="call_read_tool", arguments=arguments)
        assert answer.status_code == 200
        assert len(answer.text) > 200_000


def test_each_server_by_itself(tmp_path: Path) -> None:
    processor = Processor(tmp_path)
    office, envoy = joined("envoy/direct-routes.yaml", tmp_path, processor)
    with serving(office, processor, envoy):
        assert good(live(envoy.url()))
        direct = f"http://127.0.0.1:{envoy.ports['direct']}/mcp/office"
        steps = live(direct)
        assert "and not the six" in next(step.what for step in steps if step.failed)
        assert {"search_tools (2025-06-18)"}.isdisjoint({step.name for step in steps})
        assert httpx.post(direct.replace("office", "nobody"), json=INITIALIZE, timeout=30).status_code == 404


@pytest.mark.parametrize(("page_size", "kind"), [(40, "more"), (0, "same")])
def test_lists_are_compared_with_those_of_single_servers(page_size: int, kind: str, tmp_path: Path) -> None:
    """Envoy's MCP router too passes on the first page only."""
    processor = Processor(tmp_path)
    office, envoy = joined("envoy/direct-routes.yaml", tmp_path, processor)
    url = f"http://127.0.0.1:{envoy.ports['direct']}/mcp/office"
    processor.configure("catalog", targets={"office": url})
    with serving(office, processor, envoy):
        office.set(page_size=page_size)
        # In the revision that this router speaks: of a list in another it passes on nothing.
        session = ask(envoy.url("/mcp"), "initialize").headers["mcp-session-id"]
        assert ask(envoy.url("/mcp"), "tools/list", session).status_code == 200
        deadline = time.monotonic() + 60
        while f'found="{kind}"}} 1.0' not in processor.metrics():
            assert time.monotonic() < deadline, processor.metrics()
            time.sleep(0.1)
        metrics = processor.metrics()
        assert (
            f'toolsearch_target_lists_total{{found="{"same" if kind == "more" else "more"}"}} 0.0' in metrics
        )
        cut = "the gateway passes on only a part of the tools of office"
        assert (cut in processor.process.log.read_text("utf-8")) is (kind == "more")


def test_the_catalogue_listener_serves_the_processor(tmp_path: Path) -> None:
    processor = Processor(tmp_path)
    office, envoy = joined("envoy/loopback-catalogue.yaml", tmp_path, processor)
    processor.configure("catalog", url=f"http://127.0.0.1:{envoy.ports['catalogue']}/mcp/all")
    with serving(office, processor, envoy):
        steps = live(envoy.url())
        assert good(steps)
        assert "6 tools" in next(step.what for step in steps if step.name.startswith("tools/list"))


@pytest.mark.parametrize(("name", "server"), [("mcp-router", "office"), ("compose", "everything")])
def test_servers_joined(name: str, server: str, tmp_path: Path) -> None:
    """The files as they are but for addresses, with the one server of theirs that runs here."""
    processor = Processor(tmp_path)
    office, envoy = joined(f"envoy/{name}.yaml", tmp_path, processor, server)
    with serving(office, processor, envoy):
        assert good(live(envoy.url()))


def test_the_filter_alone_in_a_gateway_that_lacks_it(tmp_path: Path) -> None:
    """What is pasted from the fragment makes a gateway that worked without it one that works with it."""
    pasted = yaml.safe_load((ROOT / "envoy" / "filter.yaml").read_text("utf-8"))
    config = yaml.safe_load((ROOT / "envoy" / "single-upstream.yaml").read_text("utf-8"))
    clusters = config["static_resources"]["clusters"]
    clusters[:] = [each for each in clusters if each["name"] != "toolsearch"] + pasted["clusters"]
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    rest = [each for each in manager["http_filters"] if "ext_proc" not in each["name"]]
    assert len(rest) == len(manager["http_filters"]) - 1
    manager["http_filters"] = pasted["http_filters"] + rest
    file = tmp_path / "pasted.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    command = [_envoy_binary(), "--mode", "validate", "-c", str(file)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    with single_upstream(tmp_path, file) as stack:
        assert good(live(stack.url))


def test_the_file_with_jwt_fetches_its_keys(tmp_path: Path, pki: Pki, issuer: Issuer) -> None:
    """The shipped file, keys over HTTP from where its cluster leads; only TLS to the issuer is left out."""
    (upstream,) = free_ports(1)
    keys = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path))
    (tmp_path / ".well-known").mkdir()
    (tmp_path / ".well-known" / "jwks.json").write_bytes(issuer.jwks.read_bytes())
    threading.Thread(target=keys.serve_forever, daemon=True).start()
    file = tmp_path / "jwt-rbac.yaml"
    config = yaml.safe_load(text_of("envoy/jwt-rbac.yaml", pki))
    del cluster(config, "identity-provider")["transport_socket"]
    file.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    names = {each["name"] for each in config["static_resources"]["clusters"]}
    (server,) = names - set(OTHERS)
    office = servers.fixture(upstream, tmp_path)
    processor = Processor(tmp_path)
    envoy = Envoy(
        file, {server: upstream, "identity-provider": keys.server_address[1]}, processor.port, tmp_path
    )
    try:
        with serving(office, processor, envoy):
            assert good(live(envoy.url(), issuer.token(sub="ann", scope="mcp:tools")))
            assert all(step.failed for step in live(envoy.url(), issuer.token(sub="ann", scope="mail")))
    finally:
        keys.shutdown()
        keys.server_close()


def exchanges(processor: Processor) -> tuple[float, float]:
    """How many are open, and how many have ended."""
    lines = [line.rpartition(" ") for line in processor.metrics().splitlines()]
    opened = [float(value) for name, _, value in lines if name == "toolsearch_exchanges_in_flight"]
    ended = [float(value) for name, _, value in lines if name.startswith("toolsearch_exchanges_total{")]
    return opened[0], sum(ended)


@pytest.mark.parametrize(
    ("name", "streams"), [("single-upstream", True), ("full-duplex", True), ("mcp-router", False)]
)
def test_half_a_request_does_not_stay(name: str, streams: bool, tmp_path: Path) -> None:
    """It ends with a 408 and leaves no exchange behind; what only takes long to answer goes on.

    ``streams``: whether the file's router carries GET streams; Envoy's mcp_router answers 405.
    """
    processor = Processor(tmp_path)
    office, envoy = joined(f"envoy/{name}.yaml", tmp_path, processor)
    for listener in envoy.config["static_resources"]["listeners"]:
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        assert manager["request_timeout"] == "60s"
        manager["request_timeout"] = "1s"
    head = b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    with serving(office, processor, envoy):
        with socket.create_connection(("127.0.0.1", envoy.port), timeout=60) as half:
            half.sendall(head + b'{"jsonrpc": "2.0", ')
            assert half.recv(4096).startswith(b"HTTP/1.1 408 ")
        deadline = time.monotonic() + 60
        while exchanges(processor) != (0, 1):
            assert time.monotonic() < deadline, processor.metrics()
            time.sleep(0.05)
        session = ask(envoy.url(), "initialize").headers["mcp-session-id"]
        ask(envoy.url(), "tools/list", session, _meta={})
        watching = {"accept": "text/event-stream", "x-api-key": "me", "mcp-session-id": session}
        with httpx.stream("GET", envoy.url(), headers=watching, timeout=httpx.Timeout(60, read=3)) as stream:
            slow = {"name": "fixture_slow", "arguments": {"seconds": 3}}
            answer = ask(envoy.url(), "tools/call", session, name="call_read_tool", arguments=slow)
            assert answer.status_code == 200
            assert "fixture_slow" in answer.json()["result"]["content"][0]["text"]
            if streams:
                assert stream.status_code == 200
                with pytest.raises(httpx.ReadTimeout):
                    for _ in stream.iter_bytes():
                        pass


WITH_A_PROCESSOR: dict[str, Callable[..., None]] = {
    "single-upstream": test_both_eras_through_the_file,
    "full-duplex": test_both_eras_through_the_file,
    "replicas": test_both_eras_through_the_file,
    "unix-socket": test_unix_socket,
    "mtls": test_mutual_tls,
    "jwt-rbac": test_the_file_with_jwt_fetches_its_keys,
    "profiles": test_profiles_and_long_arguments,
    "direct-routes": test_each_server_by_itself,
    "loopback-catalogue": test_the_catalogue_listener_serves_the_processor,
    "mcp-router": test_servers_joined,
    "compose": test_servers_joined,
    "filter": test_the_filter_alone_in_a_gateway_that_lacks_it,
}


def test_every_file_runs_with_a_processor() -> None:
    """A file that is added needs a test above that has a working handshake through it."""
    files = {path.stem for path in (ROOT / "envoy").glob("*.yaml")}
    assert files == set(WITH_A_PROCESSOR)
    for name, test in WITH_A_PROCESSOR.items():
        assert name in inspect.getsource(test) or name in str(getattr(test, "pytestmark", "")), name


def cluster(config: dict[str, Any], name: str = "toolsearch") -> Any:
    return next(each for each in config["static_resources"]["clusters"] if each["name"] == name)


def set_endpoint(config: dict[str, Any], address: dict[str, Any]) -> None:
    endpoints = cluster(config)["load_assignment"]["endpoints"]
    endpoints[0]["lb_endpoints"][0]["endpoint"]["address"] = address


@contextlib.contextmanager
def serving(office: servers.Fixture, processor: Processor, envoy: Envoy) -> Iterator[None]:
    with contextlib.ExitStack() as ends:
        ends.callback(office.process.stop)
        office.process.start()
        ends.callback(processor.stop)
        processor.start()
        office.process.wait_ready(office.ready)
        ends.callback(envoy.stop)
        envoy.start()
        yield
