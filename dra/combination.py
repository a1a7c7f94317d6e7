"""
Combined specs: multiple profiles in one claim, and alternatives in order of preference (KEP 4816); and
whether a spec requests the same as a profile, or as a combination of profiles, and where they differ.

Limits of resource.k8s.io/v1: 32 requests, 32 constraints, 32 configurations and 32 devices per claim; 8
alternatives per request, none with admin access.

Names of requests mean nothing to the allocator, nor does the order of selectors, all of which must match. The
order of requests matters: the allocator serves them in that order, first fit. `decompose` inverts
`combine_specs`: requests of one profile are adjacent, the names that `combine_specs` gives are preferred,
and each profile is used at most once.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from dra import quota
from dra.manifests import canonical, with_count
from dra.objects import MAX_RESULTS, Json, Manifest, alternatives, requests

MAX_ENTRIES = {"requests": 32, "constraints": 32, "config": 32}  # `DeviceRequestsMaxSize` and its siblings
WORDS = {"requests": "requests", "constraints": "constraints", "config": "configurations"}
MAX_LABEL_LENGTH = 63  # characters of a DNS label


def combine_specs(parts: Sequence[tuple[str, Json]]) -> Manifest:
    """
    Return one spec with the requests of all `parts`, each a (name, spec).

    `request_names` names the requests; constraints and configuration apply only to the requests of their
    part. Raise `CannotCombineError` with a sentence if a limit of the API is exceeded.
    """
    combined: dict[str, list[Any]] = {"requests": [], "constraints": [], "config": []}
    used_names: set[str] = set()
    for name, spec in parts:
        names = request_names(name, spec)
        if clash := sorted(used_names.intersection(names.values())):
            raise CannotCombineError(f"{name} is listed twice: two requests would be named {clash[0]}.")
        used_names |= set(names.values())
        combined["requests"] += [
            {**deepcopy(dict(request)), "name": names[str(request.get("name"))]} for request in requests(spec)
        ]
        for kind in ("constraints", "config"):
            for entry in (spec.get("devices") or {}).get(kind) or ():
                references = [_renamed(reference, names) for reference in entry.get("requests") or names]
                combined[kind].append({**deepcopy(dict(entry)), "requests": references})
    for kind, max_count in MAX_ENTRIES.items():
        if len(combined[kind]) > max_count:
            raise CannotCombineError(
                f"The profiles have {len(combined[kind])} {WORDS[kind]} in total; "
                f"the limit per claim is {max_count}."
            )
    spec = {"devices": {kind: rows for kind, rows in combined.items() if rows}}
    if (devices := quota.devices(spec)) > MAX_RESULTS:
        raise CannotCombineError(
            f"The profiles have {devices} devices in total; the limit per claim is {MAX_RESULTS}."
        )
    return spec


def request_names(name: str, spec: Json) -> dict[str, str]:
    """Return the name of each request of a part in the combined spec, by its own name, in order."""
    requests_by_name = [str(request.get("name")) for request in requests(spec)]
    label = alternative_name(name)
    if len(requests_by_name) == 1:
        return {requests_by_name[0]: label}
    return {request_name: _prefixed(label, request_name) for request_name in requests_by_name}


def _prefixed(label: str, request_name: str) -> str:
    """Return "label-name", with the label cut to keep a valid DNS label."""
    prefix = label[: max(MAX_LABEL_LENGTH - len(request_name) - 1, 0)].rstrip("-")
    return f"{prefix}-{request_name}" if prefix else request_name


def _renamed(reference: str, names: dict[str, str]) -> str:
    """Rename the request in "gpu" or, for an alternative, "gpu/h100"."""
    request, slash, alternative = reference.partition("/")
    return f"{names.get(request, request)}{slash}{alternative}"


MAX_ALTERNATIVES = 8  # `FirstAvailableDeviceRequestMaxSize`
NOT_A_NAME = re.compile(r"[^a-z0-9]+")


class CannotCombineError(Exception):
    """The specs cannot be combined; `message` is a sentence that names the profile."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def first_available(options: Sequence[tuple[str, Json]]) -> Manifest:
    """
    Return one spec with `options` as alternatives, each a (name, spec) with one `exactly` request.

    The request has the name of the first option's request, the alternatives those of `alternative_name`.
    Constraints and configuration of an option apply only to its alternative.
    """
    if len(options) > MAX_ALTERNATIVES:
        raise CannotCombineError(
            f"There are {len(options)} alternatives; the limit per request is {MAX_ALTERNATIVES}."
        )
    for name, spec in options:
        _check(name, spec)
    request = str(requests(options[0][1])[0].get("name") or "gpu")
    combined: Manifest = {"requests": [{"name": request, "firstAvailable": []}]}
    for name, spec in options:
        alternative = alternative_name(name)
        if any(existing["name"] == alternative for existing in combined["requests"][0]["firstAvailable"]):
            raise CannotCombineError(f"{name} is listed twice in the alternatives.")
        exactly = deepcopy(dict(requests(spec)[0]["exactly"]))
        exactly.pop("adminAccess", None)
        combined["requests"][0]["firstAvailable"].append({"name": alternative, **exactly})
        for part in ("constraints", "config"):
            for entry in (spec.get("devices") or {}).get(part) or ():
                combined.setdefault(part, []).append(
                    {**deepcopy(dict(entry)), "requests": [f"{request}/{alternative}"]}
                )
    return {"devices": combined}


