"""
What a team may hold, kept in its namespaces as a ResourceQuota, so that the cluster refuses what goes past
the portal.

The limit is written with what Kubernetes counts and the portal does not: it charges a claim with its worst
alternative always, and both of two claims of which one replaces the other. So it refuses at exactly the limit
of the portal. A class of which the team has no quota is written as 0.
"""

from collections import defaultdict
from typing import Any

from django.db.models import F, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from claims.manifests import TEAM_LABEL
from claims.models import Claim, ClaimCharge, Quota, TeamNamespace, WrittenQuota
from claims.quota.counts import CHARGED, NUMBER
from claims.quota.quotas import standing
from claims.states import HOLDING
from cluster.errors import ClusterConflict, ClusterError
from cluster.kinds import RESOURCE_QUOTA
from cluster.protocol import Gateway, Manifest
from dra import quota_keys
from dra.quantity import Quantity, QuantityError
from inventory.models import DeviceClass

NAME = "dragoman"
TOLD = 3  # changed lines that a sentence names
MARK = ("gpu.dragoman.dev/quota", "team")  # only objects with this label are ever changed or deleted


def hard_for(place: TeamNamespace) -> dict[str, str]:
    """Return `spec.hard` for the namespace: whole numbers as text, by key."""
    limits, claims = _limits(place)
    for name, extra in _uncounted(place).items():
        limits[name] += extra
    hard = {quota_keys.of_class(name): limit for name, limit in limits.items()}
    hard |= {quota_keys.of_implicit(name): limit for name, limit in limits.items()}
    extended = DeviceClass.objects.filter(cluster=place.cluster_id, gone_at=None)
    for name, resource in extended.exclude(extended_resource="").values_list("name", "extended_resource"):
        key = quota_keys.of_extended(resource)
        hard[key] = hard.get(key, 0) + limits[name]
    if claims is not None:
        hard |= dict.fromkeys((quota_keys.CLAIMS, quota_keys.TEMPLATES), claims + _overlap(place))
    return {key: str(value) for key, value in sorted(hard.items())}


def manifest_for(place: TeamNamespace, hard: dict[str, str]) -> Manifest:
    labels = dict((MARK, (TEAM_LABEL, place.team.slug)))
    return {
        "apiVersion": RESOURCE_QUOTA.api_version,
        "kind": RESOURCE_QUOTA.kind,
        "metadata": {"name": NAME, "namespace": place.namespace, "labels": labels},
        "spec": {"hard": hard},
    }


def keep(place: TeamNamespace, gateway: Gateway) -> WrittenQuota:
    """
    Make the ResourceQuota of the namespace say what it should, and note what somebody else made of it.

    What the cluster answers ends as a sentence in `problem`. Safe to race and to repeat: what should stand
    there is noted before it is written, so that nobody takes the portal's own change for another's.
    """
    row, _made = WrittenQuota.objects.get_or_create(place=place)
    before, hard = row.hard, hard_for(place)
    if hard != before:
        WrittenQuota.objects.filter(pk=row.pk).update(hard=hard)
    try:
        found = gateway.get(RESOURCE_QUOTA, NAME, namespace=place.namespace)
        row.refresh_from_db()
        if found is not None and not is_ours(found) and not row.seen_hard:
            row.problem = _(
                "%(namespace)s has a ResourceQuota “%(name)s” that is not the portal's. It is left alone; "
                "rename it, or give it the label %(label)s."
            ) % {"namespace": place.namespace, "name": NAME, "label": "=".join(MARK)}
        else:
            _look(row, found, before)
            if found is None or not is_ours(found) or differing(found, row.hard):
                found = gateway.apply(RESOURCE_QUOTA, manifest_for(place, row.hard), force=True)
                row.written_at = timezone.now()
                row.repaired_at = row.written_at if row.drift and not row.repaired_at else row.repaired_at
            row.problem = ""
            row.seen_hard = (found.get("spec") or {}).get("hard") or {}
            row.seen_used = (found.get("status") or {}).get("used") or {}
    except ClusterError as error:
        row.problem = _("%(cluster)s: %(error)s") % {"cluster": place.cluster, "error": error}
    row.checked_at = timezone.now()
    row.save(
        update_fields=[
            "seen_hard", "seen_used", "drift", "problem", "written_at", "repaired_at", "checked_at",
        ]
    )  # fmt: skip
    return row


