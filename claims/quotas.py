"""
What teams hold and reserve, against what they may.

One way of counting for the check under lock, the quota page and the preview: every claim that is not over
counts, as `reserved` while nobody has decided on it and as `held` from then on. A claim with alternatives
counts with the worst of them, or while it is allocated with the one that was taken (`claims.settling`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Alternative, Claim, ClaimCharge, Profile, Quota
from claims.states import HOLDING, ClaimState
from teams.models import Team

COUNTED = Coalesce("settled", "devices")


@dataclass(frozen=True, slots=True)
class Standing:
    """
    One quota and how it stands. `free` is never negative; `over` is what is held or reserved beyond the
    limit.
    """

    quota: Quota
    held: int
    reserved: int

    @property
    def team(self) -> Team:
        return self.quota.team

    @property
    def label(self) -> str:
        return label_of(self.quota)

    @property
    def limit(self) -> int:
        return self.quota.devices

    @property
    def used(self) -> int:
        return self.held + self.reserved

    @property
    def free(self) -> int:
        return max(self.limit - self.used, 0)

    @property
    def over(self) -> int:
        return max(self.used - self.limit, 0)

    @property
    def sentence(self) -> str:
        """Say it as "vision holds 6 of 8 gpu.nvidia.com devices and 1 is reserved by pending requests"."""
        values = {"team": self.team, "held": self.held, "limit": self.limit, "what": self.label}
        said = (
            ngettext(
                "%(team)s holds %(held)d of %(limit)d device of profile %(what)s",
                "%(team)s holds %(held)d of %(limit)d devices of profile %(what)s",
                self.limit,
            )
            if self.quota.profile_id
            else ngettext(
                "%(team)s holds %(held)d of %(limit)d %(what)s device",
                "%(team)s holds %(held)d of %(limit)d %(what)s devices",
                self.limit,
            )
        ) % values
        if not self.reserved:
            return said
        return ngettext(
            "%(said)s and %(count)d is reserved by pending requests",
            "%(said)s and %(count)d are reserved by pending requests",
            self.reserved,
        ) % {"said": said, "count": self.reserved}


@dataclass(frozen=True, slots=True)
class Contribution:
    """One claim in the figure of a quota."""

    claim: Claim
    devices: int
    reserved: bool


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """
    What a request of `needs` devices does to one quota. `standing` is None where the team has no such quota.
    """

    label: str
    standing: Standing | None
    needs: int
    fits: bool
    sentence: str  # with the numbers, whether it fits or not

    @property
    def before(self) -> int:
        return self.standing.used if self.standing else 0

    @property
    def after(self) -> int:
        return self.before + self.needs

    @property
    def limit(self) -> int:
        return self.standing.limit if self.standing else 0


def label_of(quota: Quota) -> str:
    return quota.device_class or str(quota.profile)


def standing(teams: Iterable[Team]) -> list[Standing]:
    """Return every quota of these teams with its use, in four queries however many there are."""
    rows = Quota.objects.filter(team__in=list(teams)).select_related("team", "profile")
    return standing_of(rows)


def standing_of(quotas: Iterable[Quota]) -> list[Standing]:
    """
    Count what stands against these quota rows, in three queries. Under their lock the figures cannot grow.
    """
    rows = list(quotas)
    teams = {row.team_id for row in rows}
    by_class: dict[tuple[object, str, bool], int] = defaultdict(int)
    charges = ClaimCharge.objects.filter(claim__team__in=teams, claim__state__in=HOLDING)
    for team, device_class, state, count in charges.values_list(
        "claim__team", "device_class", "claim__state"
    ).annotate(total=Sum(COUNTED)):
        by_class[team, device_class, state == ClaimState.REQUESTED] += count
    by_profile: dict[tuple[object, object, bool], int] = defaultdict(int)
    if any(row.profile_id for row in rows):
        claims = Claim.objects.filter(team__in=teams, state__in=HOLDING, alternatives=None).order_by()
        one_of = Alternative.objects.filter(claim__team__in=teams, claim__state__in=HOLDING).order_by()
        for team, profile, state, count in chain(
            claims.values_list("team", "profile_version__profile", "state").annotate(
                total=Sum(F("devices") * F("parallel"))
            ),
            one_of.values_list("claim__team", "profile_version__profile", "claim__state").annotate(
                total=Sum(COUNTED)
            ),
        ):
            by_profile[team, profile, state == ClaimState.REQUESTED] += count

    def counted(row: Quota, *, reserved: bool) -> int:
        if row.profile_id:
            return by_profile[row.team_id, row.profile_id, reserved]
        return by_class[row.team_id, row.device_class, reserved]

    return [
        Standing(row, held=counted(row, reserved=False), reserved=counted(row, reserved=True)) for row in rows
    ]


def contributions(quota: Quota) -> list[Contribution]:
    """Return every claim that adds up to the figure of `quota`, oldest first, in one query."""
    claims = Claim.objects.filter(team=quota.team_id, state__in=HOLDING).order_by("created_at", "id")
    if quota.profile_id:
        alone = Q(alternatives=None, profile_version__profile=quota.profile_id)
        own = claims.filter(alone | Q(alternatives__profile_version__profile=quota.profile_id)).for_list()
        amount = Coalesce("alternatives__settled", "alternatives__devices", F("devices") * F("parallel"))
    else:
        own = claims.filter(charges__device_class=quota.device_class).for_list()
        amount = Coalesce("charges__settled", "charges__devices")
    counted: Iterable[Any] = own.annotate(counted=amount).filter(counted__gt=0)
    return [
        Contribution(claim, devices=claim.counted, reserved=claim.state == ClaimState.REQUESTED)
        for claim in counted
    ]


def rows_for(*, team: Team, charge: Mapping[str, int], profiles: Iterable[Profile]) -> list[Quota]:
    """Return the quota rows that a request counts against, in the order in which they are locked."""
    return list(
        Quota.objects.charged(team=team, classes=charge, profiles=profiles)
        .select_related("team", "profile")
        .order_by("pk")
    )


def lines_for(
    rows: Iterable[Quota], *, team: Team, charge: Mapping[str, int], profiles: Mapping[Profile, int]
) -> list[QuotaLine]:
    """
    Return what a request does to each quota it counts against; a class without a row of the team does not
    fit. `charge` is devices per class, `profiles` devices per profile.
    """
    standings = standing_of(rows)
    by_class = {each.quota.device_class: each for each in standings if not each.quota.profile_id}
    lines = [_line(name, by_class.get(name), team, needs) for name, needs in sorted(charge.items()) if needs]
    by_profile = {each.quota.profile_id: each for each in standings if each.quota.profile_id}
    lines += [
        _line(str(profile), by_profile[profile.pk], team, needs)
        for profile, needs in profiles.items()
        if profile.pk in by_profile
    ]
    return lines


def _line(label: str, standing: Standing | None, team: Team, needs: int) -> QuotaLine:
    need = ngettext("this request needs %(count)d", "this request needs %(count)d", needs) % {"count": needs}
    if standing is None:
        sentence = _("%(team)s has no quota for %(what)s devices; %(need)s.") % {
            "team": team,
            "what": label,
            "need": need,
        }
        return QuotaLine(label, None, needs, fits=False, sentence=sentence)
    fits = standing.used + needs <= standing.limit
    sentence = _("%(standing)s; %(need)s.") % {"standing": standing.sentence, "need": need}
    return QuotaLine(label, standing, needs, fits=fits, sentence=sentence)
