"""
Devices that are kept free for a team: what others may not take beyond their own guarantee.

A request that stays within its team's guarantee is never refused here. One that goes beyond it may use only
what is left once every other team has had its guarantee.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Quota
from claims.quota.counts import figures_of
from dra.at_once import most_at_once
from dra.pools import Amounts, CounterKey, amounts
from inventory.models import Cluster, Device, DeviceClass, ResourceSlice
from teams.models import Team

type Pool = tuple[UUID, str, str, int]  # cluster, driver, name, generation


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
    Return how many devices of each class could be held at once in the clusters in use; a class that none of
    them shows is left out: unknown, which is not none. Of partitions that exclude one another only so many
    count as fit beside each other (`dra.at_once`), on GPUs that nothing else holds.
    """
    wanted = list(classes)
    known = DeviceClass.objects.filter(name__in=wanted, gone_at=None, cluster__enabled=True)
    return {name: _at_once(name) for name in sorted(set(known.values_list("name", flat=True)))}


def _at_once(name: str) -> int:
    clusters = Cluster.objects.filter(enabled=True)
    devices = Device.objects.present().filter(cluster__in=clusters, classes__contains=[name])
    cut: dict[Pool, list[Amounts]] = defaultdict(list)
    columns = ("cluster", "driver", "pool", "slice__generation", "counters")
    for cluster, driver, pool, generation, counters in devices.exclude(counters=[]).values_list(*columns):
        cut[cluster, driver, pool, generation].append(amounts(counters, "counterSet"))
    sets = _counter_sets(cut) if cut else {}
    packed = sum(most_at_once(takes, sets.get(pool, {})) for pool, takes in cut.items())
    return devices.filter(counters=[]).count() + packed


def _counter_sets(pools: Collection[Pool]) -> dict[Pool, dict[CounterKey, int]]:
    """Return the counters that these pools publish, in billionths."""
    clusters, _drivers, names, _generations = (set(column) for column in zip(*pools, strict=True))
    slices = ResourceSlice.objects.filter(gone_at=None, cluster__in=clusters, pool__in=names)
    columns = ("cluster", "driver", "pool", "generation", "raw__spec__sharedCounters")
    found: dict[Pool, dict[CounterKey, int]] = defaultdict(dict)
    for *pool, sets in slices.filter(raw__spec__has_key="sharedCounters").values_list(*columns):
        found[tuple(pool)].update((key, amount.nano) for key, amount in amounts(sets))
    return found


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
