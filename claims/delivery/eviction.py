"""
What happens to pods that still hold devices when their claim ends: the end policy (decision 14).

Only `announce` and `evict_now` write `Claim.evict_at`; `claims.delivery.deliver.evict` evicts what is due.
"""

from collections.abc import Iterable, Sequence
from itertools import batched
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim
from claims.models.limits import ProfileEndPolicy
from claims.notices import notify_of
from claims.observation.observations import ENDED, Observation, consumer_references, observe
from claims.states import ClaimState
from core.times import duration, utc_moment
from core.transactions import service
from inventory.models import Pod
from inventory.states import EndPolicy
from notify.models import NoticeKind
from teams.access import people_in
from teams.models import Role, User

BATCH_SIZE = 200  # claims that are observed at once
NAMED_PODS = 3
WRITABLE = Q(cluster__enabled=True, cluster__read_only=False, cluster__halt_reason="")
EVICTS = Q(profile_version__end_policy=ProfileEndPolicy.EVICT) | Q(
    profile_version__end_policy=ProfileEndPolicy.CLUSTER, cluster__end_policy=EndPolicy.EVICT
)
RELATED = ("team", "cluster", "requested_by", "profile_version")


def start_release(claim: Claim, *, why: str, by: User | None = None) -> bool:
    """
    Start to release a claim and tell people what happens to its pods; False if it has left its state.

    Every release begins here. The caller queues the deletion of the object.
    """
    with service:
        if not claim.advance(ClaimState.RELEASING, why=why, by=by):
            return False
        if claim.end_policy != EndPolicy.RUN:
            announce(claim, observe([claim])[claim.pk])
    return True


def holding_pods(seen: Observation) -> list[Pod]:
    """
    Return the pods that hold devices and neither end nor have ended: those in `status.reservedFor`.

    A pod that only names the claim, or runs on the same node, holds nothing of it.
    """
    reserved = {reference.get("uid") for row in seen.holders for reference in consumer_references(row)}
    return [pod for pod in seen.users if pod.uid in reserved and not is_ending(pod)]


def is_ending(pod: Pod) -> bool:
    return pod.phase in ENDED or "deletionTimestamp" in pod.raw.get("metadata", {})


def announce(claim: Claim, seen: Observation) -> bool:
    """
    Announce to owner and leads what happens to the pods of a claim that is being released.

    Where the policy is to evict them, set the time, in the same transaction. Return whether it is announced;
    False without such pods, or if somebody else has announced it. Safe to repeat.
    """
    pods, policy = holding_pods(seen), claim.end_policy
    if not pods or policy == EndPolicy.RUN:
        return False
    names = pods_named(pod.name for pod in pods)
    if policy == EndPolicy.ASK:
        notify_team(
            claim,
            key=f"ask-evict:{claim.pk}",
            title=f"{claim} has ended; pods still hold its devices",
            body=f"{fate_of_pods(claim, [pod.name for pod in pods])} The devices are billed until then.",
            url=reverse("claims:evict", args=[claim.pk]),
        )
        return True
    evict_at = timezone.now() + settings.EVICTION_NOTICE
    with transaction.atomic():
        unannounced = Claim.objects.filter(pk=claim.pk, state=ClaimState.RELEASING, evict_at=None)
        if not unannounced.update(evict_at=evict_at, version=F("version") + 1):
            return False
        at = utc_moment(evict_at)
        line = f"Evicts {names} on {at}."
        claim.remark(line, action="claim.evicted")
        notify_team(
            claim,
            key=f"evict:{claim.pk}",
            title=f"{claim} has ended; its pods are evicted on {at}",
            body=f"The portal evicts {names} then, with the grace period of the pod. Save the work before.",
        )
    claim.refresh_from_db(fields=["evict_at", "version"])
    return True


def evict_now(claim: Claim, pods: Sequence[Pod], *, by: User, why: str = "") -> None:
    """Let these pods be evicted at once. Call it while the row is locked."""
    line = f"Evicts {pods_named(pod.name for pod in pods)} now. {why}".strip()
    claim.remark(line, by=by, action="claim.evicted", evict_at=timezone.now())


def is_due(claim: Claim) -> bool:
    """
    Return whether pods of the claim are to be evicted now.

    A policy that has changed to "pods keep running" stops an announced eviction.
    """
    announced = claim.evict_at is not None and claim.evict_at <= timezone.now()
    return announced and claim.state == ClaimState.RELEASING and claim.end_policy != EndPolicy.RUN


def claims_to_evict() -> list[UUID]:
    """Announce what is not announced yet, and return the ids of claims whose pods are to be evicted now."""
    due_or_unannounced = EVICTS | Q(evict_at__lte=timezone.now())
    ends = Claim.objects.filter(due_or_unannounced, WRITABLE, state=ClaimState.RELEASING)
    due = []
    for claims in batched(ends.select_related(*RELATED).order_by("pk"), BATCH_SIZE):
        seen = observe(claims)
        for claim in claims:
            if claim.evict_at is None:
                announce(claim, seen[claim.pk])
            elif is_due(claim) and holding_pods(seen[claim.pk]):
                due.append(claim.pk)
    return due


def notify_team(claim: Claim, **said: str) -> None:
    """Notify the owner and the leads of the team."""
    people = [claim.requested_by, *people_in(claim.team, at_least=Role.LEAD)]
    notify_of(claim, people, kind=NoticeKind.PODS, important=True, **said)


def pods_after_end(policy: EndPolicy) -> str:
    """Return what happens to pods after the end, as a clause: "running pods keep their devices …"."""
    match policy:
        case EndPolicy.RUN:
            return "running pods keep their devices until they end."
        case EndPolicy.ASK:
            return "running pods keep their devices until they end or the owner or a lead evicts them."
    return f"pods that still run are evicted {duration(settings.EVICTION_NOTICE)} later."


def fate_of_pods(claim: Claim, names: Iterable[str]) -> str:
    """Return what happens to these pods after the end: "The pod train-0 keeps its devices until it ends."."""
    ordered = sorted(names)
    alone, pods = len(ordered) == 1, ", ".join(ordered)
    subject = f"The pod {pods} keeps its devices until it ends" if alone else (
        f"The pods {pods} keep their devices until they end"
    )  # fmt: skip
    match claim.end_policy:
        case EndPolicy.RUN:
            return f"{subject}."
        case EndPolicy.ASK:
            return f"{subject}, or until the owner or a lead evicts {'it' if alone else 'them'}."
    late = duration(settings.EVICTION_NOTICE)
    return f"The portal evicts the {'pod' if alone else 'pods'} {pods} {late} after the end."


def pods_named(names: Iterable[str]) -> str:
    """Return "the pod a" or "the pods a, b, c …"."""
    ordered = sorted(names)
    more = " …" if len(ordered) > NAMED_PODS else ""
    return f"the pod{'s' if len(ordered) > 1 else ''} {', '.join(ordered[:NAMED_PODS])}{more}"
