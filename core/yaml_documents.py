"""
YAML of users: the one reader of it, and files of several documents of the portal's own kinds.

The reader decides and reads with one parser, so that no text passes its limits in another reading, and gives
what JSON has: a date stays text, as in Kubernetes. Problems of documents are collected, so that one run shows
all of them.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import yaml

from core.errors import Invalid
from core.times import parse_duration

MAX_BYTES = 1 << 20
API_VERSION = "dragoman.dev/v1"

type Step = str | int
type YamlPath = tuple[Step, ...]


def text_in(raw: bytes) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 as PowerShell writes it. Raises UnicodeDecodeError."""
    return raw.decode("utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8")


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

    Raises Invalid for what `read_yaml` refuses.
    """
    documents = [YamlDocument(name, node, content) for node, content in read_yaml(text, name)]
    if not documents:
        raise _refused(f"{name} has no {subject}.")
    return documents


def require_sound(documents: Sequence[YamlDocument], *others: str) -> None:
    """Raise Invalid with the problems of all documents, and others."""
    problems = [problem for document in documents for problem in document.problems] + list(others)
    if problems:
        raise Invalid(" ".join(problems), problems=problems)


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """What a file may have at most. `nodes` and `bytes` count aliases as if they were written out."""

    bytes: int = MAX_BYTES
    documents: int = 1000
    levels: int = 50
    nodes: int = 200_000


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TAG = "tag:yaml.org,2002:"
SCALARS = frozenset(("str", "timestamp", "merge", "value", "null", "bool", "int", "float"))
MAX_DIGITS = 40  # of a number; Kubernetes has 64 bits


def read_yaml(text: str, name: str, limits: YamlLimits | None = None) -> list[tuple[yaml.Node, Any]]:
    """
    Return the root and the value of each document of `text`, without empty ones; values are those of JSON.

    Raises Invalid with the line for what is not YAML, is beyond a limit, or has no counterpart in JSON.
    """
    reader = _Reader(name, limits or YamlLimits())
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise reader.refused(
            text.count("\n", 0, error.start), "a character is half of a surrogate pair"
        ) from None
    if len(raw) > reader.limits.bytes:
        size = reader.limits.bytes
        raise _refused(f"{name} has {len(raw):,} bytes; the limit is {size:,}.")
    try:
        reader.count(yaml.parse(raw, Loader=LOADER))
        nodes = [node for node in yaml.compose_all(raw, Loader=LOADER) if node and not _is_empty(node)]
    except yaml.reader.ReaderError as error:
        line = raw.count(b"\n", 0, error.position)
        raise reader.refused(line, f"this is not YAML: {error.reason}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # of the end of the text it is a line further
        line = min(mark.line, raw.rstrip(b"\r\n").count(b"\n")) if mark else 0
        raise reader.refused(line, f"this is not YAML: {_problem(error)}") from None
    for node in nodes:
        reader.measure(node)
    values = [(node, reader.value(node)) for node in nodes]
    return [(node, value) for node, value in values if value is not None]


def _problem(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or str(error).partition("\n")[0])


class _Reader:
    """Turns nodes into values of JSON within the limits of a file called `name`."""

    def __init__(self, name: str, limits: YamlLimits) -> None:
        self.name, self.limits = name, limits
        self.sizes: dict[yaml.Node, tuple[int, int, int] | None] = {}  # levels, nodes, characters

    def refused(self, line: int, what: str) -> Invalid:
        return _refused(f"{self.name}, line {line + 1}: {what}.")

    def count(self, events: Iterator[yaml.Event]) -> None:
        """Refuse too many documents, nodes and levels while they are parsed, before anything is kept."""
        documents = nodes = levels = 0
        for event in events:
            line = event.start_mark.line if event.start_mark else 0
            documents += isinstance(event, yaml.DocumentStartEvent)
            nodes += isinstance(event, yaml.NodeEvent)
            levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(
                event, yaml.CollectionEndEvent
            )
            for number, limit, what in (
                (documents, self.limits.documents, "documents"),
                (nodes, self.limits.nodes, "values"),
                (levels, self.limits.levels, "levels"),
            ):
                if number > limit:
                    raise self.refused(line, f"the limit is {limit:,} {what}")

    def measure(self, node: yaml.Node) -> tuple[int, int, int]:
        """
        Refuse what is too large once its aliases are written out; return levels, nodes and characters of it.

        An alias stands after what it names, so this goes no deeper than the text.
        """
        if node in self.sizes:
            size = self.sizes[node]
            if size is None:
                raise self.refused(node.start_mark.line, "this refers to itself")
            return size
        self.sizes[node] = None
        if isinstance(node, yaml.ScalarNode):
            levels, nodes, characters = 0, 1, len(node.value) + 1
        else:
            pairs = isinstance(node, yaml.MappingNode)
            inner = [self.measure(child) for entry in node.value for child in (entry if pairs else (entry,))]
            levels = 1 + max((size[0] for size in inner), default=0)
            nodes, characters = (1 + sum(size[part] for size in inner) for part in (1, 2))
        for number, limit, what in (
            (levels, self.limits.levels, "levels"),
            (nodes, self.limits.nodes, "values"),
            (characters, self.limits.bytes, "characters"),
        ):
            if number > limit:
                raise self.refused(
                    node.start_mark.line, f"with its aliases written out it has more than {limit:,} {what}"
                )
        self.sizes[node] = levels, nodes, characters
        return levels, nodes, characters

    def value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{TAG}seq":
            return [self.value(child) for child in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{TAG}map":
            return self._mapping(node)
        if isinstance(node, yaml.ScalarNode) and node.tag.removeprefix(TAG) in SCALARS:
            return self._scalar(node, node.tag.removeprefix(TAG))
        tag = node.tag.replace(TAG, "!!")
        raise self.refused(node.start_mark.line, f"the tag {tag[:60]} is not supported")

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, child in node.value:
            line = key.start_mark.line
            if not isinstance(key, yaml.ScalarNode):
                raise self.refused(line, "a key must be text")
            if key.value in own:
                raise self.refused(line, f"{key.value[:60]} appears twice")
            content = self.value(child)
            if key.tag != f"{TAG}merge":
                own[key.value] = content
                continue
            for part in content if isinstance(content, list) else [content]:
                if not isinstance(part, dict):
                    raise self.refused(line, "<< needs a mapping")
                merged = part | merged
        return merged | own

    def _scalar(self, node: yaml.ScalarNode, kind: str) -> Any:
        """Return a scalar as Kubernetes reads it: times such as 12:30 and dates are text."""
        text, line = str(node.value), node.start_mark.line
        if kind in ("str", "timestamp", "merge", "value") or (kind in ("int", "float") and ":" in text):
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in ("true", "yes", "on")
        digits = text.replace("_", "").lower().removeprefix("+")
        try:
            if len(digits) > MAX_DIGITS:
                raise ValueError
            if kind == "float" and math.isfinite(number := float(digits)):
                return number
            if kind == "int":
                is_octal = digits.lstrip("-").isdecimal() and digits.lstrip("-").startswith("0")
                return int(digits, 8 if is_octal else 0)
        except ValueError:
            pass
        raise self.refused(line, f"{text[:60]} is no number or text here; put it in quotes")


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
