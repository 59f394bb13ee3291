from __future__ import annotations

from tests.scenarios.conftest import closing

__all__ = ["closing"]
