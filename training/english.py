"""English texts: dictionary definitions and documented operations, each with a text of the same meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training import archives
from training.corpus import Pair
from training.sources import BOTOCORE, GOOGLE_APIS, WORDNET
from training.text import clean

# WordNet's noun files worth a tool search: acts, artefacts, cognition, communication, events, groups,
# possession, processes, quantities, states, time.  Plants, animals, chemicals and people are left out.
_NOUN_FILES = frozenset((4, 6, 9, 10, 11, 14, 21, 22, 23, 26, 28))


def paraphrases(folder: Path) -> list[Pair]:
    """Pairs of English texts that mean the same: words and definition, operation and first sentence."""
    found = {*_definitions(folder), *_aws(folder), *_google(folder)}
    return sorted(found, key=lambda p: (p.english, p.text))


def _definitions(folder: Path) -> Iterator[Pair]:
    archive = archives.fetch(WORDNET, folder)
    for match, data in archives.read(archive, re.compile(r"dict/data\.(noun|verb|adj|adv)$")):
        for line in data.decode("utf-8").splitlines():
            head, _, gloss = line.partition(" | ")
            fields = head.split()
            if not gloss or (match[1] == "noun" and int(fields[1]) not in _NOUN_FILES):
                continue
            words = [
                re.sub(r"\(\w+\)$", "", fields[4 + 2 * i]).replace("_", " ")
                for i in range(int(fields[3], 16))
            ]
            parts = [part.strip() for part in gloss.split(";")]
            meaning = "; ".join(part for part in parts if not part.startswith('"'))
            yield Pair("en", meaning[:200], ", ".join(words))
            for word in words[1:]:
                yield Pair("en", words[0], word)
            for example in (part.strip('" ') for part in parts if part.startswith('"')):
                if len(example.split()) > 2:
                    yield Pair("en", meaning[:200], example)


def _split(identifier: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_.\-]+", " ", identifier).lower()


def _sentence(documentation: str) -> str:
    text = clean(re.sub(r"<[^>]*>", " ", documentation))
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0][:250].strip(" .")


def _aws(folder: Path) -> Iterator[Pair]:
    archive = archives.fetch(BOTOCORE, folder)
    for _, data in archives.read(
        archive, re.compile(r"botocore/data/[\w-]+/[\d-]+/service-2\.json(?:\.gz)?$")
    ):
        service = json.loads(_inflate(data))
        title = service["metadata"].get("serviceId", "")
        for name, operation in service["operations"].items():
            text = _sentence(operation.get("documentation", ""))
            if len(text.split()) > 2:
                yield Pair("en", text, f"{title} {_split(name)}")


def _inflate(data: bytes) -> bytes:
    import gzip

    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _google(folder: Path) -> Iterator[Pair]:
    archive = archives.fetch(GOOGLE_APIS, folder)
    for _, data in archives.read(archive, re.compile(r"discovery_cache/documents/[\w.-]+\.json$")):
        document = json.loads(data)
        for identifier, description in _methods(document.get("resources", {})):
            text = _sentence(description)
            if len(text.split()) > 2:
                yield Pair("en", text, _split(identifier))


def _methods(resources: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for resource in resources.values():
        for method in resource.get("methods", {}).values():
            yield method["id"], method.get("description", "")
        yield from _methods(resource.get("resources", {}))
