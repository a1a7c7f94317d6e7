"""What part of a GPU an AMD partition is, by its compute partition mode."""

from __future__ import annotations

from fractions import Fraction

from dra.objects import Json

# Parts of a GPU per compute partition mode (ROCm, MI300 series: 8 XCDs).
MODES = {
    "spx": Fraction(1),
    "dpx": Fraction(1, 2),
    "tpx": Fraction(1, 3),
    "qpx": Fraction(1, 4),
    "cpx": Fraction(1, 8),
}


def fraction(profile: str, product: str, raw: Json) -> Fraction | None:
    """Return the part that "cpx_nps4" or "CPX-NPS4" names, None for a mode that is not known."""
    return MODES.get(profile.partition("_")[0].partition("-")[0].lower())
