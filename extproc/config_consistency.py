"""What the types of the settings alone cannot say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import SecretStr

from extproc.addresses import BadAddress, Unix, folder_problem, parse_address, parse_tcp
from extproc.settings import Settings
from extproc.store.opening import SHORTEST_KEY, StoreSettingsError, check_store

_URL = re.compile(r"https?://[^/\s]+")
# RFC 9110, section 5.6.2.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NAME_CHARS = 40


@dataclass(frozen=True, slots=True)
class Flaw:
    """``text`` is wrong with the first of ``settings`` (``section.name``), seen together with the others."""

    settings: tuple[str, ...]
    text: str


Check: TypeAlias = Callable[[Settings], Iterable[Flaw]]


def flaws(settings: Settings, doubtful: Collection[str] = ()) -> Iterator[Flaw]:
    """Everything about values of the right type that cannot work.

    ``doubtful`` settings hold something else than what was given: nothing is said that depends on them.
    """
    for flaw in (*_server(settings), *_caller(settings), *_catalog(settings), *_store(settings, doubtful)):
        if not any(name in doubtful for name in flaw.settings):
            yield flaw
    if settings.search.limit > settings.search.max_limit:
        both = ("search.limit", "search.max_limit")
        if not any(name in doubtful for name in both):
            yield Flaw(both, f"is above search.max_limit ({settings.search.max_limit})")


def file_flaws(settings: Settings) -> Iterator[Flaw]:
    """Files that serving would have to make and could not."""
    try:
        address = parse_address(settings.server.listen)
    except BadAddress:
        address = None
    if isinstance(address, Unix) and (problem := folder_problem(address.path)):
        yield Flaw(("server.listen",), problem)
    if record := settings.telemetry.record:
        path = Path(record)
        if os.path.isdir(path):
            yield Flaw(("telemetry.record",), f"{path} is a folder")
        elif not os.path.exists(path) and (problem := folder_problem(path)):
            yield Flaw(("telemetry.record",), problem)
        elif os.path.exists(path) and not os.access(path, os.W_OK):
            yield Flaw(("telemetry.record",), f"{path} may not be written")


def _server(settings: Settings) -> Iterator[Flaw]:
    server = settings.server
    try:
        parse_address(server.listen)
    except BadAddress as error:
        yield Flaw(("server.listen",), str(error))
    if server.admin:
        try:
            parse_tcp(server.admin)
        except BadAddress as error:
            yield Flaw(("server.admin",), f"{error}; empty switches it off")
    pair = ("server.tls_cert", "server.tls_key")
    if bool(server.tls_cert) != bool(server.tls_key):
        blamed = pair if server.tls_cert else pair[::-1]
        yield Flaw(blamed, "server.tls_cert and server.tls_key go together")
    if server.tls_client_ca and not server.tls_cert:
        yield Flaw(("server.tls_client_ca", *pair), "needs server.tls_cert and server.tls_key")
    for name in ("tls_cert", "tls_key", "tls_client_ca"):
        file = getattr(server, name)
        if file and not Path(file).is_file():
            yield Flaw((f"server.{name}",), "no such file")


def _caller(settings: Settings) -> Iterator[Flaw]:
    named = {"caller.headers": settings.caller.headers, "catalog.headers": settings.catalog.headers}
    for key, headers in named.items():
        for number, header in enumerate(headers, 1):
            if not header:
                yield Flaw((key,), f"entry {number} is empty; allowed: names of headers")
            elif not _TOKEN.fullmatch(header):
                # Not shown: somebody may have written the header with its value.
                yield Flaw((key,), f"entry {number} is no name of a header, such as x-api-key")


def _catalog(settings: Settings) -> Iterator[Flaw]:
    catalog = settings.catalog
    if catalog.url and not _URL.match(catalog.url):
        yield Flaw(("catalog.url",), "has to be an http:// or https:// URL")
    for name, url in catalog.targets.items():
        if not _URL.match(url):
            text = f"{name[:_NAME_CHARS]}: has to be an http:// or https:// URL"
            yield Flaw(("catalog.targets",), text)
    if catalog.token_attribute and "authorization" not in map(str.lower, settings.caller.headers):
        yield Flaw(
            ("catalog.token_attribute", "caller.headers"),
            "is sent as authorization, which caller.headers has to name so that it tells callers apart",
        )


_SOUND: Mapping[str, Any] = {
    "catalog.store": "redis://store",
    "catalog.store_key": SecretStr("x" * SHORTEST_KEY),
    "caller.key": SecretStr("x"),
    "catalog.store_timeout": 1.0,
}
"""What stands for a setting of the store once it is known to be wrong."""


def _store(settings: Settings, doubtful: Collection[str]) -> Iterator[Flaw]:
    # The check stops at the first problem: what it found is replaced by something sound until it is content.
    if not settings.catalog.store:
        return
    wrong = [name for name in _SOUND if name in doubtful]
    for name in wrong:
        settings = _with(settings, name, _SOUND[name])
    while True:
        try:
            check_store(settings)
        except StoreSettingsError as error:
            name, _, text = str(error).partition(": ")
        else:
            return
        yield Flaw((name,), text)
        if name in wrong or name not in _SOUND:
            return
        wrong.append(name)
        settings = _with(settings, name, _SOUND[name])


def _with(settings: Settings, key: str, value: Any) -> Settings:
    section, _, name = key.partition(".")
    changed = getattr(settings, section).model_copy(update={name: value})
    return settings.model_copy(update={section: changed})
