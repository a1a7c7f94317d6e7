"""Whether a preset would serve anybody: what of it the clusters have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from claims.catalogue.lint import enabled_clusters
from claims.catalogue.presets import presets
from claims.catalogue.yaml_export import ProfileEntry
from claims.models import Profile
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.match.funnel import funnel
from dra.objects import DeviceRequest, Json, alternatives, constraints, requests
from inventory.cluster_snapshot import snapshot_of


@dataclass(frozen=True, slots=True)
class Served:
    """
    A preset, whether a profile has its short name already, and the devices per cluster that match it.

    A count is of the devices that any of its requests takes, held or free; 0 if one of its requests has none,
    None where a selector cannot be run here.
    """

    entry: ProfileEntry
    is_there: bool
    counts: Mapping[str, int | None]


def served(only: Iterable[str] = ()) -> list[Served]:
    """
    Return all presets, or those called `only`, by slug; two queries and those for the pictures.

    Raise KeyError for a name that no preset has.
    """
    known = {entry.slug: entry for entry in presets()}
    wanted = [known[slug] for slug in dict.fromkeys(only)] or list(known.values())
    taken = set(Profile.objects.values_list("slug", flat=True))
    pictures = {cluster.name: snapshot_of(cluster) for cluster in enabled_clusters()}
    return [
        Served(
            entry,
            entry.slug in taken,
            {name: matching(snapshot, entry.spec) for name, snapshot in pictures.items()},
        )
        for entry in wanted
    ]


def matching(snapshot: ClusterSnapshot, spec: Json) -> int | None:
    """
    Return how many devices of the picture the requests of `spec` could take.

    A device without the attribute of a constraint is never chosen; whether enough of them agree on its value
    is not looked at.
    """
    taken = 0
    try:
        for request in requests(spec):
            accepted = 0
            for ask in alternatives(request):
                if ask.class_name not in snapshot.class_by_name:
                    continue
                found = funnel(snapshot, with_attributes(ask, spec))
                if found.failing:
                    return None
                accepted |= found.accepted
            if not accepted:
                return 0
            taken |= accepted
    except CelError:
        return None
    return taken.bit_count()


def with_attributes(ask: DeviceRequest, spec: Json) -> DeviceRequest:
    """Return what is asked for, and that the devices have the attributes that constraints compare."""
    names = {ask.request, ask.result_name}
    compared = [
        str(one["matchAttribute"])
        for one in constraints(spec)
        if one.get("matchAttribute") and (not one.get("requests") or names & set(one["requests"]))
    ]
    more = [
        {"cel": {"expression": f'"{name}" in device.attributes["{domain}"]'}}
        for domain, _slash, name in (one.partition("/") for one in compared)
    ]
    return replace(ask, raw={**ask.raw, "selectors": [*(ask.raw.get("selectors") or ()), *more]})
