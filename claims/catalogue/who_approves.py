"""Who approves requests for a profile, as one reader asks: by the rules of each of their teams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.approval.rules import Rule, Rules
from claims.models import Approval, ProfileVersion
from core.times import duration
from teams.models import Team

NAMED = 3  # teams that a sentence names; of more it says how many


@dataclass(frozen=True, slots=True)
class TeamApproval:
    """Who approves requests of one team; up to so many devices, for so long (None: however long), nobody."""

    team: Team
    approval: Approval
    automatic_devices: int
    automatic_duration: timedelta | None

    @property
    def sentence(self) -> str:
        return sentence_of(self.approval, self.automatic_devices, self.automatic_duration)


@dataclass(frozen=True, slots=True)
class WhoApproves:
    """
    `sentence` says it for all of the reader's teams at once; `of_teams` has what holds for each of them, and
    is empty for somebody who is a member of none.
    """

    sentence: str
    of_teams: tuple[TeamApproval, ...]
    asks_nobody: bool  # some requests of some team need no approval


def who_approves(version: ProfileVersion, teams: Sequence[Team], rules: Rules) -> WhoApproves:
    """
    Say who approves requests of these teams for a version, by `rules` that were read for them; makes no
    query.

    Where it is the same for all, it is said once; else with the names of the teams. Without a team it is what
    holds for any team that has no rule of its own.
    """
    if not teams:
        rule = rules.for_any_team(version)
        said = sentence_of(rule.approval, rule.automatic_devices, rule.automatic_duration)
        return WhoApproves(said, (), rule.asks_nobody_at_times)
    found = [rules.rule(team.pk, version) for team in teams]
    each = tuple(_of_team(team, rule) for team, rule in zip(teams, found, strict=True))
    groups: dict[str, list[Team]] = {}
    for one in each:
        groups.setdefault(one.sentence, []).append(one.team)
    if len(groups) == 1:
        (said,) = groups
    else:
        said = " ".join(
            _("%(teams)s: %(sentence)s") % {"teams": _named(members), "sentence": sentence}
            for sentence, members in groups.items()
        )
    return WhoApproves(said, each, any(rule.asks_nobody_at_times for rule in found))


def sentence_of(approval: Approval, most: int, longest: timedelta | None) -> str:
    """Say who approves, and up to how much nobody is asked."""
    if approval == Approval.AUTOMATIC:
        return _("No approval needed.")
    who = {
        Approval.LEAD: _("A lead of your team approves."),
        Approval.ADMIN: _("A platform admin approves."),
        Approval.BOTH: _("A lead of your team approves, then a platform admin."),
    }[approval]
    if not most:
        return who
    size = ngettext("%d device", "%d devices", most) % most
    if longest is not None:
        size = _("%(size)s for %(span)s") % {"size": size, "span": duration(longest)}
    return _("%(who)s Up to %(size)s needs no approval.") % {"who": who, "size": size}


def _of_team(team: Team, rule: Rule) -> TeamApproval:
    return TeamApproval(team, rule.approval, rule.automatic_devices, rule.automatic_duration)


def _named(teams: Sequence[Team]) -> str:
    names = [team.slug for team in teams]
    if len(names) <= NAMED:
        return ", ".join(names)
    return ngettext("%(names)s and %(n)d more", "%(names)s and %(n)d more", len(names) - NAMED) % {
        "names": ", ".join(names[:NAMED]),
        "n": len(names) - NAMED,
    }
