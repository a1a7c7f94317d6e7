"""The pods that use a claim: the stage of each, what it means, and where they would fit."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.db.models import Q
from django.utils import timezone

from claims.claim_page.scheduler import (
    OF_A_CONTAINER,
    OF_AN_EVENT,
    Actor,
    SchedulerMessage,
    SchedulerReason,
    read,
    tell,
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
    """Stable, for programs."""

    MISSING_CLAIM = "missing-claim"  # it names a ResourceClaim that is not there, of which nobody tells
    GOING_CLAIM = "going-claim"  # … one that is being deleted
    NO_TEMPLATE = "no-template"  # it names a ResourceClaimTemplate that is not there
    NO_CLAIM = "no-claim"  # its claim has not been made from the template yet
    GATED = "gated"
    SCHEDULER = "scheduler"
    PREPARING = "preparing"
    STARTING = "starting"
    ENDING = "ending"
    RUNNING = "running"
    LOST = "lost"  # it is gone, and not by its owner


ORDER = tuple(PodStage)  # those first about which something has to be done
WAITING = ORDER[: ORDER.index(PodStage.PREPARING)]  # no device is held for it
STARTED = (PodStage.PREPARING, PodStage.STARTING)


@dataclass(frozen=True, slots=True)
class StageLook:
    """`means` and `then` may name %(pod)s and %(missing)s; `family` and `icon` are those of states."""

    label: str
    family: str
    icon: str
    means: str
    actor: Actor
    then: str


NOTHING = "Nothing has to be done."
LOOKS = {
    PodStage.MISSING_CLAIM: StageLook(
        "Names a claim that is missing",
        "you",
        "help",
        "The pod %(pod)s names the ResourceClaim %(missing)s, which is not in its namespace. "
        "Kubernetes does not queue such a pod, and says nothing.",
        "you",
        "Make that claim, or start the pod with one that exists.",
    ),
    PodStage.GOING_CLAIM: StageLook(
        "Refers to a claim that is being deleted",
        "you",
        "progress-down",
        "The pod %(pod)s names the ResourceClaim %(missing)s, which is being deleted: it takes no pod.",
        "you",
        "Start the pod with another claim.",
    ),
    PodStage.NO_TEMPLATE: StageLook(
        "Names a template that is missing",
        "you",
        "help",
        "The pod %(pod)s names the ResourceClaimTemplate %(missing)s, which is not in its namespace.",
        "you",
        "Name a template that exists; the pod then goes on by itself.",
    ),
    PodStage.NO_CLAIM: StageLook(
        "Waits for its claim",
        "work",
        "file-text",
        "Kubernetes has not made the claim of the pod %(pod)s from the template yet.",
        "cluster",
        "It takes about a second; if it cannot, an event of the pod says why.",
    ),
    PodStage.GATED: StageLook(
        "Held back by a gate",
        "work",
        "player-pause",
        "The pod %(pod)s has scheduling gates: somebody wants to be asked before it is scheduled.",
        "cluster",
        "Whoever set the gate, often a queue such as Kueue, takes it away when it is the pod's turn.",
    ),
    PodStage.SCHEDULER: StageLook(
        "Waits for the scheduler",
        "work",
        "hourglass-high",
        "The scheduler has not said anything about the pod %(pod)s that the portal knows.",
        "cluster",
        "The scheduler tries again when claims, devices or nodes change.",
    ),
    PodStage.PREPARING: StageLook(
        "Prepares devices",
        "work",
        "tool",
        "The pod %(pod)s has its node and its devices; the driver prepares them there.",
        "cluster",
        "It takes seconds; if it fails, an event of the pod says why.",
    ),
    PodStage.STARTING: StageLook(
        "Starts containers",
        "work",
        "package",
        "The devices of the pod %(pod)s are prepared; its node fetches images and makes the containers.",
        "cluster",
        NOTHING,
    ),
    PodStage.ENDING: StageLook(
        "Ending",
        "work",
        "progress-down",
        "The pod %(pod)s is being deleted and holds its devices until it has ended.",
        "cluster",
        NOTHING,
    ),
    PodStage.RUNNING: StageLook(
        "Running", "held", "cpu", "The pod %(pod)s runs with its devices.", "you", NOTHING
    ),
    PodStage.LOST: StageLook(
        "Was ended",
        "bad",
        "circle-x",
        "The pod %(pod)s was ended by somebody other than its owner.",
        "you",
        "Start the pod again.",
    ),
}


def evidence_of(stage: PodStage, *, pod: str, missing: Sequence[str] = ()) -> SchedulerReason:
    """Say what a stage means where nobody has said anything more."""
    look, named = LOOKS[stage], {"pod": pod, "missing": ", ".join(missing)}
    return SchedulerReason("", look.means % named, look.actor, look.then % named)


SCHEDULER = "FailedScheduling"  # its events repeat what the pod's condition says
LOST_FOR = timedelta(hours=1)  # so long it is told why a pod was ended by others
ENDERS = ("DeviceTaintManagerEviction", "TaintManagerEviction", "Preempted", "Evicted")
TELLING = (*ENDERS, "BindingConditionsPending")  # events that are no warnings, and tell why something waits


@dataclass(frozen=True, slots=True)
class Heard:
    """An Event with what it means."""

    event: PodEvent
    told: SchedulerReason


@dataclass(frozen=True)
class PodView:
    """
    One pod: `stage` since when, and the evidence for it.

    `missing` names ResourceClaims or templates that the pod names and that are not there (or are going).
    """

    pod: Pod
    stage: PodStage
    since: datetime | None
    missing: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return str(LOOKS[self.stage].label)

    @property
    def workload(self) -> str:
        """Return what made the pod, as "Job train"; "" for a pod that somebody made by hand."""
        owners = (self.pod.raw.get("metadata") or {}).get("ownerReferences") or []
        return next((f"{one['kind']} {one['name']}" for one in owners if one.get("controller")), "")

    @property
    def look(self) -> StageLook:
        return LOOKS[self.stage]

    @cached_property
    def said(self) -> SchedulerMessage | None:
        """Return what the scheduler says while the pod waits for it."""
        return read(self.pod.message) if self.stage == PodStage.SCHEDULER and self.pod.message else None

    @cached_property
    def events(self) -> list[Heard]:
        """
        Return what was said of the pod, the newest first, each meaning once, without what the condition says.
        """
        heard: dict[tuple[str, str], Heard] = {}
        for event in self.pod.events.all():
            if event.reason == SCHEDULER or not (event.warning or event.reason in TELLING):
                continue
            told = tell(f"{event.reason}: {event.message}", OF_AN_EVENT)
            heard.setdefault((event.reason, told.means or event.message), Heard(event, told))
        return list(heard.values())

    @cached_property
    def told(self) -> SchedulerReason:
        """Return the one thing to tell: the plainest evidence there is, else what the stage itself means."""
        return self._evidence() or evidence_of(self.stage, pod=self.pod.name, missing=self.missing)

    def _evidence(self) -> SchedulerReason | None:
        known = [heard.told for heard in self.events if heard.told.means]
        match self.stage:
            case PodStage.SCHEDULER:
                main = self.said.main if self.said else next(iter(known), None)
                return main if main and main.means else None
            case PodStage.NO_CLAIM | PodStage.PREPARING | PodStage.ENDING | PodStage.LOST:
                return next(iter(known), None)
            case PodStage.STARTING | PodStage.RUNNING:
                return next((one for one in waits_of(self.pod) if one.actor == "you"), None)
        return None


def views(claim: Claim, pods: Sequence[Pod]) -> list[PodView]:
    """Return the pods that have not ended, those first about which something has to be done."""
    claims = _claims(claim, {name for pod in pods for name in pod.claims})
    templates = _templates(claim, {name for pod in pods for name in pod.templates})
    found = [view_of(pod, claims, templates) for pod in pods]
    return sorted(found, key=_urgency)


def _urgency(view: PodView) -> tuple[int, bool, str]:
    """Of those that wait for the scheduler, those come first of which it speaks of devices."""
    speaks = view.said is not None and bool(view.said.out_for_devices)
    return ORDER.index(view.stage), not speaks, view.pod.name


def lost(claim: Claim) -> list[PodView]:
    """Return pods of the claim that others than their owner have ended of late; the last one first."""
    named = Q(claims__contains=[claim.name]) | Q(templates__contains=[claim.name])
    gone = Pod.objects.filter(
        named,
        cluster=claim.cluster_id,
        namespace=claim.namespace,
        gone_at__gte=timezone.now() - LOST_FOR,
        events__reason__in=ENDERS,
    )
    rows = gone.distinct().order_by("-gone_at", "name").prefetch_related("events")
    return [PodView(pod, PodStage.LOST, pod.gone_at) for pod in rows[:3]]


def view_of(pod: Pod, claims: Mapping[str, str], templates: Collection[str]) -> PodView:
    """
    Say where a pod stands. `claims` are those that are there, by name, "going" if they are being deleted;
    `templates` the names of those that are there.
    """
    scheduled = condition(pod, "PodScheduled")
    if pod.deleting_since:
        return PodView(pod, PodStage.ENDING, pod.deleting_since)
    if pod.phase == "Running":
        return PodView(pod, PodStage.RUNNING, _started(pod))
    if pod.node_name:
        ready = condition(pod, "PodReadyToStartContainers").get("status") == "True"
        return PodView(
            pod, PodStage.STARTING if ready else PodStage.PREPARING, _at(scheduled) or pod.created_at
        )
    if missing := tuple(name for name in pod.claims if name not in claims):
        return PodView(pod, PodStage.MISSING_CLAIM, pod.created_at, missing)
    if going := tuple(name for name in pod.claims if claims[name] == "going"):
        return PodView(pod, PodStage.GOING_CLAIM, pod.created_at, going)
    if _lacks_claim(pod):
        missing = tuple(name for name in pod.templates if name not in templates)
        return PodView(pod, PodStage.NO_TEMPLATE if missing else PodStage.NO_CLAIM, pod.created_at, missing)
    if scheduled.get("reason") == "SchedulingGated":
        return PodView(pod, PodStage.GATED, pod.created_at)
    return PodView(pod, PodStage.SCHEDULER, pod.created_at)


def condition(pod: Pod, kind: str) -> dict[str, Any]:
    """Return the condition of this type, {} if the pod has none."""
    conditions = (pod.raw.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), {})


def waits_of(pod: Pod) -> Iterable[SchedulerReason]:
    """Yield why containers wait, as far as it is known."""
    for state in _containers(pod):
        waiting = state.get("waiting") or {}
        if waiting.get("reason"):
            text = ": ".join(filter(None, (waiting["reason"], waiting.get("message"))))
            yield tell(text, OF_A_CONTAINER)


def _containers(pod: Pod) -> list[dict[str, Any]]:
    status = pod.raw.get("status") or {}
    groups = (status.get("initContainerStatuses") or [], status.get("containerStatuses") or [])
    return [container.get("state") or {} for group in groups for container in group]


def _started(pod: Pod) -> datetime | None:
    begun = [instant((state.get("running") or {}).get("startedAt")) for state in _containers(pod)]
    return min((at for at in begun if at), default=_at(condition(pod, "Ready")) or pod.created_at)


def _at(found: Mapping[str, Any]) -> datetime | None:
    return instant(found.get("lastTransitionTime"))


def _lacks_claim(pod: Pod) -> bool:
    """Tell whether Kubernetes has not made a claim yet that the pod wants from a template."""
    status = pod.raw.get("status") or {}
    made = {one["name"] for one in status.get("resourceClaimStatuses") or []}
    wanted = (pod.raw.get("spec") or {}).get("resourceClaims") or []
    return any(one.get("resourceClaimTemplateName") and one["name"] not in made for one in wanted)


def _claims(claim: Claim, names: set[str]) -> dict[str, str]:
    """Return the ResourceClaims of these names that are there: name → "going" if it is deleted, else ""."""
    if not names:
        return {}
    here = {"cluster": claim.cluster_id, "namespace": claim.namespace, "gone_at": None}
    rows = ResourceClaim.objects.filter(**here, name__in=names).values_list("name", "deleting_since")
    return {name: "going" if since else "" for name, since in rows}


def _templates(claim: Claim, names: set[str]) -> set[str]:
    if not names:
        return set()
    here = {"cluster": claim.cluster_id, "namespace": claim.namespace, "gone_at": None}
    rows = ResourceClaimTemplate.objects.filter(**here, name__in=names)
    return set(rows.values_list("name", flat=True))


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of which the same is to be told, by name; `first` stands for all of them."""

    views: tuple[PodView, ...]

    @property
    def first(self) -> PodView:
        return self.views[0]

    @property
    def count(self) -> int:
        return len(self.views)

    @property
    def names(self) -> str:
        return names_of(self.views)

    @property
    def since(self) -> datetime | None:
        return min((view.since for view in self.views if view.since), default=None)

    @property
    def nodes(self) -> list[str]:
        return sorted({view.pod.node_name for view in self.views if view.pod.node_name})


