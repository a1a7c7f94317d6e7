"""
How much counts against a quota: one way of counting for the check under lock, the pages and the preview.

Every claim that is not over counts, as `reserved` while nobody has decided on it and as `held` from then on.
A claim with alternatives counts with the worst of them, or while it is allocated with the one that was taken
(`claims.observed.settling`). What its predecessor still counts for (`carried`) does not count twice. What is
used past the portal counts as `outside`. A quota on the number of claims counts as Kubernetes does: a
template for as many claims as it may make at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import Case, F, Sum, Value, When
from django.db.models.functions import Coalesce, Greatest, Least
from django.utils import timezone

from claims.models import Alternative, Claim, ClaimCharge, Quota, QuotaRaise
from claims.quota.outside_use import OutsideUse, outside_use
from claims.states import HOLDING, ClaimState

CHARGED = Greatest(Coalesce("settled", "devices") - F("carried"), 0)  # of a ClaimCharge
TAKEN = Coalesce("settled", "devices")  # of an Alternative
ALONE = Greatest(F("devices") * F("parallel") - F("carried"), 0)  # of a Claim of one profile
# While the predecessor's objects are there as well, only claims beyond their number count.
NUMBER = F("parallel") - Case(
    When(carried__gt=0, then=Least(F("parallel"), Coalesce(F("replaces__parallel"), 0))), default=Value(0)
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Devices, or claims where the quota counts those; `raised` is what raises add to the limit now."""

    held: int = 0
    reserved: int = 0
    outside: int = 0
    raised: int = 0


def figures_of(quotas: Iterable[Quota]) -> list[Figures]:
    """
    Count what stands against these rows, in a number of queries that does not grow with them. Under their
    lock what the portal itself gives out cannot grow.
    """
    rows = list(quotas)
    teams = {row.team_id for row in rows}
    counted: dict[tuple[UUID, object, bool], int] = defaultdict(int)
    for team, what, state, count in chain(
        _by_class(teams),
        _by_profile(teams) if any(row.profile_id for row in rows) else (),
        _by_number(teams) if any(row.counts == Quota.Counts.CLAIMS for row in rows) else (),
    ):
        counted[team, what, state == ClaimState.REQUESTED] += count
    outside, raised = outside_use(teams), raises_of(rows)
    return [
        Figures(
            held=counted[row.team_id, counts_by(row), False],
            reserved=counted[row.team_id, counts_by(row), True],
            outside=sum(outside_count(row, use) for use in outside.get(row.team_id, ())),
            raised=raised[row.pk],
        )
        for row in rows
    ]


def counts_by(quota: Quota) -> object:
    """Return what a row counts: a profile's id, "" for claims, or the name of a class."""
    return quota.profile_id or quota.device_class


def outside_count(quota: Quota, use: OutsideUse) -> int:
    """Return what an object past the portal takes of a quota; it is of no profile."""
    if quota.profile_id:
        return 0
    return use.claims if quota.counts == Quota.Counts.CLAIMS else use.charge.get(quota.device_class, 0)


def raises_of(quotas: Sequence[Quota]) -> dict[UUID, int]:
    """Return what raises that run now add to each limit, by id of the quota."""
    now, sums = timezone.now(), defaultdict[UUID, int](int)
    running = QuotaRaise.objects.filter(quota__in=quotas, starts_at__lte=now, ends_at__gt=now)
    for quota, devices in running.order_by().values_list("quota").annotate(total=Sum("devices")):
        sums[quota] = devices
    return sums


def _by_class(teams: Iterable[UUID]) -> Iterable[Any]:
    charges = ClaimCharge.objects.filter(claim__team__in=teams, claim__state__in=HOLDING)
    return charges.values_list("claim__team", "device_class", "claim__state").annotate(total=Sum(CHARGED))


def _by_profile(teams: Iterable[UUID]) -> Iterable[Any]:
    alone = Claim.objects.filter(team__in=teams, state__in=HOLDING, alternatives=None).order_by()
    one_of = Alternative.objects.filter(claim__team__in=teams, claim__state__in=HOLDING).order_by()
    return chain(
        alone.values_list("team", "profile_version__profile", "state").annotate(total=Sum(ALONE)),
        one_of.values_list("claim__team", "profile_version__profile", "claim__state").annotate(
            total=Sum(TAKEN)
        ),
    )


def _by_number(teams: Iterable[UUID]) -> Iterable[Any]:
    live = Claim.objects.filter(team__in=teams, state__in=HOLDING).order_by()
    for team, state, count in live.values_list("team", "state").annotate(total=Sum(NUMBER)):
        yield team, "", state, count
