"""Whether a device class or namespace that somebody typed is one that a cluster has."""

from claims.models import Quota
from core.inputs import did_you_mean
from inventory.models import Cluster, DeviceClass, Freshness, Namespace
from teams.models import Team


def unknown_class(name: str, team: Team | None) -> str:
    """
    Return why `name` may be mistyped: no cluster has this class, and the team no quota of it. Empty without a
    name, and while no class of any cluster is known.
    """
    if not name:
        return ""
    known = set(DeviceClass.objects.filter(gone_at=None).values_list("name", flat=True))
    if not known or name in known or Quota.objects.filter(team=team, device_class=name).exists():
        return ""
    return f"No cluster has a device class “{name}”. {did_you_mean(name, sorted(known))}".strip()


def unknown_namespace(name: str, cluster: Cluster) -> str:
    """Return why `name` may be mistyped: the cluster has no such namespace. Empty before they were read."""
    listed = Freshness.objects.filter(cluster=cluster, resource="namespaces", listed_at__isnull=False)
    if not name or not listed.exists():
        return ""
    known = set(Namespace.objects.filter(cluster=cluster, gone_at=None).values_list("name", flat=True))
    if name in known:
        return ""
    return f"{cluster} has no namespace “{name}”. {did_you_mean(name, sorted(known))}".strip()
