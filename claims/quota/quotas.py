"""
What teams hold and reserve, against what they may, and what a request would do to it.

`claims.quota.counts` does the counting, for the check under lock, the quota pages and the preview alike.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Profile, Quota
from claims.quota.counts import figures_of
from claims.quota.guarantees import capacity_of, kept_classes, shares_of, why_kept
from teams.models import Team


@dataclass(frozen=True, slots=True)
class Standing:
    """
    One quota and how it stands. `outside` is used past the portal, `raised` is what raises add to the limit
    now. `free` is never negative; `over` is what is used or reserved beyond the limit.
    """

    quota: Quota
    held: int
    reserved: int
    outside: int = 0
    raised: int = 0

    @property
    def team(self) -> Team:
        return self.quota.team

    @property
    def label(self) -> str:
        return label_of(self.quota)

    @property
    def limit(self) -> int:
        return self.quota.devices + self.raised

    @property
    def guaranteed(self) -> int:
        return self.quota.guaranteed

    @property
    def used(self) -> int:
        return self.held + self.reserved + self.outside

    @property
    def free(self) -> int:
        return max(self.limit - self.used, 0)

    @property
    def over(self) -> int:
        return max(self.used - self.limit, 0)

    @property
    def within(self) -> int:
        """Devices held within the guarantee; without one, all that are held."""
        return min(self.held, self.guaranteed) if self.guaranteed else self.held

    @property
    def beyond(self) -> int:
        """Devices held beyond the guarantee."""
        return self.held - self.within

    @property
    def sentence(self) -> str:
        """Say it as "vision holds 6 of 8 gpu.nvidia.com devices and 1 is reserved by pending requests"."""
        values = {"team": self.team, "held": self.held, "limit": self.limit, "what": self.label}
        said = _held_sentence(self.quota, self.limit) % values
        if self.outside:
            said = ngettext(
                "%(said)s, uses %(count)d outside the portal",
                "%(said)s, uses %(count)d outside the portal",
                self.outside,
            ) % {"said": said, "count": self.outside}
        if not self.reserved:
            return said
        return ngettext(
            "%(said)s and %(count)d is reserved by pending requests",
            "%(said)s and %(count)d are reserved by pending requests",
            self.reserved,
        ) % {"said": said, "count": self.reserved}


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """
    What a request of `needs` devices does to one quota. `standing` is None where the team has no such quota.

    `ask` is the query of the page on which more of it is asked for, "" where more would not help.
    """

    label: str
    standing: Standing | None
    needs: int
    fits: bool
    sentence: str  # with the numbers, whether it fits or not
    ask: str = ""

    @property
    def before(self) -> int:
        return self.standing.used if self.standing else 0

    @property
    def after(self) -> int:
        return self.before + self.needs

    @property
    def limit(self) -> int:
        return self.standing.limit if self.standing else 0

    @property
    def lacks(self) -> int:
        """How much more the limit would have to be, 0 where the limit is not what stands in the way."""
        return max(self.after - self.limit, 0)


def label_of(quota: Quota) -> str:
    if quota.counts == Quota.Counts.CLAIMS:
        return _("claims")
    return quota.device_class or str(quota.profile)


def standing(teams: Iterable[Team]) -> list[Standing]:
    """Return every quota of these teams with its use; the number of queries does not grow with them."""
    rows = Quota.objects.filter(team__in=list(teams)).select_related("team", "profile")
    return standing_of(rows)


def standing_of(quotas: Iterable[Quota]) -> list[Standing]:
    """Count what stands against these quota rows. Under their lock the figures cannot grow."""
    rows = list(quotas)
    return [
        Standing(row, each.held, each.reserved, each.outside, each.raised)
        for row, each in zip(rows, figures_of(rows), strict=True)
    ]


def rows_for(*, team: Team, charge: Mapping[str, int], profiles: Iterable[Profile]) -> list[Quota]:
    """Return the quota rows that a request counts against, in the order in which they are locked."""
    return list(
        Quota.objects.charged(team=team, classes=charge, profiles=profiles)
        .select_related("team", "profile")
        .order_by("pk")
    )


def lock_rows(*, team: Team, charge: Mapping[str, int], profiles: Iterable[Profile]) -> list[Quota]:
    """
    Lock what makes the quota of a request scarcer and return the team's own rows of it, see docs/locking.md.

    Where some team has a guarantee of a class that is charged, the rows of all teams are locked: what one of
    them takes is what another may no longer. Called in a transaction, last thing before counting.
    """
    own = Quota.objects.charged(team=team, classes=charge, profiles=profiles)
    kept = kept_classes(Quota.objects.filter(device_class__in=list(charge)))
    rows = Quota.objects.filter(Q(pk__in=own.values("pk")) | Q(pk__in=kept.values("pk")))
    locked = list(
        rows.select_related("team", "profile").select_for_update(no_key=True, of=("self",)).order_by("pk")
    )
    return [row for row in locked if row.team_id == team.pk]


def lines_for(
    rows: Iterable[Quota],
    *,
    team: Team,
    charge: Mapping[str, int],
    profiles: Mapping[Profile, int],
    claims: int = 1,
) -> list[QuotaLine]:
    """
    Return what a request does to each quota it counts against; a class without a row of the team does not
    fit. `charge` is devices per class, `profiles` devices per profile, `claims` how many claims it may make.
    """
    standings = standing_of(rows)
    of_claims = [each for each in standings if each.quota.counts == Quota.Counts.CLAIMS]
    by_class = {each.quota.device_class: each for each in standings if each.quota.device_class}
    lines = [_line(name, by_class.get(name), team, needs) for name, needs in sorted(charge.items()) if needs]
    by_profile = {each.quota.profile_id: each for each in standings if each.quota.profile_id}
    lines += [
        _line(str(profile), by_profile[profile.pk], team, needs)
        for profile, needs in profiles.items()
        if profile.pk in by_profile
    ]
    lines += [_line(each.label, each, team, claims) for each in of_claims if claims]
    return [*lines, *_kept_for_others(team, charge)]


def _kept_for_others(team: Team, charge: Mapping[str, int]) -> list[QuotaLine]:
    """Return a line for each class of which the request would take what is guaranteed to other teams."""
    shares = shares_of([name for name, needs in charge.items() if needs])
    capacity = capacity_of(shares) if shares else {}
    lines = []
    for name, of_class in shares.items():
        said = why_kept(team, name, charge[name], of_class, capacity.get(name))
        if said:
            lines.append(QuotaLine(name, None, charge[name], fits=False, sentence=said))
    return lines


def _held_sentence(quota: Quota, limit: int) -> str:
    if quota.counts == Quota.Counts.CLAIMS:
        return ngettext(
            "%(team)s has %(held)d of %(limit)d claim", "%(team)s has %(held)d of %(limit)d claims", limit
        )
    if quota.profile_id:
        return ngettext(
            "%(team)s holds %(held)d of %(limit)d device of profile %(what)s",
            "%(team)s holds %(held)d of %(limit)d devices of profile %(what)s",
            limit,
        )
    return ngettext(
        "%(team)s holds %(held)d of %(limit)d %(what)s device",
        "%(team)s holds %(held)d of %(limit)d %(what)s devices",
        limit,
    )


def _line(label: str, standing: Standing | None, team: Team, needs: int) -> QuotaLine:
    need = ngettext("this request needs %(count)d", "this request needs %(count)d", needs) % {"count": needs}
    if standing is None:
        sentence = _("%(team)s has no quota for %(what)s devices; %(need)s.") % {
            "team": team,
            "what": label,
            "need": need,
        }
        ask = urlencode({"team": team.slug, "device_class": label, "more": needs})
        return QuotaLine(label, None, needs, fits=False, sentence=sentence, ask=ask)
    fits = standing.used + needs <= standing.limit
    sentence = _("%(standing)s; %(need)s.") % {"standing": standing.sentence, "need": need}
    lacks = standing.used + needs - standing.limit
    ask = "" if fits else urlencode({"quota": standing.quota.pk, "more": lacks})
    return QuotaLine(label, standing, needs, fits=fits, sentence=sentence, ask=ask)
