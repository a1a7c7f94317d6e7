"""
Which approval rule a request falls under, and what a changed rule would do.

Which rule a request falls under, what it lets through, and the sentence that says so.

The most specific counts: of the profile for the team, of the team, of the profile for every team, and at last
what the version of the profile says itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from claims.models import Approval, ApprovalRule, Claim, Profile, ProfileVersion
from core.text import counted
from core.times import duration as in_words
from teams.models import Team

STRICTNESS = {Approval.AUTOMATIC: 0, Approval.LEAD: 1, Approval.ADMIN: 2, Approval.BOTH: 3}


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for one version and one team; `name` says whose rule it is."""

    name: str
    approval: Approval
    automatic_devices: int = 0
    automatic_duration: timedelta | None = None
    self_approval: bool = False
    escalate_after: timedelta | None = None

    def lets_through(self, *, devices: int, duration: timedelta) -> bool:
        if self.approval == Approval.AUTOMATIC:
            return True
        longest = self.automatic_duration
        return devices <= self.automatic_devices and (longest is None or duration <= longest)

    @property
    def asks_nobody_at_times(self) -> bool:
        """Tell whether there are requests that need no approval."""
        return self.approval == Approval.AUTOMATIC or self.automatic_devices > 0

    @property
    def sentence(self) -> str:
        """Say what needs no approval."""
        if self.approval == Approval.AUTOMATIC:
            return f"{self.name} needs no approval."
        if self.automatic_duration is None:
            return f"{self.name} needs no approval for up to {counted(self.automatic_devices, 'device')}."
        return (
            f"{self.name} needs no approval for up to {counted(self.automatic_devices, 'device')} "
            f"and up to {in_words(self.automatic_duration)}."
        )

    def objection(self, *, devices: int, duration: timedelta) -> tuple[str, str]:
        """Say, in a word and in a sentence, why a person has to decide; "" where the rule asks nobody."""
        if self.lets_through(devices=devices, duration=duration):
            return "", ""
        asks = f"{self.name} asks {whom(self.approval)}"
        most, longest = self.automatic_devices, self.automatic_duration
        if not most:
            return "always", f"{asks}."
        if devices > most:
            return f"> {most} devices", f"{asks} for more than {counted(most, 'device')}."
        span = in_words(longest) if longest is not None else ""
        return f"> {span}", f"{asks} for more than {span}."


@dataclass(frozen=True, slots=True)
class EffectiveRule:
    """
    What several profiles of one request come to together: the strictest counts.

    `approval` is who decides, never automatic: where every rule lets it through and still a person has to
    look, a lead does. `word` and `sentence` say which rule asks, or lets it through.
    """

    automatic: bool
    approval: Approval
    self_approval: bool
    escalate_after: timedelta | None
    word: str
    sentence: str


class Rules:
    """The rules of some teams, read in one query; every rule for None."""

    def __init__(self, teams: Iterable[Team | UUID] | None = None) -> None:
        rows = ApprovalRule.objects.select_related("team", "profile")
        if teams is not None:
            rows = rows.filter(Q(team=None) | Q(team__in=list(teams)))
        self._rows = {(row.team_id, row.profile_id): row for row in rows}

    def put(self, row: ApprovalRule) -> None:
        """Take a rule that is not saved as if it were."""
        self._rows[row.team_id, row.profile_id] = row

    def rule(self, team_id: UUID, version: ProfileVersion) -> Rule:
        found = (
            self._rows.get((team_id, version.profile_id))
            or self._rows.get((team_id, None))
            or self._rows.get((None, version.profile_id))
        )
        return rule_of(found, version)

    def for_any_team(self, version: ProfileVersion) -> Rule:
        """Return what holds for a team that has no rule of its own."""
        return rule_of(self._rows.get((None, version.profile_id)), version)

    def ruling(
        self,
        team_id: UUID,
        asked: Sequence[tuple[ProfileVersion, int]],
        *,
        duration: timedelta,
        together: bool = False,
    ) -> EffectiveRule:
        """
        `asked` is every profile of a request, each with its devices of all claims. Where all of them are
        taken `together`, a rule for several of them lets through so many devices of these in all.
        """
        parts = [(self.rule(team_id, version), devices) for version, devices in asked]
        if together:
            of_rule: Counter[Rule] = Counter()
            for rule, devices in parts:
                of_rule[rule] += devices
            parts = [(rule, of_rule[rule]) for rule, _devices in parts]
        objecting = [one for one in parts if not one[0].lets_through(devices=one[1], duration=duration)]
        rule, devices = max(objecting or parts, key=lambda one: STRICTNESS[one[0].approval])
        word, sentence = rule.objection(devices=devices, duration=duration)
        spans = [one.escalate_after for one, _devices in parts if one.escalate_after is not None]
        return EffectiveRule(
            automatic=not objecting,
            approval=Approval.LEAD if rule.approval == Approval.AUTOMATIC else rule.approval,
            self_approval=all(one.self_approval for one, _devices in parts),
            escalate_after=min(spans, default=None),
            word=word,
            sentence=sentence or parts[0][0].sentence,
        )

    def on(self, claim: Claim) -> EffectiveRule:
        """Return what holds for a claim as it stands; reads its version, profile and alternatives."""
        return self.ruling(
            claim.team_id, asked_of(claim), duration=claim.duration, together=are_together(claim)
        )


