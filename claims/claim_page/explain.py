"""
Why a claim is in its state: who acts next, the steps before and after, and the evidence.

It reads the claim's history and the mirror, and calls no cluster. `explain` is the entry; the rules are in
docs/explanations.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import F
from django.utils import timezone
from django.utils.text import Truncator

from claims.approvals import authority
from claims.catalogue.waits import usual_decision
from claims.claim_page.pods import (
    STARTING_STAGES,
    WAITING_STAGES,
    FitCheck,
    PodGroup,
    PodStage,
    PodView,
    binding_diagnosis,
    check_fit,
    group_pods,
    lost_pods,
    pod_names,
    pod_views,
)
from claims.claim_page.scheduler import Actor, Diagnosis
from claims.delivery.eviction import pods_after_end
from claims.inbox.comments import open_question
from claims.models import Claim, Delivery, Transition
from claims.observation.observations import Observation, consumer_references, observe
from claims.plans.plan import delivery_kind
from claims.states import FINAL, LOOK, NEVER_APPROVED, USABLE, ClaimState
from core.text import counted
from core.times import duration, moment
from inventory.freshness import OF_DEVICES, Age, ages
from inventory.models import DeviceUtilization, ResourceClaim
from inventory.states import DeviceUse, EndPolicy
from teams.models import User


@dataclass(frozen=True, slots=True)
class NextAction:
    """
    Who acts next, and what they do and why (`sentence`).

    `who` names the actor; for the actor "you" it is the owner of the claim, for "pod-owner" that of a pod
    which still holds its devices.
    """

    actor: Actor
    who: str
    sentence: str
    command: str = ""  # for a shell, with which the actor does it

    def headline_for(self, claim: Claim, reader: User) -> str:
        """Return who acts next as this reader sees it."""
        if self.actor == "admin" and reader.is_superuser:
            return "You act next."
        if self.actor == "person" and authority.may_decide(reader, claim):
            return "You decide next."
        return self.headline if reader.pk == claim.requested_by_id else self.headline_for_others

    @property
    def headline(self) -> str:
        """Return who acts next, as the owner reads it: "You act next."."""
        match self.actor:
            case "nobody":
                return "Nobody has to act."
            case "you" | "pod-owner":
                return "You act next."
            case "portal":
                return "The portal acts next."
            case "person":
                return f"{self.who} decides next."
        return f"{self.who} acts next."

    @property
    def headline_for_others(self) -> str:
        """Return who acts next, as somebody other than the owner reads it: "alice acts next."."""
        return f"{self.who} acts next." if self.actor in ("pod-owner", "you") else self.headline


def next_action(
    claim: Claim,
    seen: Observation,
    pods: Sequence[PodView],
    lost_pods: Sequence[PodView],
    fit: FitCheck | None,
    history: Sequence[Transition],
) -> NextAction:
    """Return who acts next. `pods` are in the order of `pod_views`: those that need action first."""
    match claim.state:
        case ClaimState.REQUESTED:
            return approval_action(claim)
        case ClaimState.APPROVED:
            return delivery_action(claim)
        case ClaimState.PROVISIONED if pods:
            return pod_action(claim, pods, fit)
        case ClaimState.PROVISIONED:
            return NextAction("you", claim.requested_by.label, start_pod_sentence(claim, lost_pods))
        case ClaimState.ALLOCATED:
            if not pods and (binding := pending_binding(seen)):
                return NextAction("cluster", "Kubernetes", f"{binding.meaning} {binding.next_step}")
            return allocated_action(claim, pods, lost_pods, fit, idle_since(seen))
        case ClaimState.RELEASING:
            return releasing_action(claim, seen, pods)
    return NextAction("nobody", "", history[-1].reason if history else "")


def approval_action(claim: Claim) -> NextAction:
    """Return who decides, or the owner while a question waits for their answer."""
    deciders = authority.join_names(authority.deciders_on(claim)) or "A platform admin"
    sentence = "Until then, its devices are reserved in the team's quota."
    if claim.decide_by is not None:
        sentence = f"The request expires on {moment(claim.decide_by)} if nobody decides; it reserves quota."
    if question := open_question(claim.comments.select_related("by")):
        text = Truncator(question.text).chars(200)
        answer = f"{question.by.label} asked: “{text}” Answer it. {deciders} can decide meanwhile. {sentence}"
        return NextAction("you", claim.requested_by.label, answer)
    if usual := usual_decision(claim.profile_version.profile_id):
        title = claim.profile_version.profile.title
        sentence = f"Requests for {title} are usually decided within {duration(usual)}. {sentence}"
    return NextAction("person", deciders, sentence)


def delivery_action(claim: Claim) -> NextAction:
    if blocked := write_blocked(claim):
        return blocked
    kind = delivery_kind(claim.delivery).kind
    if claim.problem:
        tries = f"It has not created the {kind} in {claim.cluster} yet and keeps trying."
        return NextAction("portal", "The portal", tries)
    return NextAction(
        "portal", "The portal", f"It is creating the {kind} in {claim.cluster}. This takes seconds."
    )


def start_pod_sentence(claim: Claim, lost_pods: Sequence[PodView]) -> str:
    start = (
        f"Start a pod that uses the {delivery_kind(claim.delivery).kind} {claim.name}. "
        "No device is held and nothing is billed until then."
    )
    return " ".join(filter(None, (stopped_sentence(lost_pods), start)))


def stopped_sentence(lost_pods: Sequence[PodView]) -> str:
    if not lost_pods:
        return ""
    return f"The last pod, {lost_pods[0].pod.name}, was stopped: {lost_pods[0].diagnosis.meaning}"


def pod_action(claim: Claim, pods: Sequence[PodView], fit: FitCheck | None) -> NextAction:
    """Return the next action for the first of these pods, and who takes it."""
    first = pods[0]
    diagnosis = first.diagnosis
    sentences = [waiting_sentence(pods), diagnosis.meaning]
    if first.stage == PodStage.SCHEDULER and fit is not None:
        sentences.append(fit.sentence)
    if not (fit and fit.agrees is False):
        sentences.append(diagnosis.next_step)
    sentence = " ".join(filter(None, sentences))
    if diagnosis.actor == "you":
        return NextAction("you", claim.requested_by.label, sentence)
    if diagnosis.actor == "admin":
        return NextAction("admin", "A platform admin", sentence)
    return NextAction("cluster", "Kubernetes", sentence)


def waiting_sentence(pods: Sequence[PodView]) -> str:
    """Return how many pods wait; "" for one pod that the meaning of its diagnosis names already."""
    group, *other_groups = group_pods(pods)
    first = group.first
    if group.count == 1 and first.pod.name in first.diagnosis.meaning:
        return ""
    waits = first.stage in WAITING_STAGES
    if group.count == 1:
        sentence = f"The pod {group.names} {'waits' if waits else 'is not ready'}."
    else:
        sentence = f"{group.count} pods {'wait' if waits else 'are not ready'}: {group.names}."
    more = sum(other.count for other in other_groups if other.first.stage in WAITING_STAGES)
    if more == 1:
        return f"{sentence} 1 more pod waits for another reason."
    return f"{sentence} {more} more pods wait for other reasons." if more else sentence


def idle_since(seen: Observation) -> datetime | None:
    """Return since when all the devices are idle, None if some are not; one query if there are any."""
    holders, held = [row.pk for row in seen.holders], len({one.key for one in seen.held})
    if not held:
        return None
    idle = DeviceUtilization.objects.filter(
        held_by__in=holders, device__held_by=F("held_by"), use=DeviceUse.IDLE
    )
    since = list(idle.values_list("since", flat=True))
    return max(since) if len(since) >= held else None


def allocated_action(
    claim: Claim,
    pods: Sequence[PodView],
    lost_pods: Sequence[PodView],
    fit: FitCheck | None,
    idle: datetime | None = None,
) -> NextAction:
    """
    Pods with a problem come first. A pod that starts, and one that was stopped, do not matter beside one that
    runs.
    """
    running = any(view.stage == PodStage.RUNNING for view in pods)
    waiting = [view for view in pods if view.stage in WAITING_STAGES]
    starting = [view for view in pods if view.stage in STARTING_STAGES]
    if waiting:
        return pod_action(claim, pods, fit)
    if starting and (not running or starting[0].diagnosis.actor != "cluster"):
        return pod_action(claim, starting, fit)
    stopped, end = "" if running else stopped_sentence(lost_pods), end_sentence(claim)
    if claim.is_in_grace:
        advice = "Extend the claim or release it."
    elif idle is not None:
        stopped = f"Idle for {duration(timezone.now() - idle)}. {stopped}".strip()
        advice = "Release it, shorten it, or snooze the reminder."
    elif stopped:
        advice = "Release the claim when its work is done."
    else:
        return NextAction(
            "nobody", "", f"The claim is in use. Release it when its work is done. {end}".strip()
        )
    return NextAction("you", claim.requested_by.label, " ".join(filter(None, (stopped, advice, end))))


def end_sentence(claim: Claim) -> str:
    """Return when the claim expires, how long its grace period is, and when the portal deletes it."""
    deletion = claim.deleted_at
    if claim.expires_at is None or deletion is None:
        return ""
    keeps = pods_after_end(claim.end_policy)
    grace = claim.profile_version.grace
    expires = "expired" if claim.is_in_grace else "expires"
    if not grace:
        return f"It {expires} on {moment(deletion)}. The portal then deletes it; {keeps}"
    return (
        f"It {expires} on {moment(claim.expires_at)}. After a grace period of {duration(grace)}, "
        f"on {moment(deletion)}, the portal deletes it; {keeps}"
    )


def releasing_action(claim: Claim, seen: Observation, pods: Sequence[PodView]) -> NextAction:
    """Return who acts next: the owner of the pods that keep the devices, who may not own the claim."""
    holding = pods_that_hold(seen, pods)
    if not holding:
        return deletion_action(claim, seen)
    running = [view for view in holding if view.stage != PodStage.ENDING]
    names = pod_names(holding)
    sentence = (
        f"The pod {names} still holds the devices. They are freed when it ends."
        if len(holding) == 1
        else f"The pods {names} still hold the devices. They are freed when all of them have ended."
    )
    if not running:
        return NextAction("cluster", "Kubernetes", sentence)
    them = "it" if len(running) == 1 else "them"
    if claim.evict_at is not None and claim.end_policy != EndPolicy.RUN:
        evicts = f"The portal evicts {them} on {moment(claim.evict_at)}."
        return NextAction("portal", "The portal", claim.problem or f"{sentence} {evicts}")
    if claim.end_policy == EndPolicy.ASK:
        sentence += f" The owner of the claim or a lead of {claim.team} can evict {them} here."
    return NextAction("pod-owner", pod_owner(running), sentence, delete_command(claim, running))


def delete_command(claim: Claim, pods: Sequence[PodView]) -> str:
    """Return the command that ends these pods, or their workload, which would replace them."""
    workloads = {view.workload for view in pods}
    kind, _, name = next(iter(workloads)).partition(" ") if len(workloads) == 1 else ("", "", "")
    if kind == "ReplicaSet":
        kind, name = "Deployment", name.rpartition("-")[0]
    what = f"{kind.lower()} {name}" if name else f"pod {' '.join(view.pod.name for view in pods)}"
    return f"kubectl delete {what} -n {claim.namespace}"


def deletion_action(claim: Claim, seen: Observation) -> NextAction:
    """Return who acts next on a claim that is being released and that no pod of the mirror uses."""
    if consumers := sorted({name for row in seen.holders for name in reserved_consumers(row)}):
        sentence = (
            f"The claim is still reserved for {', '.join(consumers[:3])}, which the portal does not see. "
            "It is deleted when that ends."
        )
        return NextAction("cluster", "Kubernetes", sentence)
    if blocked := write_blocked(claim):
        return blocked
    if claim.problem:
        return NextAction("portal", "The portal", "It has not deleted the object yet and keeps trying.")
    return NextAction("cluster", "Kubernetes", "It is deleting the object. No pod uses the claim any more.")


def write_blocked(claim: Claim) -> NextAction | None:
    """Return what a platform admin has to do before the portal may write to the cluster; None if it may."""
    cluster = claim.cluster
    if cluster.is_writable:
        return None
    why = cluster.halt_reason or f"The portal may not write to {cluster}."
    return NextAction("admin", "A platform admin", f"{why} It continues when a platform admin allows it.")


def pods_that_hold(seen: Observation, pods: Sequence[PodView]) -> list[PodView]:
    """Return the pods that keep devices: those with a reserved slot, and those that have a node."""
    reserved = {ref.get("uid") for row in seen.holders for ref in consumer_references(row)}
    return [view for view in pods if view.pod.uid in reserved or view.stage not in WAITING_STAGES]


def pod_owner(pods: Sequence[PodView]) -> str:
    """Return "The owner of the pod train-0 (Job train)"; Kubernetes does not know the person."""
    workloads = {view.workload for view in pods}
    workload = f" ({workloads.pop()})" if len(workloads) == 1 and any(workloads) else ""
    return f"The owner of the {'pod' if len(pods) == 1 else 'pods'} {pod_names(pods)}{workload}"


def reserved_consumers(row: ResourceClaim) -> list[str]:
    """Return the consumers that a ResourceClaim is reserved for, as "pods train"."""
    references = consumer_references(row)
    return [f"{ref.get('resource', '')} {ref.get('name', '')}".strip() for ref in references]


type Status = Literal["done", "now", "ahead", "skipped", "bad"]

STEP_KEYS = (
    "requested", "quota", "approved", "written", "waiting", "scheduler", "prepared", "used", "releasing",
    "released",
)  # fmt: skip
STEP_ACTORS: Mapping[str, Actor] = {
    "requested": "you", "quota": "portal", "approved": "person", "written": "portal", "waiting": "you",
    "scheduler": "cluster", "prepared": "cluster", "used": "you", "releasing": "cluster",
    "released": "nobody",
}  # fmt: skip
# Steps that only a claim with a device or a waiting pod reaches.
DEVICE_STEPS = ("waiting", "scheduler", "prepared", "used")


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """
    One step of a claim.

    `at` is the time at which a step was done or the current step began; None if it lies ahead or is unknown.
    `actor` can take the step; `next` says what to do, for the current step only.
    """

    key: str
    label: str
    status: Status
    at: datetime | None = None
    by: str = ""
    note: str = ""
    actor: Actor = "nobody"
    next: str = ""


def timeline(
    claim: Claim,
    seen: Observation,
    pods: Sequence[PodView],
    history: Sequence[Transition],
    action: NextAction,
) -> tuple[TimelineStep, ...]:
    """Return the steps of `STEP_KEYS`; for a claim that ended early, only those up to its end."""
    # The requester, even if the claim was transferred later.
    requester = next((step.by for step in history if not step.old and step.by), claim.requested_by).label
    steps = [
        TimelineStep("requested", "Requested", "done", claim.created_at, requester, size_text(claim), "you"),
        TimelineStep("quota", "Quota", "done", claim.created_at, "", quota_text(claim), "portal"),
    ]
    if claim.state in NEVER_APPROVED:
        return (*steps, last_step(claim, history, "approved"))
    is_binding = not pods and claim.state == ClaimState.ALLOCATED and pending_binding(seen) is not None
    current = current_step(claim, pods, history, is_binding=is_binding)
    labels, notes, transitions = (
        step_labels(claim, current),
        step_notes(claim, seen, pods),
        transitions_by_step(history),
    )
    held = any(step.new == ClaimState.ALLOCATED for step in history)
    for key in STEP_KEYS[2:]:
        if claim.state == ClaimState.FAILED and key == current:
            return (*steps, last_step(claim, history, key))
        status = step_status(key, current, claim, transitions, held=held)
        at = current_since(key, claim, pods) if status == "now" else None
        by = ""
        if status == "done" and (done := transitions.get(key)):
            at, by = done.at, done.by.label if done.by else ""
        elif status == "done" and key == "waiting":
            at = min((view.pod.created_at for view in pods if view.pod.created_at), default=None)
        elif status == "done" and key == "prepared":
            at = min(
                (view.since for view in pods if view.stage == PodStage.RUNNING and view.since), default=None
            )
            status = "done" if at or not claim.is_final else "skipped"  # its pods are gone, nobody knows when
        next_sentence = action.sentence if status == "now" else ""
        actor = action.actor if status == "now" else STEP_ACTORS[key]
        note = "" if status == "skipped" else notes.get(key, "")
        steps.append(TimelineStep(key, labels[key], status, at, by, note, actor, next_sentence))
    return tuple(steps)


def pending_binding(seen: Observation) -> Diagnosis | None:
    """Return why an allocated device is not ready for a pod, which may not be mirrored yet."""
    return next(filter(None, map(binding_diagnosis, seen.holders)), None)


def current_step(
    claim: Claim, pods: Sequence[PodView], history: Sequence[Transition], *, is_binding: bool
) -> str:
    """Return the key of the current step, or of the step at which the claim failed."""
    match history[-1].old if claim.state == ClaimState.FAILED and history else claim.state:
        case ClaimState.REQUESTED:
            return "approved"
        case ClaimState.APPROVED:
            return "written"
        case ClaimState.PROVISIONED:
            return "scheduler" if pods else "waiting"
        case ClaimState.ALLOCATED:
            started = [view for view in pods if view.stage in STARTING_STAGES]
            running = [view for view in pods if view.stage in (PodStage.RUNNING, PodStage.ENDING)]
            if (pods or is_binding) and not started and not running:
                return "scheduler"  # no pod is bound to a node yet
            return "prepared" if started and not running else "used"
        case ClaimState.RELEASING:
            return "releasing"
    return "released"


def step_status(
    key: str, current: str, claim: Claim, transitions: Mapping[str, Transition | None], *, held: bool
) -> Status:
    place, current_place = STEP_KEYS.index(key), STEP_KEYS.index(current)
    if place > current_place:
        return "ahead"
    if place == current_place:
        return "done" if claim.state in FINAL else "now"
    if key in DEVICE_STEPS:  # a waiting pod reaches these steps before any device is held
        return "done" if held or current in DEVICE_STEPS else "skipped"
    return "done" if transitions.get(key) else "skipped"


def transitions_by_step(history: Sequence[Transition]) -> dict[str, Transition | None]:
    """Return for each step the latest transition that completed it."""
    reached = {step.new: step for step in history}
    allocated = reached.get(ClaimState.ALLOCATED)
    return {
        "approved": reached.get(ClaimState.APPROVED),
        "written": reached.get(ClaimState.PROVISIONED) or allocated,
        "waiting": allocated,
        "scheduler": allocated,
        "used": allocated,
        "releasing": reached.get(ClaimState.RELEASING),
        "released": reached.get(ClaimState.RELEASED),
    }


def current_since(key: str, claim: Claim, pods: Sequence[PodView]) -> datetime | None:
    stages = {"scheduler": WAITING_STAGES, "prepared": STARTING_STAGES, "used": (PodStage.RUNNING,)}.get(
        key, ()
    )
    since = [view.since for view in pods if view.stage in stages and view.since]
    return min(since, default=claim.state_since)


def last_step(claim: Claim, history: Sequence[Transition], key: str) -> TimelineStep:
    last = history[-1] if history else None
    by = last.by.label if last and last.by else ""
    status: Status = "bad" if LOOK[claim.state][0] == "bad" else "done"
    why = last.reason if last else ""
    return TimelineStep(key, claim.get_state_display(), status, claim.state_since, by, why, STEP_ACTORS[key])


def step_labels(claim: Claim, current: str) -> dict[str, str]:
    return {
        "approved": "Approved" if claim.state != ClaimState.REQUESTED else "Approval",
        "written": "Object created",
        "waiting": "Waited for a pod"
        if STEP_KEYS.index(current) > STEP_KEYS.index("waiting")
        else "Waiting for a pod",
        "scheduler": "Scheduler",
        "prepared": "Prepared",
        "used": "In use",
        "releasing": "Releasing",
        "released": "Released",
    }


def step_notes(claim: Claim, seen: Observation, pods: Sequence[PodView]) -> dict[str, str]:
    notes = {"written": f"{claim.cluster} / {claim.namespace}", "approved": claim.decision_note}
    scheduled = [
        count_text(
            pods, WAITING_STAGES, ("%d pod waits" if count_in(pods, WAITING_STAGES) == 1 else "%d pods wait")
        )
    ]
    if count := len({held.key for held in seen.held}):
        scheduled.insert(0, f"{counted(count, 'device')}")
    notes["scheduler"] = ", ".join(filter(None, scheduled))
    starting = count_in(pods, STARTING_STAGES)
    notes["prepared"] = count_text(
        pods, STARTING_STAGES, ("%d pod starts" if starting == 1 else "%d pods start")
    )
    running = count_in(pods, (PodStage.RUNNING,))
    notes["used"] = count_text(pods, (PodStage.RUNNING,), ("%d pod runs" if running == 1 else "%d pods run"))
    if claim.state == ClaimState.PROVISIONED and not pods:
        notes["waiting"] = "no pod uses the claim"
    if claim.state == ClaimState.RELEASING and pods:
        notes["releasing"] = f"{counted(len(pods), 'pod still uses', 'pods still use')} the claim"
    return notes


def count_in(pods: Sequence[PodView], stages: Sequence[PodStage]) -> int:
    return sum(view.stage in stages for view in pods)


def count_text(pods: Sequence[PodView], stages: Sequence[PodStage], words: str) -> str:
    count = count_in(pods, stages)
    return words % count if count else ""


def size_text(claim: Claim) -> str:
    size = counted(claim.devices, "device")
    if claim.delivery != Delivery.TEMPLATE:
        return size
    return f"{size} per pod, up to {counted(claim.parallel, 'pod')} at once"


def quota_text(claim: Claim) -> str:
    """Return "2 × gpu.nvidia.com" per device class; `claims.access.visible_claim` has read it."""
    charged: list[str] | None = getattr(claim, "charged", None)
    if charged is None:
        rows = claim.charges.order_by("device_class")
        charged = [f"{charge.devices} × {charge.device_class}" for charge in rows]
    return ", ".join(charged)


MAX_SHOWN_GROUPS = 3  # groups of pods on a page
MAX_GROUPS = 20  # groups of pods in the API
QUIET_STAGES = (PodStage.RUNNING, PodStage.ENDING)


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    Who acts next, all steps, and the pods that use the claim or wait for it.

    `lost_pods` were stopped recently by something other than their owner. `fit` is set while a pod waits for
    the scheduler. `can_read_events` is False if the cluster does not let the portal list Events.
    """

    next_action: NextAction
    steps: tuple[TimelineStep, ...]
    pods: tuple[PodView, ...]
    lost_pods: tuple[PodView, ...]
    fit: FitCheck | None
    problem: str
    can_read_events: bool

    @property
    def groups(self) -> list[PodGroup]:
        return group_pods(self.pods)[:MAX_GROUPS]

    @property
    def lost_groups(self) -> list[PodGroup]:
        return group_pods(self.lost_pods)

    @property
    def problem_groups(self) -> list[PodGroup]:
        """Return the pods that do not run or need action, then the lost ones."""
        pods = [view for view in self.pods if view.stage not in QUIET_STAGES or view.diagnosis.text]
        return [*group_pods(pods)[:MAX_SHOWN_GROUPS], *self.lost_groups]

    @property
    def more_waiting(self) -> int:
        """Return how many waiting pods `problem_groups` leaves out."""
        shown = sum(group.count for group in self.problem_groups if group.first.stage in WAITING_STAGES)
        return sum(view.stage in WAITING_STAGES for view in self.pods) - shown

    @property
    def first_problem(self) -> PodView | None:
        """Return the first pod that does not run."""
        return next((view for view in self.pods if view.stage not in QUIET_STAGES), None)

    @property
    def shown_steps(self) -> list[TimelineStep]:
        """Return the steps of the page: not the skipped ones, and not a release that lies ahead."""
        return [
            step
            for step in self.steps
            if step.status != "skipped" and (step.key, step.status) != ("released", "ahead")
        ]


