"""
How busy a claim keeps its devices: smooth curves of time, the same in every run for the same claim.

About one claim in eight does nothing with what it holds, as in real fleets.
"""

import hashlib
import math
from dataclasses import dataclass

IDLE_SHARE = 0.13
WAVES = ((420.0, 0.10), (1260.0, 0.07), (97.0, 0.03))  # period in seconds, height


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


def load_at(key: str, device: str, seconds: float, *, asked: float | None = None) -> Load:
    """Return the load at a time. `asked` is the mean activity that the work says of itself, 0 to 1."""
    idle = fraction(f"{key}/idle") < IDLE_SHARE
    memory = 0.25 + 0.65 * fraction(f"{key}/memory") if asked is None else 0.35 + 0.45 * asked
    if idle and asked is None:
        return Load(0.0, memory, 0.0)
    level = 0.5 + 0.42 * fraction(f"{key}/level") if asked is None else asked
    phase = fraction(f"{key}/phase") + 0.05 * fraction(f"{key}/{device}")
    wave = sum(height * math.sin(2 * math.pi * (seconds / period + phase)) for period, height in WAVES)
    breathing = 0.02 * math.sin(2 * math.pi * (seconds / 600 + phase))
    calm = min(1.0, 2 * level)  # what does little does it evenly
    activity = min(0.99, max(0.02, level + calm * wave))
    return Load(activity, min(0.97, memory + breathing), 0.2 + 0.5 * fraction(f"{key}/tensor"))
