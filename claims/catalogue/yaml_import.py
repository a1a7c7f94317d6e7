"""Reads profiles from a YAML file, and names the line of everything that is wrong in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import yaml

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.yaml_export import API_VERSION, KIND
from claims.models import LIMITS, Limit, ProfileLimits
from claims.models.limits import Choice, Choices, Duration, Number, Text
from core.errors import Invalid
from core.times import parse_duration
from dra import validation
from dra.objects import Json, Manifest

MAX_BYTES = 1 << 20
MAX_LEVELS = 50

type Step = str | int
type Path = tuple[Step, ...]

LIMIT_AT: dict[Path, Limit] = {limit.path: limit for limit in LIMITS}


def _limit_keys(path: Path) -> list[str]:
    """Return the keys of limits that stand directly below `path` of a document."""
    below = [limit.path[len(path)] for limit in LIMITS if limit.path[: len(path)] == path]
    return list(dict.fromkeys(below))


KEYS = frozenset(("apiVersion", "kind", "slug", "title", "use", "teams", "spec", *_limit_keys(())))


def read_definitions(text: str, name: str) -> list[ProfileDefinition]:
    """
    Return the profiles of a file called `name`, in its order.

    Raises Invalid with all problems, each with file and line.
    """
    documents = _documents(text, name)
    definitions = [document.definition() for document in documents]
    problems = [problem for document in documents for problem in document.problems]
    for slug, times in Counter(definition.slug for definition in definitions).items():
        if slug and times > 1:
            last = [definition for definition in definitions if definition.slug == slug][-1]
            problems.append(f"{last.place('slug')}: {times} profiles have the slug {slug}.")
    if problems:
        raise Invalid(" ".join(problems), problems=problems)
    return definitions


def _documents(text: str, name: str) -> list[_Document]:
    if len(text.encode()) > MAX_BYTES:
        raise _refused(f"{name} is larger than {MAX_BYTES >> 10} KiB.")
    try:
        _require_plain(text, name)
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if not _is_empty(node)]
        documents = [_Document(name, node, yaml.SafeLoader("").construct_document(node)) for node in nodes]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, why = mark.line + 1 if mark else 1, getattr(error, "problem", error)
        raise _refused(f"{name}, line {line}: this is not YAML: {why}.") from None
    except ValueError as error:  # 2026-02-31 looks like a date to YAML
        raise _refused(f"{name} cannot be read: {error}.") from None
    if not documents:
        raise _refused(f"{name} has no profile.")
    return documents


def _require_plain(text: str, name: str) -> None:
    """Raise Invalid for aliases (a few lines of them can fill the memory) and for deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise _refused(f"{name}, line {line}: aliases are not supported; write the value out.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_LEVELS:
            raise _refused(
                f"{name}, line {line}: more than {MAX_LEVELS} levels of nesting are not supported."
            )


def _refused(sentence: str) -> Invalid:
    return Invalid(sentence, problems=[sentence])


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value


@dataclass(slots=True)
class _Document:
    """One document, and the problems found in it so far."""

    name: str
    node: yaml.Node
    content: Any
    problems: list[str] = field(default_factory=list)

    def definition(self) -> ProfileDefinition:
        """Return the profile; each problem is recorded, and a default takes the place of the value."""
        content = self._mapping((), self.content, KEYS)
        for path, key in _duplicate_keys(self.node):
            self.refuse(f"{key} appears twice.", path)
        for key, value in (("apiVersion", API_VERSION), ("kind", KIND)):
            if content.get(key) != value:
                self.refuse(f"{key} must be {value}.", (key,))
        return ProfileDefinition(
            slug=self._text(("slug",), content.get("slug", ""), required=True),
            title=self._text(("title",), content.get("title", ""), required=True),
            use=self._text(("use",), content.get("use", "")),
            teams=tuple(sorted(set(self._texts(("teams",), content.get("teams"))))),
            limits=ProfileLimits(**self._limits((), content)),
            spec=self._spec(content.get("spec")),
            places={key: self._place((key,)) for key in content} | {"": self._place(())},
        )

    def refuse(self, message: str, path: Path) -> None:
        self.problems.append(f"{self._place(path)}: {message}")

    def _place(self, path: Path) -> str:
        return f"{self.name}, line {_line(self.node, path)}"

    def _mapping(self, path: Path, raw: Any, keys: frozenset[str]) -> Json:
        if not isinstance(raw, dict):
            self.refuse(f"expected keys and values, such as {min(keys)}.", path)
            return {}
        for key in raw:
            if key not in keys:
                self.refuse(f"there is no key {key}; the keys are {', '.join(sorted(keys))}.", (*path, key))
        return raw

    def _text(self, path: Path, raw: Any, *, required: bool = False) -> str:
        key = path[-1]
        if not isinstance(raw, str):
            self.refuse(f"{key} must be text; put it in quotes.", path)
            return ""
        if "\0" in raw:
            self.refuse(f"{key} has a character that cannot be stored.", path)
            return ""
        if required and not raw.strip():
            self.refuse(f"a profile needs a {key}.", path)
        return raw.strip()

    def _texts(self, path: Path, raw: Any) -> list[str]:
        if raw is None:
            return []
        if not isinstance(raw, list) or not all(isinstance(text, str) for text in raw):
            self.refuse(f"{path[-1]} must be a list of names.", path)
            return []
        return raw

    def _limits(self, path: Path, content: Json) -> dict[str, Any]:
        """Return the limits below `path` by name; `content` is the mapping there."""
        limits: dict[str, Any] = {}
        for key in _limit_keys(path):
            raw, place = content.get(key), (*path, key)
            limit = LIMIT_AT.get(place)
            if limit is None and raw is not None:
                keys = frozenset(_limit_keys(place))
                limits |= self._limits(place, self._mapping(place, raw, keys))
            elif limit is not None and key in content and (raw is not None or limit.default is not None):
                limits[limit.name] = self._limit(limit, place, raw)
        return limits

    def _limit(self, limit: Limit, path: Path, raw: Any) -> Any:
        match limit.kind:
            case Text():
                return self._text(path, raw)
            case Number(min_value, max_value):
                return self._number(path, raw, min_value, max_value)
            case Duration():
                return self._duration(path, raw, limit.default)
            case Choice(choices):
                return next(iter(self._choices(path, [raw], choices.values)), limit.default)
            case Choices(choices):
                return self._choices(path, raw, choices.values)

    def _number(self, path: Path, raw: Any, min_value: int, max_value: int) -> int:
        if not isinstance(raw, int) or isinstance(raw, bool) or not min_value <= raw <= max_value:
            self.refuse(f"{path[-1]} must be a number from {min_value} to {max_value}.", path)
            return min_value
        return raw

    def _duration(self, path: Path, raw: Any, default: timedelta | None) -> timedelta | None:
        try:
            return parse_duration(raw) if isinstance(raw, str) else parse_duration("")
        except ValueError:
            self.refuse(f"{path[-1]} must be a duration like 24h, 3d or 1d 12h.", path)
            return default

    def _choices(self, path: Path, raw: Any, choices: list[str]) -> list[str]:
        names = self._texts(path, raw)
        for number, name in enumerate(names):
            if name not in choices:
                self.refuse(f"there is no {name}; choose from {', '.join(choices)}.", (*path, number))
        return [name for name in names if name in choices]

    def _spec(self, raw: Any) -> Manifest:
        if not isinstance(raw, dict):
            self.refuse(
                "a profile needs the spec of a ResourceClaim; it starts with the key devices.", ("spec",)
            )
            return {}
        try:
            text = json.dumps(raw, allow_nan=False)
        except (TypeError, ValueError):
            self.refuse("the spec has a value that JSON does not know, such as a date.", ("spec",))
            return {}
        if "\\u0000" in text:
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


def _line(node: yaml.Node, path: Path) -> int:
    """Return the line of the node at `path`, or of its nearest parent that exists."""
    line = node.start_mark.line + 1
    for step in path:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == step:
                    line, child = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            child = node.value[step]
            line = child.start_mark.line + 1
        if child is None:
            break
        node = child
    return line


def _duplicate_keys(node: yaml.Node, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield path and name of keys that a mapping has twice: YAML would silently take the last."""
    if isinstance(node, yaml.MappingNode):
        for key, times in Counter(str(key.value) for key, _value in node.value).items():
            if times > 1:
                yield (*path, key), key
        for key, value in node.value:
            yield from _duplicate_keys(value, (*path, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _duplicate_keys(value, (*path, number))
