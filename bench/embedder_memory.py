"""Memory, load time and rates of the shipped table: the lean loader against model2vec.

Each loader runs in its own process, both on the same texts.  Prints resident memory above the bare
interpreter with numpy, in MB, load time in ms, texts a second and ms a query, then the ratios.

    python bench/embedder_memory.py [--folder MODEL] [--texts 10000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

VERBS = ["create", "delete", "list", "update", "search", "send", "fetch", "merge", "export", "import"]
THINGS = ["pull request", "calendar event", "invoice", "customer record", "log file", "weather", "table"]
TEXT = (
    "server{server}: {verb} {thing} {number}. {verb}s the {thing} with the given identifier and returns its "
    "status, owner and time of change. Parameters: id, page{page}, limit, sort_by"
)


def texts(count: int) -> list[str]:
    """Tool texts of about 170 characters that repeat words as catalogues do."""
    return [
        TEXT.format(server=i % 30, verb=VERBS[i % 10], thing=THINGS[i % 7], number=i, page=i % 97)
        for i in range(count)
    ]


def resident() -> float:
    """MB of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def measure(loader: str, folder: Path, count: int) -> dict[str, float]:
    import numpy as np

    np.ones((4, 4)) @ np.ones((4, 4))
    many = texts(count)
    queries = [f"{VERBS[i % 10]} my {THINGS[i % 7]} from yesterday number{i}" for i in range(500)]
    base = resident()
    began = time.perf_counter()
    if loader == "lean":
        from extproc.embedders.static import load_static

        embed = load_static(folder).embed
    else:
        from model2vec import StaticModel

        embed = StaticModel.from_pretrained(folder).encode
    loaded = time.perf_counter() - began
    after_load = resident() - base
    embed(queries[:1])
    began = time.perf_counter()
    for query in queries:
        embed([query])
    per_query = (time.perf_counter() - began) / len(queries)
    after_queries = resident() - base
    began = time.perf_counter()
    rows = embed(many)
    rate = count / (time.perf_counter() - began)
    return {
        "MB after load": after_load,
        "MB after 500 queries": after_queries,
        "MB after build, without the vectors": resident() - base - rows.nbytes / 1e6,
        "load ms": loaded * 1e3,
        "texts/s": rate,
        "query ms": per_query * 1e3,
    }


def main() -> None:
    from extproc.embedders import default_folder

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=default_folder())
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--only", choices=("lean", "model2vec"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only, args.folder, args.texts)))
        return
    results = []
    for loader in ("lean", "model2vec"):
        command = [
            sys.executable,
            __file__,
            "--only",
            loader,
            "--folder",
            str(args.folder),
            "--texts",
            str(args.texts),
        ]
        results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    print(f"{'':36} {'lean':>10} {'model2vec':>10} {'ratio':>8}")
    for key in results[0]:
        lean, other = (result[key] for result in results)
        print(f"{key:36} {lean:10.2f} {other:10.2f} {lean / other:8.3f}")


if __name__ == "__main__":
    main()
