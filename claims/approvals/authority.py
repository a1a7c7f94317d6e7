"""
Who may decide on a request now: leads, their delegates, platform admins, or a lead and then an admin.

`ApprovalAuthority` answers for one person and many claims; the functions below it answer for one request
and everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from claims.approvals.rules import EffectiveRule, Rules, effective_rule_for
from claims.models import Approval, ApprovalStep, Claim, Delegation, ProfileVersion, Transition
from claims.states import ClaimState
from core.prepared import Prepared
from teams.access import USER_FIELDS, roles_by_team
from teams.models import Membership, Role, Team, User, label_of

LEADS = tuple(role for role in Role if role.rank >= Role.LEAD.rank)
MEMBERS = tuple(role for role in Role if role.rank >= Role.MEMBER.rank)
MAX_NAMES = 3  # in a sentence; the rest is a number


def active_delegations(now: datetime | None = None) -> QuerySet[Delegation]:
    """
    Return the delegations in effect: started, not ended, from somebody who still leads the team, to somebody
    who is still a member of it and can sign in.
    """
    at = now or timezone.now()
    memberships = Membership.objects.filter(team=OuterRef("team"))
    return (
        Delegation.objects.filter(starts_at__lte=at, ends_at__gt=at, to__is_active=True, lead__is_active=True)
        .filter(
            Exists(memberships.filter(user=OuterRef("lead"), role__in=LEADS)),
            Exists(memberships.filter(user=OuterRef("to"), role__in=MEMBERS)),
        )
        .select_related("lead", "to", "team")
    )


def _delegators(to: UUID, now: datetime) -> QuerySet[Delegation, Any]:
    columns = [f"lead__{name}" for name in USER_FIELDS]
    return active_delegations(now).filter(to=to).values_list("team", *columns)


# The team and the lead of each delegation in effect to a person.
DELEGATORS = Prepared(_delegators, UUID, datetime)


@dataclass(frozen=True, slots=True)
class ApprovalRoute:
    """How a request would be approved: automatically or by one of `deciders`; `rule` is its sentence."""

    automatic: bool
    sentence: str
    deciders: tuple[User, ...] = ()
    rule: str = ""


class ApprovalAuthority:
    """What one person may decide on, in a fixed number of queries: create one for a whole list of claims."""

    def __init__(self, user: User, teams: Iterable[Team] | None = None) -> None:
        """Read the roles and delegations of `user`; `teams` limits which rules are read."""
        self.user = user
        self._roles = roles_by_team(user)
        self._delegators: dict[UUID, list[User]] = {}
        for team, *values in DELEGATORS.rows(user.pk, timezone.now()):
            lead = User.from_db("default", USER_FIELDS, values)
            self._delegators.setdefault(team, []).append(lead)
        self._rule_teams = teams

    @cached_property
    def rules(self) -> Rules:
        return Rules(self._rule_teams)

    @cached_property
    def _leads_by_team(self) -> dict[UUID, set[UUID]]:
        """Leads of each team; only read for platform admins, who decide where no lead can."""
        leads_by_team: dict[UUID, set[UUID]] = {}
        leads = Membership.objects.filter(role__in=LEADS, user__is_active=True)
        for team, person in leads.values_list("team", "user"):
            leads_by_team.setdefault(team, set()).add(person)
        return leads_by_team

    @property
    def led_teams(self) -> set[UUID]:
        """The teams that the person leads."""
        return {team for team in self._roles if self._leads_team(team)}

    @property
    def teams(self) -> set[UUID]:
        """The teams in which the person decides as a lead or as a delegate."""
        return self.led_teams | set(self._delegators)

    def is_member(self, team: UUID) -> bool:
        """Return whether the person has any role in the team."""
        return team in self._roles

    def reason_not_to_decide(self, claim: Claim, *, requester_id: UUID | None = None) -> str:
        """
        Return why the person may not decide on the claim, "" if they may.

        `requester_id` is who made the request, where it is not the owner of the claim.
        """
        effective_rule = self.rules.for_claim(claim)
        requester = claim.requested_by_id if requester_id is None else requester_id
        stage, first_approval = approval_stage(claim, effective_rule)
        if stage == Approval.ADMIN:
            return self._objection_as_admin(claim, effective_rule, first_approval, requester)
        return self._objection_as_lead(claim, effective_rule, requester)

    def may_decide(self, claim: Claim, *, requester_id: UUID | None = None) -> bool:
        return not self.reason_not_to_decide(claim, requester_id=requester_id)

    def delegator(self, claim: Claim) -> User | None:
        """Return the lead for whom the person would decide, None if they decide in their own right."""
        if self.user.is_superuser or self._leads_team(claim.team_id):
            return None
        leads = self._delegators.get(claim.team_id, [])
        return next((lead for lead in leads if lead.pk != claim.requested_by_id), next(iter(leads), None))

    def _objection_as_admin(
        self,
        claim: Claim,
        effective_rule: EffectiveRule,
        first_approval: ApprovalStep | None,
        requester_id: UUID,
    ) -> str:
        if not self.user.is_superuser:
            if first_approval is not None:
                person = person_label(first_approval.by)
                return f"{person} gave the first approval. A platform admin decides next."
            return f"Only platform admins decide on requests for {claim.slugs}."
        if first_approval is not None and first_approval.by_id == self.user.pk:
            return "You gave the first approval as a lead. Another platform admin must give the second."
        allowed = effective_rule.self_approval
        if not allowed and requester_id == self.user.pk and effective_rule.approval == Approval.ADMIN:
            allowed = is_sole_admin(self.user)  # nobody else could decide
        return self._objection_to_own(requester_id, allowed=allowed)

    def _objection_as_lead(self, claim: Claim, effective_rule: EffectiveRule, requester_id: UUID) -> str:
        if self._leads_team(claim.team_id):
            return self._objection_to_own(requester_id, allowed=effective_rule.self_approval)
        if self.user.is_superuser:
            needs_lead = effective_rule.approval == Approval.BOTH
            if needs_lead and not self._replaces_leads(claim, effective_rule, requester_id):
                return f"A lead of {claim.team} must give the first approval."
            return self._objection_to_own(requester_id, allowed=effective_rule.self_approval)
        if leads := self._delegators.get(claim.team_id):
            if not effective_rule.self_approval and all(lead.pk == requester_id for lead in leads):
                return f"{leads[0].label} made this request, so you cannot decide on it as their delegate."
            return self._objection_to_own(requester_id, allowed=False)
        role = self._roles.get(claim.team_id)
        position = f"Your role: {role.label}." if role else "You are not a member."
        return f"Only leads of {claim.team} decide on its requests. {position}"

    def _leads_team(self, team: UUID) -> bool:
        role = self._roles.get(team)
        return role is not None and role.rank >= Role.LEAD.rank

    def _replaces_leads(self, claim: Claim, effective_rule: EffectiveRule, requester_id: UUID) -> bool:
        """Return whether the person decides as an admin because leads were too slow or none of them can."""
        if not self.user.is_superuser:
            return False
        leads = self._leads_by_team.get(claim.team_id, set())
        able_leads = leads if effective_rule.self_approval else leads - {requester_id}
        return claim.escalated_at is not None or not able_leads

    def _objection_to_own(self, requester_id: UUID, *, allowed: bool) -> str:
        if requester_id == self.user.pk and not allowed:
            return "This is your own request. Somebody else must decide on it."
        return ""


def approval_stage(claim: Claim, effective_rule: EffectiveRule) -> tuple[Approval, ApprovalStep | None]:
    """
    Return who decides next, lead or admin, and the first approval where two are required.

    A first approval is valid for the spec it was given for. After the claim is approved, only admins decide.
    """
    if effective_rule.approval != Approval.BOTH:
        return effective_rule.approval, None
    if claim.state != ClaimState.REQUESTED:
        return Approval.ADMIN, None
    steps = (step for step in claim.steps.all() if step.spec_hash == claim.spec_hash)
    first_approval = next((step for step in steps if step.role == Approval.LEAD), None)
    return (Approval.ADMIN if first_approval else Approval.LEAD), first_approval


def effective_rule_on(claim: Claim) -> EffectiveRule:
    return Rules([claim.team_id]).for_claim(claim)


def approval_route(
    *,
    by: User,
    team: Team,
    requested: Sequence[tuple[ProfileVersion, int]],
    duration: timedelta,
    together: bool = False,
    required: str = "",
) -> ApprovalRoute:
    """
    Return how a request of `by` would be decided; `requested` has every profile with its number of devices.

    `required` says why a person decides whatever the rules approve, "" if only the rules count.
    """
    effective_rule = _with_required(
        effective_rule_for(team, requested, duration=duration, together=together), required
    )
    rule = effective_rule.sentence
    if effective_rule.automatic:
        return ApprovalRoute(automatic=True, sentence=rule, rule=rule)
    leads, admins = list[User](), list[User]()
    if effective_rule.approval != Approval.ADMIN:
        leads = without_requester(deciders(team, Approval.LEAD, by), by, effective_rule)
    if effective_rule.approval != Approval.LEAD:
        admins = without_requester(deciders(team, Approval.ADMIN), by, effective_rule)
    lead_names, admin_names = join_names(leads), join_names(admins)
    if effective_rule.approval == Approval.ADMIN:
        people = admins
        sentence = f"A platform admin decides: {admin_names}."
        if not admins:
            sentence = "No platform admin can decide on this."
        elif admins == [by]:
            sentence = "You are the only platform admin: you decide on your own request; its history says so."
    elif effective_rule.approval == Approval.BOTH:
        people = leads or admins
        sentence = (
            f"First approval: a lead of {team} ({lead_names}). Second: a platform admin ({admin_names})."
        )
        if not leads:
            sentence = (
                f"No lead of {team} can decide on this. Two platform admins must approve: {admin_names}."
            )
    else:
        people = leads
        sentence = f"A lead of {team} decides: {lead_names}."
        if not leads:
            sentence = f"No lead of {team} can decide on this."
    return ApprovalRoute(automatic=False, sentence=sentence, deciders=tuple(people), rule=rule)


def _with_required(rule: EffectiveRule, required: str) -> EffectiveRule:
    """Return the rule with the approval that something else requires, if it requires none itself."""
    return replace(rule, automatic=False, sentence=required) if required and rule.automatic else rule


def deciders(team: Team, approval: str, requester: User | None = None) -> list[User]:
    """
    Return the people who decide on requests of `team` under this kind of approval.

    For ADMIN the platform admins; else the leads, and the delegates of leads other than `requester`. Leads
    also decide on a request that was approved automatically and came back.
    """
    if approval == Approval.ADMIN:
        return list(User.objects.filter(is_active=True, is_superuser=True).order_by("username"))
    leads, delegates = leads_and_delegates(team, requester)
    return [*leads, *delegates]


def leads_and_delegates(team: Team, requester: User | None = None) -> tuple[list[User], list[User]]:
    """Return the active leads of `team`, and the delegates of leads other than `requester`; one query."""
    leads: list[User] = []
    delegates: list[User] = []
    for role, *values in LEADS_AND_DELEGATES.rows(
        team.pk, requester.pk if requester else NOBODY, timezone.now()
    ):
        (leads if role in LEADS else delegates).append(User.from_db("default", USER_FIELDS, values))
    return leads, delegates


NOBODY = UUID(int=0)


def _leads_and_delegates(team: UUID, requester: UUID, now: datetime) -> QuerySet[Membership, Any]:
    delegations = active_delegations(now).filter(team=team, to=OuterRef("user")).exclude(lead=requester)
    members = Membership.objects.filter(
        Q(role__in=LEADS) | Exists(delegations), team=team, user__is_active=True
    )
    columns = [f"user__{name}" for name in USER_FIELDS]
    return members.order_by("user__username").values_list("role", *columns)


def names_of_deciders(now: datetime) -> ArraySubquery:
    """
    Return an expression for `PendingDecision`: the names of the leads who decide, and of their delegates, at
    most one more than `MAX_NAMES`; empty if no lead does.
    """
    delegations = active_delegations(now).filter(team=OuterRef("team"), to=OuterRef("user"))
    members = Membership.objects.filter(
        Q(role__in=LEADS) | Exists(delegations), team=OuterRef("team"), user__is_active=True
    ).exclude(user=OuterRef("requester"))
    rows = members.annotate(name=label_of("user")).order_by("user__username").values("name")
    return ArraySubquery(rows[: MAX_NAMES + 1])


LEADS_AND_DELEGATES = Prepared(_leads_and_delegates, UUID, UUID, datetime)


def other_admins(person: User) -> QuerySet[User]:
    return User.objects.filter(is_active=True, is_superuser=True).exclude(pk=person.pk).order_by()


def is_sole_admin(person: User) -> bool:
    """Return whether nobody else is an active platform admin."""
    return person.is_superuser and not other_admins(person).exists()


def without_requester(people: Iterable[User], requester: User, effective_rule: EffectiveRule) -> list[User]:
    """
    Return `people` without the requester, unless the rule lets people decide on their own requests.

    Where only platform admins decide and the requester is the only one, nobody else could.
    """
    people = list(people)
    if effective_rule.approval == Approval.ADMIN and people == [requester]:
        return people
    return [person for person in people if effective_rule.self_approval or person != requester]


def deciders_on(
    claim: Claim, effective_rule: EffectiveRule | None = None, leads: Sequence[User] | None = None
) -> list[User]:
    """
    Return the people whose decision a claim waits for; with platform admins if it is escalated or no lead can
    decide. `effective_rule` is the rule for the claim, and `leads` the deciders of its team with the
    delegates, if the caller has them.
    """
    effective_rule = effective_rule or effective_rule_on(claim)
    requester = claim.requested_by
    stage, first_approval = approval_stage(claim, effective_rule)
    if stage == Approval.ADMIN or leads is None:
        leads = deciders(claim.team, stage, requester)
    people = without_requester(leads, requester, effective_rule)
    if stage != Approval.ADMIN and (claim.escalated_at is not None or not people):
        ids = {person.pk for person in people}
        admins = without_requester(deciders(claim.team, Approval.ADMIN), requester, effective_rule)
        people += [person for person in admins if person.pk not in ids]
    return [person for person in people if first_approval is None or person.pk != first_approval.by_id]


def join_names(people: Iterable[User]) -> str:
    """Return "Aylin, Noor or Lukas"; for more than three people the first three and the number of others."""
    return join_labels([person.label for person in people])


def join_labels(labels: Sequence[str]) -> str:
    """Return the same for names."""
    if len(labels) > MAX_NAMES:
        return f"{', '.join(labels[:MAX_NAMES])} or {len(labels) - MAX_NAMES} more"
    return " or ".join(filter(None, (", ".join(labels[:-1]), *labels[-1:])))


def person_label(person: User | None) -> str:
    return person.label if person else "The portal"


def reason_not_to_decide(user: User, claim: Claim, *, requester: User | None = None) -> str:
    """
    Return why `user` may not decide on `claim`, or on what `requester` requests for it; "" if they may. The
    state of the claim is not checked.
    """
    return ApprovalAuthority(user, [claim.team]).reason_not_to_decide(
        claim, requester_id=requester.pk if requester else None
    )


def may_decide(user: User, claim: Claim) -> bool:
    return not reason_not_to_decide(user, claim)


def last_decision(claim: Claim) -> Transition | None:
    """Return the transition by which the claim last left "requested", None if it never did."""
    decisions = claim.history.filter(old=ClaimState.REQUESTED).exclude(new=ClaimState.REQUESTED)
    return decisions.select_related("by").order_by("-at", "-pk").first()
