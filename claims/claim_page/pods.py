"""
The pods that use a claim or wait for it: their stages, what the stages mean, and where a pod would fit now.

Stages and diagnoses come from the mirrored pods and their Events; the fit comes from the cluster snapshot.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.db.models import Q
from django.utils import timezone

from claims.claim_page.scheduler import (
    CONTAINER_RULES,
    EVENT_RULES,
    NO_ACTION,
    RETRIES,
    Actor,
    Diagnosis,
    SchedulerMessage,
    diagnose,
    parse_message,
)
from claims.models import Claim
from core.text import counted
from core.times import duration
from dra import match
from inventory.cluster_snapshot import current_snapshot
from inventory.freshness import Age
from inventory.models import Pod, PodEvent, ResourceClaim, ResourceClaimTemplate
from inventory.sync.columns import instant


class PodStage(StrEnum):
    """Stages that need action come first. The values are part of the API."""

    MISSING_CLAIM = "missing-claim"  # Kubernetes does not report it
    CLAIM_BEING_DELETED = "going-claim"
    NO_TEMPLATE = "no-template"  # refers to a ResourceClaimTemplate that does not exist
    NO_CLAIM = "no-claim"  # its claim has not been created from the template yet
    GATED = "gated"
    SCHEDULER = "scheduler"
    PREPARING = "preparing"
    STARTING = "starting"
    ENDING = "ending"
    RUNNING = "running"
    LOST = "lost"  # stopped by something other than its owner


STAGE_ORDER = tuple(PodStage)
WAITING_STAGES = STAGE_ORDER[: STAGE_ORDER.index(PodStage.PREPARING)]  # no device is held for it
STARTING_STAGES = (PodStage.PREPARING, PodStage.STARTING)


@dataclass(frozen=True, slots=True)
class StageInfo:
    """`meaning` and `next_step` may name %(pod)s and %(missing)s; `family` and `icon` as in claims.states."""

    label: str
    family: str
    icon: str
    meaning: str
    actor: Actor
    next_step: str


STAGES = {
    PodStage.MISSING_CLAIM: StageInfo(
        "Refers to a missing claim",
        "you",
        "help",
        "The pod %(pod)s refers to the ResourceClaim %(missing)s, which its namespace does not have. "
        "Kubernetes does not queue such a pod and reports nothing.",
        "you",
        "Create that claim, or start the pod with one that exists.",
    ),
    PodStage.CLAIM_BEING_DELETED: StageInfo(
        "Refers to a claim that is being deleted",
        "you",
        "progress-down",
        "The pod %(pod)s refers to the ResourceClaim %(missing)s, which is being deleted and accepts no pod.",
        "you",
        "Start the pod with another claim.",
    ),
    PodStage.NO_TEMPLATE: StageInfo(
        "Refers to a missing template",
        "you",
        "help",
        "The pod %(pod)s refers to the ResourceClaimTemplate %(missing)s, which its namespace does not have.",
        "you",
        "Create that template, or start the pod with one that exists.",
    ),
    PodStage.NO_CLAIM: StageInfo(
        "Waits for its claim",
        "work",
        "file-text",
        "Kubernetes has not created the claim of the pod %(pod)s from the template yet.",
        "cluster",
        "This takes about a second. If it fails, an event of the pod says why.",
    ),
    PodStage.GATED: StageInfo(
        "Has a scheduling gate",
        "work",
        "player-pause",
        "The pod %(pod)s has scheduling gates, so it is not scheduled yet.",
        "cluster",
        "The controller that set the gate, often a queue such as Kueue, removes it at the pod's turn.",
    ),
    PodStage.SCHEDULER: StageInfo(
        "Waits for the scheduler",
        "work",
        "hourglass-high",
        "The scheduler has not reported anything about the pod %(pod)s yet.",
        "cluster",
        RETRIES,
    ),
    PodStage.PREPARING: StageInfo(
        "Preparing devices",
        "work",
        "tool",
        "The pod %(pod)s has a node and devices. The driver prepares the devices on that node.",
        "cluster",
        "This takes seconds. If it fails, an event of the pod says why.",
    ),
    PodStage.STARTING: StageInfo(
        "Starting containers",
        "work",
        "package",
        "The devices of the pod %(pod)s are ready. Its node pulls images and creates the containers.",
        "cluster",
        NO_ACTION,
    ),
    PodStage.ENDING: StageInfo(
        "Ending",
        "work",
        "progress-down",
        "The pod %(pod)s is being deleted and holds its devices until it has ended.",
        "cluster",
        NO_ACTION,
    ),
    PodStage.RUNNING: StageInfo(
        "Running", "held", "cpu", "The pod %(pod)s runs with its devices.", "you", NO_ACTION
    ),
    PodStage.LOST: StageInfo(
        "Stopped",
        "bad",
        "circle-x",
        "The pod %(pod)s was stopped by something other than its owner.",
        "you",
        "Start the pod again.",
    ),
}


def stage_diagnosis(stage: PodStage, *, pod: str, missing: Sequence[str] = ()) -> Diagnosis:
    """Return what a stage means if there is no message of Kubernetes."""
    info, names = STAGES[stage], {"pod": pod, "missing": ", ".join(missing)}
    return Diagnosis("", info.meaning % names, info.actor, info.next_step % names)


FAILED_SCHEDULING = "FailedScheduling"  # its events repeat the pod's condition
LOST_PODS_SHOWN_FOR = timedelta(hours=1)
EVICTION_REASONS = ("DeviceTaintManagerEviction", "TaintManagerEviction", "Preempted", "Evicted")
# Reasons of events that are shown though they are not warnings.
SHOWN_REASONS = (*EVICTION_REASONS, "BindingConditionsPending")


@dataclass(frozen=True, slots=True)
class DiagnosedEvent:
    """An Event and its diagnosis."""

    event: PodEvent
    diagnosis: Diagnosis


@dataclass(frozen=True)
class PodView:
    """
    One pod, its stage and the time at which the stage began.

    `missing` names ResourceClaims or templates that the pod refers to and that do not exist or are being
    deleted. `binding` is set while an allocated device is not ready for the pod.
    """

    pod: Pod
    stage: PodStage
    since: datetime | None
    missing: tuple[str, ...] = ()
    binding: Diagnosis | None = None

    @property
    def label(self) -> str:
        return str(STAGES[self.stage].label)

    @property
    def workload(self) -> str:
        """Return the controller that created the pod, as "Job train"; "" for a pod without one."""
        owners = (self.pod.raw.get("metadata") or {}).get("ownerReferences") or []
        return next((f"{owner['kind']} {owner['name']}" for owner in owners if owner.get("controller")), "")

    @property
    def info(self) -> StageInfo:
        return STAGES[self.stage]

    @cached_property
    def scheduler_message(self) -> SchedulerMessage | None:
        """Return the message of the scheduler while the pod waits for it, else None."""
        waits = self.stage == PodStage.SCHEDULER
        return parse_message(self.pod.message) if waits and self.pod.message else None

    @cached_property
    def events(self) -> list[DiagnosedEvent]:
        """Return the pod's Events, newest first, each meaning once, without those of the scheduler."""
        diagnosed: dict[tuple[str, str], DiagnosedEvent] = {}
        for event in self.pod.events.all():
            if event.reason == FAILED_SCHEDULING or not (event.warning or event.reason in SHOWN_REASONS):
                continue
            diagnosis = diagnose(f"{event.reason}: {event.message}", EVENT_RULES)
            diagnosed.setdefault(
                (event.reason, diagnosis.meaning or event.message), DiagnosedEvent(event, diagnosis)
            )
        return list(diagnosed.values())

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis to show: the known cause, else the meaning of the stage."""
        return self._known_cause() or stage_diagnosis(self.stage, pod=self.pod.name, missing=self.missing)

    def _known_cause(self) -> Diagnosis | None:
        from_events = [event.diagnosis for event in self.events if event.diagnosis.meaning]
        match self.stage:
            case PodStage.SCHEDULER if self.binding:
                return self.binding
            case PodStage.SCHEDULER:
                message = self.scheduler_message
                reason = message.main_reason if message else next(iter(from_events), None)
                return reason if reason and reason.meaning else None
            case PodStage.NO_CLAIM | PodStage.PREPARING | PodStage.ENDING | PodStage.LOST:
                return next(iter(from_events), None)
            case PodStage.STARTING | PodStage.RUNNING:
                return next((wait for wait in container_waits(self.pod) if wait.actor == "you"), None)
        return None


def pod_views(claim: Claim, pods: Sequence[Pod], holders: Iterable[ResourceClaim] = ()) -> list[PodView]:
    """
    Return the views of pods that have not ended, those that need action first.

    `holders` are the ResourceClaims that hold devices for the claim.
    """
    holders = [row for row in holders if row.gone_at is None]
    bindings = {row.name: diagnosis for row in holders if (diagnosis := binding_diagnosis(row))}
    claims = {row.name: "deleting" if row.deleting_since else "" for row in holders}
    claims |= present_claims(claim, {name for pod in pods for name in pod.claims} - set(claims))
    templates = present_templates(claim, {name for pod in pods for name in pod.templates})
    views = [pod_view(pod, claims, templates) for pod in pods]
    if bindings:
        views = [replace(view, binding=_first_binding(view.pod, bindings)) for view in views]
    return sorted(views, key=urgency)


def _first_binding(pod: Pod, bindings: Mapping[str, Diagnosis]) -> Diagnosis | None:
    return next((bindings[name] for name in pod.claims if name in bindings), None)


def binding_diagnosis(row: ResourceClaim) -> Diagnosis | None:
    """
    Return which device of an allocated claim keeps its pods from being bound, None if none does.

    Before it binds the pod, the scheduler waits until all `bindingConditions` of a device are true in
    `status.devices`, at most 10 minutes by default, or until a `bindingFailureConditions` is (KEP 5007).
    """
    status = row.raw.get("status") or {}
    reported = {
        _device_key(device): {
            condition.get("type")
            for condition in device.get("conditions") or ()
            if condition.get("status") == "True"
        }
        for device in status.get("devices") or ()
    }
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    for result in results:
        true = reported.get(_device_key(result), set())
        failed = [name for name in result.get("bindingFailureConditions") or () if name in true]
        missing = [name for name in result.get("bindingConditions") or () if name not in true]
        device = f"{result['device']} of {result['pool']}"
        if failed:
            meaning = f"The device {device} reports {failed[0]}: it does not become ready."
            return Diagnosis("", meaning, "cluster", "The scheduler gives it back and looks for another.")
        if missing:
            meaning = (
                f"The device {device} is allocated and not ready: its driver has not reported {missing[0]}. "
                "Its cost counts from allocation on."
            )
            next_step = (
                "When it is ready, the pod is bound to its node. After 10 minutes the scheduler looks for "
                "another device."
            )
            return Diagnosis("", meaning, "cluster", next_step)
    return None


def _device_key(device: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def urgency(view: PodView) -> tuple[int, bool, str]:
    """Sort by stage; of the pods that wait for the scheduler, those that lack devices come first."""
    lacks_devices = view.scheduler_message is not None and bool(view.scheduler_message.nodes_without_devices)
    return STAGE_ORDER.index(view.stage), not lacks_devices, view.pod.name


def lost_pods(claim: Claim) -> list[PodView]:
    """Return up to three pods that something other than their owner stopped recently, newest first."""
    named = Q(claims__contains=[claim.name]) | Q(templates__contains=[claim.name])
    gone = Pod.objects.filter(
        named,
        cluster=claim.cluster_id,
        namespace=claim.namespace,
        gone_at__gte=timezone.now() - LOST_PODS_SHOWN_FOR,
        events__reason__in=EVICTION_REASONS,
    )
    rows = gone.distinct().order_by("-gone_at", "name").prefetch_related("events")
    return [PodView(pod, PodStage.LOST, pod.gone_at) for pod in rows[:3]]


def pod_view(pod: Pod, claims: Mapping[str, str], templates: Collection[str]) -> PodView:
    """
    Return a pod with its stage.

    `claims` are the existing ResourceClaims by name, "deleting" if they are being deleted. `templates` are
    the names of the existing ResourceClaimTemplates.
    """
    scheduled = pod_condition(pod, "PodScheduled")
    if pod.deleting_since:
        return PodView(pod, PodStage.ENDING, pod.deleting_since)
    if pod.phase == "Running":
        return PodView(pod, PodStage.RUNNING, started_at(pod))
    if pod.node_name:
        ready = pod_condition(pod, "PodReadyToStartContainers").get("status") == "True"
        return PodView(
            pod,
            PodStage.STARTING if ready else PodStage.PREPARING,
            transition_time(scheduled) or pod.created_at,
        )
    if missing := tuple(name for name in pod.claims if name not in claims):
        return PodView(pod, PodStage.MISSING_CLAIM, pod.created_at, missing)
    if deleting := tuple(name for name in pod.claims if claims[name] == "deleting"):
        return PodView(pod, PodStage.CLAIM_BEING_DELETED, pod.created_at, deleting)
    if lacks_generated_claim(pod):
        missing = tuple(name for name in pod.templates if name not in templates)
        return PodView(pod, PodStage.NO_TEMPLATE if missing else PodStage.NO_CLAIM, pod.created_at, missing)
    if scheduled.get("reason") == "SchedulingGated":
        return PodView(pod, PodStage.GATED, pod.created_at)
    return PodView(pod, PodStage.SCHEDULER, pod.created_at)


def pod_condition(pod: Pod, kind: str) -> dict[str, Any]:
    """Return the condition of this type, {} if the pod does not have it."""
    conditions = (pod.raw.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def container_waits(pod: Pod) -> Iterable[Diagnosis]:
    """Yield the diagnosis of each container that waits and says why."""
    for state in _containers(pod):
        waiting = state.get("waiting") or {}
        if waiting.get("reason"):
            text = ": ".join(filter(None, (waiting["reason"], waiting.get("message"))))
            yield diagnose(text, CONTAINER_RULES)


def _containers(pod: Pod) -> list[dict[str, Any]]:
    status = pod.raw.get("status") or {}
    groups = (status.get("initContainerStatuses") or [], status.get("containerStatuses") or [])
    return [container.get("state") or {} for group in groups for container in group]


def started_at(pod: Pod) -> datetime | None:
    begun = [instant((state.get("running") or {}).get("startedAt")) for state in _containers(pod)]
    return min(
        (at for at in begun if at), default=transition_time(pod_condition(pod, "Ready")) or pod.created_at
    )


def transition_time(condition: Mapping[str, Any]) -> datetime | None:
    return instant(condition.get("lastTransitionTime"))


def lacks_generated_claim(pod: Pod) -> bool:
    """Return whether Kubernetes still has to create a claim of the pod from a template."""
    status = pod.raw.get("status") or {}
    generated = {entry["name"] for entry in status.get("resourceClaimStatuses") or []}
    entries = (pod.raw.get("spec") or {}).get("resourceClaims") or []
    return any(entry.get("resourceClaimTemplateName") and entry["name"] not in generated for entry in entries)


def present_claims(claim: Claim, names: set[str]) -> dict[str, str]:
    """Return the existing ResourceClaims of these names: name → "deleting" or ""."""
    if not names:
        return {}
    here = {"cluster": claim.cluster_id, "namespace": claim.namespace, "gone_at": None}
    rows = ResourceClaim.objects.filter(**here, name__in=names).values_list("name", "deleting_since")
    return {name: "deleting" if since else "" for name, since in rows}


def present_templates(claim: Claim, names: set[str]) -> set[str]:
    if not names:
        return set()
    here = {"cluster": claim.cluster_id, "namespace": claim.namespace, "gone_at": None}
    rows = ResourceClaimTemplate.objects.filter(**here, name__in=names)
    return set(rows.values_list("name", flat=True))


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods with the same stage for the same reason; `first` represents all of them."""

    views: tuple[PodView, ...]

    @property
    def first(self) -> PodView:
        return self.views[0]

    @property
    def count(self) -> int:
        return len(self.views)

    @property
    def names(self) -> str:
        return pod_names(self.views)

    @property
    def since(self) -> datetime | None:
        return min((view.since for view in self.views if view.since), default=None)

    @property
    def nodes(self) -> list[str]:
        return sorted({view.pod.node_name for view in self.views if view.pod.node_name})


