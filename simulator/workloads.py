"""
What the work on a simulated device does at a time, as curves that are the same in every run.

Work has a kind, by the annotation of its pod or by its key: a training run has plateaus with short dips for
validation, a notebook computes in bursts, inference follows day and night, a stuck job keeps its memory and
does nothing. Shares are those that people see in their fleets: one claim in eight is stuck.
"""

import hashlib
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

WAVES = ((420.0, 0.10), (1260.0, 0.07), (97.0, 0.03))  # period in seconds, height
RAMP = 60.0  # seconds from one level to another: a mean of DCGM does not jump


class Workload(StrEnum):
    TRAINING = "training"
    NOTEBOOK = "notebook"
    INFERENCE = "inference"
    STUCK = "stuck"


SHARES = (
    (0.13, Workload.STUCK),
    (0.33, Workload.NOTEBOOK),
    (0.55, Workload.INFERENCE),
    (1.0, Workload.TRAINING),
)  # up to this fraction


@dataclass(frozen=True, slots=True)
class Load:
    """Shares from 0 to 1; `tensor` is the part of the activity that uses tensor cores."""

    activity: float
    memory: float
    tensor: float


NOTHING = Load(0.0, 0.0, 0.0)


def fraction(text: str) -> float:
    """Return a number from 0 to 1 that is always the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


def workload_of(key: str) -> Workload:
    """Return the kind of work that does not say it."""
    drawn = fraction(f"{key}/idle")
    return next(kind for share, kind in SHARES if drawn <= share)


def load_at(
    key: str,
    device: str,
    seconds: float,
    *,
    mean_activity: float | None = None,
    workload: Workload | None = None,
) -> Load:
    """
    Return the load at a time, in seconds since 1970.

    `mean_activity` is what the pod says of itself, 0 to 1; it goes before `workload`.
    """
    phase = fraction(f"{key}/phase") + 0.05 * fraction(f"{key}/{device}")
    breathing = 0.02 * math.sin(2 * math.pi * (seconds / 600 + phase))
    tensor = 0.2 + 0.5 * fraction(f"{key}/tensor")
    if mean_activity is not None:
        memory = min(0.97, 0.35 + 0.45 * mean_activity + breathing)
        calm = min(1.0, 2 * mean_activity)  # what does little does it evenly
        return Load(_within(mean_activity + calm * _waves(seconds, phase)), memory, tensor)
    memory = 0.25 + 0.65 * fraction(f"{key}/memory")
    level = fraction(f"{key}/level")
    match workload or workload_of(key):
        case Workload.STUCK:
            return Load(0.0, memory, 0.0)
        case Workload.NOTEBOOK:
            return Load(_notebook(level, phase, seconds), min(0.97, memory * 0.5 + breathing), tensor * 0.3)
        case Workload.INFERENCE:
            busy = _daylight(seconds, phase) * (0.35 + 0.5 * level) + 0.4 * _waves(seconds, phase)
            return Load(_within(busy), min(0.97, memory), tensor)
        case Workload.TRAINING:
            plateau = 0.84 + 0.14 * level + 0.1 * _waves(seconds, phase)
            return Load(_within(plateau * _validation(phase, seconds)), min(0.97, memory + breathing), tensor)


def _waves(seconds: float, phase: float) -> float:
    return sum(height * math.sin(2 * math.pi * (seconds / period + phase)) for period, height in WAVES)


def _within(activity: float) -> float:
    return min(0.99, max(0.02, activity))


def _slope(second: float, length: float) -> float:
    """Return 0 outside of a time of `length` seconds that begins at 0, 1 inside, with ramps on both sides."""
    return max(0.0, min(1.0, second / RAMP, (length - second) / RAMP))


def _validation(phase: float, seconds: float) -> float:
    """A training run validates for three minutes after each half an hour or so."""
    period = 1500 + 1200 * phase
    return 1 - 0.7 * _slope(seconds % period, 180)


def _notebook(level: float, phase: float, seconds: float) -> float:
    """A person runs a cell for some minutes each hour, in working hours."""
    hour = datetime.fromtimestamp(seconds, UTC).hour
    if not 7 <= hour < 19:
        return 0.0
    return (0.4 + 0.5 * level) * _slope((seconds + 3600 * phase) % 3600, 240 + 300 * level)


def _daylight(seconds: float, phase: float) -> float:
    """From 0.15 at three at night to 1 at three in the afternoon (UTC), shifted by up to an hour."""
    day = 2 * math.pi * (seconds / 86400 - 15 / 24 + phase / 24)
    return 0.575 + 0.425 * math.cos(day)
