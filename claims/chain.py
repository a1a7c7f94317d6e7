"""The way of a claim, step by step, from its history: what is done, what is now, what is ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Claim, Delivery, Transition
from claims.sightings import Sighting
from claims.states import FINAL, ClaimState

type Status = Literal["done", "now", "ahead", "skipped", "bad"]

# Step → the states in which the claim stands at it.
STANDS_AT = {
    "approved": ClaimState.REQUESTED,
    "written": ClaimState.APPROVED,
    "waiting": ClaimState.PROVISIONED,
    "allocated": ClaimState.ALLOCATED,
    "releasing": ClaimState.RELEASING,
}
ORDER = ("requested", "quota", "approved", "written", "waiting", "allocated", "releasing", "released")


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step: `at` is since when for the one that is now, and empty while it is ahead; `note` is one short
    fact.
    """

    key: str
    label: str
    status: Status
    at: datetime | None = None
    by: str = ""
    note: str = ""


def chain(claim: Claim, seen: Sighting, history: Sequence[Transition]) -> tuple[Step, ...]:
    """Return the steps of `ORDER`; a claim that ended early has none after the one at which it ended."""
    reached = {step.new: step for step in history}  # the last time of each
    steps = [
        Step("requested", _("Requested"), "done", claim.created_at, claim.requested_by.label, _size(claim)),
        Step("quota", _("Quota"), "done", claim.created_at, "", _quota(claim)),
    ]
    if claim.state in (ClaimState.DENIED, ClaimState.WITHDRAWN, ClaimState.EXPIRED):
        return (*steps, _end(claim, history, "approved"))
    here = _here(claim, history)
    labels = _labels(claim)
    came = {
        "approved": reached.get(ClaimState.APPROVED),
        "written": reached.get(ClaimState.PROVISIONED),
        "waiting": reached.get(ClaimState.ALLOCATED),
        "allocated": reached.get(ClaimState.ALLOCATED),
        "releasing": reached.get(ClaimState.RELEASING),
        "released": reached.get(ClaimState.RELEASED),
    }
    notes = _notes(claim, seen)
    for key in ORDER[2:]:
        if claim.state == ClaimState.FAILED and key == here:
            return (*steps, _end(claim, history, key))
        status = _status(key, here, over=claim.state in FINAL)
        steps.append(_step(key, labels[key], status, came[key], claim, notes.get(key, "")))
    return tuple(steps)


def _step(key: str, label: str, status: Status, came: Transition | None, claim: Claim, note: str) -> Step:
    if status == "ahead":
        return Step(key, label, status, note=note)
    if status == "now":
        return Step(key, label, status, claim.state_since, note=note)
    if came is None:  # released before it came to that
        return Step(key, label, "skipped")
    return Step(key, label, status, came.at, came.by.label if came.by else "", note)


def _here(claim: Claim, history: Sequence[Transition]) -> str:
    """Return the step at which the claim stands, or at which it failed."""
    state = history[-1].old if claim.state == ClaimState.FAILED and history else claim.state
    return next((key for key, at in STANDS_AT.items() if at == state), "released")


def _status(key: str, here: str, *, over: bool) -> Status:
    if ORDER.index(key) < ORDER.index(here) or (over and key == here):
        return "done"
    return "now" if key == here else "ahead"


def _end(claim: Claim, history: Sequence[Transition], key: str) -> Step:
    last = history[-1] if history else None
    by = last.by.label if last and last.by else ""
    status: Status = "bad" if claim.state in (ClaimState.DENIED, ClaimState.FAILED) else "done"
    return Step(key, claim.get_state_display(), status, claim.state_since, by, last.why if last else "")


def _labels(claim: Claim) -> dict[str, str]:
    started = claim.state not in (ClaimState.REQUESTED, ClaimState.APPROVED, ClaimState.PROVISIONED)
    return {
        "approved": _("Approved") if claim.state != ClaimState.REQUESTED else _("Approval"),
        "written": _("Object written"),
        "waiting": _("Waited for a pod") if started else _("Waiting for a pod"),
        "allocated": _("Allocated"),
        "releasing": _("Releasing"),
        "released": _("Released"),
    }


def _notes(claim: Claim, seen: Sighting) -> dict[str, str]:
    notes = {"written": f"{claim.cluster} / {claim.namespace}", "approved": claim.decision_note}
    count = len({held.key for held in seen.held})
    if count:
        notes["allocated"] = ngettext("%d device", "%d devices", count) % count
    if claim.state == ClaimState.PROVISIONED:
        waiting = len(seen.users)
        notes["waiting"] = (
            ngettext("%d pod waits", "%d pods wait", waiting) % waiting if waiting else _("no pod uses it")
        )
    if claim.state == ClaimState.RELEASING and seen.users:
        count = len(seen.users)
        notes["releasing"] = ngettext("%d pod still uses it", "%d pods still use it", count) % count
    return notes


def _size(claim: Claim) -> str:
    size = ngettext("%d device", "%d devices", claim.devices) % claim.devices
    if claim.delivery != Delivery.TEMPLATE:
        return size
    most = ngettext("up to %d pod at once", "up to %d pods at once", claim.parallel) % claim.parallel
    return f"{size}, {most}"


def _quota(claim: Claim) -> str:
    return ", ".join(
        f"{charge.devices} × {charge.device_class}" for charge in claim.charges.order_by("device_class")
    )
