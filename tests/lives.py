"""
The way of a claim to a state, as the services write it, without their locks, messages and cluster.

tests/claims/test_factories.py holds every way to that of a claim which the services brought there. Steps
follow each other at once, unless a test says when one was.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.utils import timezone

from claims.approvals.authority import without_requester
from claims.approvals.rules import EffectiveRule, effective_rule_for
from claims.models import Allocation, Approval, ApprovalStep, Claim, Delivery, Transition
from claims.plans.plan import delivery_kind
from claims.states import ClaimState
from core.times import duration as in_words
from dra.combination import select_alternatives
from dra.objects import requests
from dra.quota import charge
from teams.access import people_in
from teams.models import Role, User

S = ClaimState
WAYS: dict[str, tuple[ClaimState, ...]] = {
    S.REQUESTED: (),
    S.APPROVED: (S.APPROVED,),
    S.PROVISIONED: (S.APPROVED, S.PROVISIONED),
    S.ALLOCATED: (S.APPROVED, S.PROVISIONED, S.ALLOCATED),
    S.RELEASING: (S.APPROVED, S.PROVISIONED, S.RELEASING),
    S.RELEASED: (S.APPROVED, S.PROVISIONED, S.RELEASING, S.RELEASED),
    S.DENIED: (S.DENIED,),
    S.WITHDRAWN: (S.WITHDRAWN,),
    S.EXPIRED: (S.EXPIRED,),
    S.FAILED: (S.APPROVED, S.FAILED),
}
MOMENT = timedelta(microseconds=1)
REFUSAL = "spec.devices.requests: Invalid value"  # what the cluster says of a claim that fails
REASON_TO_DENY = "Smaller devices do."


class Life:
    """
    Lead a claim that is not saved yet through its life; `given` are columns that stay as a test gave them.

    What belongs to the claim beside its row is kept until `save`.
    """

    def __init__(self, claim: Claim, given: Mapping[str, Any]) -> None:
        self.claim = claim
        self.given = given
        self.lines: list[Transition] = []
        self.consents: list[ApprovalStep] = []
        self.held: list[Allocation] = []
        self.settled: dict[str, int] = {}

    def lead_to(self, state: ClaimState) -> None:
        if self.claim.origin == Claim.Origin.ADOPTED:
            way = WAYS[state][1:]  # nobody asks for what is there already
            if way[:1] != (S.PROVISIONED,):
                raise ValueError(f"No service makes an adopted claim that is {state}.")
            self._adopted()
            way = way[1:]
        else:
            way = WAYS[state]
            self._requested(way)
        for each in way:
            getattr(self, f"_{each}")()
        for column, value in self.given.items():
            setattr(self.claim, column, value)
        if way and "state_since" in self.given:
            self.lines[-1].at = max(self.claim.state_since, self.lines[-1].at)
            for row in self.held:
                row.started_at = self.lines[-1].at

    def save(self) -> None:
        """Write the claim and all that belongs to it."""
        self.claim.save(force_insert=True)
        Transition.objects.bulk_create(self.lines)
        ApprovalStep.objects.bulk_create(self.consents)
        Allocation.objects.bulk_create(self.held)

    # What is done by people.

    def _requested(self, way: tuple[ClaimState, ...]) -> None:
        claim = self.claim
        claim.created_at = claim.state_since = self._begin(way)
        self._set(decide_by=claim.created_at + settings.REQUEST_TTL)
        said = Transition(claim=claim, new=S.REQUESTED, reason=claim.reason or "Requested.")
        self._write(said, claim.requested_by, claim.created_at)

    def _adopted(self) -> None:
        claim, admin = self.claim, self._decided_by() or admin_for(None)
        since = self._begin(()) if "decided_at" not in self.given else self.given["decided_at"]
        claim.created_at = claim.state_since = since
        uid = self.given.get("object_uid") or str(uuid4())
        self._set(
            key=f"adopt:{uid}", object_uid=uid, decided_by=admin, decided_at=since,
            approved_hash=claim.spec_hash, expires_at=since + claim.duration,
        )  # fmt: skip
        claim.state = S.PROVISIONED
        said = Transition(claim=claim, new=S.PROVISIONED, reason=claim.reason or "Adopted.")
        self._write(said, claim.decided_by, since)

    def _approved(self) -> None:
        claim, effective_rule = self.claim, self._effective_rule()
        by, note = self._decided_by(), self.given.get("decision_note", "")
        if effective_rule is not None and effective_rule.automatic:
            note = effective_rule.sentence
        elif effective_rule is not None and effective_rule.approval == Approval.BOTH:
            by = self._consented()
        elif effective_rule is not None:
            by = decider_on(claim, effective_rule)
        at = self._next(self._decided_at())
        self._step(
            S.APPROVED,
            note or "Approved.",
            by,
            at=at,
            decided_by=by,
            decided_at=at,
            decision_note=note,
            approved_hash=claim.spec_hash,
            expires_at=at + claim.duration,
        )

    def _consented(self) -> User:
        """Let a lead consent; return the platform admin who then decides."""
        claim = self.claim
        lead = lead_of(claim, but=claim.requested_by)
        at = self._next()
        said = Transition(claim=claim, old=claim.state, new=claim.state, reason="First approval, by a lead.")
        self._write(said, lead, at)
        consent = ApprovalStep(claim=claim, role=Approval.LEAD, by=lead, at=at, spec_hash=claim.spec_hash)
        self.consents.append(consent)
        claim.version += 1
        return admin_for(claim.requested_by, lead)

    def _denied(self) -> None:
        effective_rule = self._effective_rule()
        by = self._decided_by() if effective_rule is None else decider_on(self.claim, effective_rule)
        note, at = self.given.get("decision_note", REASON_TO_DENY), self._next(self._decided_at())
        self._step(S.DENIED, note, by, at=at, decided_by=by, decided_at=at, decision_note=note)

    def _withdrawn(self) -> None:
        self._step(S.WITHDRAWN, "Withdrawn.", self.claim.requested_by)

    def _releasing(self) -> None:
        self._step(S.RELEASING, "Released by its team.", self.claim.requested_by)

    # What is done by the portal and the cluster.

    def _expired(self) -> None:
        waited = settings.REQUEST_TTL
        self._step(S.EXPIRED, f"Nobody decided within {in_words(waited)}.", at=self.claim.decide_by)

    def _provisioned(self) -> None:
        why = f"{self._object()} was created in namespace {self.claim.namespace} of {self.claim.cluster}."
        self._step(S.PROVISIONED, why, object_uid=str(uuid4()))

    def _allocated(self) -> None:
        claim = self.claim
        at = self._next()
        self.held = list(self._devices(at))
        names = sorted(f"{row.pool}/{row.device}" for row in self.held)
        devices = "device" if len(names) == 1 else "devices"
        shown = ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
        why = f"The scheduler allocated {len(names)} {devices}: {shown}."
        self._step(S.ALLOCATED, why, at=at, observation_hash=uuid4().hex * 2)
        claim.version += 1  # reconciliation writes the row once more

    def _devices(self, at: datetime) -> list[Allocation]:
        """Hold what the spec asks for, of alternatives the first; of a template one ResourceClaim does."""
        claim, generated = self.claim, self.claim.delivery == Delivery.TEMPLATE
        asked = [(each, *(each.get("firstAvailable") or [None])[:1]) for each in requests(claim.spec)]
        taken = [f"{each['name']}/{first['name']}" for each, first in asked if first]
        if taken:
            counted, others = charge(select_alternatives(claim.spec, taken)), claim.parallel - 1
            self.settled = {
                name: counted.get(name, 0) + others * count for name, count in charge(claim.spec).items()
            }
        wanted = [
            (f"{each['name']}/{first['name']}" if first else each["name"], first or each["exactly"])
            for each, first in asked
        ]
        held = [
            (name, one["deviceClassName"])
            for name, one in wanted
            if not one.get("adminAccess")  # it takes no device from anybody
            for _ in range(one.get("count", 1))
        ]
        uid = str(uuid4()) if generated else claim.object_uid
        return [
            Allocation(
                claim=claim, object_uid=uid, object_name=f"{claim.name}-pod" if generated else claim.name,
                request=name, driver=driver, pool="node-1", device=f"{claim.name}-{number}", started_at=at,
            )
            for number, (name, driver) in enumerate(held)
        ]  # fmt: skip

    def _released(self) -> None:
        why = f"{self._object()} was deleted from namespace {self.claim.namespace} of {self.claim.cluster}."
        self._step(S.RELEASED, why)

    def _failed(self) -> None:
        problem = f"{self.claim.cluster} refused it: {REFUSAL}"
        self._step(S.FAILED, problem, problem=problem)

    def _object(self) -> str:
        return f"{delivery_kind(self.claim.delivery).kind} {self.claim.name}"

    # How it is kept.

    def _step(
        self, to: ClaimState, why: str, by: User | None = None, *, at: datetime | None = None, **columns: Any
    ) -> None:
        at = self._next(at)
        self._write(Transition(claim=self.claim, old=self.claim.state, new=to, reason=why), by, at)
        self.claim.state, self.claim.state_since = to, at
        self.claim.version += 1
        self._set(**columns)

    def _write(self, line: Transition, by: User | None, at: datetime) -> None:
        line.by, line.at, line.team_id = by, at, self.claim.team_id
        self.lines.append(line)

    def _set(self, **columns: Any) -> None:
        for column, value in columns.items():
            setattr(self.claim, column, self.given.get(column, value))

    def _next(self, at: datetime | None = None) -> datetime:
        """Return the time of the next step: a moment after the last, or `at` if that is later."""
        after = self.lines[-1].at + MOMENT
        return max(at, after) if at else after

    def _begin(self, way: tuple[ClaimState, ...]) -> datetime:
        """Return when it was asked for: now, or before whatever a test has put into the past."""
        if "created_at" in self.given:
            return self.given["created_at"]
        now, waited = timezone.now(), settings.REQUEST_TTL
        known = [self.given.get("state_since"), self._decided_at() if S.APPROVED in way else None]
        if S.DENIED in way:
            known.append(self.given.get("decided_at"))
        if S.EXPIRED in way:
            known = [(self.given.get("state_since") or now) - waited]
        if decide_by := self.given.get("decide_by"):
            known.append(decide_by - waited)
        past = [at for at in known if at is not None and at <= now]
        return min(past) - 2 * len(way) * MOMENT if past else now

    def _decided_at(self) -> datetime | None:
        """Return when it was approved, where a test says that or when it ends."""
        if self.given.get("decided_at"):
            return self.given["decided_at"]
        end = self.given.get("expires_at")
        return end - self.claim.duration if end else None

    def _decided_by(self) -> User | None:
        return self.given.get("decided_by")

    def _effective_rule(self) -> EffectiveRule | None:
        """Return what the rules say of the claim, None where a test says who decided."""
        claim = self.claim
        if "decided_by" in self.given:
            return None
        asked = [(claim.profile_version, claim.devices * claim.parallel)]
        return effective_rule_for(claim.team, asked, duration=claim.duration)


def decider_on(claim: Claim, effective_rule: EffectiveRule) -> User:
    """Return who decides on a claim: a lead, where leads do and there is one, else a platform admin."""
    if effective_rule.approval == Approval.LEAD:
        leads = without_requester(
            people_in(claim.team, at_least=Role.LEAD), claim.requested_by, effective_rule
        )
        if leads:
            return leads[0]
    return admin_for(claim.requested_by)


def lead_of(claim: Claim, *, but: User) -> User:
    leads = [one for one in people_in(claim.team, at_least=Role.LEAD) if one != but]
    return leads[0] if leads else somebody_gone()


def admin_for(*others: User | None) -> User:
    """Return a platform admin other than these."""
    admins = [one for one in User.objects.filter(is_superuser=True, is_active=True) if one not in others]
    return admins[0] if admins else somebody_gone()


def somebody_gone() -> User:
    """Return a person who led teams or the platform when it was decided, and does so no more."""
    return User.objects.get_or_create(username="olga")[0]
