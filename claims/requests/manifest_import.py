"""ResourceClaims and pods in a file of manifests, and the profiles that come closest to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from claims.catalogue.versions import DiffLine, spec_lines
from claims.models import Delivery, Profile, ProfileVersion
from core.errors import Invalid
from dra.blockers import Blockers, find_blockers
from dra.cluster_snapshot import ClusterSnapshot, flatten_lists
from dra.lint import LintFinding, NamedSpec, Subject, lint
from dra.match import Drop, FunnelStep, Preview, StepKind, dropped, preview
from dra.objects import Json, device_requests
from dra.similarity import KnownProfile, SpecSimilarity, compare_specs, decompose, with_positional_names
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
class ImportedSpec:
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
            if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
                continue  # an empty document, as between two lines of dashes
            line = node.start_mark.line + 1
            content = yaml.safe_load(yaml.serialize(node))
            if content is None:
                continue
            if not isinstance(content, dict):
                raise Invalid(f"{name}, line {line}: this is no object of Kubernetes.")
            found += [Document(line, one) for one in flatten_lists([content])]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        why = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise Invalid(f"{name}, line {line}: this is not YAML: {why}.") from None
    except ValueError as error:  # 2026-02-31 looks like a date to YAML
        raise Invalid(f"{name} cannot be read: {error}.") from None
    if not found:
        raise Invalid(f"{name} is empty.")
    return found


def wanted_in(documents: list[Document], name: str, elsewhere: Finder) -> list[ImportedSpec]:
    """
    Return the claims that the documents ask for, each once.

    Raise `Invalid` for a kind that asks for nothing, for a spec that the API would refuse, and for a claim or
    template that is neither in the file nor elsewhere.
    """
    here = {_key(one.content): one for one in documents}
    found: dict[tuple[str, str, str], ImportedSpec] = {}
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
                    missing = f"{key[0]} {key[2]}"
                    raise Invalid(
                        f"{name}, line {document.line}: there is no {missing}, here or in the cluster."
                    )
                found[key] = _wanted(Document(document.line, {"kind": key[0]} | dict(raw)), name)
        else:
            raise Invalid(
                f"{name}, line {document.line}: {kind or '?'} is not a kind that asks for devices; write a "
                "ResourceClaim, a ResourceClaimTemplate or a Pod."
            )
    if not found:
        raise Invalid(f"{name} asks for no claim.")
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


def _wanted(document: Document, name: str) -> ImportedSpec:
    kind, _namespace, own = _key(document.content)
    spec = document.content.get("spec")
    if kind == TEMPLATE and isinstance(spec, dict):
        spec = spec.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if wrong := [str(problem) for problem in problems(spec) if not problem.path.endswith(".expression")]:
        raise Invalid(f"{name}, line {document.line}: {own} is malformed. {' '.join(wrong)}")
    return ImportedSpec(f"{kind} {own}".strip(), spec, document.line)


EXAMPLES = 1  # devices named per step that drops some
NAMED = frozenset(
    (StepKind.SELECTOR, StepKind.UNTAINTED, StepKind.FREE)
)  # steps whose devices are worth a name


@dataclass(frozen=True, slots=True)
class SpecReport:
    """`drops` are examples of the devices that each step of the match drops, in the order of the steps."""

    cluster: str
    match: Preview
    drops: tuple[tuple[Drop, ...], ...]
    findings: tuple[LintFinding, ...]
    blockers: Blockers

    @property
    def fits(self) -> bool:
        return self.match.fits

    def as_json(self) -> dict[str, Any]:
        """Return it as the command writes it for programs; null is what cannot be told."""
        found = self.match
        return {
            "cluster": self.cluster,
            "fits": self.fits,
            "reason": found.reason,
            "problem": found.problem,
            "matching": found.matching,
            "free": found.free,
            "nodes_that_fit": found.nodes_that_fit,
            "steps": [
                asdict(step) | {"such_as": [{"device": str(drop.device), "why": why(drop)} for drop in drops]}
                for step, drops in zip(found.steps, self.drops, strict=True)
            ],
            "findings": [
                {
                    "code": finding.code,
                    "severity": finding.severity,
                    "path": finding.path,
                    "message": finding.message,
                    "fix": asdict(finding.fix) if finding.fix else None,
                }
                for finding in self.findings
            ],
            "scattered": self.blockers.sentence,
            "would_fit_without": [asdict(one) for one in self.blockers.blockers],
        }


def report_on(cluster: str, snapshot: ClusterSnapshot, spec: Json) -> SpecReport:
    """Work it out. Never raises for what the spec says."""
    match = preview(snapshot, spec)
    found = lint(snapshot, [NamedSpec("", spec)]).findings
    return SpecReport(
        cluster=cluster,
        match=match,
        drops=tuple(_drops(snapshot, spec, match, place) for place in range(len(match.steps))),
        findings=tuple(one for one in found if one.subject is Subject.PROFILE),
        blockers=Blockers() if match.fits else find_blockers(snapshot, spec),
    )


def why(drop: Drop) -> str:
    """Say why a device drops out, the holder too: whoever runs a command sees the mirror anyway."""
    return f"held by {drop.holder}" if drop.holder else drop.sentence


def _drops(snapshot: ClusterSnapshot, spec: Json, match: Preview, place: int) -> tuple[Drop, ...]:
    step: FunnelStep = match.steps[place]
    if step.kind not in NAMED or not step.dropped or match.matching is None:
        return ()
    return tuple(dropped(snapshot, spec, place, limit=EXAMPLES).drops)


DEEPEST = 40  # levels; a claim has about ten
LONGEST = 64_000  # characters of a file; one claim takes about a thousand
NEAREST = 3


@dataclass(frozen=True, slots=True)
class Near:
    """A profile beside what a file asks for; `lines` are the diff from the profile to the file."""

    profile: Profile
    version: ProfileVersion
    similarity: SpecSimilarity
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class Several:
    """
    Profiles that together ask for what a file asks for, or nearly; `differences` are sentences on what the
    file has otherwise, `lines` the diff from the profiles to the file.
    """

    parts: tuple[Near, ...]
    differences: tuple[str, ...]
    lines: tuple[DiffLine, ...]

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
        raise Invalid(f"{file} has {len(text)} characters; {LONGEST} are read at most.")
    known = list(profiles)
    _require_plain(text, file)
    wanted = wanted_in(documents_in(text, file), file, lambda *_key: None)
    return [_imported(one, known) for one in wanted]


def _imported(wanted: ImportedSpec, profiles: list[Profile]) -> Imported:
    kind, _space, name = wanted.title.partition(" ")
    near = []
    for profile in profiles:
        version = profile.current
        if version is None:
            continue
        like = compare_specs(version.spec, version.scalable, wanted.spec, max_count=version.max_devices)
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
                tuple(spec_lines(with_positional_names(like.spec), with_positional_names(wanted.spec))),
            )
            for *_rank, profile, version, like in near[:NEAREST]
        ),
    )


def several_in(spec: Json, profiles: Sequence[Profile]) -> Several | None:
    """Return the profiles that a claim takes together, None where it is not made of several."""
    known = [(profile, profile.current) for profile in profiles if profile.current is not None]
    found = decompose(
        spec,
        [
            KnownProfile(profile.slug, version.spec, version.scalable, version.max_devices)
            for profile, version in known
        ],
    )
    if found is None:
        return None
    parts = tuple(Near(*known[part.index], part.similarity, ()) for part in found.parts)
    said = [f"{part.profile.title}: {sentence}" for part in parts for sentence in part.similarity.differences]
    lines = spec_lines(with_positional_names(found.combined.spec), with_positional_names(spec))
    return Several(parts, tuple(said) or found.combined.differences, tuple(lines))


def _distance(own: Json, other: Json, like: SpecSimilarity) -> tuple[int, int]:
    """Return how far apart two specs are: device classes weigh more than all that is said of the devices."""
    classes = [Counter(ask.class_name for ask in device_requests(spec)) for spec in (own, other)]
    apart = (classes[0] - classes[1]).total() + (classes[1] - classes[0]).total()
    return apart, len(like.differences)


def _require_plain(text: str, file: str) -> None:
    """Refuse what would keep the reader busy: aliases, a few of which make a huge object, and depth."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.AliasEvent):
                raise Invalid(f"{file}, line {line}: aliases are not read; write the object out.")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise Invalid(f"{file}, line {line}: more than {DEEPEST} levels are not read.")
    except yaml.YAMLError:
        return  # what is wrong, and where, the reader of documents says
