"""
Devices that are kept free for a team: what others may not take beyond their own guarantee.

A request that stays within its team's guarantee is never refused here. One that goes beyond it may use only
what is left once every other team has had its guarantee.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Quota
from claims.quota.counts import figures_of
from inventory.models import Cluster, Device, DeviceClass
from teams.models import Team


@dataclass(frozen=True, slots=True)
class Share:
    """A team's quota of one class: `guaranteed` devices, of which the rest of `used` is beyond."""

    team: Team
    guaranteed: int
    used: int

    @property
    def unused(self) -> int:
        return max(self.guaranteed - self.used, 0)


def kept_classes(rows: QuerySet[Quota]) -> QuerySet[Quota]:
    """Narrow class quotas to those of classes of which some team has a guarantee."""
    guaranteed = Quota.objects.filter(device_class=OuterRef("device_class"), guaranteed__gt=0)
    return rows.filter(Exists(guaranteed), profile=None).exclude(device_class="")


def shares_of(classes: Collection[str]) -> dict[str, list[Share]]:
    """Return the shares of all teams by class, of those classes of which some team has a guarantee."""
    rows = list(kept_classes(Quota.objects.filter(device_class__in=classes)).select_related("team"))
    found: dict[str, list[Share]] = {}
    for row, figures in zip(rows, figures_of(rows) if rows else (), strict=True):
        used = figures.held + figures.reserved + figures.outside
        found.setdefault(row.device_class, []).append(Share(row.team, row.guaranteed, used))
    return found


def capacity_of(classes: Iterable[str]) -> dict[str, int]:
    """
    Return how many devices of each class the clusters in use publish; a class that none of them shows is left
    out: unknown, which is not none.
    """
    wanted = list(classes)
    known = DeviceClass.objects.filter(name__in=wanted, gone_at=None, cluster__enabled=True)
    clusters = Cluster.objects.filter(enabled=True)
    return {
        name: Device.objects.present().filter(cluster__in=clusters, classes__contains=[name]).count()
        for name in sorted(set(known.values_list("name", flat=True)))
    }


def why_kept(team: Team, device_class: str, needs: int, shares: Iterable[Share], capacity: int | None) -> str:
    """Return why a request of `team` may not use what is guaranteed to others, "" if it may."""
    shares = list(shares)
    own = next((share for share in shares if share.team.pk == team.pk), Share(team, 0, 0))
    others = [share for share in shares if share.team.pk != team.pk and share.unused]
    beyond = own.used + needs - max(own.guaranteed, own.used)
    kept = sum(share.unused for share in others)
    if capacity is None or beyond <= 0 or not kept:
        return ""
    free = max(capacity - sum(share.used for share in shares), 0)
    own_unused = own.unused  # what of this request is within the guarantee is its own
    if beyond <= free - kept - own_unused:
        return ""
    values = {
        "kept": min(kept, free),
        "what": device_class,
        "names": ", ".join(share.team.slug for share in others),
        "team": team,
        "own": own.guaranteed,
        "beyond": beyond,
        "free": free,
    }
    said = ngettext(
        "%(kept)d of the %(free)d free %(what)s device is guaranteed to %(names)s; ",
        "%(kept)d of the %(free)d free %(what)s devices are guaranteed to %(names)s; ",
        free,
    )
    if own.guaranteed:
        said += _("this request needs %(beyond)d beyond %(team)s's own guarantee of %(own)d.")
    else:
        said += _("this request needs %(beyond)d, and %(team)s has no guarantee of its own.")
    return said % values
