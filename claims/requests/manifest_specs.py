"""
What a file of manifests requests: its claims and templates, and claims for pods that request GPUs by number.

Other objects are skipped and named. `manage.py explain_spec`, the import page and the API read files here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from claims.catalogue.versions import DiffLine, text_diff
from claims.quotas.quota_usage import QuotaLine
from claims.requests import pod_templates as pods
from claims.requests.cluster_choice import could_fit, request_match
from claims.requests.verdict import Verdict, verdict_on
from core.errors import Invalid
from core.yaml_documents import YamlLimits, read_yaml
from dra import quota
from dra.blockers import Blockers, find_blockers
from dra.cluster_snapshot import ClusterSnapshot, flatten_lists
from dra.lint import LintFinding, NamedSpec, Subject, lint
from dra.manifests import API_VERSION, converted, to_yaml
from dra.match import Drop, FunnelStep, Preview, StepKind, dropped
from dra.objects import Json, Manifest, device_requests
from dra.validation import SpecProblem, class_problems, problems, with_types

CLAIM, TEMPLATE, CLASS, POD = "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "Pod"
MAX_FILE_LENGTH = 64_000  # characters; one claim has about 1,000
MAX_DOCUMENTS = 50
# A claim has about 10 levels and 30 values.
FILE_LIMITS = YamlLimits(bytes=4 * MAX_FILE_LENGTH, documents=MAX_DOCUMENTS, levels=40, nodes=10_000)

type Key = tuple[str, str, str]  # kind, namespace, name
# A key → the object outside the file, None if it does not exist
type Finder = Callable[[str, str, str], Json | None]


@dataclass(slots=True)
class ImportedSpec:
    """
    A claim spec of the file; `title` is its kind and name, `line` the first line of its document.

    `note` says what was changed to read it, "" if nothing was, and `changes` are the lines of that.
    `problems` are sentences about its selectors. `pods` use it at once, a template each with its own claim.
    `share` is whether it stands for parts of devices, of which `memory` is that of one in bytes, if known.
    """

    title: str
    spec: Json
    line: int
    note: str = ""
    changes: tuple[DiffLine, ...] = ()
    problems: tuple[str, ...] = ()
    pods: int = 1
    share: bool = False
    memory: int | None = None


@dataclass(slots=True)
class ImportedFile:
    """
    What a file of manifests requests. `notes` are sentences about objects without a spec here, `skipped`
    names the others, `classes` are its DeviceClasses, `manifests` all but the skipped as they should be.
    """

    specs: list[ImportedSpec] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)
    manifests: list[Json] = field(default_factory=list)

    @property
    def remarks(self) -> list[str]:
        """Return the notes and what was skipped, as sentences."""
        return [*self.notes, *([f"Skipped: {', '.join(self.skipped)}."] if self.skipped else [])]


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


def requested_specs(documents: list[Document], name: str, elsewhere: Finder | None = None) -> ImportedFile:
    """
    Return the claim specs that the documents request, each once.

    Raise `Invalid` for a file that requests no devices, for a spec that the API server would refuse, and for
    objects that are malformed. Claims that are neither in the file nor `elsewhere` are remarked on.
    """
    reading = _Reading(documents, elsewhere)
    for document in documents:
        try:
            reading.read(document)
        except Invalid as refusal:
            raise Invalid(f"{name}, line {document.line}: {refusal.message.rstrip('.')}.") from None
    imported = reading.imported()
    if not imported.specs:
        raise Invalid(" ".join([f"{name} has no pod or claim that names devices.", *imported.remarks]))
    return imported


def _key(content: Json) -> Key:
    metadata = pods.mapping(content.get("metadata"), "metadata")
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    return str(content.get("kind") or ""), str(metadata.get("namespace") or "default"), str(name)


def _title(key: Key) -> str:
    return f"{key[0] or 'object without a kind'} {key[2]}".strip()


def _class_of(resource: str) -> str:
    return pods.MORE_CLASSES.get(resource) or quota.class_of_resource(resource, {})


class _Reading:
    """The documents of a file, read one after another."""

    def __init__(self, documents: list[Document], elsewhere: Finder | None) -> None:
        self.elsewhere = elsewhere
        self.file = ImportedFile()
        self.specs: dict[Key, ImportedSpec] = {}
        self.uses: dict[Key, int] = {}  # pods at once that name it
        self.in_file: dict[Key, Document] = {}
        self.resources: dict[str, str] = {}  # extended resource → class of the file
        self.replicas: dict[str, int] = {}  # extended resource → how many share a device
        for document in documents:
            with suppress(Invalid):
                self._look_ahead(document, _key(document.content))

    def _look_ahead(self, document: Document, key: Key) -> None:
        self.in_file[key] = document
        if key[0] == CLASS:
            spec = pods.mapping(document.content.get("spec"), "spec")
            if resource := spec.get("extendedResourceName"):
                self.resources[str(resource)] = key[2]
        elif key[0] == "ConfigMap":  # perhaps that of a device plugin
            for text in pods.mapping(document.content.get("data"), "data").values():
                self.replicas |= pods.shared_replicas(text)

    def imported(self) -> ImportedFile:
        """Return what was read; of a file with classes alone, claims for one device of each."""
        for key, spec in self.specs.items():
            spec.pods = self.uses.get(key, 1) if key[0] == TEMPLATE else 1
        self.file.specs = list(self.specs.values())
        for device_class in () if self.specs else self.file.classes:
            name = _key(device_class)[2]
            claim = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": name}}]}}
            note = "Judged as a claim for one device of the class."
            self.file.specs.append(ImportedSpec(f"{CLASS} {name}", claim, 1, note))
        return self.file

    def read(self, document: Document) -> None:
        content, key = document.content, _key(document.content)
        if key[0] in (CLAIM, TEMPLATE):
            self._claim(key, document)
        elif key[0] == CLASS:
            self._class(key, content)
        elif fragment := _claim_fragment(content):
            key = (CLAIM, key[1], key[2] or "gpu")
            self._claim(
                key, Document(document.line, {"kind": CLAIM, "metadata": {"name": key[2]}} | fragment)
            )
            self.specs[key].note = f"It has no kind: read as a claim. {self.specs[key].note}".strip()
        elif not self._workload(document, key):
            taken = ", ".join(pods.passed_through(content))
            about = f" (takes {taken})" if taken else ""
            self.file.skipped.append(f"{_title(key)}{about}")

    def _claim(self, key: Key, document: Document, *, keep: bool = True) -> None:
        """Read a claim or template, if it was not read before; `keep` its manifest if it is of the file."""
        if key in self.specs:
            return
        newer, said = converted(document.content, _class_of)
        spec = newer.get("spec")
        if key[0] == TEMPLATE and isinstance(spec, dict):
            spec = spec.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        found = problems(spec)
        if messages := _structural(found):
            raise Invalid(" ".join([f"{_title(key)} is invalid.", *messages, *_hints(document.content)]))
        changes = _changes(document.content, newer) if said else ()
        advice = tuple(_selector_problems(spec, found))
        self.specs[key] = ImportedSpec(_title(key), spec, document.line, " ".join(said), changes, advice)
        if keep:
            self.file.manifests.append({"apiVersion": API_VERSION} | newer)

    def _class(self, key: Key, content: Json) -> None:
        newer, said = converted(content)
        found = class_problems(pods.mapping(newer.get("spec"), "spec"))
        if messages := _structural(found):
            raise Invalid(" ".join([f"{_title(key)} is invalid.", *messages]))
        judged = [*said, *map(str, found)] if found else [*said, "Its selectors compile."]
        self.file.notes += [f"{_title(key)}: {sentence}" for sentence in judged]
        self.file.classes.append(newer)
        self.file.manifests.append({"apiVersion": API_VERSION} | newer)

    def _workload(self, document: Document, key: Key) -> bool:
        """Read the pods of an object; return False if none uses devices."""
        content = copy.deepcopy(dict(document.content))
        templates, by_shape = pods.pod_templates(content)
        said: list[str] = []
        made: dict[str, Key] = {}  # of this object: claim spec → its key
        uses_devices = False
        for template in templates:
            named = [
                self._named(entry, key, document, template) for entry in pods.claim_entries(template.spec)
            ]
            if self._proposed(document, key, template, made, said) or any(named):
                uses_devices = True
                said += pods.without_visible_devices(template.spec)
        if not uses_devices:
            return False
        if key[0] in pods.RUN_ONCE:
            said += [sentence for template in templates for sentence in pods.run_once(template)]
        if key[0] == "DaemonSet":
            said.append("It runs a pod on each node: request as many claims at once as there are such nodes.")
        if by_shape:
            kind = key[0] or "Its kind"
            said.append(f"{kind} is not known here: its pods were found by their containers and resources.")
        said = list(dict.fromkeys(said))
        if made:
            first = self.specs[next(iter(made.values()))]
            first.note, first.changes = " ".join(said), _changes(document.content, content)
        else:
            self.file.notes += [f"{_title(key)}: {sentence}" for sentence in said]
        self.file.manifests.append(content)
        return True

    def _named(self, entry: Json, user: Key, document: Document, template: pods.PodTemplate) -> bool:
        """Read the claim or template that a pod names; return whether it names one."""
        reference = dict(entry) | pods.mapping(entry.get("source"), "source")  # until Kubernetes 1.30
        kind = CLAIM if reference.get("resourceClaimName") else TEMPLATE
        name = str(reference.get("resourceClaimName") or reference.get("resourceClaimTemplateName") or "")
        key = (kind, user[1], name)
        if not name:
            return False
        self.uses[key] = self.uses.get(key, 0) + template.pods
        if key in self.in_file:
            self._claim(key, self.in_file[key])
        elif raw := self.elsewhere and self.elsewhere(*key):
            self._claim(key, Document(document.line, {"kind": kind} | dict(raw)), keep=False)
        else:
            where = "neither in this file nor in the cluster" if self.elsewhere else "not in this file"
            self.file.notes.append(f"{_title(user)}: {kind} {name} is {where}.")
        return True

    def _proposed(
        self, document: Document, key: Key, template: pods.PodTemplate, made: dict[str, Key], said: list[str]
    ) -> bool:
        """
        Propose a claim for the devices that a pod requests by number, from a device plugin, and change the
        pod; return whether it does. Pods of an object with equal claims share a template.
        """
        proposal = pods.proposed(template.spec, self.resources, self.replicas)
        if proposal is None:
            return False
        if found := problems(proposal.spec):
            raise Invalid(" ".join([f"{_title(key)} is invalid.", *map(str, found)]))
        kind = CLAIM if key[0] == POD else TEMPLATE
        written = json.dumps(proposal.spec)
        if written not in made:
            taken = {
                name
                for of_kind, space, name in (*self.in_file, *self.specs)
                if (of_kind, space) == (kind, key[1])
            }
            made[written] = (kind, key[1], pods.unique(pods.object_name(key[2]), taken))
            title = _title(made[written])
            self.specs[made[written]] = ImportedSpec(
                title, proposal.spec, document.line, share=proposal.share, memory=proposal.memory
            )
            self.file.manifests.append(_object(made[written], proposal.spec, document.content))
        name = made[written][2]
        self.uses[made[written]] = self.uses.get(made[written], 0) + template.pods
        obstacle = pods.use_claim(template.spec, proposal, kind, name)
        said.append(f"{_title(key)} requests {proposal.text} from a device plugin. {proposal.sentence}")
        said.append(obstacle or f"The pod refers to {kind} {name} instead.")
        return True


def _object(key: Key, spec: Json, user: Json) -> Manifest:
    """Return the manifest of a claim or template that stands beside its user, in the namespace of that."""
    kind, _namespace, name = key
    namespace = pods.mapping(user.get("metadata"), "metadata").get("namespace")
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    body = {"spec": spec} if kind == TEMPLATE else spec
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": copy.deepcopy(dict(body))}


def _structural(found: Iterable[SpecProblem]) -> list[str]:
    """Return the problems other than those of CEL expressions."""
    return [str(problem) for problem in found if not problem.path.endswith(".expression")]


def _claim_fragment(content: Json) -> Manifest | None:
    """Return a spec without a kind, as articles show it, as part of a claim."""
    if content.get("kind"):
        return None
    if isinstance(content.get("spec"), dict) and "devices" in content["spec"]:
        return dict(content)
    return {"spec": dict(content)} if "devices" in content else None


MAX_DIFF_LINES = 3000  # of a file; a claim has about 20


def _changes(before: Json, after: Json) -> tuple[DiffLine, ...]:
    """Return the lines that differ; none for an object of which they would take long to find."""
    old, new = to_yaml(before), to_yaml(after)
    return tuple(text_diff(old, new)) if old.count("\n") + new.count("\n") <= MAX_DIFF_LINES else ()


# Keys that articles use → what the API has.
HINTS = {
    "deviceRequests": "The list of requests is devices.requests.",
    "alternatives": "Alternatives are the list “firstAvailable” of a request, the preferred one first.",
}


def _hints(part: Any) -> list[str]:
    """Return what stands for keys that the API does not have, anywhere in an object."""
    text = json.dumps(part)
    return [hint for key, hint in HINTS.items() if f'"{key}": ' in text]


def _selector_problems(spec: Json, found: Iterable[SpecProblem]) -> Iterator[str]:
    """Yield what is wrong with the selectors of a spec, with the text that they should have, if known."""
    yield from map(str, found)
    wrong = {problem.path for problem in found}
    for request in device_requests(spec):
        for index, expression in enumerate(request.expressions):
            place = f"{request.path}.selectors[{index}].cel.expression"
            typed = with_types(expression)
            if typed != expression and place not in wrong:
                yield (
                    f"{place}: It compares a version or a quantity with a plain value, which fails on each "
                    f"device. Try: {typed}"
                )


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
    cluster: str,
    snapshot: ClusterSnapshot,
    imported: ImportedSpec,
    classes: Sequence[Json] = (),
    *,
    helps: bool = True,
    quota: Sequence[QuotaLine] = (),
) -> SpecReport:
    """
    Return the match, the lint findings, with `helps` the blockers, and the verdict of a spec, with `quota` if
    there is a team, for all its pods at once. `classes` are those of its file. Never raises for its content.
    """
    spec = imported.spec
    if classes:
        names = {_key(one)[2] for one in classes}
        kept = [one for one in snapshot.classes if one["metadata"]["name"] not in names]
        snapshot = snapshot.after(classes=[*kept, *classes])
    match = request_match(snapshot, spec, imported.pods)
    possible = could_fit(snapshot, spec, imported.pods)
    findings = lint(snapshot, [NamedSpec("", spec)]).findings
    return SpecReport(
        cluster=cluster,
        match=match,
        drops=tuple(
            _examples(snapshot, spec, match, index) if helps else () for index in range(len(match.steps))
        ),
        findings=tuple(finding for finding in findings if finding.subject is Subject.PROFILE),
        blockers=find_blockers(snapshot, spec) if helps and not match.fits else Blockers(),
        verdict=verdict_on(match, cluster, quota=quota, could_fit=possible),
    )


def why(drop: Drop) -> str:
    """Return why a device is dropped, with its holder: whoever runs the command can read the mirror."""
    return f"held by {drop.holder}" if drop.holder else drop.sentence


def _examples(snapshot: ClusterSnapshot, spec: Json, match: Preview, index: int) -> tuple[Drop, ...]:
    step: FunnelStep = match.steps[index]
    if step.kind not in STEPS_WITH_EXAMPLES or not step.dropped or match.matching is None:
        return ()
    return tuple(dropped(snapshot, spec, index, limit=MAX_EXAMPLES).drops)
