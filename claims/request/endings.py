"""Whose end would let a claim fit that does not fit now, in words for one reader."""

from dataclasses import dataclass

from dra.endings import would_fit_without
from dra.objects import Json
from dra.picture import Picture
from inventory.masking import Holder, Person, holders_for
from inventory.models import Cluster, ResourceClaim


@dataclass(frozen=True, slots=True)
class EndingRow:
    """If all of these ended, one claim would fit on the node. Who the reader may not know of is masked."""

    node: str
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Scattered:
    """`sentence` is empty unless enough is free but scattered."""

    sentence: str
    rows: tuple[EndingRow, ...]


def endings_for(person: Person, cluster: Cluster, picture: Picture, spec: Json) -> Scattered:
    """Look for claims whose end would make room for `spec`; as many queries for one as for many."""
    found = would_fit_without(picture, spec)
    names = {name for ending in found.endings for name in ending.claims}
    rows = ResourceClaim.objects.filter(
        cluster=cluster, gone_at=None, name__in={name.partition("/")[2] for name in names}
    ).defer("raw")
    by_name = {full: row for row in rows if (full := f"{row.namespace}/{row.name}") in names}
    holders = holders_for(person, by_name.values())
    return Scattered(
        found.sentence,
        tuple(
            EndingRow(ending.node, tuple(holders[by_name[name].pk] for name in ending.claims))
            for ending in found.endings
            if all(name in by_name for name in ending.claims)
        ),
    )
