"""
YAML files of several documents: reads them, and names the line of everything that is wrong.

Problems are collected, so that one run shows all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import yaml

from core.errors import Invalid
from core.times import parse_duration

MAX_BYTES = 1 << 20
MAX_LEVELS = 50
API_VERSION = "dragoman.dev/v1"

type Step = str | int
type YamlPath = tuple[Step, ...]


@dataclass(slots=True)
class YamlDocument:
    """
    One document, and the problems found in it so far; `subject` is what it describes.

    The methods that read a value record a problem and return a default for one that is wrong.
    """

    subject: ClassVar[str] = "document"

    name: str
    node: yaml.Node
    content: Any
    problems: list[str] = field(default_factory=list)

    def refuse(self, message: str, path: YamlPath) -> None:
        self.problems.append(f"{self.place(path)}: {message}")

    def place(self, path: YamlPath = ()) -> str:
        return f"{self.name}, line {_line(self.node, path)}"

    def keys_of(self, kind: str, keys: frozenset[str]) -> dict[str, Any]:
        """Return the content of a document of this kind; its keys are `keys`, `apiVersion` and `kind`."""
        content = self.mapping((), self.content, keys | {"apiVersion", "kind"})
        for path, key in _duplicate_keys(self.node):
            self.refuse(f"{key} appears twice.", path)
        for key, value in (("apiVersion", API_VERSION), ("kind", kind)):
            if content.get(key) != value:
                self.refuse(f"{key} must be {value}.", (key,))
        return content

    def mapping(self, path: YamlPath, raw: Any, keys: frozenset[str]) -> dict[str, Any]:
        if not isinstance(raw, dict):
            self.refuse(f"expected keys and values, such as {min(keys)}.", path)
            return {}
        for key in raw:
            if key not in keys:
                self.refuse(f"there is no key {key}; the keys are {', '.join(sorted(keys))}.", (*path, key))
        return raw

    def text(self, path: YamlPath, raw: Any, *, required: bool = False) -> str:
        key = path[-1]
        if not isinstance(raw, str):
            self.refuse(f"{key} must be text; put it in quotes.", path)
            return ""
        if "\0" in raw:
            self.refuse(f"{key} has a character that cannot be stored.", path)
            return ""
        if required and not raw.strip():
            self.refuse(f"a {self.subject} needs a {key}.", path)
        return raw.strip()

    def texts(self, path: YamlPath, raw: Any) -> list[str]:
        if raw is None:
            return []
        if not isinstance(raw, list) or not all(isinstance(text, str) for text in raw):
            self.refuse(f"{path[-1]} must be a list of names.", path)
            return []
        return raw

    def number(self, path: YamlPath, raw: Any, min_value: int, max_value: int) -> int:
        if not isinstance(raw, int) or isinstance(raw, bool) or not min_value <= raw <= max_value:
            self.refuse(f"{path[-1]} must be a number from {min_value} to {max_value}.", path)
            return min_value
        return raw

    def duration(self, path: YamlPath, raw: Any, default: timedelta | None) -> timedelta | None:
        try:
            return parse_duration(raw) if isinstance(raw, str) else parse_duration("")
        except ValueError:
            self.refuse(f"{path[-1]} must be a duration like 24h, 3d or 1d 12h.", path)
            return default

    def choices(self, path: YamlPath, raw: Any, choices: list[str]) -> list[str]:
        names = self.texts(path, raw)
        for number, name in enumerate(names):
            if name not in choices:
                self.refuse(f"there is no {name}; choose from {', '.join(choices)}.", (*path, number))
        return [name for name in names if name in choices]

    def flag(self, path: YamlPath, raw: Any) -> bool:
        if not isinstance(raw, bool):
            self.refuse(f"{path[-1]} must be true or false.", path)
        return raw is True


def read_documents(text: str, name: str, *, subject: str) -> list[YamlDocument]:
    """
    Return the documents of a file called `name`; `subject` is what it should have at least one of.

    Raises Invalid for what is not YAML, for aliases, and for a file that is too large or nested too deeply.
    """
    if len(text.encode()) > MAX_BYTES:
        raise _refused(f"{name} is larger than {MAX_BYTES >> 10} KiB.")
    try:
        _require_plain(text, name)
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if not _is_empty(node)]
        documents = [YamlDocument(name, node, yaml.SafeLoader("").construct_document(node)) for node in nodes]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, why = mark.line + 1 if mark else 1, getattr(error, "problem", error)
        raise _refused(f"{name}, line {line}: this is not YAML: {why}.") from None
    except ValueError as error:  # 2026-02-31 looks like a date to YAML
        raise _refused(f"{name} cannot be read: {error}.") from None
    if not documents:
        raise _refused(f"{name} has no {subject}.")
    return documents


def require_sound(documents: Sequence[YamlDocument], *others: str) -> None:
    """Raise Invalid with the problems of all documents, and others."""
    problems = [problem for document in documents for problem in document.problems] + list(others)
    if problems:
        raise Invalid(" ".join(problems), problems=problems)


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


def _line(node: yaml.Node, path: YamlPath) -> int:
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


def _duplicate_keys(node: yaml.Node, path: YamlPath = ()) -> Iterator[tuple[YamlPath, str]]:
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
