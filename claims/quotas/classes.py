"""Whether a device class that somebody typed is one that a cluster has."""

from claims.models import Quota
from core.errors import UnknownName
from core.inputs import did_you_mean
from inventory.models import DeviceClass
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


def require_known_class(name: str, team: Team, *, allow_unknown: bool) -> None:
    """Raise UnknownName for a class that may be mistyped, unless the caller allows it."""
    if not allow_unknown and (surprise := unknown_class(name, team)):
        raise UnknownName(f"{surprise} To take it anyway, send allow_unknown: true.", field="device_class")
