"""The way of a claim, step by step, from its history and its pods: what is done, is now, and is ahead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.explain.answer import Actor, Answer
from claims.explain.pods import PodView
from claims.explain.stages import STARTED, WAITING, Stage
from claims.models import Claim, Delivery, Transition
from claims.observed.sightings import Sighting
from claims.states import FINAL, ClaimState

type Status = Literal["done", "now", "ahead", "skipped", "bad"]

ORDER = (
    "requested", "quota", "approved", "written", "waiting", "scheduler", "prepared", "used", "releasing",
    "released",
)  # fmt: skip
ACTORS: Mapping[str, Actor] = {
    "requested": "you", "quota": "portal", "approved": "person", "written": "portal", "waiting": "you",
    "scheduler": "cluster", "prepared": "cluster", "used": "you", "releasing": "cluster",
    "released": "nobody",
}  # fmt: skip
# Steps that are reached with a device, and not at all by a claim that never had one.
WITH_DEVICES = ("waiting", "scheduler", "prepared", "used")


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step. `at` is since when for the one that is now, when it was done for others, and None where that is
    ahead or not known. `actor` is who can take it; `next` is what is to be done, for the one that is now.
    """

    key: str
    label: str
    status: Status
    at: datetime | None = None
    by: str = ""
    note: str = ""
    actor: Actor = "nobody"
    next: str = ""


def chain(
    claim: Claim, seen: Sighting, pods: Sequence[PodView], history: Sequence[Transition], answer: Answer
) -> tuple[Step, ...]:
    """Return the steps of `ORDER`; a claim that ended early has none after the one at which it ended."""
    # Who asked, though somebody else may own it by now.
    asked = next((step.by for step in history if not step.old and step.by), claim.requested_by)
    asker = asked.label
    steps = [
        Step("requested", _("Requested"), "done", claim.created_at, asker, _size(claim), "you"),
        Step("quota", _("Quota"), "done", claim.created_at, "", _quota(claim), "portal"),
    ]
    if claim.state in (ClaimState.DENIED, ClaimState.WITHDRAWN, ClaimState.EXPIRED):
        return (*steps, _end(claim, history, "approved"))
    here = _here(claim, pods, history)
    labels, notes, came = _labels(claim, here), _notes(claim, seen, pods), _came(history)
    held = any(step.new == ClaimState.ALLOCATED for step in history)
    for key in ORDER[2:]:
        if claim.state == ClaimState.FAILED and key == here:
            return (*steps, _end(claim, history, key))
        status = _status(key, here, claim, came, held=held)
        at = _since(key, claim, pods) if status == "now" else None
        by = ""
        if status == "done" and (done := came.get(key)):
            at, by = done.at, done.by.label if done.by else ""
        elif status == "done" and key == "waiting":
            at = min((view.pod.created_at for view in pods if view.pod.created_at), default=None)
        now = answer.sentence if status == "now" else ""
        actor = answer.actor if status == "now" else ACTORS[key]
        note = "" if status == "skipped" else notes.get(key, "")
        steps.append(Step(key, labels[key], status, at, by, note, actor, now))
    return tuple(steps)


def _here(claim: Claim, pods: Sequence[PodView], history: Sequence[Transition]) -> str:
    """Return the step at which the claim stands, or at which it failed."""
    match history[-1].old if claim.state == ClaimState.FAILED and history else claim.state:
        case ClaimState.REQUESTED:
            return "approved"
        case ClaimState.APPROVED:
            return "written"
        case ClaimState.PROVISIONED:
            return "scheduler" if pods else "waiting"
        case ClaimState.ALLOCATED:
            started = [view for view in pods if view.stage in STARTED]
            running = [view for view in pods if view.stage in (Stage.RUNNING, Stage.ENDING)]
            return "prepared" if started and not running else "used"
        case ClaimState.RELEASING:
            return "releasing"
    return "released"


def _status(
    key: str, here: str, claim: Claim, came: Mapping[str, Transition | None], *, held: bool
) -> Status:
    place, stands = ORDER.index(key), ORDER.index(here)
    if place > stands:
        return "ahead"
    if place == stands:
        return "done" if claim.state in FINAL else "now"
    if key in WITH_DEVICES:  # a pod that waits has come, though no device is held yet
        return "done" if held or here in WITH_DEVICES else "skipped"
    return "done" if came.get(key) else "skipped"


def _came(history: Sequence[Transition]) -> dict[str, Transition | None]:
    """Return the transition by which each step was done, the last time of each."""
    reached = {step.new: step for step in history}
    allocated = reached.get(ClaimState.ALLOCATED)
    return {
        "approved": reached.get(ClaimState.APPROVED),
        "written": reached.get(ClaimState.PROVISIONED) or allocated,
        "waiting": allocated,
        "scheduler": allocated,
        "releasing": reached.get(ClaimState.RELEASING),
        "released": reached.get(ClaimState.RELEASED),
    }


def _since(key: str, claim: Claim, pods: Sequence[PodView]) -> datetime | None:
    stages = {"scheduler": WAITING, "prepared": STARTED, "used": (Stage.RUNNING,)}.get(key, ())
    known = [view.since for view in pods if view.stage in stages and view.since]
    return min(known, default=claim.state_since)


def _end(claim: Claim, history: Sequence[Transition], key: str) -> Step:
    last = history[-1] if history else None
    by = last.by.label if last and last.by else ""
    status: Status = "bad" if claim.state in (ClaimState.DENIED, ClaimState.FAILED) else "done"
    why = last.why if last else ""
    return Step(key, claim.get_state_display(), status, claim.state_since, by, why, ACTORS[key])


def _labels(claim: Claim, here: str) -> dict[str, str]:
    return {
        "approved": _("Approved") if claim.state != ClaimState.REQUESTED else _("Approval"),
        "written": _("Object written"),
        "waiting": _("Waited for a pod")
        if ORDER.index(here) > ORDER.index("waiting")
        else _("Waiting for a pod"),
        "scheduler": _("Scheduler"),
        "prepared": _("Prepared"),
        "used": _("In use"),
        "releasing": _("Releasing"),
        "released": _("Released"),
    }


def _notes(claim: Claim, seen: Sighting, pods: Sequence[PodView]) -> dict[str, str]:
    notes = {"written": f"{claim.cluster} / {claim.namespace}", "approved": claim.decision_note}
    scheduled = [_counted(pods, WAITING, ngettext("%d pod waits", "%d pods wait", _number(pods, WAITING)))]
    if count := len({held.key for held in seen.held}):
        scheduled.insert(0, ngettext("%d device", "%d devices", count) % count)
    notes["scheduler"] = ", ".join(filter(None, scheduled))
    starting = _number(pods, STARTED)
    notes["prepared"] = _counted(pods, STARTED, ngettext("%d pod starts", "%d pods start", starting))
    running = _number(pods, (Stage.RUNNING,))
    notes["used"] = _counted(pods, (Stage.RUNNING,), ngettext("%d pod runs", "%d pods run", running))
    if claim.state == ClaimState.PROVISIONED and not pods:
        notes["waiting"] = _("no pod uses it")
    if claim.state == ClaimState.RELEASING and pods:
        still = ngettext("%d pod still uses it", "%d pods still use it", len(pods))
        notes["releasing"] = still % len(pods)
    return notes


def _number(pods: Sequence[PodView], stages: Sequence[Stage]) -> int:
    return sum(view.stage in stages for view in pods)


def _counted(pods: Sequence[PodView], stages: Sequence[Stage], words: str) -> str:
    count = _number(pods, stages)
    return words % count if count else ""


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
