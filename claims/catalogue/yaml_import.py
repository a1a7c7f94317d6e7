"""Reads profiles from a YAML file, and names the line of everything that is wrong in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.yaml_export import KIND
from claims.models import LIMITS, Limit, ProfileLimits, Purpose
from claims.models.limits import Choice, Choices, Duration, Number, Text
from core.yaml_documents import Step, YamlDocument, YamlPath, read_documents, require_sound
from dra import validation
from dra.objects import Json, Manifest

LIMIT_AT: dict[YamlPath, Limit] = {limit.path: limit for limit in LIMITS}


def _limit_keys(path: YamlPath) -> list[str]:
    """Return the keys of limits that stand directly below `path` of a document."""
    below = [limit.path[len(path)] for limit in LIMITS if limit.path[: len(path)] == path]
    return list(dict.fromkeys(below))


KEYS = frozenset(("slug", "title", "use", "purpose", "teams", "spec", *_limit_keys(())))


def read_definitions(text: str, name: str) -> list[ProfileDefinition]:
    """
    Return the profiles of a file called `name`, in its order.

    Raises Invalid with all problems, each with file and line.
    """
    return definitions_of(read_documents(text, name, subject="profile"))


def definitions_of(documents: Sequence[YamlDocument]) -> list[ProfileDefinition]:
    """Return the profiles of these documents; raises as `read_definitions`."""
    profiles = [ProfileDocument(document.name, document.node, document.content) for document in documents]
    definitions = [profile.definition() for profile in profiles]
    problems = []
    for slug, times in Counter(definition.slug for definition in definitions).items():
        if slug and times > 1:
            last = [definition for definition in definitions if definition.slug == slug][-1]
            problems.append(f"{last.place('slug')}: {times} profiles have the slug {slug}.")
    require_sound(profiles, *problems)
    return definitions


@dataclass(slots=True)
class ProfileDocument(YamlDocument):
    """The document of a profile."""

    subject = "profile"

    def definition(self) -> ProfileDefinition:
        """Return the profile; each problem is recorded, and a default takes the place of the value."""
        content = self.keys_of(KIND, KEYS)
        return ProfileDefinition(
            slug=self.text(("slug",), content.get("slug", ""), required=True),
            title=self.text(("title",), content.get("title", ""), required=True),
            use=self.text(("use",), content.get("use", "")),
            purpose=self._purpose(content.get("purpose", Purpose.OTHER.value)),
            teams=tuple(sorted(set(self.texts(("teams",), content.get("teams"))))),
            limits=ProfileLimits(**self._limits((), content)),
            spec=self._spec(content.get("spec")),
            places={key: self.place((key,)) for key in content} | {"": self.place(())},
        )

    def _purpose(self, raw: Any) -> str:
        purpose = self.text(("purpose",), raw)
        if purpose in Purpose.values:
            return purpose
        if isinstance(raw, str):
            known = ", ".join(Purpose.values)
            self.refuse(f"there is no purpose {purpose}; choose from {known}.", ("purpose",))
        return Purpose.OTHER

    def _limits(self, path: YamlPath, content: Json) -> dict[str, Any]:
        """Return the limits below `path` by name; `content` is the mapping there."""
        limits: dict[str, Any] = {}
        for key in _limit_keys(path):
            raw, place = content.get(key), (*path, key)
            limit = LIMIT_AT.get(place)
            if limit is None and raw is not None:
                keys = frozenset(_limit_keys(place))
                limits |= self._limits(place, self.mapping(place, raw, keys))
            elif limit is not None and key in content and (raw is not None or limit.default is not None):
                limits[limit.name] = self._limit(limit, place, raw)
        return limits

    def _limit(self, limit: Limit, path: YamlPath, raw: Any) -> Any:
        match limit.kind:
            case Text():
                return self.text(path, raw)
            case Number(min_value, max_value):
                return self.number(path, raw, min_value, max_value)
            case Duration():
                return self.duration(path, raw, limit.default)
            case Choice(choices):
                return next(iter(self.choices(path, [raw], choices.values)), limit.default)
            case Choices(choices):
                return self.choices(path, raw, choices.values)

    def _spec(self, raw: Any) -> Manifest:
        if not isinstance(raw, dict):
            self.refuse(
                "a profile needs the spec of a ResourceClaim; it starts with the key devices.", ("spec",)
            )
            return {}
        if "\\u0000" in json.dumps(raw):
            self.refuse("the spec has a character that cannot be stored.", ("spec",))
            return {}
        for problem in validation.problems(raw):
            self.refuse(problem.message, ("spec", *_steps(problem.path)))
        return raw


def _steps(path: str) -> Iterator[Step]:
    """Yield the steps of the path of a problem: "devices.requests[0].name"."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("[") and part[1:-1].isdigit():
            yield int(part[1:-1])
        elif part:
            yield part
