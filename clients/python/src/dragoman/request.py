"""What a request for a claim says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from dragoman.text import duration_value

Delivery = Literal["claim", "template"]
Until = Literal["usable", "allocated"]


@dataclass(frozen=True)
class ClaimRequest:
    """
    A request. `together` are further profiles of the same claim, each with its devices. Without `hours` and
    `duration` the default of the profile applies. With `keep_alive`, such as "15m", the claim ends once this
    program has not renewed it for that long.
    """

    profile: str
    team: str | None = None
    cluster: str | None = None
    hours: float | None = None
    duration: str | timedelta | None = None
    devices: int = 1
    alternatives: Sequence[str] = ()
    together: Mapping[str, int] | None = None
    parallel: int = 1
    delivery: Delivery = "claim"
    name: str = ""
    reason: str = ""
    keep_alive: str | timedelta | None = None

    def body(self, *, team: str, cluster: str) -> dict[str, Any]:
        """Return it as the API takes it. Raises ValueError for both hours and a duration."""
        body: dict[str, Any] = {
            "team": team,
            "cluster": cluster,
            "profile": self.profile,
            "devices": self.devices,
            "alternatives": list(self.alternatives),
            "together": [{"profile": slug, "devices": n} for slug, n in (self.together or {}).items()],
            "parallel": self.parallel,
            "delivery": self.delivery,
            "duration": duration_value(self.hours, self.duration),
            "name": self.name,
        }
        return {key: value for key, value in body.items() if value not in (None, "", [])}