def alternative_name(name: str) -> str:
    """Return a name as a DNS label, as names of alternatives must be."""
    return NOT_A_NAME.sub("-", name.lower())[:63].strip("-")


def select_alternatives(spec: Json, chosen: Sequence[str]) -> Manifest:
    """
    Return the spec with only the alternatives in `chosen`, named as in allocation results ("gpu/h100").

    A request without a chosen alternative keeps all.
    """
    kept_requests: list[Json] = []
    for request in requests(spec):
        options = request.get("firstAvailable") or []
        chosen_options = [
            option for option in options if f"{request.get('name')}/{option.get('name')}" in chosen
        ]
        kept_requests.append({**request, "firstAvailable": chosen_options} if chosen_options else request)
    return {**spec, "devices": {**(spec.get("devices") or {}), "requests": kept_requests}}


def _check(name: str, spec: Json) -> None:
    spec_requests = requests(spec)
    if len(spec_requests) != 1:
        raise CannotCombineError(
            f"{name} has {len(spec_requests)} requests; an alternative can have only one."
        )
    exactly = spec_requests[0].get("exactly")
    if exactly is None:
        raise CannotCombineError(f"{name} has alternatives of its own; alternatives cannot be nested.")
    if exactly.get("adminAccess"):
        raise CannotCombineError(f"{name} has admin access, which alternatives cannot use.")


@dataclass(frozen=True, slots=True)
class SpecSimilarity:
    """
    A profile's spec compared with a requested one. `spec` is the profile's with the best `count`, which is 1
    if it has no scalable request. `differences` are sentences, none if both request the same.
    """

    count: int
    spec: Json
    differences: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True)
