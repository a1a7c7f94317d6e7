"""
Which approval rule applies to a request, what it approves automatically, and what a changed rule would do.

The most specific rule wins: of a team for a profile, of a team, of a profile for every team, and at last the
profile version's own. If a request names several profiles, the strictest of their rules applies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Protocol
from uuid import UUID

from django.db.models import Case, Count, F, Q, QuerySet, UUIDField, Value, When
from django.utils import timezone

from claims.models import Alternative, Approval, ApprovalRule, Claim, Profile, ProfileVersion
from core.prepared import PreparedObjects
from core.text import counted
from core.times import duration as in_words
from teams.models import Team

STRICTNESS = {Approval.AUTOMATIC: 0, Approval.LEAD: 1, Approval.ADMIN: 2, Approval.BOTH: 3}


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule for one profile version and one team; `name` says whose it is."""

    name: str
    approval: Approval
    automatic_devices: int = 0
    automatic_duration: timedelta | None = None
    self_approval: bool = False
    escalate_after: timedelta | None = None

    def is_automatic_for(self, *, devices: int, duration: timedelta) -> bool:
        if self.approval == Approval.AUTOMATIC:
            return True
        max_duration = self.automatic_duration
        return devices <= self.automatic_devices and (max_duration is None or duration <= max_duration)

    @property
    def may_be_automatic(self) -> bool:
        """Whether some requests need no approval."""
        return self.approval == Approval.AUTOMATIC or self.automatic_devices > 0

    @property
    def sentence(self) -> str:
        """What needs no approval."""
        limit = ""
        if self.approval != Approval.AUTOMATIC:
            limit = f" for up to {counted(self.automatic_devices, 'device')}"
            if self.automatic_duration is not None:
                limit += f" and up to {in_words(self.automatic_duration)}"
        return f"Approved automatically{limit} ({self.name.removeprefix('The ')})."

    def approval_reason(self, *, devices: int, duration: timedelta) -> tuple[str, str]:
        """Return, in a word and in a sentence, why a person has to decide; "" if nobody has to."""
        if self.is_automatic_for(devices=devices, duration=duration):
            return "", ""
        requirement = f"{self.name} requires approval by {approver_label(self.approval)}"
        max_devices, max_duration = self.automatic_devices, self.automatic_duration
        if not max_devices:
            return "always", f"{requirement}."
        if devices > max_devices:
            return (
                f"more than {counted(max_devices, 'device')}",
                f"{requirement} for more than {counted(max_devices, 'device')}.",
            )
        limit = in_words(max_duration) if max_duration is not None else ""
        return f"longer than {limit}", f"{requirement} for more than {limit}."


@dataclass(frozen=True, slots=True)
class EffectiveRule:
    """
    The rule for a whole request: the strictest of the rules of its profiles.

    `approval` says who decides and is never automatic: if a request that needs no approval comes back from
    the cluster, a lead decides. `short_reason` and `sentence` say which rule requires approval, or why none
    does.
    """

    automatic: bool
    approval: Approval
    self_approval: bool
    escalate_after: timedelta | None
    short_reason: str
    sentence: str


def _rules() -> QuerySet[ApprovalRule]:
    return ApprovalRule.objects.select_related("team", "profile").order_by()


RULES: PreparedObjects[ApprovalRule] = PreparedObjects(_rules)
RULES_OF_TEAM: PreparedObjects[ApprovalRule] = PreparedObjects(
    lambda team: _rules().filter(Q(team=None) | Q(team=team)), UUID
)


class HasKey(Protocol):
    @property
    def pk(self) -> UUID: ...


type TeamRules = Sequence[
    tuple[int, Mapping[UUID | None, ApprovalRule]]
]  # position of a team, rows by profile