def rule_of(row: ApprovalRule | None, version: ProfileVersion) -> Rule:
    """Return what `row` makes of the version's own rule."""
    name = f"{version.profile} v{version.number}"
    own = Rule(name, Approval(version.approval), version.automatic_devices, version.automatic_duration)
    if row is None:
        return own
    if not row.approval:
        return Rule(
            name,
            own.approval,
            own.automatic_devices,
            own.automatic_duration,
            row.self_approval,
            row.escalate_after,
        )
    return Rule(
        name_of(row),
        Approval(row.approval),
        row.automatic_devices,
        row.automatic_duration,
        row.self_approval,
        row.escalate_after,
    )


def name_of(row: ApprovalRule) -> str:
    if row.team_id and row.profile_id:
        return f"The rule of {row.team} for {row.profile}"
    return f"The rule of {row.team}" if row.team_id else f"The rule for {row.profile}"


def whom(approval: str) -> str:
    """Return whom a rule asks, in a sentence: "a lead"."""
    return {
        Approval.AUTOMATIC: "nobody",
        Approval.LEAD: "a lead",
        Approval.ADMIN: "a platform admin",
        Approval.BOTH: "a lead and then a platform admin",
    }[Approval(approval)]


def asked_of(claim: Claim) -> list[tuple[ProfileVersion, int]]:
    """Return every profile of a claim with its devices of all claims together."""
    several = [(one.profile_version, one.devices) for one in claim.alternatives.all()]
    return several or [(claim.profile_version, claim.devices * claim.parallel)]


def are_together(claim: Claim) -> bool:
    """Tell whether the claim takes all of its profiles, and not the first that fits."""
    return any(one.together for one in claim.alternatives.all())


def ruling_for(
    team: Team,
    asked: Sequence[tuple[ProfileVersion, int]],
    *,
    duration: timedelta,
    together: bool = False,
) -> EffectiveRule:
    """Return the ruling on one request; one query."""
    return Rules([team]).ruling(team.pk, asked, duration=duration, together=together)


LOOKED_BACK = timedelta(days=30)
SIZES = (1, 2, 4, 8)
SPANS = (timedelta(hours=4), timedelta(days=1), timedelta(days=7))
WAYS = (Approval.AUTOMATIC, Approval.LEAD, Approval.ADMIN, Approval.BOTH)


@dataclass(frozen=True, slots=True)
class Example:
    devices: int
    ways: tuple[str, ...]  # one per span: who decides, in words


@dataclass(frozen=True, slots=True)
class RoutingCount:
    """How many requests of the last 30 days go this way by the rules as they are, and with the rule."""

    label: str
    now: int
    then: int


@dataclass(frozen=True, slots=True)
class RuleEffect:
    examples: tuple[Example, ...]
    spans: tuple[timedelta, ...]
    past: tuple[RoutingCount, ...]
    counted: int
    about: str  # the profile of the examples


def effect_of(rule: ApprovalRule) -> RuleEffect:
    """Work it out for a rule that need not be saved; the number of queries does not grow with the claims."""
    version = _example_version(rule)
    examples = []
    if version is not None:
        applied = rule_of(rule, version)
        examples = [
            Example(devices, tuple(_way(applied, devices, span) for span in SPANS)) for devices in SIZES
        ]
    now, then = _past(rule)
    ways = [RoutingCount(str(way.label), now[way], then[way]) for way in WAYS]
    return RuleEffect(
        tuple(examples), SPANS, tuple(ways), sum(now.values()), str(version.profile) if version else ""
    )


def _example_version(rule: ApprovalRule) -> ProfileVersion | None:
    """Return what the examples ask for: the rule's profile, else the first that everybody may ask for."""
    if rule.profile is not None:
        return rule.profile.current
    first = Profile.objects.filter(retired_at=None).exclude(current=None).select_related("current__profile")
    found = first.first()
    return found.current if found else None


def _way(rule: Rule, devices: int, span: timedelta) -> str:
    if rule.lets_through(devices=devices, duration=span):
        return "nobody"
    return str(rule.approval.label)


def _past(rule: ApprovalRule) -> tuple[Counter[Approval], Counter[Approval]]:
    claims = Claim.objects.filter(created_at__gte=timezone.now() - LOOKED_BACK)
    if rule.team_id:
        claims = claims.filter(team=rule.team_id)
    asked = claims.select_related("profile_version__profile").prefetch_related(
        "alternatives__profile_version__profile"
    )
    rules, changed = Rules(), Rules()
    changed.put(rule)
    now: Counter[Approval] = Counter()
    then: Counter[Approval] = Counter()
    for claim in asked:
        parts = asked_of(claim)
        if rule.profile_id and not _names(parts, rule.profile_id):
            continue
        for known, decisions in ((rules, now), (changed, then)):
            ruling = known.on(claim)
            decisions[Approval.AUTOMATIC if ruling.automatic else ruling.approval] += 1
    return now, then


def _names(parts: Sequence[tuple[ProfileVersion, int]], profile: object) -> bool:
    return any(version.profile_id == profile for version, _devices in parts)