class KnownProfile:
    """
    A profile to compare with. `scalable` names the request that takes a count, of up to `max_count`.

    It keeps its canonical spec for each count, so that many specs can be compared with it.
    """

    name: str
    spec: Json
    scalable: str = ""
    max_count: int | None = None
    _sized: dict[int, tuple[Json, Manifest]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def compare(self, request_spec: Json, request_canonical: Manifest) -> SpecSimilarity:
        """Compare with a spec and its `with_positional_names`. Both must be valid."""
        count = self._count(request_spec)
        sized, own_canonical = self._with_count(count)
        differences = tuple(_differences(own_canonical, request_canonical))
        if not differences and own_canonical != request_canonical:
            differences = ("The file has fields that the API does not know.",)
        return SpecSimilarity(count or 1, sized, differences)

    def _count(self, request_spec: Json) -> int:
        """Return the count of the scalable request that fits best, 0 if there is none."""
        names = [request.get("name") for request in requests(self.spec)]
        position = names.index(self.scalable) if self.scalable and self.scalable in names else len(names)
        others = requests(request_spec)
        exactly = (others[position].get("exactly") or {}) if position < min(len(names), len(others)) else None
        if exactly is None or exactly.get("allocationMode") == "All":
            return 0
        count = max(int(exactly.get("count") or 1), 1)
        return count if self.max_count is None else min(count, self.max_count)

    def _with_count(self, count: int) -> tuple[Json, Manifest]:
        if count not in self._sized:
            sized = with_count(self.spec, self.scalable, count) if count else self.spec
            self._sized[count] = (sized, with_positional_names(sized))
        return self._sized[count]


def compare_specs(
    spec: Json, scalable: str, request_spec: Json, max_count: int | None = None
) -> SpecSimilarity:
    """
    Compare `spec`, whose request `scalable` takes a count of up to `max_count`, with `request_spec`.

    Both must be valid.
    """
    profile = KnownProfile("", spec, scalable, max_count)
    return profile.compare(request_spec, with_positional_names(request_spec))


def with_positional_names(spec: Json) -> Manifest:
    """
    Return the canonical spec with requests and alternatives named by position.

    Constraints and configuration of all requests list them, and unordered lists are sorted.
    """
    normalized = canonical(spec)
    devices = normalized["devices"]
    names: dict[str, str] = {}
    for position, request in enumerate(devices.get("requests") or ()):
        name, position_name = str(request.get("name")), f"request-{position + 1}"
        names[name] = request["name"] = position_name
        for index, alternative in enumerate(request.get("firstAvailable") or ()):
            names[f"{name}/{alternative.get('name')}"] = f"{position_name}/alternative-{index + 1}"
            alternative["name"] = f"alternative-{index + 1}"
        for device_request in (
            [request["exactly"]] if "exactly" in request else request.get("firstAvailable") or ()
        ):
            _sort(device_request)
    all_names = [request["name"] for request in devices.get("requests") or ()]
    for kind in ("constraints", "config"):
        for entry in devices.get(kind) or ():
            entry["requests"] = (
                sorted(names.get(name, name) for name in entry.get("requests") or ()) or all_names
            )
    if "constraints" in devices:
        devices["constraints"].sort(key=_text)
    return normalized


def _sort(device_request: Manifest) -> None:
    for selector in device_request.get("selectors") or ():
        expression = (selector.get("cel") or {}).get("expression")
        if isinstance(expression, str):
            selector["cel"]["expression"] = expression.strip()
    for kind in ("selectors", "tolerations"):
        if kind in device_request:
            device_request[kind] = sorted(device_request[kind], key=_text)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _differences(profile: Json, file: Json) -> Iterator[str]:
    profile_requests, file_requests = requests(profile), requests(file)
    if len(profile_requests) != len(file_requests):
        yield _capitalized(_values("number of requests", len(file_requests), len(profile_requests)))
    pairs = zip(profile_requests, file_requests, strict=False)
    single = len(profile_requests) == len(file_requests) == 1
    for number, (profile_request, file_request) in enumerate(pairs, 1):
        for sentence in _request_differences(profile_request, file_request):
            yield _capitalized(sentence) if single else f"Request {number}, {sentence}"
    parts = (profile.get("devices") or {}, file.get("devices") or {})
    for kind, label in (("constraints", "constraint"), ("config", "configuration")):
        lists = [Counter(_text(_unnamed(entry)) for entry in part.get(kind) or ()) for part in parts]
        yield from map(_capitalized, _unmatched(lists[0], lists[1], label))
        if lists[0] == lists[1] and parts[0].get(kind) != parts[1].get(kind):
            yield f"The {label}s differ in their requests or their order."


def _request_differences(profile_request: Json, file_request: Json) -> Iterator[str]:
    profile_options, file_options = alternatives(profile_request), alternatives(file_request)
    both_lists = bool(profile_request.get("firstAvailable")) == bool(file_request.get("firstAvailable"))
    if not both_lists or len(profile_options) != len(file_options):
        counts = [len(raw.get("firstAvailable") or ()) or None for raw in (file_request, profile_request)]
        yield _values("alternatives", *counts)
        return
    for profile_option, file_option in zip(profile_options, file_options, strict=True):
        yield from _option_differences(profile_option.raw, file_option.raw)


def _option_differences(profile_option: Json, file_option: Json) -> Iterator[str]:
    labels = {
        "deviceClassName": "device class",
        "allocationMode": "allocation mode",
        "count": "number of devices",
        "adminAccess": "admin access",
    }
    options = (profile_option, file_option)
    for key, label in labels.items():
        if profile_option.get(key) != file_option.get(key):
            yield _values(label, file_option.get(key), profile_option.get(key))
    texts = [
        Counter(str((selector.get("cel") or {}).get("expression")) for selector in raw.get("selectors") or ())
        for raw in options
    ]
    yield from _unmatched(texts[0], texts[1], "selector")
    for key, label in (("tolerations", "toleration"), ("derivedAttributes", "derived attribute")):
        entries = [Counter(_text(entry) for entry in raw.get(key) or ()) for raw in options]
        yield from _unmatched(entries[0], entries[1], label)
    amounts = [(raw.get("capacity") or {}).get("requests") or {} for raw in options]
    for name in sorted({*amounts[0], *amounts[1]}):
        if amounts[0].get(name) != amounts[1].get(name):
            yield _values(f"capacity {name}", amounts[1].get(name), amounts[0].get(name))


def _values(label: str, file_value: object, profile_value: object) -> str:
    return f"{label}: {_shown(file_value)} in the file, {_shown(profile_value)} in the profile."


def _unmatched(profile_entries: Counter[str], file_entries: Counter[str], label: str) -> Iterator[str]:
    for text in (file_entries - profile_entries).elements():
        yield f"only in the file: {label} {text}"
    for text in (profile_entries - file_entries).elements():
        yield f"only in the profile: {label} {text}"


def _unnamed(entry: Json) -> Manifest:
    return {key: value for key, value in entry.items() if key != "requests"}


def _shown(value: object) -> str:
    return "none" if value in (None, "", 0) else "yes" if value is True else str(value)


def _capitalized(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


MAX_STEPS = 2000  # partial decompositions that are extended


@dataclass(frozen=True, slots=True)
class MatchedProfile:
    """A profile, its `index` in the list that was given, compared with the requests that it covers."""

    index: int
    profile: KnownProfile
    similarity: SpecSimilarity


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The profiles in order, and their combined spec compared with the spec that was given."""

    parts: tuple[MatchedProfile, ...]
    combined: SpecSimilarity

    @property
    def exact(self) -> bool:
        return self.combined.exact


@dataclass(frozen=True, slots=True)
class _Option:
    """A profile at a position: how many of its requests have another name, and the next position."""

    part: MatchedProfile
    renamed: int
    end: int


def decompose(
    spec: Json, profiles: Sequence[KnownProfile], keep_on: Callable[[], None] = lambda: None
) -> Decomposition | None:
    """
    Return two or more of `profiles` that together make up the spec.

    If none do exactly, return profiles whose requests have the same device classes, with the differences;
    None if there are none. `keep_on` is called before each comparison; it raises to end the search.
    """
    size = len(requests(spec))
    if size < 2:
        return None
    options = [list(_options(spec, index, profiles, keep_on)) for index in range(size)]
    as_named = [[candidate for candidate in candidates if not candidate.renamed] for candidates in options]
    by_name = _search(spec, as_named, keep_on)
    return by_name if by_name is not None and by_name.exact else _search(spec, options, keep_on) or by_name


def _options(
    spec: Json, start: int, profiles: Sequence[KnownProfile], keep_on: Callable[[], None]
) -> Iterator[_Option]:
    """Yield the profiles whose requests have the same device classes as those from `start` on."""
    spec_requests = requests(spec)
    sub_specs: dict[int, tuple[Json, Manifest]] = {}  # by their number of requests
    for index, profile in enumerate(profiles):
        keep_on()
        profile_requests = requests(profile.spec)
        covered = spec_requests[start : start + len(profile_requests)]
        if not profile_requests or [*map(_classes, covered)] != [*map(_classes, profile_requests)]:
            continue
        names = zip(request_names(profile.name, profile.spec).values(), covered, strict=True)
        size = len(covered)
        if size not in sub_specs:
            sub_spec = _sub_spec(spec, covered)
            sub_specs[size] = (sub_spec, with_positional_names(sub_spec))
        yield _Option(
            MatchedProfile(index, profile, profile.compare(*sub_specs[size])),
            sum(name != request.get("name") for name, request in names),
            start + len(profile_requests),
        )


def _search(
    spec: Json, options: Sequence[Sequence[_Option]], keep_on: Callable[[], None]
) -> Decomposition | None:
    """
    Search best first: fewest differences, then most requests covered, then fewest renamed requests.
    """
    order = count()
    heap: list[tuple[int, int, int, int, tuple[_Option, ...]]] = [(0, 0, 0, next(order), ())]
    for _step in range(MAX_STEPS):
        keep_on()
        if not heap:
            return None
        differences, negative_end, renamed, _tie, chosen = heapq.heappop(heap)
        if -negative_end == len(options):
            if len(chosen) > 1 and (decomposition := _combine(spec, [option.part for option in chosen])):
                return decomposition
            continue
        used = {option.part.index for option in chosen}
        for option in options[-negative_end]:
            if option.part.index not in used:
                total = differences + len(option.part.similarity.differences)
                row = (total, -option.end, renamed + option.renamed, next(order), (*chosen, option))
                heapq.heappush(heap, row)
    return None


def _sub_spec(spec: Json, selected: Sequence[Json]) -> Manifest:
    """Return the spec of these requests, with the constraints and configuration that name only them."""
    names = {str(request.get("name")) for request in selected}
    devices = spec.get("devices") or {}
    devices_part: Manifest = {"requests": list(selected)}
    for kind in ("constraints", "config"):
        entries = [
            entry
            for entry in devices.get(kind) or ()
            if entry.get("requests") and {str(name).partition("/")[0] for name in entry["requests"]} <= names
        ]
        if entries:
            devices_part[kind] = entries
    return {"devices": devices_part}


def _combine(spec: Json, parts: Sequence[MatchedProfile]) -> Decomposition | None:
    try:
        combined = combine_specs([(part.profile.name, part.similarity.spec) for part in parts])
    except CannotCombineError:
        return None
    return Decomposition(tuple(parts), compare_specs(combined, "", spec))


def _classes(request: Json) -> Counter[str]:
    return Counter(device_request.class_name for device_request in alternatives(request))
