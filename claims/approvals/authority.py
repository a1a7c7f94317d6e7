"""Who may decide on a request now: leads, their delegates, platform admins, and in two steps both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from claims.approvals.rules import EffectiveRule, Rules, ruling_for
from claims.models import Approval, ApprovalStep, Claim, Delegation, ProfileVersion, Transition
from claims.states import ClaimState
from teams.access import people_in
from teams.models import Membership, Role, Team, User

LEADS = tuple(role for role in Role if role.rank >= Role.LEAD.rank)
MEMBERS = tuple(role for role in Role if role.rank >= Role.MEMBER.rank)


def active(now: datetime | None = None) -> QuerySet[Delegation]:
    """
    Return the delegations that hold at this instant: begun, not ended, by somebody who still leads the team,
    to somebody who is still a member of it and can sign in.
    """
    at = now or timezone.now()
    of_team = Membership.objects.filter(team=OuterRef("team"))
    return (
        Delegation.objects.filter(starts_at__lte=at, ends_at__gt=at, to__is_active=True, lead__is_active=True)
        .filter(
            Exists(of_team.filter(user=OuterRef("lead"), role__in=LEADS)),
            Exists(of_team.filter(user=OuterRef("to"), role__in=MEMBERS)),
        )
        .select_related("lead", "to", "team")
    )


def stand_ins(teams: Iterable[Team]) -> list[Delegation]:
    """Return who stands in for whom in these teams now, in one query."""
    return list(active().filter(team__in=list(teams)))


def held_by(user: User) -> list[Delegation]:
    """Return for whom `user` decides now, in one query."""
    return list(active().filter(to=user))


@dataclass(frozen=True, slots=True)
class Route:
    """
    The way of a request to its approval: by a rule at once, or by one of `who`. `rule` says which rule it is.
    """

    automatic: bool
    sentence: str
    who: tuple[User, ...] = ()
    rule: str = ""


class ApprovalAuthority:
    """What one person may decide on, in a fixed number of queries: make one for a whole list of claims."""

    def __init__(self, user: User, teams: Iterable[Team] | None = None) -> None:
        self.user = user
        rows = Membership.objects.filter(user=user).values_list("team", "role")
        self._roles = {team: Role(role) for team, role in rows}
        self._stands_for: dict[UUID, list[User]] = {}
        for row in held_by(user):
            self._stands_for.setdefault(row.team_id, []).append(row.lead)
        self._of_teams = teams

    @cached_property
    def rules(self) -> Rules:
        return Rules(self._of_teams)

    @cached_property
    def _leads(self) -> dict[UUID, set[UUID]]:
        """Who leads which team; read for platform admins alone, who are asked where no lead can decide."""
        found: dict[UUID, set[UUID]] = {}
        leads = Membership.objects.filter(role__in=LEADS, user__is_active=True)
        for team, person in leads.values_list("team", "user"):
            found.setdefault(team, set()).add(person)
        return found

    @property
    def leads(self) -> set[UUID]:
        """The teams that the person leads."""
        return {team for team, role in self._roles.items() if role.rank >= Role.LEAD.rank}

    @property
    def teams(self) -> set[UUID]:
        """The teams in which the person decides as a lead, or in the place of one."""
        return self.leads | set(self._stands_for)

    def is_of(self, team: UUID) -> bool:
        """Tell whether the person is of the team, in whatever role."""
        return team in self._roles

    def reason_not_to_decide(self, claim: Claim, *, asked_by: UUID | None = None) -> str:
        """
        Return why the person may not decide on the claim, "" if they may. `asked_by` is who asks, where it is
        not who asked for the claim.
        """
        ruling = self.rules.on(claim)
        requester_id = claim.requested_by_id if asked_by is None else asked_by
        stage, consent = stage_of(claim, ruling)
        if stage == Approval.ADMIN:
            return self._not_as_admin(claim, ruling, consent, requester_id)
        return self._not_as_lead(claim, ruling, requester_id)

    def may_decide(self, claim: Claim, *, asked_by: UUID | None = None) -> bool:
        return not self.reason_not_to_decide(claim, asked_by=asked_by)

    def is_asked(self, claim: Claim, *, asked_by: UUID | None = None) -> bool:
        """
        Tell whether the claim waits for this person: platform admins may decide on more than they are asked.
        """
        if not self.may_decide(claim, asked_by=asked_by):
            return False
        ruling = self.rules.on(claim)
        stage, _consent = stage_of(claim, ruling)
        requester_id = claim.requested_by_id if asked_by is None else asked_by
        if stage == Approval.ADMIN or claim.team_id in self.teams:
            return True
        return self._stands_in_as_admin(claim, ruling, requester_id)

    def in_place_of(self, claim: Claim) -> User | None:
        """Return the lead in whose place the person would decide, None if they do it in their own right."""
        if self.user.is_superuser or self._leads_team(claim.team_id):
            return None
        leads = self._stands_for.get(claim.team_id, [])
        return next((one for one in leads if one.pk != claim.requested_by_id), next(iter(leads), None))

    def _not_as_admin(
        self, claim: Claim, ruling: EffectiveRule, consent: ApprovalStep | None, requester_id: UUID
    ) -> str:
        if not self.user.is_superuser:
            if consent is not None:
                return f"{label_of(consent.by)} has consented; now a platform admin decides."
            return f"Only a platform admin decides on requests for {claim.slugs}."
        if consent is not None and consent.by_id == self.user.pk:
            return "You have consented as a lead; another platform admin has to decide."
        return self._not_own(requester_id, allowed=ruling.self_approval)

    def _not_as_lead(self, claim: Claim, ruling: EffectiveRule, requester_id: UUID) -> str:
        if self._leads_team(claim.team_id):
            return self._not_own(requester_id, allowed=ruling.self_approval)
        if self.user.is_superuser:
            if ruling.approval == Approval.BOTH and not self._stands_in_as_admin(claim, ruling, requester_id):
                return f"A lead of {claim.team} consents first."
            return self._not_own(requester_id, allowed=ruling.self_approval)
        if leads := self._stands_for.get(claim.team_id):
            if not ruling.self_approval and all(one.pk == requester_id for one in leads):
                return f"{leads[0].label} may not decide on this request, so neither may you in their place."
            return self._not_own(requester_id, allowed=False)
        role = self._roles.get(claim.team_id)
        return (
            f"Only a lead of {claim.team} decides on its requests; you are "
            f"{role.label if role else 'not a member'}."
        )

    def _leads_team(self, team: UUID) -> bool:
        role = self._roles.get(team)
        return role is not None and role.rank >= Role.LEAD.rank

    def _stands_in_as_admin(self, claim: Claim, ruling: EffectiveRule, requester_id: UUID) -> bool:
        """Tell whether leads have had their time, or none of them can decide."""
        if not self.user.is_superuser:
            return False
        leads = self._leads.get(claim.team_id, set())
        return claim.escalated_at is not None or not (
            leads if ruling.self_approval else leads - {requester_id}
        )

    def _not_own(self, requester_id: UUID, *, allowed: bool) -> str:
        if requester_id == self.user.pk and not allowed:
            return "This is your own request; somebody else has to decide on it."
        return ""


def stage_of(claim: Claim, ruling: EffectiveRule) -> tuple[Approval, ApprovalStep | None]:
    """
    Return who is to decide next, lead or admin, and the consent of the lead where both have to.

    A consent counts for the spec that it was given for. What comes after the approval is the admins' alone.
    """
    if ruling.approval != Approval.BOTH:
        return ruling.approval, None
    if claim.state != ClaimState.REQUESTED:
        return Approval.ADMIN, None
    steps = (step for step in claim.steps.all() if step.spec_hash == claim.spec_hash)
    consent = next((step for step in steps if step.role == Approval.LEAD), None)
    return (Approval.ADMIN if consent else Approval.LEAD), consent


def ruling_on(claim: Claim) -> EffectiveRule:
    return Rules([claim.team_id]).on(claim)


def rule_for_all(
    asked: Sequence[tuple[ProfileVersion, int]], *, team: Team, duration: timedelta, together: bool = False
) -> str:
    """
    Return the sentence of the rule that approves all of these profiles, each with so many devices, for so
    long at once; "" if a person decides.
    """
    ruling = ruling_for(team, asked, duration=duration, together=together)
    return ruling.sentence if ruling.automatic else ""


def route_for(
    *,
    by: User,
    team: Team,
    asked: Sequence[tuple[ProfileVersion, int]],
    duration: timedelta,
    together: bool = False,
) -> Route:
    """Return how a request of `by` would be decided, and by whom; `asked` as in `rule_for_all`."""
    ruling = ruling_for(team, asked, duration=duration, together=together)
    if ruling.automatic:
        return Route(automatic=True, sentence=ruling.sentence, rule=ruling.sentence)
    leads = able(deciders(team, Approval.LEAD, by), by, ruling)
    admins = able(deciders(team, Approval.ADMIN), by, ruling)
    lead, admin = names_of(leads), names_of(admins)
    if ruling.approval == Approval.ADMIN:
        who = admins
        said = f"A platform admin decides: {admin}." if who else "No platform admin can decide on this."
    elif ruling.approval == Approval.BOTH:
        who = leads or admins
        said = f"A lead of {team} decides first: {lead}; then a platform admin: {admin}."
        if not leads:
            said = f"No lead of {team} can decide on this; two platform admins do: {admin}."
    else:
        who = leads
        said = f"A lead of {team} decides: {lead}." if who else f"No lead of {team} can decide on this."
    return Route(automatic=False, sentence=said, who=tuple(who), rule=ruling.sentence)


def deciders(team: Team, approval: str, requester_id: User | None = None) -> list[User]:
    """
    Return the people who decide on requests of `team` under this rule: leads, who stand in for an automatic
    one, with those who decide in the place of a lead now, unless that lead is the `asker`; or platform
    admins.
    """
    if approval == Approval.ADMIN:
        return list(User.objects.filter(is_active=True, is_superuser=True).order_by("username"))
    leads = people_in(team, at_least=Role.LEAD)
    known = {person.pk for person in leads}
    instead = {row.to_id: row.to for row in stand_ins([team]) if row.lead != requester_id}
    return leads + [person for pk, person in instead.items() if pk not in known]


def able(people: Iterable[User], by: User, ruling: EffectiveRule) -> list[User]:
    """Leave out who asks, where nobody may decide on their own request."""
    return [person for person in people if ruling.self_approval or person != by]


def deciders_on(claim: Claim) -> list[User]:
    """
    Return who is asked to decide on a claim now; platform admins too, where leads had their time or are none.
    """
    ruling = ruling_on(claim)
    stage, consent = stage_of(claim, ruling)
    people = able(deciders(claim.team, stage, claim.requested_by), claim.requested_by, ruling)
    if stage != Approval.ADMIN and (claim.escalated_at is not None or not people):
        known = {person.pk for person in people}
        admins = able(deciders(claim.team, Approval.ADMIN), claim.requested_by, ruling)
        people += [person for person in admins if person.pk not in known]
    return [person for person in people if consent is None or person.pk != consent.by_id]


def names_of(people: Iterable[User]) -> str:
    """Return "Aylin or Noor"; of many the first three and how many more."""
    labels = [person.label for person in people]
    if len(labels) > 3:
        return f"{', '.join(labels[:3])} or {len(labels) - 3} more"
    return " or ".join(labels)


def label_of(person: User | None) -> str:
    return person.label if person else "The portal"


def reason_not_to_decide(user: User, claim: Claim, *, asked_by: User | None = None) -> str:
    """
    Return why `user` may not decide on `claim`, or on what `asked_by` asks for it; "" if they may. Whether
    anything is left to decide does not matter here.
    """
    return ApprovalAuthority(user, [claim.team]).reason_not_to_decide(
        claim, asked_by=asked_by.pk if asked_by else None
    )


def may_decide(user: User, claim: Claim) -> bool:
    return not reason_not_to_decide(user, claim)


def decision_on(claim: Claim) -> Transition | None:
    """Return the step by which the claim last stopped waiting, None if it has always waited."""
    left = claim.history.filter(old=ClaimState.REQUESTED).exclude(new=ClaimState.REQUESTED)
    return left.select_related("by").order_by("-at", "-pk").first()
