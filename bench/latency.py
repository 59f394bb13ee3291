"""What the filter adds: one Envoy, one run, four routes side by side.

``/raw`` has no processor, ``/noop`` one that does nothing on the same server stack, ``/mcp`` is the product
with its defaults, ``/fast`` the product with ``calls.watch_results: false``.  Rounds alternate between the
routes, so that whatever else the machine does falls on all of them alike; every figure is a median over all
rounds.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import uvloop
import yaml

from bench.load import rate, times
from tests.harness.gateway import SINGLE_UPSTREAM, Envoy
from tests.harness.processes import ROOT, Process, free_ports, listening
from tests.harness.processor import Processor

TOOLS = 1_500
_PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
_JSON = {"authorization": "Bearer bench", "mcp-protocol-version": "2025-06-18"}


def tools(count: int) -> list[dict[str, Any]]:
    """The test catalogue, repeated under other server names with texts that differ."""
    lines = (ROOT / "tests/data/catalogue.jsonl").read_text("utf-8").splitlines()
    own = [json.loads(line) for line in lines if line.strip()]
    made = []
    for number in range(count):
        tool = copy.deepcopy(own[number % len(own)])
        turn = number // len(own)
        if turn:
            tool["name"] = f"r{turn}{tool['name']}"
        tool["description"] = f"{tool.get('description') or ''} (@@ {number})"
        made.append(tool)
    return made


def envoy_file(folder: Path, noop_port: int) -> Path:
    """The shipped single-upstream file with a second processor and routes for each case."""
    config = yaml.safe_load(SINGLE_UPSTREAM.read_text("utf-8"))
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    ours = next(each for each in manager["http_filters"] if "ext_proc" in each["name"])
    noop = copy.deepcopy(ours)
    noop["name"] = "noop"
    noop["typed_config"]["grpc_service"]["envoy_grpc"]["cluster_name"] = "noop"
    manager["http_filters"].insert(0, noop)
    clusters = config["static_resources"]["clusters"]
    cluster = copy.deepcopy(next(each for each in clusters if each["name"] == "toolsearch"))
    cluster["name"] = cluster["load_assignment"]["cluster_name"] = "noop"
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    endpoint["address"]["socket_address"]["port_value"] = noop_port
    clusters.append(cluster)
    off = {"@type": _PER_ROUTE, "disabled": True}
    profile = {
        "@type": _PER_ROUTE,
        "overrides": {"grpc_initial_metadata": [{"key": "x-toolsearch-profile", "value": "fast"}]},
    }
    cases = {
        "/raw": {"noop": off, ours["name"]: off},
        "/noop": {ours["name"]: off},
        "/fast": {"noop": off, ours["name"]: profile},
        "/mcp": {"noop": off},
    }
    manager["route_config"]["virtual_hosts"][0]["routes"] = [
        {
            "match": {"path": path},
            "route": {"cluster": "office", "prefix_rewrite": "/mcp", "timeout": "0s"},
            "typed_per_filter_config": filters,
        }
        for path, filters in cases.items()
    ]
    file = folder / "bench.yaml"
    file.write_text(yaml.safe_dump(config), "utf-8")
    return file


def request(method: str, params: dict[str, Any], number: int = 7) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, separators=(",", ":")
    ).encode()


async def measure(port: int, name: str, arguments: argparse.Namespace) -> None:
    inner = {"name": name, "arguments": arguments.tool_arguments}
    direct = request("tools/call", inner)
    wrapped = request("tools/call", {"name": "call_read_tool", "arguments": inner})
    search = request("tools/call", {"name": "search_tools", "arguments": {"queries": ["create an issue"]}})
    cases = {
        "raw": ("/raw", direct),
        "noop": ("/noop", direct),
        "call, watch_results off": ("/fast", wrapped),
        "call, defaults": ("/mcp", wrapped),
        "warm search": ("/mcp", search),
    }
    for path in ("/mcp", "/fast"):
        await times(port, path, search, _JSON, 1)
    taken: dict[str, list[float]] = {case: [] for case in cases}
    for _ in range(arguments.rounds):
        for case, (path, body) in cases.items():
            taken[case] += await times(port, path, body, _JSON, arguments.requests)
    median = {case: statistics.median(each) * 1000 for case, each in taken.items()}
    floor = median["noop"] - median["raw"]
    print(f"\nOne connection, median of {arguments.rounds * arguments.requests} requests each")
    print(f"{'':26}{'total':>9}{'added':>9}{'x do-nothing':>14}")
    for case, value in median.items():
        added = value - median["raw"]
        ratio = f"{added / floor:13.2f}x" if case != "raw" else ""
        print(f"{case:26}{value:7.3f}ms{added:7.3f}ms{ratio:>14}")
    print(f"warm search above do-nothing: {median['warm search'] - median['noop']:.3f} ms  (at most 1.5 ms)")
    await learning(port, arguments)
    await rates(port, cases, arguments)


async def rates(port: int, cases: dict[str, tuple[str, bytes]], arguments: argparse.Namespace) -> None:
    """Many short rounds, each case next to the do-nothing one of its own round: a machine's speed changes."""
    how = f"medians of {arguments.rate_rounds} rounds"
    print(f"\n{arguments.connections} connections, requests a second ({how})")
    found: dict[str, list[float]] = {case: [] for case in cases}
    for _ in range(arguments.rate_rounds):
        for case, (path, body) in cases.items():
            found[case].append(await rate(port, path, body, _JSON, arguments.connections, arguments.seconds))
    for case, values in found.items():
        shares = sorted(mine / noop for mine, noop in zip(values, found["noop"], strict=True))
        few = len(shares) // 4
        text = f"{statistics.median(shares):8.0%} of do-nothing ({shares[few]:.0%} to {shares[-1 - few]:.0%})"
        print(f"{case:26}{statistics.median(values):9.0f}{'' if case == 'raw' else text}")


