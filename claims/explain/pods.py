"""Where each pod of a claim stands, by what the mirror has of it: one answer per pod, and who can do what."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db.models import Q
from django.utils import timezone

from claims.explain import stages
from claims.explain.events import OF_A_CONTAINER, OF_AN_EVENT
from claims.explain.meaning import Told, tell
from claims.explain.scheduler import Said, read
from claims.explain.stages import Stage
from claims.models import Claim
from inventory.models import Pod, PodEvent, ResourceClaim, ResourceClaimTemplate
from inventory.sync.columns import instant

SCHEDULER = "FailedScheduling"  # its events repeat what the pod's condition says
LOST_FOR = timedelta(hours=1)  # so long it is told why a pod was ended by others
ENDERS = ("DeviceTaintManagerEviction", "TaintManagerEviction", "Preempted", "Evicted")
TELLING = (*ENDERS, "BindingConditionsPending")  # events that are no warnings, and tell why something waits


@dataclass(frozen=True, slots=True)
class Heard:
    """An Event with what it means."""

    event: PodEvent
    told: Told


@dataclass(frozen=True)
class PodView:
    """
    One pod: `stage` since when, and the evidence for it.

    `missing` names ResourceClaims or templates that the pod names and that are not there (or are going).
    """

    pod: Pod
    stage: Stage
    since: datetime | None
    missing: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return str(stages.LOOKS[self.stage].label)

    @property
    def workload(self) -> str:
        """Return what made the pod, as "Job train"; "" for a pod that somebody made by hand."""
        owners = (self.pod.raw.get("metadata") or {}).get("ownerReferences") or []
        return next((f"{one['kind']} {one['name']}" for one in owners if one.get("controller")), "")

    @property
    def look(self) -> stages.StageLook:
        return stages.LOOKS[self.stage]

    @cached_property
    def said(self) -> Said | None:
        """Return what the scheduler says while the pod waits for it."""
        return read(self.pod.message) if self.stage == Stage.SCHEDULER and self.pod.message else None

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
    def told(self) -> Told:
        """Return the one thing to tell: the plainest evidence there is, else what the stage itself means."""
        return self._evidence() or stages.evidence_of(self.stage, pod=self.pod.name, missing=self.missing)

    def _evidence(self) -> Told | None:
        known = [heard.told for heard in self.events if heard.told.means]
        match self.stage:
            case Stage.SCHEDULER:
                main = self.said.main if self.said else next(iter(known), None)
                return main if main and main.means else None
            case Stage.NO_CLAIM | Stage.PREPARING | Stage.ENDING | Stage.LOST:
                return next(iter(known), None)
            case Stage.STARTING | Stage.RUNNING:
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
    return stages.ORDER.index(view.stage), not speaks, view.pod.name


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
    return [PodView(pod, Stage.LOST, pod.gone_at) for pod in rows[:3]]


def view_of(pod: Pod, claims: Mapping[str, str], templates: Collection[str]) -> PodView:
    """
    Say where a pod stands. `claims` are those that are there, by name, "going" if they are being deleted;
    `templates` the names of those that are there.
    """
    scheduled = condition(pod, "PodScheduled")
    if pod.deleting_since:
        return PodView(pod, Stage.ENDING, pod.deleting_since)
    if pod.phase == "Running":
        return PodView(pod, Stage.RUNNING, _started(pod))
    if pod.node_name:
        ready = condition(pod, "PodReadyToStartContainers").get("status") == "True"
        return PodView(pod, Stage.STARTING if ready else Stage.PREPARING, _at(scheduled) or pod.created_at)
    if missing := tuple(name for name in pod.claims if name not in claims):
        return PodView(pod, Stage.MISSING_CLAIM, pod.created_at, missing)
    if going := tuple(name for name in pod.claims if claims[name] == "going"):
        return PodView(pod, Stage.GOING_CLAIM, pod.created_at, going)
    if _lacks_claim(pod):
        missing = tuple(name for name in pod.templates if name not in templates)
        return PodView(pod, Stage.NO_TEMPLATE if missing else Stage.NO_CLAIM, pod.created_at, missing)
    if scheduled.get("reason") == "SchedulingGated":
        return PodView(pod, Stage.GATED, pod.created_at)
    return PodView(pod, Stage.SCHEDULER, pod.created_at)


def condition(pod: Pod, kind: str) -> dict[str, Any]:
    """Return the condition of this type, {} if the pod has none."""
    conditions = (pod.raw.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), {})


def waits_of(pod: Pod) -> Iterable[Told]:
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