def explain(
    claim: Claim,
    seen: Observation | None = None,
    age: Age | None = None,
    history: Sequence[Transition] | None = None,
) -> Explanation:
    """Explain a claim from its history (oldest first), its observation and the current cluster snapshot."""
    seen = observe([claim])[claim.pk] if seen is None else seen
    if age is None and not claim.is_final:
        age = ages((*OF_DEVICES, "pods"), cluster=claim.cluster)[0]
    if history is None:
        history = list(claim.history.select_related("by"))
    history = [step for step in history if step.old != step.new]  # remarks change no state
    pods = pod_views(claim, [] if claim.is_final else seen.users, seen.holders)
    queued = next((view for view in pods if view.stage == PodStage.SCHEDULER), None)
    needs_devices = claim.state in USABLE and (claim.delivery == Delivery.TEMPLATE or not seen.held)
    fit = check_fit(claim, queued.scheduler_message, age) if queued and needs_devices else None
    lost = lost_pods(claim) if claim.state in USABLE else []
    action = next_action(claim, seen, pods, lost, fit, history)
    return Explanation(
        next_action=action,
        steps=timeline(claim, seen, pods, history, action),
        pods=tuple(pods),
        lost_pods=tuple(lost),
        fit=fit,
        problem=claim.problem,
        can_read_events="list events" not in claim.cluster.missing,
    )
