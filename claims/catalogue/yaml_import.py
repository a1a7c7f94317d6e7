"""Reads a file of profiles, and says of everything that is wrong with it in which line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import yaml

from claims.catalogue.yaml_export import API_VERSION, DEFAULTS, KIND, ProfileEntry
from claims.durations import parse
from claims.models import Approval, Delivery
from core.errors import Invalid
from dra import validation
from dra.objects import Json, Manifest

MOST_DEVICES = 1024
MOST_BYTES = 1 << 20
MOST_LEVELS = 50
KEYS = frozenset(("apiVersion", "kind", "slug", "title", "use", "teams", "scalable", "limits", "spec"))
LIMITS = frozenset(
    (
        *("maxDevices", "defaultDuration", "maxDuration", "grace", "extension"),
        *("deliveries", "approval", "automatic"),
    )
)
DURATIONS = {
    "defaultDuration": "default_duration",
    "maxDuration": "max_duration",
    "grace": "grace",
    "extension": "extension",
}

type Step = str | int
type Path = tuple[Step, ...]


def entries_in(text: str, name: str) -> list[ProfileEntry]:
    """
    Return the profiles of a file called `name`, in its order.

    Raise Invalid whose `problems` are all that is wrong, each with file and line.
    """
    documents = _documents(text, name)
    entries = [document.entry() for document in documents]
    problems = [problem for document in documents for problem in document.problems]
    for slug, times in Counter(entry.slug for entry in entries).items():
        if slug and times > 1:
            place = [entry for entry in entries if entry.slug == slug][-1].place("slug")
            problems.append(f"{place}: {times} profiles are called {slug}.")
    if problems:
        raise Invalid(" ".join(problems), problems=problems)
    return entries


def _documents(text: str, name: str) -> list[_Document]:
    if len(text.encode()) > MOST_BYTES:
        raise _refused(f"{name} is larger than {MOST_BYTES >> 10} KiB.")
    try:
        _require_plain(text, name)
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if not _is_empty(node)]
        found = [_Document(name, node, yaml.SafeLoader("").construct_document(node)) for node in nodes]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, why = mark.line + 1 if mark else 1, getattr(error, "problem", error)
        raise _refused(f"{name}, line {line}: this is not YAML: {why}.") from None
    except ValueError as error:  # 2026-02-31 looks like a date to YAML
        raise _refused(f"{name} cannot be read: {error}.") from None
    if not found:
        raise _refused(f"{name} has no profile.")
    return found


def _require_plain(text: str, name: str) -> None:
    """Raise Invalid for what would keep a reader busy: an alias stands for more than it weighs."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise _refused(f"{name}, line {line}: write it out; aliases are not followed.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_LEVELS:
            raise _refused(f"{name}, line {line}: more than {MOST_LEVELS} levels are not read.")


def _refused(sentence: str) -> Invalid:
    return Invalid(sentence, problems=[sentence])


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value


