"""Which profiles ask for what a manifest asks for, and how the nearest of them differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import yaml
from django.utils.translation import gettext as _

from claims.catalogue.differences import Line, spec_lines
from claims.models import Delivery, Profile, ProfileVersion
from claims.request.manifest_files import TEMPLATE, Wanted, documents_in, wanted_in
from core.errors import Invalid
from dra.help.apart import Known, taken_apart
from dra.likeness import Likeness, likeness, same_names
from dra.objects import Json, asks

DEEPEST = 40  # levels; a claim has about ten
LONGEST = 64_000  # characters of a file; one claim takes about a thousand
NEAREST = 3


@dataclass(frozen=True, slots=True)
class Near:
    """A profile beside what a file asks for; `lines` are the diff from the profile to the file."""

    profile: Profile
    version: ProfileVersion
    likeness: Likeness
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Several:
    """
    Profiles that together ask for what a file asks for, or nearly; `differences` are sentences on what the
    file has otherwise, `lines` the diff from the profiles to the file.
    """

    parts: tuple[Near, ...]
    differences: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def exact(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True)
class Imported:
    """
    One claim of a file. `exact` are the profiles that ask for the same; where there are none, `several` are
    those that do so together or come near it, and `nearest` those single ones that differ least. Of profiles
    that do so exactly, no others are named.
    """

    title: str
    name: str
    delivery: str
    spec: Json
    exact: tuple[Near, ...]
    several: Several | None
    nearest: tuple[Near, ...]


def imported(text: str, file: str, profiles: Iterable[Profile]) -> list[Imported]:
    """
    Find for each claim of a file, whose name is `file`, the profiles that ask for it; each profile comes with
    its current version. Raise Invalid with the line of what is wrong.
    """
    if len(text) > LONGEST:
        raise Invalid(
            _("%(file)s has %(count)d characters; %(most)d are read at most.")
            % {"file": file, "count": len(text), "most": LONGEST}
        )
    known = list(profiles)
    _require_plain(text, file)
    wanted = wanted_in(documents_in(text, file), file, lambda *_key: None)
    return [_imported(one, known) for one in wanted]


def _imported(wanted: Wanted, profiles: list[Profile]) -> Imported:
    kind, _space, name = wanted.title.partition(" ")
    near = []
    for profile in profiles:
        version = profile.current
        if version is None:
            continue
        like = likeness(version.spec, version.scalable, wanted.spec, most=version.max_devices)
        near.append((_distance(version.spec, wanted.spec, like), profile.title, profile, version, like))
    near.sort(key=lambda row: row[:2])
    exact = [row for row in near if row[4].exact]
    several = None if exact else several_in(wanted.spec, profiles)
    return Imported(
        title=wanted.title,
        name=name,
        delivery=Delivery.TEMPLATE if kind == TEMPLATE else Delivery.CLAIM,
        spec=wanted.spec,
        exact=tuple(Near(profile, version, like, ()) for *_rank, profile, version, like in exact),
        several=several,
        nearest=()
        if exact or (several is not None and several.exact)
        else tuple(
            Near(
                profile,
                version,
                like,
                tuple(spec_lines(same_names(like.spec), same_names(wanted.spec))),
            )
            for *_rank, profile, version, like in near[:NEAREST]
        ),
    )


def several_in(spec: Json, profiles: Sequence[Profile]) -> Several | None:
    """Return the profiles that a claim takes together, None where it is not made of several."""
    known = [(profile, profile.current) for profile in profiles if profile.current is not None]
    found = taken_apart(
        spec,
        [
            Known(profile.slug, version.spec, version.scalable, version.max_devices)
            for profile, version in known
        ],
    )
    if found is None:
        return None
    parts = tuple(Near(*known[part.at], part.likeness, ()) for part in found.parts)
    said = [
        _("%(profile)s: %(difference)s") % {"profile": part.profile.title, "difference": sentence}
        for part in parts
        for sentence in part.likeness.differences
    ]
    lines = spec_lines(same_names(found.whole.spec), same_names(spec))
    return Several(parts, tuple(said) or found.whole.differences, tuple(lines))


def _distance(own: Json, other: Json, like: Likeness) -> tuple[int, int]:
    """Return how far apart two specs are: device classes weigh more than all that is said of the devices."""
    classes = [Counter(ask.class_name for ask in asks(spec)) for spec in (own, other)]
    apart = (classes[0] - classes[1]).total() + (classes[1] - classes[0]).total()
    return apart, len(like.differences)


def _require_plain(text: str, file: str) -> None:
    """Refuse what would keep the reader busy: aliases, a few of which make a huge object, and depth."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            where = {"file": file, "line": line, "most": DEEPEST}
            if isinstance(event, yaml.AliasEvent):
                raise Invalid(
                    _("%(file)s, line %(line)d: aliases are not read; write the object out.") % where
                )
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise Invalid(_("%(file)s, line %(line)d: more than %(most)d levels are not read.") % where)
    except yaml.YAMLError:
        return  # what is wrong, and where, the reader of documents says