def group_pods(pods: Iterable[PodView]) -> list[PodGroup]:
    """Group pods that have the same stage for the same reason, in the order of their first pod."""
    groups: dict[tuple[object, ...], list[PodView]] = {}
    for view in pods:
        message = view.scheduler_message.message if view.scheduler_message else ""
        events = tuple((event.event.reason, event.diagnosis.meaning) for event in view.events)
        key = view.stage, view.missing, message, view.diagnosis.text, events
        groups.setdefault(key, []).append(view)
    return [PodGroup(tuple(views)) for views in groups.values()]


def pod_names(pods: Sequence[PodView], *, limit: int = 3) -> str:
    """Return "a, b, c and 4 more"."""
    names = ", ".join(view.pod.name for view in pods[:limit])
    more = len(pods) - limit
    return f"{names} and {more} more" if more > 0 else names


MAX_NODE_NAMES = 3


@dataclass(frozen=True, slots=True)
class FitCheck:
    """
    Whether the cluster snapshot has room for one claim of the spec, compared with the scheduler.

    `agrees` is None if the snapshot or the scheduler says nothing that can be compared.
    """

    preview: match.Preview
    agrees: bool | None
    sentence: str


def check_fit(claim: Claim, message: SchedulerMessage | None, age: Age | None) -> FitCheck:
    """Match one claim of the spec against the current cluster snapshot."""
    preview = match.preview(current_snapshot(claim.cluster), claim.spec)
    agrees = agrees_with_scheduler(preview, message)
    return FitCheck(preview, agrees, fit_sentence(preview, message, snapshot_age(age), agrees=agrees))