def grouped(pods: Iterable[PodView]) -> list[PodGroup]:
    """Put pods together that stand at the same stage for the same reason, in the order of their first."""
    groups: dict[tuple[object, ...], list[PodView]] = {}
    for view in pods:
        said = view.said.message if view.said else ""
        events = tuple((heard.event.reason, heard.told.means) for heard in view.events)
        groups.setdefault((view.stage, view.missing, said, view.told.text, events), []).append(view)
    return [PodGroup(tuple(views)) for views in groups.values()]


def names_of(pods: Sequence[PodView], *, most: int = 3) -> str:
    """Return "a, b, c and 4 more"."""
    names = ", ".join(view.pod.name for view in pods[:most])
    more = len(pods) - most
    return f"{names} and {more} more" if more > 0 else names


SHOWN = 3  # names of nodes


@dataclass(frozen=True, slots=True)
class FitNow:
    """`agrees` is None where one of the two cannot be told; `sentence` says both."""

    preview: match.Preview
    agrees: bool | None
    sentence: str


def fit_now(claim: Claim, said: SchedulerMessage | None, age: Age | None) -> FitNow:
    """Look at the picture of this moment for one claim of the spec."""
    preview = match.preview(current_snapshot(claim.cluster), claim.spec)
    agrees = agreement(preview, said)
    return FitNow(preview, agrees, _sentence(preview, said, _old(age), agrees=agrees))


