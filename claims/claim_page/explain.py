"""Why a claim is where it is: who acts next, the steps before and after, and the evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import F

from claims.approvals import authority
from claims.claim_page.pods import (
    STARTED,
    WAITING,
    FitNow,
    PodGroup,
    PodStage,
    PodView,
    fit_now,
    grouped,
    lost,
    names_of,
    views,
)
from claims.lifecycle.extensions import deleted_at
from claims.models import Claim, Delivery, Transition
from claims.observation.observations import Observation, observe
from claims.plans.plan import delivery_kind
from claims.states import FINAL, LOOK, NEVER_APPROVED, USABLE, ClaimState
from core.text import counted
from core.times import moment
from inventory.freshness import OF_DEVICES, Age, ages

type Actor = Literal["person", "you", "portal", "cluster", "admin", "nobody"]


@dataclass(frozen=True, slots=True)
class NextAction:
    """`headline` names who acts ("You act next."), `sentence` says why and what."""

    actor: Actor
    who: str
    sentence: str

    @property
    def headline(self) -> str:
        headlines = {
            "person": "%(who)s decides next.",
            "you": "You act next.",
            "portal": "The portal acts next.",
            "cluster": "%(who)s acts next.",
            "admin": "%(who)s acts next.",
            "nobody": "Nobody has to act.",
        }
        return headlines[self.actor] % {"who": self.who}


def find_answer(
    claim: Claim,
    seen: Observation,
    pods: Sequence[PodView],
    lost: Sequence[PodView],
    fit: FitNow | None,
    history: Sequence[Transition],
) -> NextAction:
    """`pods` come with those first about which something has to be done."""
    match claim.state:
        case ClaimState.REQUESTED:
            return _requested(claim)
        case ClaimState.APPROVED:
            return NextAction("portal", "The portal", _written_next(claim))
        case ClaimState.PROVISIONED if pods:
            return _pod_first(claim, pods, fit)
        case ClaimState.PROVISIONED:
            return NextAction("you", claim.requested_by.label, _start_a_pod(claim, lost))
        case ClaimState.ALLOCATED:
            return _allocated(claim, pods, lost, fit)
        case ClaimState.RELEASING:
            return _releasing(claim, seen, pods)
    return NextAction("nobody", "", history[-1].why if history else "")


def _requested(claim: Claim) -> NextAction:
    who = authority.names_of(authority.deciders_on(claim)) or "A platform admin"
    if claim.decide_by is None:
        return NextAction("person", who, "Until then its devices are reserved in the quota of the team.")
    return NextAction(
        "person",
        who,
        (
            f"The request expires if nobody decides by {moment(claim.decide_by)}. Until then it "
            "reserves quota."
        ),
    )


def _written_next(claim: Claim) -> str:
    return f"It writes the {delivery_kind(claim.delivery).kind} to {claim.cluster}, which takes seconds."


def _start_a_pod(claim: Claim, lost: Sequence[PodView]) -> str:
    start = (
        f"Start a pod that uses the {delivery_kind(claim.delivery).kind} {claim.name}. "
        "No device is held and nothing is billed until then."
    )
    return " ".join(filter(None, (_ended(lost), start)))


def _ended(lost: Sequence[PodView]) -> str:
    if not lost:
        return ""
    return f"The last pod, {lost[0].pod.name}, was ended: {lost[0].told.means}"


def _pod_first(claim: Claim, pods: Sequence[PodView], fit: FitNow | None) -> NextAction:
    """Tell of the pod about which something has to be done first."""
    first = pods[0]
    told = first.told
    parts = [_head(pods), told.means]
    if first.stage == PodStage.SCHEDULER and fit is not None:
        parts.append(fit.sentence)
    if not (fit and fit.agrees is False):
        parts.append(told.then)
    sentence = " ".join(filter(None, parts))
    if told.actor == "you":
        return NextAction("you", claim.requested_by.label, sentence)
    if told.actor == "admin":
        return NextAction("admin", "A platform admin", sentence)
    return NextAction("cluster", "Kubernetes", sentence)


def _head(pods: Sequence[PodView]) -> str:
    """Count the pods of which the same is to be told, unless it is one and its words name it."""
    group, *others = grouped(pods)
    first = group.first
    if group.count == 1 and first.pod.name in first.told.means:
        return ""
    one, many = ("waits", "wait") if first.stage in WAITING else ("is not ready", "are not ready")
    said = (
        f"The pod {group.names} {one}." if group.count == 1 else f"{group.count} pods {many}: {group.names}."
    )
    more = sum(other.count for other in others if other.first.stage in WAITING)
    if more == 1:
        return f"{said} 1 more pod waits for another reason."
    return f"{said} {more} more pods wait for other reasons." if more else said


def _allocated(
    claim: Claim, pods: Sequence[PodView], lost: Sequence[PodView], fit: FitNow | None
) -> NextAction:
    """Pods in trouble come first, those that are on their way do not matter beside one that runs."""
    running = any(view.stage == PodStage.RUNNING for view in pods)
    waiting = [view for view in pods if view.stage in WAITING]
    starting = [view for view in pods if view.stage in STARTED]
    if waiting:
        return _pod_first(claim, pods, fit)
    if starting and (not running or starting[0].told.actor != "cluster"):
        return _pod_first(claim, starting, fit)
    sentence = "Release the claim when its work is done."
    if (end := deleted_at(claim)) is not None:
        sentence = (
            f"Release the claim when its work is done. On {moment(end)} the portal deletes it; a "
            "pod that still runs keeps its devices until it ends."
        )
    return NextAction("you", claim.requested_by.label, " ".join(filter(None, (_ended(lost), sentence))))


def _releasing(claim: Claim, seen: Observation, pods: Sequence[PodView]) -> NextAction:
    if not pods:
        others = sorted({str(one) for row in seen.holders for one in _reserved(row.raw)})
        if others:
            who = ", ".join(others[:3])
            sentence = f"It is still reserved for {who}, which the portal does not see, and ends with it."
            return NextAction("cluster", "Kubernetes", sentence)
        return NextAction("cluster", "Kubernetes", "It removes the object; no pod uses it any more.")
    names = names_of(pods)
    sentence = (
        f"The pod {names} still holds the devices; they are free when it ends."
        if len(pods) == 1
        else f"The pods {names} still hold the devices; they are free when all of them have ended."
    )
    if all(view.stage == PodStage.ENDING for view in pods):
        return NextAction("cluster", "Kubernetes", sentence)
    return NextAction("you", claim.requested_by.label, sentence)


def _reserved(raw: dict[str, object]) -> list[str]:
    status = raw.get("status")
    reserved = status.get("reservedFor") if isinstance(status, dict) else None
    return [f"{one.get('resource', '')} {one.get('name', '')}".strip() for one in reserved or []]


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
class TimelineStep:
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
    claim: Claim,
    seen: Observation,
    pods: Sequence[PodView],
    history: Sequence[Transition],
    answer: NextAction,
) -> tuple[TimelineStep, ...]:
    """Return the steps of `ORDER`; a claim that ended early has none after the one at which it ended."""
    # Who asked, though somebody else may own it by now.
    asked = next((step.by for step in history if not step.old and step.by), claim.requested_by)
    user_of = asked.label
    steps = [
        TimelineStep("requested", "Requested", "done", claim.created_at, user_of, _size(claim), "you"),
        TimelineStep("quota", "Quota", "done", claim.created_at, "", _quota(claim), "portal"),
    ]
    if claim.state in NEVER_APPROVED:
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
        steps.append(TimelineStep(key, labels[key], status, at, by, note, actor, now))
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
            running = [view for view in pods if view.stage in (PodStage.RUNNING, PodStage.ENDING)]
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
    stages = {"scheduler": WAITING, "prepared": STARTED, "used": (PodStage.RUNNING,)}.get(key, ())
    known = [view.since for view in pods if view.stage in stages and view.since]
    return min(known, default=claim.state_since)


def _end(claim: Claim, history: Sequence[Transition], key: str) -> TimelineStep:
    last = history[-1] if history else None
    by = last.by.label if last and last.by else ""
    status: Status = "bad" if LOOK[claim.state][0] == "bad" else "done"
    why = last.why if last else ""
    return TimelineStep(key, claim.get_state_display(), status, claim.state_since, by, why, ACTORS[key])


def _labels(claim: Claim, here: str) -> dict[str, str]:
    return {
        "approved": "Approved" if claim.state != ClaimState.REQUESTED else "Approval",
        "written": "Object written",
        "waiting": "Waited for a pod" if ORDER.index(here) > ORDER.index("waiting") else "Waiting for a pod",
        "scheduler": "Scheduler",
        "prepared": "Prepared",
        "used": "In use",
        "releasing": "Releasing",
        "released": "Released",
    }


def _notes(claim: Claim, seen: Observation, pods: Sequence[PodView]) -> dict[str, str]:
    notes = {"written": f"{claim.cluster} / {claim.namespace}", "approved": claim.decision_note}
    scheduled = [_counted(pods, WAITING, ("%d pod waits" if _number(pods, WAITING) == 1 else "%d pods wait"))]
    if count := len({held.key for held in seen.held}):
        scheduled.insert(0, f"{counted(count, 'device')}")
    notes["scheduler"] = ", ".join(filter(None, scheduled))
    starting = _number(pods, STARTED)
    notes["prepared"] = _counted(pods, STARTED, ("%d pod starts" if starting == 1 else "%d pods start"))
    running = _number(pods, (PodStage.RUNNING,))
    notes["used"] = _counted(pods, (PodStage.RUNNING,), ("%d pod runs" if running == 1 else "%d pods run"))
    if claim.state == ClaimState.PROVISIONED and not pods:
        notes["waiting"] = "no pod uses it"
    if claim.state == ClaimState.RELEASING and pods:
        notes["releasing"] = f"{counted(len(pods), 'pod still uses', 'pods still use')} it"
    return notes


def _number(pods: Sequence[PodView], stages: Sequence[PodStage]) -> int:
    return sum(view.stage in stages for view in pods)


def _counted(pods: Sequence[PodView], stages: Sequence[PodStage], words: str) -> str:
    count = _number(pods, stages)
    return words % count if count else ""


def _size(claim: Claim) -> str:
    size = f"{counted(claim.devices, 'device')}"
    if claim.delivery != Delivery.TEMPLATE:
        return size
    most = f"up to {counted(claim.parallel, 'pod')} at once"
    return f"{size}, {most}"


def _quota(claim: Claim) -> str:
    return ", ".join(
        f"{charge.devices} × {charge.device_class}" for charge in claim.charges.order_by("device_class")
    )


SHOWN = 3  # groups of pods, on a page
GROUPS = 20  # in the API
CALM = (PodStage.RUNNING, PodStage.ENDING)


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    `answer` says who acts next, `steps` is the whole way, `pods` are those that use the claim or want to.

    `lost` are pods that others have ended of late. `fit` is what the picture says while a pod waits for the
    scheduler, else None. `hears_events` is False where the cluster does not let the portal read Events.
    """

    answer: NextAction
    steps: tuple[TimelineStep, ...]
    pods: tuple[PodView, ...]
    lost: tuple[PodView, ...]
    fit: FitNow | None
    problem: str
    hears_events: bool

    @property
    def groups(self) -> list[PodGroup]:
        return grouped(self.pods)[:GROUPS]

    @property
    def lost_groups(self) -> list[PodGroup]:
        return grouped(self.lost)

    @property
    def troubled(self) -> list[PodGroup]:
        """Return pods that do not run, or that run and have something to be done about; then those lost."""
        pods = [view for view in self.pods if view.stage not in CALM or view.told.text]
        return [*grouped(pods)[:SHOWN], *self.lost_groups]

    @property
    def more(self) -> int:
        """How many pods wait that `troubled` leaves out."""
        shown = sum(group.count for group in self.troubled if group.first.stage in WAITING)
        return sum(view.stage in WAITING for view in self.pods) - shown

    @property
    def trouble(self) -> PodView | None:
        """Return the pod to tell of first, if one does not run."""
        return next((view for view in self.pods if view.stage not in CALM), None)

    @property
    def shown_steps(self) -> list[TimelineStep]:
        """Return the steps without what was skipped, and without an end that is not in sight."""
        return [
            step
            for step in self.steps
            if step.status != "skipped" and (step.key, step.status) != ("released", "ahead")
        ]


def explain(claim: Claim, seen: Observation | None = None, age: Age | None = None) -> Explanation:
    """Explain a claim from its history, from what the mirror shows of it, and from the picture of now."""
    seen = observe([claim])[claim.pk] if seen is None else seen
    over = claim.state in FINAL
    if age is None and not over:
        age = ages((*OF_DEVICES, "pods"), cluster=claim.cluster)[0]
    history = list(claim.history.exclude(old=F("new")).select_related("by"))  # steps, without remarks
    pods = views(claim, [] if over else seen.users)
    queued = next((view for view in pods if view.stage == PodStage.SCHEDULER), None)
    open_claim = claim.state in USABLE and (claim.delivery == Delivery.TEMPLATE or not seen.held)
    fit = fit_now(claim, queued.said, age) if queued and open_claim else None
    ended = lost(claim) if claim.state in USABLE else []
    said = find_answer(claim, seen, pods, ended, fit, history)
    return Explanation(
        answer=said,
        steps=chain(claim, seen, pods, history, said),
        pods=tuple(pods),
        lost=tuple(ended),
        fit=fit,
        problem=claim.problem,
        hears_events="list events" not in claim.cluster.missing,
    )
