"""
Bring the claims of the demo to their states through services, workers and clusters.

Each claim is found by its key, so a restart changes nothing.
"""

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from claims.approvals.decide import approve, deny
from claims.catalogue.lint import catalogue_report, enabled_clusters
from claims.lifecycle.services import release, withdraw
from claims.models import Claim, Profile
from claims.plans import plan
from claims.requests.services import request_claim
from claims.states import ClaimState
from cluster.protocol import POD, ClusterConflict
from demo.backdate import age_in_cluster, backdate
from demo.people import DECIDERS, TEAM_OF, people_gateway
from demo.scenario import SCENES, TURNS, Scene
from dra.match import preview
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Cluster, Freshness, ResourceClaim
from teams.models import Team, User

ACTIVITY = "simulator.dragoman.dev/activity"
PATIENCE = 25.0  # seconds for the workers and the cluster to do their part


def play(folder: Path, say: Callable[[str], None]) -> None:  # noqa: C901
    """
    Play every scene whose cluster is available and that was not played before.

    All scenes start before the first one is waited for.
    """
    wait_until(synchronised, PATIENCE * 2)
    clusters = {cluster.name: cluster for cluster in Cluster.objects.all()}
    simulated = all(cluster.simulated for cluster in clusters.values())
    fresh: list[tuple[Scene, Claim]] = []
    for scene in (*SCENES, *(TURNS if simulated else ())):
        # Only by its key: a claim may have been transferred since.
        loaded = Claim.objects.filter(key=f"demo-{scene.name}").exists()
        if scene.cluster in clusters and not loaded and exists(scene, clusters[scene.cluster]):
            fresh.append((scene, begin(scene, clusters[scene.cluster])))
    for scene, claim in fresh:
        start_pods(scene, claim, folder)
    for scene, claim in fresh:
        if scene.pods:
            wait_until(claim.allocations.filter(ended_at=None).exists, PATIENCE)
    for scene, claim in fresh:
        finish(scene, claim)
    for scene, claim in fresh:
        if scene.ago and scene.pods and claim.cluster.simulated:
            age_in_cluster(claim, scene.ago, folder)
    for scene, claim in fresh:
        if scene.ago and (not scene.pods or grown_old(scene, claim)):
            backdate(claim, scene.ago, scene.activity)
    wait_until(availability_computed, PATIENCE)
    say(f"{len(fresh)} claims created" if fresh else "The claims of the demo exist already")


def availability_computed() -> bool:
    """Return whether the portal has computed what the catalogue offers in each cluster."""
    return len(catalogue_report().checked) == enabled_clusters().count()


def exists(scene: Scene, cluster: Cluster) -> bool:
    """Return whether the cluster has any device of the profile; the real one has other machines."""
    version = Profile.objects.select_related("current").get(slug=scene.profile).current
    return version is not None and bool(preview(current_snapshot(cluster), version.spec).matching)


def begin(scene: Scene, cluster: Cluster) -> Claim:
    claim = request_claim(
        by=User.objects.get(username=scene.by),
        team=Team.objects.get(slug=TEAM_OF[scene.by]),
        cluster=cluster,
        profile=Profile.objects.get(slug=scene.profile),
        devices=scene.devices,
        together=[(Profile.objects.get(slug=slug), count) for slug, count in scene.together],
        parallel=scene.parallel,
        delivery=scene.delivery,
        duration=timedelta(hours=scene.hours),
        reason=scene.reason,
        name=scene.name,
        key=f"demo-{scene.name}",
    )
    if claim.state == ClaimState.REQUESTED and scene.decision:
        decide(scene, claim)
    return claim


def decide(scene: Scene, claim: Claim) -> None:
    lead = User.objects.get(username=DECIDERS[TEAM_OF[scene.by]])
    if scene.decision == "approve":
        approve(claim=claim, by=lead, spec_hash=claim.spec_hash, note="Fine until then.")
    else:
        deny(claim=claim, by=lead, reason=scene.decision)


def start_pods(scene: Scene, claim: Claim, folder: Path) -> None:
    """Start the pod of the page's snippet as the person would, and other pods."""
    if not scene.pods:
        return
    claim.refresh_from_db()
    wait_until(ResourceClaim.objects.filter(owner=str(claim.pk), gone_at=None).exists, PATIENCE)
    pod = plan.example_pod(claim)
    for number in range(scene.pods):
        name = pod["metadata"]["name"] + (f"-{number + 1}" if number else "")
        # Its telemetry continues the invented past.
        annotations = {} if scene.activity is None else {"annotations": {ACTIVITY: str(scene.activity)}}
        named = pod | {"metadata": pod["metadata"] | {"name": name} | annotations}
        with contextlib.suppress(ClusterConflict):  # of an earlier, interrupted start
            people_gateway(folder, claim.cluster.name).create(POD, named)


def finish(scene: Scene, claim: Claim) -> None:
    claim.refresh_from_db()
    owner = claim.requested_by
    if scene.then == "withdraw" and claim.state == ClaimState.REQUESTED:
        withdraw(claim=claim, by=owner)
    elif scene.then in {"withdraw", "release"} and not claim.is_final:
        release(claim=claim, by=owner)


def grown_old(scene: Scene, claim: Claim) -> bool:
    """Return whether the cluster also reports the devices as held since then."""
    if not claim.cluster.simulated:
        return False
    old = ResourceClaim.objects.filter(
        owner=str(claim.pk), gone_at=None, allocated_at__lt=timezone.now() - scene.ago / 2
    )
    return wait_until(old.exists, PATIENCE)


def synchronised() -> bool:
    """Return whether every cluster was listed, with claims and pods."""
    listed = Freshness.objects.filter(resource__in=("resourceslices", "resourceclaims", "pods")).exclude(
        listed_at=None
    )
    return listed.count() >= 3 * Cluster.objects.filter(enabled=True).count()


def wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
