"""One claim of the story of the demo, as data."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Scene:
    """
    Who asks for what, who decides how, how many pods use it, how long ago it began.

    `together` are further profiles of the claim, each with its devices. `activity` is the mean that telemetry
    shows of its devices, None for no telemetry.
    """

    name: str
    by: str
    team: str
    cluster: str
    profile: str
    reason: str
    devices: int = 1
    together: tuple[tuple[str, int], ...] = ()
    parallel: int = 1
    delivery: str = "claim"
    hours: int = 24
    decision: str = ""  # "approve" or a reason to deny
    pods: int = 0
    then: str = ""  # release or withdraw
    ago: timedelta = timedelta(0)
    activity: float | None = None


DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
