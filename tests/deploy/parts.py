"""The deployment files, taken apart."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
VERSION: str = PROJECT["project"]["version"]


def instructions() -> list[tuple[str, str]]:
    """Instruction and argument of every line of the Dockerfile, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [(line.split(None, 1)[0].upper(), line.split(None, 1)[1]) for line in lines]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions of each stage by its name; the last one is ``final``."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, argument in instructions():
        if name == "FROM":
            words = argument.split()
            found[words[2] if len(words) == 3 else "final"] = []
        list(found.values())[-1].append((name, argument))
    return found


def one(stage: str, instruction: str) -> str:
    (argument,) = [argument for name, argument in stages()[stage] if name == instruction]
    return argument


def words(stage: str, instruction: str) -> list[str]:
    """The JSON form of ENTRYPOINT, CMD or HEALTHCHECK CMD."""
    text = one(stage, instruction)
    parsed: list[str] = json.loads(text[text.index("[") :])
    return parsed


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((ROOT / name).read_text("utf-8")) if each]
