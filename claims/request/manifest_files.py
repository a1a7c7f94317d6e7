"""Claims that a file of manifests asks for: written as claim or template, or named by a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext as _

from core.errors import Invalid
from dra.objects import Json
from dra.snapshot import unfolded
from dra.validation import problems

CLAIM, TEMPLATE, POD = "ResourceClaim", "ResourceClaimTemplate", "Pod"
# Where a pod stands in what runs pods.
POD_SPECS = {
    POD: ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
}

# (kind, namespace, name) → the object from elsewhere, None if it is not there
type Finder = Callable[[str, str, str], Json | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A claim spec of the file; `title` says where it comes from, `line` where its document begins."""

    title: str
    spec: Json
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    line: int
    content: Json


def documents_in(text: str, name: str) -> list[Document]:
    """Read YAML or JSON, several documents or lists. Raise `Invalid` with the line of what is wrong."""
    found = []
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is None:
                continue
            line = node.start_mark.line + 1
            content = yaml.safe_load(yaml.serialize(node))
            if content is None:
                continue
            if not isinstance(content, dict):
                raise Invalid(
                    _("%(file)s, line %(line)d: this is no object of Kubernetes.")
                    % {"file": name, "line": line}
                )
            found += [Document(line, one) for one in unfolded([content])]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        why = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise Invalid(
            _("%(file)s, line %(line)d: this is not YAML: %(why)s.")
            % {"file": name, "line": line, "why": why}
        ) from None
    except ValueError as error:  # 2026-02-31 looks like a date to YAML
        raise Invalid(_("%(file)s cannot be read: %(why)s.") % {"file": name, "why": error}) from None
    if not found:
        raise Invalid(_("%(file)s is empty.") % {"file": name})
    return found


def wanted_in(documents: list[Document], name: str, elsewhere: Finder) -> list[Wanted]:
    """
    Return the claims that the documents ask for, each once.

    Raise `Invalid` for a kind that asks for nothing, for a spec that the API would refuse, and for a claim or
    template that is neither in the file nor elsewhere.
    """
    here = {_key(one.content): one for one in documents}
    found: dict[tuple[str, str, str], Wanted] = {}
    for document in documents:
        kind = str(document.content.get("kind") or "")
        if kind in (CLAIM, TEMPLATE):
            found.setdefault(_key(document.content), _wanted(document, name))
        elif kind in POD_SPECS:
            for key in _named(document.content, POD_SPECS[kind]):
                if key in here:
                    found.setdefault(key, _wanted(here[key], name))
                    continue
                raw = elsewhere(*key)
                if raw is None:
                    values = {"file": name, "line": document.line, "kind": key[0], "name": key[2]}
                    raise Invalid(
                        _("%(file)s, line %(line)d: there is no %(kind)s %(name)s, here or in the cluster.")
                        % values
                    )
                found[key] = _wanted(Document(document.line, {"kind": key[0]} | dict(raw)), name)
        else:
            values = {"file": name, "line": document.line, "kind": kind or "?"}
            raise Invalid(
                _(
                    "%(file)s, line %(line)d: %(kind)s is not a kind that asks for devices; write a "
                    "ResourceClaim, a ResourceClaimTemplate or a Pod."
                )
                % values
            )
    if not found:
        raise Invalid(_("%(file)s asks for no claim.") % {"file": name})
    return list(found.values())


def _key(content: Json) -> tuple[str, str, str]:
    metadata = content.get("metadata") or {}
    return (
        str(content.get("kind")),
        str(metadata.get("namespace") or "default"),
        str(metadata.get("name") or ""),
    )


def _named(content: Json, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield the claims and templates that a pod names."""
    spec: Any = content
    for step in path:
        spec = spec.get(step) if isinstance(spec, dict) else None
    namespace = _key(content)[1]
    for one in (spec or {}).get("resourceClaims") or ():
        if one.get("resourceClaimName"):
            yield (CLAIM, namespace, str(one["resourceClaimName"]))
        elif one.get("resourceClaimTemplateName"):
            yield (TEMPLATE, namespace, str(one["resourceClaimTemplateName"]))


def _wanted(document: Document, name: str) -> Wanted:
    kind, _namespace, own = _key(document.content)
    spec = document.content.get("spec")
    if kind == TEMPLATE and isinstance(spec, dict):
        spec = spec.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if wrong := [str(problem) for problem in problems(spec) if not problem.path.endswith(".expression")]:
        values = {"file": name, "line": document.line, "name": own, "why": " ".join(wrong)}
        raise Invalid(_("%(file)s, line %(line)d: %(name)s is malformed. %(why)s") % values)
    return Wanted(f"{kind} {own}".strip(), spec, document.line)