def agreement(preview: match.Preview, said: SchedulerMessage | None) -> bool | None:
    """Compare. Nodes that fit may be those that the scheduler rules out for what is not devices."""
    if said is None:
        return None
    if any(part.count is None for part in said.parts):  # about the pod as a whole
        return True if preview.problem else None
    if preview.nodes_that_fit is None or not said.out_for_devices:
        return None
    return preview.nodes_that_fit <= said.out_for_other


def _sentence(preview: match.Preview, said: SchedulerMessage | None, old: str, *, agrees: bool | None) -> str:
    if preview.nodes_that_fit is None and not agrees:
        return f"Whether it fits cannot be told from the portal's picture: {preview.problem}"
    if preview.problem:
        if agrees:
            return f"The portal's picture, {old}, shows the same: {preview.problem}"
        return f"By the portal's picture, {old}: {preview.problem}"
    count = preview.nodes_that_fit or 0
    there = (
        f"By the portal's picture, {old}, the claim fits on {counted(count, 'node')} now: "
        f"{_names(preview.nodes, count)}."
    )
    return f"{there} {_beside(said, agrees=agrees)}".strip()


def _beside(said: SchedulerMessage | None, *, agrees: bool | None) -> str:
    """Say how the scheduler comes to another answer."""
    if agrees is False:
        return "The scheduler says that nothing fits; it tries again when something changes."
    if said is not None and said.out_for_other:
        return "The scheduler keeps the pod from nodes for other reasons than devices, which may be those."
    return ""


def _names(nodes: Sequence[str], count: int) -> str:
    return ", ".join(nodes[:SHOWN]) + (" …" if count > SHOWN else "")


def _old(age: Age | None) -> str:
    if age is None or age.seen_at is None:
        return "whose age is not known"

    return f"{duration(timezone.now() - age.seen_at)} old"
