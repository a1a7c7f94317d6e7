"""
Dragoman from Python: GPUs of Kubernetes for the time of a block.

    from dragoman import Client

    with Client() as client, client.claim("notebook-24g", hours=4, team="vision") as claim:
        print(claim.devices, claim.snippet("pod").text)

`AsyncClient` has the same methods with `await`. What they return (`ClaimInfo`, `Match`, `Profile`, …) is in
`dragoman.results`. In a notebook, `%load_ext dragoman` adds `%gpu`.
"""

from typing import Any

from dragoman._async.claim import AsyncClaim, AsyncPendingClaim
from dragoman._async.client import AsyncClient
from dragoman._sync.claim import Claim, PendingClaim
from dragoman._sync.client import Client
from dragoman.errors import (
    BudgetExceeded,
    ClaimEnded,
    ConfigurationError,
    Conflict,
    DragomanError,
    FieldError,
    Forbidden,
    Invalid,
    NotFound,
    QuotaExceeded,
    Refused,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnknownName,
    WaitTimeout,
)
from dragoman.version import VERSION as __version__

__all__ = [
    "AsyncClaim",
    "AsyncClient",
    "AsyncPendingClaim",
    "BudgetExceeded",
    "Claim",
    "ClaimEnded",
    "Client",
    "ConfigurationError",
    "Conflict",
    "DragomanError",
    "FieldError",
    "Forbidden",
    "Invalid",
    "NotFound",
    "PendingClaim",
    "QuotaExceeded",
    "Refused",
    "TooManyRequests",
    "Unauthenticated",
    "Unavailable",
    "UnknownName",
    "WaitTimeout",
    "__version__",
]


def load_ipython_extension(shell: Any) -> None:
    """Add `%gpu`: what `%load_ext dragoman` calls."""
    from dragoman.magic import GpuMagics

    shell.register_magics(GpuMagics)