@dataclass(slots=True)
class _Document:
    """One document, and what is found wrong with it so far."""

    name: str
    node: yaml.Node
    content: Any
    problems: list[str] = field(default_factory=list)

    def entry(self) -> ProfileEntry:
        """Return the profile; where something is wrong, a problem is noted and a default stands for it."""
        content = self._mapping((), self.content, KEYS)
        for path, key in _twice(self.node):
            self.say(f"{key} stands here twice.", path)
        for key, value in (("apiVersion", API_VERSION), ("kind", KIND)):
            if content.get(key) != value:
                self.say(f"{key} must be {value}.", (key,))
        return ProfileEntry(
            slug=self._text(content, "slug", required=True),
            title=self._text(content, "title", required=True),
            use=self._text(content, "use"),
            teams=tuple(sorted(set(self._texts(("teams",), content.get("teams"))))),
            limits={
                **DEFAULTS,
                "scalable": self._text(content, "scalable"),
                **self._limits(content.get("limits")),
            },
            spec=self._spec(content.get("spec")),
            places={key: self._place((key,)) for key in content} | {"": self._place(())},
        )

    def say(self, message: str, path: Path) -> None:
        self.problems.append(f"{self._place(path)}: {message}")

    def _place(self, path: Path) -> str:
        return f"{self.name}, line {_line(self.node, path)}"

    def _mapping(self, path: Path, raw: Any, keys: frozenset[str]) -> Json:
        if not isinstance(raw, dict):
            self.say(f"here should stand keys and values, such as {sorted(keys)[0]}.", path)
            return {}
        for key in raw:
            if key not in keys:
                known = ", ".join(sorted(keys))
                self.say(f"there is no key {key}; there are {known}.", (*path, key))
        return raw

    def _text(self, content: Json, key: str, *, required: bool = False) -> str:
        raw = content.get(key, "")
        if not isinstance(raw, str):
            self.say(f"{key} must be text; put it in quotes.", (key,))
            return ""
        if "\0" in raw:
            self.say(f"{key} has a character that cannot be stored.", (key,))
            return ""
        if required and not raw.strip():
            self.say(f"a profile needs a {key}.", (key,))
        return raw.strip()

    def _texts(self, path: Path, raw: Any) -> list[str]:
        if raw is None:
            return []
        if not isinstance(raw, list) or not all(isinstance(one, str) for one in raw):
            self.say(f"{path[-1]} must be a list of names.", path)
            return []
        return raw

    def _limits(self, raw: Any) -> dict[str, Any]:
        path: Path = ("limits",)
        content = {} if raw is None else self._mapping(path, raw, LIMITS)
        found: dict[str, Any] = {}
        if "maxDevices" in content:
            found["max_devices"] = self._number((*path, "maxDevices"), content["maxDevices"])
        for key, name in DURATIONS.items():
            if key in content:
                found[name] = self._duration((*path, key), content[key], DEFAULTS[name])
        if "deliveries" in content:
            given = self._choices((*path, "deliveries"), content["deliveries"], Delivery.values)
            found["deliveries"] = [choice for choice in Delivery.values if choice in given]
        if "approval" in content:
            given = self._choices((*path, "approval"), [content["approval"]], Approval.values)
            found["approval"] = given[0] if given else DEFAULTS["approval"]
        if content.get("automatic") is not None:
            found |= self._automatic((*path, "automatic"), content["automatic"])
        return found

    def _automatic(self, path: Path, raw: Any) -> dict[str, Any]:
        content = self._mapping(path, raw, frozenset(("devices", "duration")))
        found: dict[str, Any] = {}
        if "devices" in content:
            found["automatic_devices"] = self._number((*path, "devices"), content["devices"], least=0)
        if content.get("duration") is not None:
            found["automatic_duration"] = self._duration((*path, "duration"), content["duration"], None)
        return found

    def _number(self, path: Path, raw: Any, *, least: int = 1) -> int:
        if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= MOST_DEVICES:
            self.say(f"{path[-1]} must be a number from {least} to {MOST_DEVICES}.", path)
            return least
        return raw

    def _duration(self, path: Path, raw: Any, default: timedelta | None) -> timedelta | None:
        try:
            return parse(raw) if isinstance(raw, str) else parse("")
        except ValueError:
            self.say(f"{path[-1]} must be a duration like 24h, 3d or 1d 12h.", path)
            return default

    def _choices(self, path: Path, raw: Any, choices: list[str]) -> list[str]:
        given = self._texts(path, raw)
        for number, one in enumerate(given):
            if one not in choices:
                self.say(f"there is no {one}; there are {', '.join(choices)}.", (*path, number))
        return [one for one in given if one in choices]

    def _spec(self, raw: Any) -> Manifest:
        if not isinstance(raw, dict):
            self.say("a profile needs the spec of a ResourceClaim, which begins with devices.", ("spec",))
            return {}
        try:
            text = json.dumps(raw, allow_nan=False)
        except (TypeError, ValueError):
            self.say("the spec has a value that JSON does not know, such as a date.", ("spec",))
            return {}
        if "\\u0000" in text:
            self.say("the spec has a character that cannot be stored.", ("spec",))
            return {}
        for problem in validation.problems(raw):
            self.say(problem.message, ("spec", *_steps(problem.path)))
        return raw


def _steps(path: str) -> Iterator[Step]:
    """Yield the steps of the path of a problem: "devices.requests[0].name"."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("[") and part[1:-1].isdigit():
            yield int(part[1:-1])
        elif part:
            yield part


def _line(node: yaml.Node, path: Path) -> int:
    """Return the line of what `path` leads to, or of the last of its steps that is there."""
    line = node.start_mark.line + 1
    for step in path:
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == step:
                    line, found = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step]
            line = found.start_mark.line + 1
        if found is None:
            break
        node = found
    return line


def _twice(node: yaml.Node, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield keys that a mapping has twice: YAML would silently take the last."""
    if isinstance(node, yaml.MappingNode):
        for key, times in Counter(str(key.value) for key, _value in node.value).items():
            if times > 1:
                yield (*path, key), key
        for key, value in node.value:
            yield from _twice(value, (*path, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _twice(value, (*path, number))
