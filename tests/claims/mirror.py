"""What the mirror would show of a cluster, written by hand: for tests of what is made of it."""

import itertools
from datetime import UTC, datetime

from django.db.models import F

from inventory.models import Cluster, Pod, ResourceClaim, ResourceClaimTemplate
from inventory.signals import mirror_changed

NINE = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
_versions = itertools.count(1)


def result(device: str, **more):
    return {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-1", "device": device, **more}


class Mirror:
    """Writes the mirror as `inventory.sync` would, and tells of it."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster

    def claim(self, name, owner, *devices, uid="uid-1", spec=None, at=NINE, origin="portal", **columns):
        status = {"allocation": {"devices": {"results": list(devices)}}} if devices else {}
        raw = {"metadata": {"name": name}, "spec": spec or owner.spec, "status": status}
        if columns.get("deleting_since"):
            raw["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
        fields = {
            "raw": raw,
            "allocated_at": at if devices else None,
            "resource_version": str(next(_versions)),
            "revision": self.next_revision(),
        }
        row, _ = ResourceClaim.objects.update_or_create(
            cluster=self.cluster, uid=uid,
            defaults={"namespace": "vision", "name": name, "owner": str(owner.pk), "origin": origin}
            | fields | columns,
        )  # fmt: skip
        self.tell(name)
        return row

    def template(self, claim, **columns):
        raw = {"metadata": {"name": claim.name}, "spec": {"spec": claim.spec}}
        fields = {"raw": raw, "namespace": "vision", "name": claim.name, "owner": str(claim.pk), **columns}
        fields["revision"] = self.next_revision()
        ResourceClaimTemplate.objects.update_or_create(cluster=self.cluster, uid="uid-t", defaults=fields)
        self.tell(claim.name)

    def pod(self, name, *, claims=(), templates=(), phase="Running", **columns):
        fields = {"namespace": "vision", "name": name, "claims": list(claims), "templates": list(templates)}
        fields["revision"] = self.next_revision()
        Pod.objects.update_or_create(
            cluster=self.cluster, uid=f"uid-{name}", defaults={**fields, "phase": phase, **columns}
        )
        self.tell(name, kind="Pod")

    def gone(self, uid, at):
        for model in (ResourceClaim, ResourceClaimTemplate):
            model.objects.filter(uid=uid).update(gone_at=at, revision=self.next_revision())
        self.tell(*ResourceClaim.objects.filter(uid=uid).values_list("name", flat=True))
        self.tell(*ResourceClaimTemplate.objects.filter(uid=uid).values_list("name", flat=True))

    def next_revision(self) -> int:
        """Return the revision of the next row, which is that of the cluster from now on."""
        Cluster.objects.filter(pk=self.cluster.pk).update(revision=F("revision") + 1)
        return Cluster.objects.values_list("revision", flat=True).get(pk=self.cluster.pk)

    def events_of(self, name):
        """Tell of new Events of a pod, as `inventory.events` does."""
        Pod.objects.filter(cluster=self.cluster, name=name).update(revision=self.next_revision())
        self.tell(name, kind="Pod")

    def tell(self, *names, kind="ResourceClaim"):
        seen = frozenset(f"vision/{name}" for name in names)
        mirror_changed.send(None, cluster_id=self.cluster.pk, kind=kind, names=seen)
