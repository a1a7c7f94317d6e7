"""
What a person did with what they had, for those who decide on more.

Use is measured above this package: who measures it registers here. Without it, or where nothing was measured,
there is no telemetry, which is not the same as no use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Allocation, Claim
from teams.models import Team, User

LOOKED_BACK = timedelta(days=90)

# Answers with the mean activity, 0 to 1, of the devices of claims since an instant; None if not measured.
type Gauge = Callable[[list[Claim], datetime], float | None]

_gauges: list[Gauge] = []


@dataclass(frozen=True, slots=True)
class PastUse:
    """Claims of the last 90 days, the GPU-hours that they held, and how active the devices were."""

    claims: int
    gpu_hours: float
    activity: float | None

    @property
    def sentence(self) -> str:
        if not self.claims:
            return _("No claim in the last 90 days.")
        held = ngettext(
            "%(n)d claim in the last 90 days held %(hours).0f GPU-hours",
            "%(n)d claims in the last 90 days held %(hours).0f GPU-hours",
            self.claims,
        ) % {"n": self.claims, "hours": self.gpu_hours}
        if self.activity is None:
            return _("%(held)s; no telemetry.") % {"held": held}
        return _("%(held)s; mean activity %(percent)d %%.") % {
            "held": held,
            "percent": round(self.activity * 100),
        }


def register(gauge: Gauge) -> None:
    """Let a package above tell how active devices were. Called once, when its app is ready."""
    if gauge not in _gauges:
        _gauges.append(gauge)


def past_use(person: User, team: Team) -> PastUse:
    """Look at what `person` held for `team` in the last 90 days; two queries and those of the gauge."""
    now = timezone.now()
    since = now - LOOKED_BACK
    held = Q(allocations__ended_at=None) | Q(allocations__ended_at__gt=since)
    asked = Claim.objects.filter(requested_by=person, team=team)
    recent = Q(created_at__gte=since) | (Q(allocations__isnull=False) & held)
    claims = list(asked.filter(recent).distinct())
    seconds = 0.0
    rows = Allocation.objects.filter(claim__in=claims).filter(Q(ended_at=None) | Q(ended_at__gt=since))
    for begun, ended, fraction in rows.values_list("started_at", "ended_at", "fraction"):
        seconds += (min(ended or now, now) - max(begun, since)).total_seconds() * float(fraction)
    measured = [gauge(claims, since) for gauge in _gauges] if claims else []
    return PastUse(len(claims), seconds / 3600, next((one for one in measured if one is not None), None))