def remove(row: WrittenQuota, gateway: Gateway) -> None:
    """Delete the object if it is the portal's, and forget the row. Raises nothing: it is tried again."""
    place = row.place
    try:
        found = gateway.get(RESOURCE_QUOTA, NAME, namespace=place.namespace)
        if found is not None and is_ours(found):
            gateway.delete(RESOURCE_QUOTA, NAME, namespace=place.namespace, uid=found["metadata"]["uid"])
    except ClusterConflict:
        return  # replaced at this moment: the next round looks again
    except ClusterError as error:
        problem = _("%(cluster)s: %(error)s") % {"cluster": place.cluster, "error": error}
        WrittenQuota.objects.filter(pk=row.pk).update(problem=problem, checked_at=timezone.now())
        return
    row.delete()


def is_ours(found: Manifest) -> bool:
    return (found["metadata"].get("labels") or {}).get(MARK[0]) == MARK[1]


def differing(found: Manifest, hard: dict[str, str], part: str = "spec") -> dict[str, str]:
    """Return what the object says of our keys where it is something else ("" where it says nothing)."""
    said = (found.get(part) or {}).get("hard") or {}
    return {key: said.get(key, "") for key, value in hard.items() if not _equal(said.get(key, ""), value)}


def is_behind(place: TeamNamespace, gateway: Gateway) -> bool:
    """
    Tell whether Kubernetes still counts by an older limit than the one that stands in the object.

    Admission goes by `status.hard`, which the quota controller copies from `spec.hard` a moment later.
    """
    found = gateway.get(RESOURCE_QUOTA, NAME, namespace=place.namespace)
    return found is not None and is_ours(found) and bool(differing(found, found["spec"]["hard"], "status"))


def _look(row: WrittenQuota, found: Manifest | None, before: dict[str, str]) -> None:
    """Note as drift what is neither what should stand there, now or before, nor what was seen last."""
    if found is None:
        if row.seen_hard:
            row.drift, row.repaired_at = _("Somebody deleted the ResourceQuota."), None
        return
    changed = [
        _("%(key)s from %(was)s to %(now)s")
        % {"key": key, "was": row.seen_hard.get(key, "—"), "now": value or _("nothing")}
        for key, value in differing(found, row.hard).items()
        if row.seen_hard and not any(_equal(value, known.get(key, "")) for known in (row.seen_hard, before))
    ]
    if changed:
        said = _("Somebody changed %(what)s.") if len(changed) <= TOLD else _("Somebody changed %(what)s, …")
        row.drift = said % {"what": ", ".join(changed[:TOLD])}
        row.repaired_at = None


def _limits(place: TeamNamespace) -> tuple[dict[str, int], int | None]:
    """Return the limit of each class that the cluster or a quota knows, and that of claims if any."""
    known = DeviceClass.objects.filter(cluster=place.cluster_id, gone_at=None).values_list("name", flat=True)
    limits: dict[str, int] = defaultdict(int, dict.fromkeys(known, 0))
    claims = None
    for each in standing([place.team]):
        if each.quota.counts == Quota.Counts.CLAIMS:
            claims = each.limit
        elif each.quota.device_class:
            limits[each.quota.device_class] = each.limit
    return limits, claims


def _uncounted(place: TeamNamespace) -> dict[str, int]:
    """Return devices per class that the cluster charges for the portal's claims beyond what it counts."""
    here = ClaimCharge.objects.filter(
        claim__team=place.team_id, claim__cluster=place.cluster_id, claim__state__in=HOLDING
    )
    sums = here.order_by().values_list("device_class").annotate(extra=Sum(F("devices") - CHARGED))
    return {name: extra for name, extra in sums if extra}


def _overlap(place: TeamNamespace) -> int:
    """Return how many claims are there beside the ones that they replace."""
    here = Claim.objects.filter(team=place.team_id, cluster=place.cluster_id, state__in=HOLDING)
    found: dict[str, Any] = here.aggregate(extra=Sum(F("parallel") - NUMBER))
    return found["extra"] or 0


def _equal(one: str, other: str) -> bool:
    try:
        return Quantity.parse(one) == Quantity.parse(other)
    except QuantityError:
        return one == other
