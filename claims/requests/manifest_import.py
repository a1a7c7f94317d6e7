"""The claims that a file of manifests requests, and the profiles that match them best."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from uuid import UUID

from claims.catalogue.listing import counted_catalogue
from claims.catalogue.sharing import Sharing, least_memory, sharing_modes
from claims.catalogue.versions import DiffLine, spec_diff
from claims.models import Delivery, Profile, ProfileVersion
from claims.requests.forms import FormChoices
from claims.requests.manifest_specs import (
    MAX_DOCUMENTS,
    MAX_FILE_LENGTH,
    TEMPLATE,
    ImportedFile,
    ImportedSpec,
    read_documents,
    report_on,
    requested_specs,
)
from claims.requests.verdict import Outcome
from core.errors import Invalid
from core.rates import require_rate
from dra.cluster_snapshot import ClusterSnapshot
from dra.combination import KnownProfile, SpecSimilarity, decompose, with_positional_names
from dra.lint import LintFinding
from dra.manifests import to_yaml
from dra.objects import Json, device_requests, requests
from dra.quantity import Quantity
from inventory.cluster_snapshot import current_snapshot
from teams.models import User

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

    @property
    def is_over(self) -> bool:
        return time.thread_time() > self._end

    def check(self) -> None:
        """Raise Invalid if the time is over."""
        if not self.is_over:
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
class ClusterVerdict:
    """What a claim of a file would meet in a cluster: a sentence, and what is wrong with the spec there."""

    cluster: str
    fits: bool
    matching: int | None
    free: int | None
    sentence: str
    icon: str
    findings: tuple[LintFinding, ...]


@dataclass(frozen=True, slots=True)
class ImportedClaim:
    """
    One claim of a file with the profiles for it.

    `exact` are the profiles with the same spec. If there are none, `combination` are profiles that give it
    together, exactly or nearly, and `nearest` the single profiles with the fewest differences, for a share of
    a device those that give a part of one; `nearest` is empty if the combination is exact. `imported` says
    how it was read, `clusters` what it would meet.
    """

    imported: ImportedSpec
    exact: tuple[ProfileMatch, ...]
    combination: ProfileCombination | None
    nearest: tuple[ProfileMatch, ...]
    clusters: tuple[ClusterVerdict, ...] = ()

    @property
    def title(self) -> str:
        return self.imported.title

    @property
    def name(self) -> str:
        return self.imported.title.partition(" ")[2]

    @property
    def delivery(self) -> str:
        return Delivery.TEMPLATE if self.imported.title.startswith(TEMPLATE) else Delivery.CLAIM

    @property
    def parallel(self) -> int:
        return self.imported.pods if self.delivery == Delivery.TEMPLATE else 1

    @property
    def spec(self) -> Json:
        return self.imported.spec


@dataclass(frozen=True, slots=True)
class Import:
    """What a file requests, remarks about the rest of it, and its objects as they should be, as YAML."""

    claims: list[ImportedClaim]
    remarks: list[str]
    converted: str


def import_claims(
    text: str,
    file: str,
    profiles: Iterable[Profile],
    memory: Mapping[UUID, int | None] | None = None,
    snapshots: Mapping[str, ClusterSnapshot] | None = None,
) -> Import:
    """
    Return each claim of a file named `file` with the matching profiles, which are loaded with their current
    version. `memory` has the bytes of the smallest device of each profile, None if unknown: a profile with
    less than a claim asks for is not near it. The claims are matched with `snapshots` of clusters by name.
    Raise Invalid with the line of the error, or with the number of claims that were compared within
    `MAX_SECONDS`.
    """
    _require_at_most(MAX_FILE_LENGTH, len(text), "characters", file)
    documents = read_documents(text, file)
    _require_at_most(MAX_DOCUMENTS, len(documents), "objects", file)
    read = requested_specs(documents, file)
    device_request_count = sum(1 for imported in read.specs for _ in device_requests(imported.spec))
    _require_at_most(MAX_DEVICE_REQUESTS, device_request_count, "device requests", file)
    candidates = _candidates(profiles)
    budget = TimeBudget(file, len(read.specs), len(candidates))
    claims = []
    for budget.compared, imported in enumerate(read.specs):
        claims.append(_import_claim(imported, candidates, memory or {}, budget))
    judged = [
        replace(claim, clusters=tuple(_verdicts(claim.imported, read, snapshots or {}, budget)))
        for claim in claims
    ]
    return Import(judged, read.remarks, to_yaml(*read.manifests))


def import_for(user: User, text: str, file: str) -> Import:
    """Return what a file requests, with the profiles that `user` may see and the clusters of their teams."""
    require_rate("import", "IMPORT_RATE", str(user.pk), "imports of manifests")
    profiles = Profile.objects.visible_to(user).filter(retired_at=None, current__isnull=False)
    clusters = FormChoices.of(user, slugs=()).clusters
    return import_claims(
        text,
        file,
        profiles.select_related("current"),
        {entry.profile.pk: entry.memory for entry in counted_catalogue(user)},
        {name: current_snapshot(cluster) for name, cluster in clusters.items() if cluster.enabled},
    )


def _verdicts(
    imported: ImportedSpec, read: ImportedFile, snapshots: Mapping[str, ClusterSnapshot], budget: TimeBudget
) -> Iterator[ClusterVerdict]:
    """Yield what a claim would meet in each cluster, as long as there is time."""
    for name, snapshot in snapshots.items():
        if budget.is_over:
            return
        report = report_on(name, snapshot, imported, read.classes, helps=False)
        match = report.match
        sentence = match.problem
        if report.verdict.outcome is Outcome.NEVER:
            sentence = f"It never fits. {sentence}"
        if report.fits:
            sentence = f"{imported.pods} claims fit now." if imported.pods > 1 else "It fits now."
        yield ClusterVerdict(
            name, report.fits, match.matching, match.free, sentence, report.verdict.icon, report.findings
        )


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
    canonical = with_positional_names(imported.spec)
    matches = []
    for profile, version, known in profiles:
        budget.check()
        matches.append(ProfileMatch(profile, version, known.compare(imported.spec, canonical), ()))
    matches.sort(key=lambda match: (*_distance(match, imported.spec), match.profile.title))
    exact = [match for match in matches if match.similarity.exact]
    combination = None if exact else find_combination(imported.spec, profiles, memory, budget)
    has_exact = bool(exact) or (combination is not None and combination.exact)
    if imported.share:
        combination = combination if has_exact else None
        parts = [match for match in matches if Sharing.EXCLUSIVE not in sharing_modes(match.version.spec)]
        memory = {part.profile.pk: _share(part.version.spec) or memory.get(part.profile.pk) for part in parts}
        matches = sorted(parts, key=lambda match: memory[match.profile.pk] or sys.maxsize)
    enough = (match for match in matches if _is_enough(match, imported, memory.get(match.profile.pk)))
    nearest = [] if has_exact else list(islice(enough, MAX_NEAREST))
    return ImportedClaim(
        imported,
        tuple(exact),
        combination,
        tuple(replace(match, lines=_diff(match.similarity.spec, imported.spec)) for match in nearest),
    )


def _share(spec: Json) -> int | None:
    """Return the bytes of memory that each device of a spec takes of a GPU, None for another spec."""
    amounts = [request.capacity.get("memory") for request in device_requests(spec)]
    return min((Quantity.parse(amount).bytes for amount in amounts if amount), default=None)


def _is_enough(match: ProfileMatch, imported: ImportedSpec, memory: int | None) -> bool:
    """Return whether devices of the profile may have as much memory as a claim asks for."""
    least = memory or least_memory(match.version.spec)
    return not least or least >= (imported.memory or least_memory(imported.spec))


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
        part = ImportedSpec("", {"devices": {"requests": remaining[:number]}}, 0)
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