class Rules:
    """The approval rules of some teams, read in one query; of every team if `teams` is None."""

    def __init__(self, teams: Iterable[Team | UUID] | None = None) -> None:
        ids = None if teams is None else [team.pk if isinstance(team, Team) else team for team in teams]
        if ids is None:
            rows: Iterable[ApprovalRule] = RULES.objects()
        elif len(ids) == 1:
            rows = RULES_OF_TEAM.objects(*ids)
        else:
            rows = _rules().filter(Q(team=None) | Q(team__in=ids))
        self._rows = {(row.team_id, row.profile_id): row for row in rows}
        # What a row with an approval of its own says of every version, by its id.
        self._of_any_version: dict[int, Rule] = {}
        # Of teams with a rule of their own, for some profile or for all.
        self._by_team: dict[UUID, dict[UUID | None, ApprovalRule]] = defaultdict(dict)
        for (team_id, profile_id), row in self._rows.items():
            if team_id is not None:
                self._by_team[team_id][profile_id] = row
        # Profiles for which some team has a rule.
        self.profiles = {profile_id for team_id, profile_id in self._rows if team_id and profile_id}

    @property
    def teams(self) -> Collection[UUID]:
        """Return the teams with a rule of their own, for some profile or for all."""
        return self._by_team.keys()

    def override(self, row: ApprovalRule) -> None:
        """Use an unsaved rule as if it were saved."""
        self._rows[row.team_id, row.profile_id] = row
        self._of_any_version.pop(row.pk.int, None)
        if row.team_id is not None:
            self._by_team[row.team_id][row.profile_id] = row
        if row.team_id and row.profile_id:
            self.profiles.add(row.profile_id)

    def rule(self, team_id: UUID, version: ProfileVersion) -> Rule:
        return self.own_rule(team_id, version) or self.rule_for_any_team(version)

    def own_rule(self, team_id: UUID, version: ProfileVersion) -> Rule | None:
        """Return the rule that the team has itself for the version, None without one."""
        row = self._rows.get((team_id, version.profile_id)) or self._rows.get((team_id, None))
        return None if row is None else self._rule_of_row(row, version)

    def _rule_of_row(self, row: ApprovalRule, version: ProfileVersion) -> Rule:
        if not row.approval:
            return applied_rule(row, version)
        key = row.pk.int  # hashed ten times as fast as the UUID: hundreds of teams may have a rule
        if key not in self._of_any_version:
            self._of_any_version[key] = applied_rule(row, version)
        return self._of_any_version[key]

    def rows_by_place(self, teams: Sequence[HasKey]) -> TeamRules:
        """Return the rows of those of `teams` that have any, by profile, with the positions of the teams."""
        found = ((place, self._by_team.get(team.pk)) for place, team in enumerate(teams))
        return [(place, rows) for place, rows in found if rows]

    def own_rules(self, rows_by_place: TeamRules, version: ProfileVersion) -> dict[int, Rule]:
        """Return `own_rule` of each of these teams, by their positions."""
        profile, some_name_it = version.profile_id, version.profile_id in self.profiles
        own = {}
        for place, rows in rows_by_place:
            row = (rows.get(profile) if some_name_it else None) or rows.get(None)
            if row is not None:
                own[place] = self._rule_of_row(row, version)
        return own

    def rule_for_any_team(self, version: ProfileVersion) -> Rule:
        """Return the rule for a team that has no rule of its own."""
        return applied_rule(self._rows.get((None, version.profile_id)), version)

    def effective_rule(
        self,
        team_id: UUID,
        requested: Sequence[tuple[ProfileVersion, int]],
        *,
        duration: timedelta,
        together: bool = False,
    ) -> EffectiveRule:
        """
        Return the rule for a request; `requested` has every profile with its devices of all claims.

        Where the profiles are taken `together`, devices under the same rule count together against its
        automatic limit.
        """
        parts = [(self.rule(team_id, version), devices) for version, devices in requested]
        if together:
            devices_by_rule: Counter[Rule] = Counter()
            for rule, devices in parts:
                devices_by_rule[rule] += devices
            parts = [(rule, devices_by_rule[rule]) for rule, _devices in parts]
        need_approval = [
            (rule, devices)
            for rule, devices in parts
            if not rule.is_automatic_for(devices=devices, duration=duration)
        ]
        strictest, devices = max(need_approval or parts, key=lambda part: STRICTNESS[part[0].approval])
        short_reason, sentence = strictest.approval_reason(devices=devices, duration=duration)
        escalations = [rule.escalate_after for rule, _devices in parts if rule.escalate_after is not None]
        return EffectiveRule(
            automatic=not need_approval,
            approval=Approval.LEAD if strictest.approval == Approval.AUTOMATIC else strictest.approval,
            self_approval=all(rule.self_approval for rule, _devices in parts),
            escalate_after=min(escalations, default=None),
            short_reason=short_reason,
            sentence=sentence or parts[0][0].sentence,
        )

    def for_claim(self, claim: Claim) -> EffectiveRule:
        """Return the rule for a claim as it is now; reads its version, profile and alternatives."""
        return self.effective_rule(
            claim.team_id, requested_profiles(claim), duration=claim.duration, together=claim.together
        )