def agrees_with_scheduler(preview: match.Preview, message: SchedulerMessage | None) -> bool | None:
    """
    Return whether snapshot and scheduler agree, None if they cannot be compared.

    The scheduler may exclude nodes that fit for reasons other than devices.
    """
    if message is None:
        return None
    if any(reason.count is None for reason in message.reasons):  # about the pod, not about nodes
        return True if preview.problem else None
    if preview.nodes_that_fit is None or not message.nodes_without_devices:
        return None
    return preview.nodes_that_fit <= message.nodes_out_for_other_reasons


def fit_sentence(
    preview: match.Preview, message: SchedulerMessage | None, snapshot: str, *, agrees: bool | None
) -> str:
    """Return what the snapshot shows; `snapshot` names it with its age."""
    if preview.nodes_that_fit is None and not agrees:
        return f"The portal cannot tell whether the claim fits: {preview.problem}"
    if preview.problem:
        return f"{snapshot} shows the same: {preview.problem}" if agrees else f"{snapshot}: {preview.problem}"
    count = preview.nodes_that_fit or 0
    names = ", ".join(preview.nodes[:MAX_NODE_NAMES]) + (" …" if count > MAX_NODE_NAMES else "")
    fits = f"{snapshot}: the claim fits on {counted(count, 'node')} now ({names})."
    return f"{fits} {why_it_still_waits(message, agrees=agrees)}".strip()


def why_it_still_waits(message: SchedulerMessage | None, *, agrees: bool | None) -> str:
    """Return why a pod may wait although its claim fits in the snapshot."""
    if agrees is False:
        return "The scheduler reports that nothing fits. It tries again when something changes."
    if message is not None and message.nodes_out_for_other_reasons:
        return "The scheduler excludes nodes for reasons other than devices, possibly these."
    return ""


def snapshot_age(age: Age | None) -> str:
    if age is None or age.seen_at is None:
        return "The portal's snapshot of the cluster (age unknown)"
    return f"The portal's snapshot of the cluster ({duration(timezone.now() - age.seen_at)} old)"
