"""ResourceClaims and pods in a file of manifests, and the profiles that match them best."""

from __future__ import annotations

import copy
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any
from uuid import UUID

from claims.catalogue.sharing import least_memory
from claims.catalogue.versions import DiffLine, spec_diff, text_diff
from claims.models import Delivery, Profile, ProfileVersion
from claims.quotas.quota_usage import QuotaLine
from claims.requests.verdict import Verdict, verdict_on
from core.errors import Invalid
from core.yaml_documents import YamlLimits, read_yaml
from dra import quota
from dra.blockers import Blockers, find_blockers
from dra.cluster_snapshot import ClusterSnapshot, flatten_lists
from dra.combination import KnownProfile, SpecSimilarity, decompose, with_positional_names
from dra.lint import LintFinding, NamedSpec, Subject, lint
from dra.manifests import converted, to_yaml
from dra.match import Drop, FunnelStep, Preview, StepKind, dropped, preview
from dra.objects import Json, device_requests, requests
from dra.validation import problems
from inventory.sync.columns import requested_resources

CLAIM, TEMPLATE, POD = "ResourceClaim", "ResourceClaimTemplate", "Pod"
# The path to the pod spec in each workload kind.
POD_SPECS = {
    POD: ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
}

# (kind, namespace, name) → the object outside the file, None if it does not exist
type Finder = Callable[[str, str, str], Json | None]


