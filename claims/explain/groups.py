"""Pods of which the same is to be told, so that a hundred of a Job are one paragraph."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from claims.explain.pods import PodView


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of which the same is to be told, by name; `first` stands for all of them."""

    views: tuple[PodView, ...]

    @property
    def first(self) -> PodView:
        return self.views[0]

    @property
    def count(self) -> int:
        return len(self.views)

    @property
    def names(self) -> str:
        return names_of(self.views)

    @property
    def since(self) -> datetime | None:
        return min((view.since for view in self.views if view.since), default=None)

    @property
    def nodes(self) -> list[str]:
        return sorted({view.pod.node_name for view in self.views if view.pod.node_name})


def grouped(pods: Iterable[PodView]) -> list[PodGroup]:
    """Put pods together that stand at the same stage for the same reason, in the order of their first."""
    groups: dict[tuple[object, ...], list[PodView]] = {}
    for view in pods:
        said = view.said.message if view.said else ""
        events = tuple((heard.event.reason, heard.told.means) for heard in view.events)
        groups.setdefault((view.stage, view.missing, said, view.told.text, events), []).append(view)
    return [PodGroup(tuple(views)) for views in groups.values()]


def names_of(pods: Sequence[PodView], *, most: int = 3) -> str:
    """Return "a, b, c and 4 more"."""
    names = ", ".join(view.pod.name for view in pods[:most])
    more = len(pods) - most
    return _("%(names)s and %(n)d more") % {"names": names, "n": more} if more > 0 else names
