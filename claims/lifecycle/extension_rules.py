"""
Until when a claim may run, and who has to approve.

The end of a claim moves at once to any time granted before. Within the longest duration of its profile it
moves at once by as much as the version allows at a time, or for as long as a rule approves such a claim
automatically. Anything else needs a decision of those who decide on the claim. Before all of this the budgets
of the team are asked, as for a request: one may refuse the additional time, or ask for a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import Max
from django.utils import timezone

from claims.approvals import authority
from claims.approvals.rules import effective_rule_for, requested_profiles
from claims.budgets.use import current_uses
from claims.models import Approval, BudgetUse, Claim, Extension, ProfileVersion, RequestStatus
from claims.requests.budget_check import BudgetLine, ExtensionBudgets, approval_sentence, refusal_sentence
from core.times import duration as in_words
from core.times import utc_moment
from teams.models import User

USUAL_EXTENSIONS = (timedelta(hours=4), timedelta(hours=24), timedelta(days=3), timedelta(days=7))


@dataclass(frozen=True, slots=True)
class ExtensionOption:
    """
    How a claim gets to an end at `until`: at once, because of `why`; or after a decision of one of `who`; or
    not at all, as a budget refuses it.

    `summary` says so, as a page shows it before anything is sent.
    """

    until: datetime
    at_once: bool
    why: str
    who: tuple[User, ...] = ()
    is_refused: bool = False

    @property
    def summary(self) -> str:
        if self.at_once:
            return "no approval"
        if self.is_refused:
            return "beyond the budget"
        return f"needs {authority.join_names(self.who)}" if self.who else "nobody can decide on this"


class ExtensionPolicy:
    """
    The extension rules of one claim with an end, for a request of `by`; everything is read once.

    `uses` are the current budgets of its team, if they were read or locked before.
    """

    def __init__(self, claim: Claim, *, by: User, uses: Sequence[BudgetUse] | None = None) -> None:
        self.claim = claim
        self.by = by
        self.uses = uses

    @cached_property
    def _budgets(self) -> ExtensionBudgets:
        uses = current_uses(self.claim.team) if self.uses is None else self.uses
        return ExtensionBudgets(self.claim, uses)

    def budget_lines(self, until: datetime) -> list[BudgetLine]:
        """Return what an extension until then may do to the budgets of the team."""
        return self._budgets.lines(until)

    @cached_property
    def profiles(self) -> list[tuple[ProfileVersion, int]]:
        return requested_profiles(self.claim)

    @property
    def at_a_time(self) -> timedelta:
        """The longest extension at a time without approval; of several profiles the shortest."""
        return min(version.extension for version, _devices in self.profiles)

    @cached_property
    def granted_until(self) -> datetime:
        """The latest end that the claim was ever given."""
        first = duration_start(self.claim) + self.claim.duration
        totals = self.claim.extensions.filter(status=RequestStatus.APPROVED).aggregate(latest=Max("until"))
        return max(first, totals["latest"] or first)

    @cached_property
    def deciders(self) -> tuple[User, ...]:
        return tuple(extension_approvers(self.claim, requested_by=self.by))

    def option(self, until: datetime) -> ExtensionOption:
        """Return what an extension until then needs: nothing, or an approval; or that a budget refuses it."""
        lines = self.budget_lines(until)
        if refusal := refusal_sentence(lines):
            return ExtensionOption(until, at_once=False, why=refusal, is_refused=True)
        if until <= self.granted_until:
            rule, objection = f"It was granted until {utc_moment(self.granted_until)} before.", ""
        else:
            rule, objection = self._rule_for(until)
        over_budget = approval_sentence(lines)
        if rule and not over_budget:
            return ExtensionOption(until, at_once=True, why=rule)
        why = " ".join(filter(None, (objection, over_budget)))
        return ExtensionOption(until, at_once=False, why=why, who=self.deciders)

    def options(self) -> list[tuple[timedelta, ExtensionOption]]:
        """Return the usual spans after the end, with that of the profile, and what each needs."""
        spans = sorted({*USUAL_EXTENSIONS, self.at_a_time} - {timedelta(0)})
        end, now = self.claim.expires_at, timezone.now()
        return [(span, self.option(end + span)) for span in spans if end and end + span > now]

    def _rule_for(self, until: datetime) -> tuple[str, str]:
        """Return the sentence of the rule that lets it be extended at once, or "" and why there is none."""
        claim, free = self.claim, self.at_a_time
        version = min(
            (version for version, _devices in self.profiles), key=lambda candidate: candidate.max_duration
        )
        total, span = until - duration_start(claim), until - (claim.expires_at or until)
        if total > version.max_duration:
            return "", (
                f"{version.profile.title} v{version.number} allows {in_words(version.max_duration)} in "
                f"all; it would be {in_words(total)}."
            )
        usual = (
            f"{version.profile.title} v{version.number} may be extended by up to {in_words(free)} "
            "at a time without approval."
        )
        if span <= free:
            return usual, ""
        together = claim.together
        effective_rule = effective_rule_for(claim.team, self.profiles, duration=total, together=together)
        if effective_rule.automatic:
            return effective_rule.sentence, ""
        return "", usual if free else effective_rule.sentence


def duration_start(claim: Claim) -> datetime:
    """Return when the duration of a claim began: at its approval, or when it was created without one."""
    return claim.decided_at or claim.created_at


def pending_extension(claim: Claim) -> Extension | None:
    """Return the pending extension of a claim; there is at most one."""
    return claim.extensions.filter(status=RequestStatus.WAITING).select_related("requested_by").first()


def reason_not_to_extend(claim: Claim) -> str:
    """Return why nobody may extend this running claim, "" if it may be extended; reads `successors`."""
    if successor := next(
        (successor_claim for successor_claim in claim.successors.all() if not successor_claim.is_final), None
    ):
        return f"{claim} is being replaced by {successor}, so it may not be extended."
    return ""


def extension_approvers(claim: Claim, *, requested_by: User) -> list[User]:
    """Return the people who decide on an extension: those who decide on the claim, without the requester."""
    effective_rule = authority.effective_rule_on(claim)
    stage, _consent = authority.approval_stage(claim, effective_rule)
    people = authority.without_requester(
        authority.deciders(claim.team, stage, requested_by), requested_by, effective_rule
    )
    return people or authority.without_requester(
        authority.deciders(claim.team, Approval.ADMIN), requested_by, effective_rule
    )