async def learning(port: int, arguments: argparse.Namespace) -> None:
    """A list whose texts were never seen: what the client waits, against the same list without the filter."""
    body = request("tools/list", {})
    filtered, raw = [], []
    for turn in range(arguments.lists):
        own = {**_JSON, "authorization": f"Bearer {turn}", "x-vary": str(1000 + turn)}
        filtered += await times(port, "/mcp", body, own, 1)
        raw += await times(port, "/raw", body, own, 1)
    first, rest = filtered[0], statistics.median(filtered[1:])
    base = statistics.median(raw)
    print(
        f"\nLearning {TOOLS} tools unseen before, above the raw list: {(first - base) * 1000:.0f} ms first,"
        " "
        f"median {(rest - base) * 1000:.0f} ms  (raw {base * 1000:.0f} ms; target: at most 150 ms)"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--lists", type=int, default=6)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.75)
    parser.add_argument("--rate-rounds", type=int, default=12)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed = tools(TOOLS)
        chosen = {
            "name": "bench__echo",
            "description": "Echo a text",
            "annotations": {"readOnlyHint": True},
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
                "required": ["text"],
            },
        }
        arguments.tool_arguments = {"text": "hello", "times": 3}
        (folder / "list.json").write_text(json.dumps([*listed[:-1], chosen]), "utf-8")
        upstream_port, noop_port, noop_admin = free_ports(3)
        upstream = Process(
            "upstream",
            [sys.executable, "-m", "bench.upstream", str(upstream_port), folder / "list.json"],
            log_dir=folder,
        )
        noop = Process(
            "noop",
            [
                sys.executable,
                "-m",
                "bench.noop_server",
                "--listen",
                f"127.0.0.1:{noop_port}",
                "--admin",
                f"127.0.0.1:{noop_admin}",
            ],
            log_dir=folder,
        )
        processor = Processor(folder, profiles={"fast": {"calls": {"watch_results": False}}})
        envoy = Envoy(envoy_file(folder, noop_port), {"office": upstream_port}, processor.port, folder)
        with upstream, noop:
            upstream.wait_ready(lambda: listening(upstream_port))
            noop.wait_ready(
                lambda: (
                    httpx.get(f"http://127.0.0.1:{noop_admin}/readyz").status_code == 200
                    if listening(noop_admin)
                    else False
                )
            )
            processor.start()
            try:
                envoy.start()
                try:
                    uvloop.run(measure(envoy.port, chosen["name"], arguments))
                finally:
                    envoy.stop()
            finally:
                processor.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