def applied_rule(row: ApprovalRule | None, version: ProfileVersion) -> Rule:
    """Return the rule for a version: that of `row`, with the version's own approval if `row` has none."""
    if row is None or not row.approval:
        name = f"{version.profile.title} v{version.number}"
        own = Rule(name, Approval(version.approval), version.automatic_devices, version.automatic_duration)
        if row is None:
            return own
        return replace(own, self_approval=row.self_approval, escalate_after=row.escalate_after)
    return Rule(
        rule_name(row),
        Approval(row.approval),
        row.automatic_devices,
        row.automatic_duration,
        row.self_approval,
        row.escalate_after,
    )


def rule_name(row: ApprovalRule) -> str:
    of_team = f" of {row.team.title}" if row.team else ""
    return f"The rule{of_team}" + (f" for {row.profile.title}" if row.profile else "")


def approver_label(approval: str) -> str:
    """Return who approves, as part of a sentence: "a team lead"."""
    return {
        Approval.AUTOMATIC: "nobody",
        Approval.LEAD: "a team lead",
        Approval.ADMIN: "a platform admin",
        Approval.BOTH: "a team lead and then a platform admin",
    }[Approval(approval)]


def requested_profiles(claim: Claim) -> list[tuple[ProfileVersion, int]]:
    """Return every profile of a claim with its devices in all pods."""
    alternatives = [(row.profile_version, row.devices) for row in claim.alternative_rows]
    return alternatives or [(claim.profile_version, claim.devices * claim.parallel)]


def effective_rule_for(
    team: Team,
    requested: Sequence[tuple[ProfileVersion, int]],
    *,
    duration: timedelta,
    together: bool = False,
) -> EffectiveRule:
    """Return the rule for one request, in one query."""
    return Rules([team]).effective_rule(team.pk, requested, duration=duration, together=together)


LOOKBACK = timedelta(days=30)
EXAMPLE_DEVICES = (1, 2, 4, 8)
EXAMPLE_DURATIONS = (timedelta(hours=4), timedelta(days=1), timedelta(days=7))
APPROVALS = (Approval.AUTOMATIC, Approval.LEAD, Approval.ADMIN, Approval.BOTH)


@dataclass(frozen=True, slots=True)
class ExampleRow:
    devices: int
    approvers: tuple[str, ...]  # in words, one per duration


@dataclass(frozen=True, slots=True)
class RoutingCount:
    """How many requests of the last 30 days take a route, under the current rules and with the new one."""

    label: str
    current: int
    proposed: int


@dataclass(frozen=True, slots=True)
class RuleEffect:
    """What a rule would do, to examples and to past requests."""

    examples: tuple[ExampleRow, ...]
    durations: tuple[timedelta, ...]  # columns of the examples
    routing: tuple[RoutingCount, ...]
    requests: int  # of the last 30 days that the rule applies to
    profile: str  # of the examples


