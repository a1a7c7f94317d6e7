"""How many devices of each cluster match a preset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.lint import enabled_clusters
from claims.catalogue.presets import presets
from claims.models import Profile
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.match.funnel import funnel
from dra.objects import DeviceRequest, Json, alternatives, constraints, requests
from inventory.cluster_snapshot import current_snapshot


@dataclass(frozen=True, slots=True)
class PresetMatch:
    """
    A preset, whether a profile has its slug already, and how many devices match it by cluster.

    A count is of the devices that any of its requests can take, held or free; 0 if one of its requests has
    none, None where a selector cannot be evaluated here.
    """

    preset: ProfileDefinition
    in_catalogue: bool
    counts: Mapping[str, int | None]


def preset_matches(slugs: Iterable[str] = ()) -> list[PresetMatch]:
    """
    Return all presets, or those with `slugs`, by slug; two queries and those of the snapshots.

    Raises KeyError for a slug that no preset has.
    """
    by_slug = {preset.slug: preset for preset in presets()}
    chosen = [by_slug[slug] for slug in dict.fromkeys(slugs)] or list(by_slug.values())
    in_catalogue = set(Profile.objects.values_list("slug", flat=True))
    snapshots = {cluster.name: current_snapshot(cluster) for cluster in enabled_clusters()}
    return [
        PresetMatch(
            preset,
            preset.slug in in_catalogue,
            {name: matching_devices(snapshot, preset.spec) for name, snapshot in snapshots.items()},
        )
        for preset in chosen
    ]


def matching_devices(snapshot: ClusterSnapshot, spec: Json) -> int | None:
    """
    Return how many devices of the snapshot the requests of `spec` could take; None if that is unknown.

    A device without the attribute of a constraint does not count. Whether enough devices share its value is
    not checked.
    """
    matching = 0
    try:
        for request in requests(spec):
            accepted = 0
            for device_request in alternatives(request):
                if device_request.class_name not in snapshot.class_by_name:
                    continue
                matched = funnel(snapshot, with_attributes(device_request, spec))
                if matched.errors:
                    return None
                accepted |= matched.accepted
            if not accepted:
                return 0
            matching |= accepted
    except CelError:
        return None
    return matching.bit_count()


def with_attributes(request: DeviceRequest, spec: Json) -> DeviceRequest:
    """Return `request` with selectors that require the attributes which constraints of `spec` compare."""
    names = {request.request, request.result_name}
    attributes = [
        str(constraint["matchAttribute"])
        for constraint in constraints(spec)
        if constraint.get("matchAttribute")
        and (not constraint.get("requests") or names & set(constraint["requests"]))
    ]
    selectors = [
        {"cel": {"expression": f'"{name}" in device.attributes["{domain}"]'}}
        for domain, _slash, name in (attribute.partition("/") for attribute in attributes)
    ]
    return replace(
        request, raw={**request.raw, "selectors": [*(request.raw.get("selectors") or ()), *selectors]}
    )
