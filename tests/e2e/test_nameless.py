"""Callers whose credential the processor does not see, as behind a gateway that strips it.

To the processor they are all the same; to the upstream they are not.  What one was shown stays with that one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from tests.e2e.expect import found
from tests.harness import stack
from tests.harness.client import LEGACY, MODERN, Wire
from tests.harness.stack import Stack

FORGE, PAY = "forgehub", "paywell"


@pytest.fixture(scope="module")
def blind(gateway: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A processor that does not take ``authorization`` for a credential."""
    with stack.single_upstream(
        tmp_path_factory.mktemp("blind"), gateway=gateway, caller={"headers": ["x-nothing"]}
    ) as running:
        running.office.set(tokens={"forge": [f"{FORGE}__*"], "pay": [f"{PAY}__*"]}, require_token=True)
        yield running


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
async def test_nothing_of_another_caller_is_shown(blind: Stack, version: str) -> None:
    elsewhere = {"host": f"{secrets.token_hex(8)}.test"}
    async with (
        Wire(blind.url, version, "forge", extra=elsewhere) as forge,
        Wire(blind.url, version, "pay", extra=elsewhere) as pay,
    ):
        assert (await forge.list_tools()).status == 200
        listed = await forge.search("list the commits of a repository")
        assert f"{FORGE}__list_commits" in found(listed.text)
        answers = [
            await pay.read(f"{FORGE}__list_commits", {"owner": 1, "no_such_member": 2}),
            await pay.search("list the commits of a repository"),
            await pay.describe(f"{FORGE}__list_commits", "list_commits"),
            await pay.read("list_commit", {}),
            await pay.destroy(f"{FORGE}__list_commits", {}),
        ]
    for answer in answers:
        said = answer.body.replace(f"{FORGE}__list_commits".encode(), b"")
        for word in (FORGE, "inputSchema: ", "Repository name", "since", "until"):
            assert word.encode() not in said, answer.text


async def test_a_foreign_schema_is_not_added_to_the_upstream_s_error(blind: Stack) -> None:
    elsewhere = {"host": f"{secrets.token_hex(8)}.test"}
    fitting = {"owner": "a", "repo": "b"}
    async with (
        Wire(blind.url, MODERN, "forge", extra=elsewhere) as forge,
        Wire(blind.url, MODERN, "pay", extra=elsewhere) as pay,
    ):
        assert (await forge.list_tools()).status == 200
        answer = await pay.read(f"{FORGE}__list_commits", fitting)
    assert answer.status == 200
    assert "Repository name" not in json.dumps(answer.response)
