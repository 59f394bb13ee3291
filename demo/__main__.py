"""Start Envoy, six MCP servers and the processor, show them at work, and stay up until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from demo import paper
from demo.script import Script, configuration
from tests.harness import stack
from tests.harness.processes import NotReadyError, Process

PORT = 10000
"""Of the listener in ``envoy/mcp-router.yaml``."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the transcript")
    once = parser.parse_args().once
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Envoy's MCP router refuses to end sessions; the client would say so after each conversation.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    # The stored facts and the processes' logs; gone when the demo ends.
    with tempfile.TemporaryDirectory(prefix="toolsearch-demo-") as folder:
        try:
            return show(Path(folder), once=once)
        except NotReadyError as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130


def show(folder: Path, *, once: bool) -> int:
    print("Starting Envoy, six MCP servers and the processor ...", flush=True)
    began = time.monotonic()
    with stack.mcp_router(folder, catalogue_route=True, own_port=not once) as running:
        print(f"ready after {time.monotonic() - began:.1f} s")
        running.office.set(fixture_tools=False)
        failures = asyncio.run(Script(running, folder / "work").run())
        paper.heading("Done" if not failures else f"{failures} steps went wrong")
        if failures:
            print(running.processor.process.tail())
        if not once:
            print(taken(running.url), end="")
            print(f"The filter:      {running.url}\nWithout filter:  {running.raw_url}\n")
            print(configuration(running.url))
            print("\nCtrl-C ends it.", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                ended = wait_for_end([running.gateway.process, running.processor.process])
                print(f"\n{ended.name} has ended; the end of its log:\n{ended.tail(10)}", file=sys.stderr)
                return 1
        return 1 if failures else 0


def taken(url: str) -> str:
    """A line that says so when ``url`` is not on the usual port; empty when it is."""
    port = urlsplit(url).port
    return "" if port == PORT else f"port {PORT} is taken, using {port}\n"


def wait_for_end(processes: Sequence[Process]) -> Process:
    """The first of ``processes`` that is no longer there."""
    while True:
        for process in processes:
            if not process.running:
                return process
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