@dataclass(frozen=True, slots=True)
class ImportedSpec:
    """
    A claim spec of the file; `title` is its kind and name, `line` the first line of its document.

    `note` says what was changed to read it, "" if nothing was, and `changes` are the lines of that.
    """

    title: str
    spec: Json
    line: int
    note: str = ""
    changes: tuple[DiffLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    line: int
    content: Json


def read_documents(text: str, name: str) -> list[Document]:
    """Read YAML or JSON, with multiple documents or lists. Raise `Invalid` with the line of the error."""
    documents = []
    for node, content in read_yaml(text, name, FILE_LIMITS):
        line = node.start_mark.line + 1
        if not isinstance(content, dict):
            raise Invalid(f"{name}, line {line}: this is not a Kubernetes object.")
        documents += [Document(line, item) for item in flatten_lists([content])]
    if not documents:
        raise Invalid(f"{name} is empty.")
    return documents


def requested_specs(documents: list[Document], name: str, elsewhere: Finder) -> list[ImportedSpec]:
    """
    Return the claim specs that the documents request, each once.

    Raise `Invalid` for a kind that requests no devices, for a spec that the API server would refuse, and for
    a claim or template that `elsewhere` does not find either.
    """
    in_file = {_key(document.content): document for document in documents}
    specs: dict[tuple[str, str, str], ImportedSpec] = {}
    for document in documents:
        kind = str(document.content.get("kind") or "")
        if kind in (CLAIM, TEMPLATE):
            specs.setdefault(_key(document.content), _imported_spec(document, name))
        elif kind in POD_SPECS:
            if proposal := _proposed_spec(document, name):
                specs.setdefault(_key(document.content), proposal)
            for key in _named(document.content, POD_SPECS[kind]):
                if key in in_file:
                    specs.setdefault(key, _imported_spec(in_file[key], name))
                    continue
                raw = elsewhere(*key)
                if raw is None:
                    missing = f"{key[0]} {key[2]}"
                    raise Invalid(
                        f"{name}, line {document.line}: {missing} is neither in this file nor in the cluster."
                    )
                specs[key] = _imported_spec(Document(document.line, {"kind": key[0]} | dict(raw)), name)
        else:
            raise Invalid(
                f"{name}, line {document.line}: {kind or '?'} does not request devices. Use a "
                "ResourceClaim, a ResourceClaimTemplate or a Pod."
            )
    if not specs:
        raise Invalid(f"{name} requests no devices.")
    return list(specs.values())


def _key(content: Json) -> tuple[str, str, str]:
    metadata = content.get("metadata") or {}
    return (
        str(content.get("kind")),
        str(metadata.get("namespace") or "default"),
        str(metadata.get("name") or ""),
    )


def _named(content: Json, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of the claims and templates that a pod references."""
    namespace = _key(content)[1]
    for entry in _pod_spec(content, path).get("resourceClaims") or ():
        reference = entry | (entry.get("source") or {})  # `source` until Kubernetes 1.30
        if reference.get("resourceClaimName"):
            yield (CLAIM, namespace, str(reference["resourceClaimName"]))
        elif reference.get("resourceClaimTemplateName"):
            yield (TEMPLATE, namespace, str(reference["resourceClaimTemplateName"]))


def _pod_spec(content: Json, path: tuple[str, ...]) -> dict[str, Any]:
    spec: Any = content
    for step in path:
        spec = spec.get(step) if isinstance(spec, dict) else None
    return spec if isinstance(spec, dict) else {}


MIG_RESOURCE = re.compile(r"nvidia\.com/mig-(\d+g\.\d+gb(?:\.me)?)", re.ASCII)


def _proposed_spec(document: Document, name: str) -> ImportedSpec | None:
    """
    Return a claim spec for the GPUs that a pod requests by number, from a device plugin; None without any.

    `changes` are the lines of its pod spec that change with it.
    """
    kind, _namespace, object_name = _key(document.content)
    pod_spec = _pod_spec(document.content, POD_SPECS[kind])
    try:
        numbers = {
            resource: (count, quota.class_of_resource(resource, {}))
            for resource, count in requested_resources(pod_spec).items()
            if count
        }
    except (AttributeError, TypeError):
        raise Invalid(f"{name}, line {document.line}: the containers are malformed.") from None
    resources = {resource: row for resource, row in numbers.items() if row[1]}
    if not resources:
        return None
    names = ["gpu"] if len(resources) == 1 else [f"gpu-{number}" for number in range(1, len(resources) + 1)]
    requests = []
    for request_name, (resource, (count, class_name)) in zip(names, resources.items(), strict=True):
        device_request: dict[str, Any] = {"deviceClassName": class_name, "count": count}
        if match := MIG_RESOURCE.fullmatch(resource):
            expression = f'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "{match[1]}"'
            device_request["selectors"] = [{"cel": {"expression": expression}}]
        requests.append({"name": request_name, "exactly": device_request})
    claim_name = object_name or "gpu"
    changed = _with_claim(pod_spec, set(resources), claim_name, template=kind != POD)
    listed = ", ".join(f"{resource}: {count}" for resource, (count, _class) in resources.items())
    note = (
        f"{kind} {object_name} requests {listed} from a device plugin. This claim requests the same devices; "
        "the pod refers to it instead."
    )
    return ImportedSpec(
        f"{TEMPLATE if kind != POD else CLAIM} {claim_name}",
        {"devices": {"requests": requests}},
        document.line,
        note,
        tuple(text_diff(to_yaml(pod_spec), to_yaml(changed))),
    )


def _with_claim(pod_spec: Json, resources: set[str], claim_name: str, *, template: bool) -> Json:
    """Return a pod spec that refers to the claim where it requested `resources`."""
    changed = copy.deepcopy(dict(pod_spec))
    source = "resourceClaimTemplateName" if template else "resourceClaimName"
    changed["resourceClaims"] = [*(changed.get("resourceClaims") or ()), {"name": "gpu", source: claim_name}]
    for container in [*(changed.get("initContainers") or ()), *(changed.get("containers") or ())]:
        wanted = container.get("resources") or {}
        for part in ("limits", "requests"):
            left = {key: value for key, value in (wanted.get(part) or {}).items() if key not in resources}
            if len(left) < len(wanted.get(part) or {}):
                wanted["claims"] = [{"name": "gpu"}]
                wanted |= {part: left} if left else {}
                if not left:
                    del wanted[part]
    return changed


def _imported_spec(document: Document, name: str) -> ImportedSpec:
    kind, _namespace, object_name = _key(document.content)
    title = f"{kind} {object_name}".strip()
    newer = converted(document.content)
    note = ""
    changes: tuple[DiffLine, ...] = ()
    if newer is not None:
        note = f"Converted from {document.content['apiVersion']}: Kubernetes 1.38 no longer serves v1beta1."
        changes = tuple(text_diff(to_yaml(document.content), to_yaml(newer)))
    content = document.content if newer is None else newer
    spec = content.get("spec")
    if kind == TEMPLATE and isinstance(spec, dict):
        spec = spec.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if messages := [str(problem) for problem in problems(spec) if not problem.path.endswith(".expression")]:
        raise Invalid(f"{name}, line {document.line}: {title} is invalid. {' '.join(messages)}")
    return ImportedSpec(title, spec, document.line, note, changes)


MAX_EXAMPLES = 1  # dropped devices shown per step
STEPS_WITH_EXAMPLES = frozenset((StepKind.SELECTOR, StepKind.UNTAINTED, StepKind.REACHABLE, StepKind.FREE))


@dataclass(frozen=True, slots=True)
class SpecReport:
    """The match of a spec in a cluster; `drops` has examples of the devices that each step drops."""

    cluster: str
    match: Preview
    drops: tuple[tuple[Drop, ...], ...]
    findings: tuple[LintFinding, ...]
    blockers: Blockers
    verdict: Verdict

    @property
    def fits(self) -> bool:
        return self.verdict.fits

    def as_json(self) -> dict[str, Any]:
        """Return the JSON output of the command; null is unknown."""
        match = self.match
        return {
            "cluster": self.cluster,
            "fits": self.fits,
            "verdict": str(self.verdict),
            "reason": match.reason,
            "problem": match.problem,
            "matching": match.matching,
            "free": match.free,
            "nodes_that_fit": match.nodes_that_fit,
            "steps": [
                asdict(step) | {"such_as": [{"device": str(drop.device), "why": why(drop)} for drop in drops]}
                for step, drops in zip(match.steps, self.drops, strict=True)
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
            "would_fit_without": [asdict(blocker) for blocker in self.blockers.blockers],
        }


def report_on(
    cluster: str, snapshot: ClusterSnapshot, spec: Json, *, quota: Sequence[QuotaLine] = ()
) -> SpecReport:
    """
    Return the match, the lint findings, the blockers and the verdict of a spec, with `quota` if there is a
    team. Never raises for its content.
    """
    match = preview(snapshot, spec)
    findings = lint(snapshot, [NamedSpec("", spec)]).findings
    return SpecReport(
        cluster=cluster,
        match=match,
        drops=tuple(_examples(snapshot, spec, match, index) for index in range(len(match.steps))),
        findings=tuple(finding for finding in findings if finding.subject is Subject.PROFILE),
        blockers=Blockers() if match.fits else find_blockers(snapshot, spec),
        verdict=verdict_on(match, cluster, quota=quota),
    )


def why(drop: Drop) -> str:
    """Return why a device is dropped, with its holder: whoever runs the command can read the mirror."""
    return f"held by {drop.holder}" if drop.holder else drop.sentence


def _examples(snapshot: ClusterSnapshot, spec: Json, match: Preview, index: int) -> tuple[Drop, ...]:
    step: FunnelStep = match.steps[index]
    if step.kind not in STEPS_WITH_EXAMPLES or not step.dropped or match.matching is None:
        return ()
    return tuple(dropped(snapshot, spec, index, limit=MAX_EXAMPLES).drops)


MAX_FILE_LENGTH = 64_000  # characters; one claim has about 1,000
MAX_DOCUMENTS = 50
# A claim has about 10 levels and 30 values.
FILE_LIMITS = YamlLimits(bytes=4 * MAX_FILE_LENGTH, documents=MAX_DOCUMENTS, levels=40, nodes=10_000)
MAX_DEVICE_REQUESTS = 100  # of all claims of a file, with alternatives; each is compared with every profile
MAX_SECONDS = 5  # processor time to compare one file with all profiles
MAX_NEAREST = 3


class TimeBudget:
    """
    Ends the comparison of the claims of a file after `MAX_SECONDS` of processor time of its thread: others
    wait for the same process. Reading is bounded by the length of the file.
    """

    def __init__(self, file: str, claims: int, profiles: int) -> None:
        self.file, self.claims, self.profiles = file, claims, profiles
        self.compared = 0  # claims
        self._end = time.thread_time() + MAX_SECONDS

    def check(self) -> None:
        """Raise Invalid if the time is over."""
        if time.thread_time() <= self._end:
            return
        if self.compared:
            step = f"Import at most {self.compared} of them in one file."
        elif self.claims > 1:
            step = "Import each of them in a file of its own."
        else:
            step = "Choose profiles in the request form instead."
        raise Invalid(
            f"To compare {self.file} with {self.profiles:,} profiles takes more than {MAX_SECONDS} s, the "
            f"limit. {self.compared} of {self.claims} claims were compared. {step}"
        )


@dataclass(frozen=True, slots=True)
class ProfileMatch:
    """A profile compared with a claim of a file; `lines` are the diff from the profile to the file."""

    profile: Profile
    version: ProfileVersion
    similarity: SpecSimilarity
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class ProfileCombination:
    """
    Profiles that together give the spec of a file, exactly or nearly; `differences` are sentences on what the
    file has instead, `lines` the diff from the profiles to the file.
    """

    parts: tuple[ProfileMatch, ...]
    differences: tuple[str, ...]
    lines: tuple[DiffLine, ...]

    @property
    def exact(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True)
class ImportedClaim:
    """
    One claim of a file with the profiles for it.

    `exact` are the profiles with the same spec. If there are none, `combination` are profiles that give it
    together, exactly or nearly, and `nearest` the single profiles with the fewest differences; `nearest` is
    empty if the combination is exact. `note` and `changes` are those of `ImportedSpec`.
    """

    title: str
    name: str
    delivery: str
    spec: Json
    note: str
    changes: tuple[DiffLine, ...]
    exact: tuple[ProfileMatch, ...]
    combination: ProfileCombination | None
    nearest: tuple[ProfileMatch, ...]


def import_claims(
    text: str, file: str, profiles: Iterable[Profile], memory: Mapping[UUID, int | None] | None = None
) -> list[ImportedClaim]:
    """
    Return each claim of a file named `file` with the matching profiles, which are loaded with their current
    version. `memory` has the bytes of the smallest device of each profile, None if unknown: a profile with
    less than a claim asks for is not near it. Raise Invalid with the line of the error, or with the number of
    claims that were compared within `MAX_SECONDS`.
    """
    _require_at_most(MAX_FILE_LENGTH, len(text), "characters", file)
    documents = read_documents(text, file)
    _require_at_most(MAX_DOCUMENTS, len(documents), "objects", file)
    specs = requested_specs(documents, file, lambda *_key: None)
    device_request_count = sum(1 for imported in specs for _ in device_requests(imported.spec))
    _require_at_most(MAX_DEVICE_REQUESTS, device_request_count, "device requests", file)
    candidates = _candidates(profiles)
    budget = TimeBudget(file, len(specs), len(candidates))
    claims = []
    for budget.compared, imported in enumerate(specs):
        claims.append(_import_claim(imported, candidates, memory or {}, budget))
    return claims


type RankedProfile = tuple[Profile, ProfileVersion, KnownProfile]


def _candidates(profiles: Iterable[Profile]) -> list[RankedProfile]:
    return [
        (
            profile,
            version,
            KnownProfile(profile.slug, version.spec, version.scalable, version.max_devices),
        )
        for profile in profiles
        if (version := profile.current) is not None
    ]


def _import_claim(
    imported: ImportedSpec,
    profiles: list[RankedProfile],
    memory: Mapping[UUID, int | None],
    budget: TimeBudget,
) -> ImportedClaim:
    kind, _space, name = imported.title.partition(" ")
    canonical = with_positional_names(imported.spec)
    matches = []
    for profile, version, known in profiles:
        budget.check()
        matches.append(ProfileMatch(profile, version, known.compare(imported.spec, canonical), ()))
    matches.sort(key=lambda match: (*_distance(match, imported.spec), match.profile.title))
    exact = [match for match in matches if match.similarity.exact]
    combination = None if exact else find_combination(imported.spec, profiles, memory, budget)
    has_exact = bool(exact) or (combination is not None and combination.exact)
    enough = (match for match in matches if _is_enough(match, imported.spec, memory.get(match.profile.pk)))
    nearest = [] if has_exact else list(islice(enough, MAX_NEAREST))
    return ImportedClaim(
        title=imported.title,
        name=name,
        delivery=Delivery.TEMPLATE if kind == TEMPLATE else Delivery.CLAIM,
        spec=imported.spec,
        note=imported.note,
        changes=imported.changes,
        exact=tuple(exact),
        combination=combination,
        nearest=tuple(replace(match, lines=_diff(match.similarity.spec, imported.spec)) for match in nearest),
    )


def _is_enough(match: ProfileMatch, spec: Json, memory: int | None) -> bool:
    """Return whether devices of the profile may have as much memory as `spec` asks for."""
    least = memory or least_memory(match.version.spec)
    return not least or least >= least_memory(spec)


def find_combination(
    spec: Json, profiles: list[RankedProfile], memory: Mapping[UUID, int | None], budget: TimeBudget
) -> ProfileCombination | None:
    """
    Return the profiles that give the spec together, None if it is not a combination. Where none give exactly
    that, each has at least the memory that its part of the spec asks for.
    """
    while True:
        decomposition = decompose(spec, [known for _profile, _version, known in profiles], budget.check)
        if decomposition is None:
            return None
        parts = tuple(
            ProfileMatch(*profiles[part.index][:2], part.similarity, ()) for part in decomposition.parts
        )
        small = set() if decomposition.exact else _too_small(parts, spec, memory)
        if not small:
            break
        profiles = [row for row in profiles if row[0].pk not in small]
    differences = [
        f"{part.profile.title}: {sentence}" for part in parts for sentence in part.similarity.differences
    ]
    combined = decomposition.combined
    return ProfileCombination(parts, tuple(differences) or combined.differences, _diff(combined.spec, spec))


def _too_small(parts: Sequence[ProfileMatch], spec: Json, memory: Mapping[UUID, int | None]) -> set[UUID]:
    """Return the profiles with less memory than the requests of the spec that they stand for, in order."""
    remaining, small = requests(spec), set()
    for match in parts:
        number = len(requests(match.version.spec))
        part: Json = {"devices": {"requests": remaining[:number]}}
        remaining = remaining[number:]
        if not _is_enough(match, part, memory.get(match.profile.pk)):
            small.add(match.profile.pk)
    return small


def _diff(profile_spec: Json, file_spec: Json) -> tuple[DiffLine, ...]:
    return tuple(spec_diff(with_positional_names(profile_spec), with_positional_names(file_spec)))


def _distance(match: ProfileMatch, spec: Json) -> tuple[int, int]:
    """Return the distance of a profile; a different device class weighs more than any other difference."""
    own, other = (
        Counter(request.class_name for request in device_requests(side))
        for side in (match.version.spec, spec)
    )
    return (own - other).total() + (other - own).total(), len(match.similarity.differences)


def _require_at_most(limit: int, number: int, counted: str, file: str) -> None:
    if number > limit:
        raise Invalid(f"{file} has {number:,} {counted}; the limit is {limit:,}.")
