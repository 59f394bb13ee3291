from extproc.upstream.batch import Call
from extproc.upstream.client import UpstreamClient
from extproc.upstream.outcomes import (
    CallError,
    CallOutcome,
    CallResult,
    Failed,
    Fetched,
    FetchOutcome,
    Reason,
    SessionLost,
    Unauthorized,
)
from extproc.upstream.refresher import Obtained, Refresher
from extproc.upstream.targets import Targets

__all__ = [
    "Call",
    "CallError",
    "CallOutcome",
    "CallResult",
    "Failed",
    "FetchOutcome",
    "Fetched",
    "Obtained",
    "Reason",
    "Refresher",
    "SessionLost",
    "Targets",
    "Unauthorized",
    "UpstreamClient",
]
