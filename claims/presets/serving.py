"""Whether a preset would serve anybody: what of it the clusters have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from claims.catalogue_files import Entry
from claims.lint import enabled_clusters
from claims.models import Profile
from claims.presets import presets
from dra.cel import CelError
from dra.match.funnel import funnel
from dra.objects import Json, alternatives, requests
from dra.picture import Picture
from inventory.picture import picture_of


@dataclass(frozen=True, slots=True)
class Served:
    """
    A preset, whether a profile has its short name already, and the devices per cluster that match it.

    A count is of the devices that any of its requests takes, held or free; 0 if one of its requests has none,
    None where a selector cannot be run here.
    """

    entry: Entry
    is_there: bool
    counts: Mapping[str, int | None]

    @property
    def matching(self) -> int | None:
        """Devices of all clusters; None if any of the counts is."""
        known = [count for count in self.counts.values() if count is not None]
        return sum(known) if len(known) == len(self.counts) else None


def served(only: Iterable[str] = ()) -> list[Served]:
    """
    Return all presets, or those called `only`, by slug; two queries and those for the pictures.

    Raise KeyError for a name that no preset has.
    """
    known = {entry.slug: entry for entry in presets()}
    wanted = [known[slug] for slug in dict.fromkeys(only)] or list(known.values())
    taken = set(Profile.objects.values_list("slug", flat=True))
    pictures = {cluster.name: picture_of(cluster) for cluster in enabled_clusters()}
    return [
        Served(
            entry,
            entry.slug in taken,
            {name: matching(picture, entry.spec) for name, picture in pictures.items()},
        )
        for entry in wanted
    ]


def matching(picture: Picture, spec: Json) -> int | None:
    """Return how many devices of the picture the requests of `spec` could take, constraints aside."""
    all_of_them = 0
    try:
        for request in requests(spec):
            accepted = 0
            for ask in alternatives(request):
                if ask.class_name in picture.class_by_name:
                    accepted |= funnel(picture, ask).accepted
            if not accepted:
                return 0
            all_of_them |= accepted
    except CelError:
        return None
    return all_of_them.bit_count()
