"""``python -m bench [NAME] [options]``: runs one benchmark, or all of them one after the other."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("latency", "search_speed", "embedder_memory", "store_memory")


def main(argv: list[str]) -> int:
    if argv and argv[0] in NAMES:
        return int(import_module(f"bench.{argv[0]}").main(argv[1:]) or 0)
    if argv:
        print(f"usage: python -m bench [{'|'.join(NAMES)}] [options]", file=sys.stderr)
        return 2
    for name in NAMES:
        print(f"== {name}")
        import_module(f"bench.{name}").main([])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