def rule_effect(rule: ApprovalRule) -> RuleEffect:
    """Return the effect of a rule, saved or not; the number of queries does not grow with the claims."""
    version = _example_version(rule)
    examples = []
    if version is not None:
        applied = applied_rule(rule, version)
        examples = [
            ExampleRow(devices, tuple(_approver(applied, devices, span) for span in EXAMPLE_DURATIONS))
            for devices in EXAMPLE_DEVICES
        ]
    current, proposed = _count_routes(rule)
    return RuleEffect(
        examples=tuple(examples),
        durations=EXAMPLE_DURATIONS,
        routing=tuple(
            RoutingCount(str(approval.label), current[approval], proposed[approval]) for approval in APPROVALS
        ),
        requests=sum(current.values()),
        profile=str(version.profile) if version else "",
    )


def _example_version(rule: ApprovalRule) -> ProfileVersion | None:
    """Return the version that the examples request: of the rule's profile, else of the first profile."""
    if rule.profile is not None:
        return rule.profile.current
    profiles = (
        Profile.objects.filter(retired_at=None).exclude(current=None).select_related("current__profile")
    )
    profile = profiles.first()
    return profile.current if profile else None


def _approver(rule: Rule, devices: int, duration: timedelta) -> str:
    if rule.is_automatic_for(devices=devices, duration=duration):
        return "nobody"
    return str(rule.approval.label)


def _count_routes(rule: ApprovalRule) -> tuple[Counter[Approval], Counter[Approval]]:
    """Count recent requests per approval, under the current rules and with `rule`."""
    teams = None if rule.team_id is None else [rule.team_id]
    current_rules, proposed_rules = Rules(teams), Rules(teams)
    proposed_rules.override(rule)
    current: Counter[Approval] = Counter()
    proposed: Counter[Approval] = Counter()
    for request, number in _recent_requests(rule, proposed_rules.teams):
        for rules, counts in ((current_rules, current), (proposed_rules, proposed)):
            effective = rules.effective_rule(
                request.team_id, request.profiles, duration=request.duration, together=request.together
            )
            counts[Approval.AUTOMATIC if effective.automatic else effective.approval] += number
    return current, proposed


@dataclass(frozen=True, slots=True)
class RecentRequest:
    """What the rules read of a request; `team_id` is any one without rules of its own for all such teams."""

    team_id: UUID
    profiles: tuple[tuple[ProfileVersion, int], ...]
    duration: timedelta
    together: bool


NO_TEAM = UUID(int=0)


def _recent_requests(rule: ApprovalRule, teams: Collection[UUID]) -> Iterator[tuple[RecentRequest, int]]:
    """
    Yield the recent requests that a rule applies to, with how many are alike, in three queries.

    `teams` have rules of their own; all others are treated alike.
    """
    claims = Claim.objects.filter(created_at__gte=timezone.now() - LOOKBACK).order_by()
    if rule.team_id:
        claims = claims.filter(team=rule.team_id)
    # Of all claims only those with alternatives have rows beside their own.
    versions = {row.pk: row for row in ProfileVersion.objects.select_related("profile").defer("spec")}
    own = Case(When(team__in=list(teams), then=F("team")), default=Value(NO_TEAM), output_field=UUIDField())
    single = claims.filter(alternatives=None).values_list(
        own, "profile_version", F("devices") * F("parallel"), "duration"
    )
    for team_id, version, devices, duration, number in single.annotate(Count("pk")):
        if not rule.profile_id or versions[version].profile_id == rule.profile_id:
            yield RecentRequest(team_id, ((versions[version], devices),), duration, together=False), number
    rows = Alternative.objects.filter(claim__in=claims).order_by("claim", "position")
    columns = ("claim", "claim__team", "claim__duration", "profile_version", "devices", "together")
    for _claim, group in groupby(rows.values_list(*columns), key=itemgetter(0)):
        parts = list(group)
        profiles = tuple((versions[version], devices) for *_, version, devices, _together in parts)
        if not rule.profile_id or any(version.profile_id == rule.profile_id for version, _ in profiles):
            together = any(row[-1] for row in parts)
            yield RecentRequest(parts[0][1], profiles, parts[0][2], together), 1
