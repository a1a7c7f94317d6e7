"""
A cluster in memory, for tests that need a Gateway but make no claim about Kubernetes.

It is held to the same contract as the real control plane and the simulator (tests/cluster/test_contract.py).
Nothing runs in it: no scheduler, no controller. What those would do, a test does with `put` and `remove`.
"""

import copy
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Concatenate

from cluster.kube import TOKEN_REVIEWS
from cluster.protocol import (
    DEVICE_TAINT_RULE_VERSIONS,
    EVICTION,
    MIRRORED,
    NAMESPACE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    ClusterConflict,
    ClusterInvalid,
    Discovery,
    Event,
    EvictionRefused,
    Expired,
    Kind,
    Manifest,
    Page,
    Permission,
    Refused,
    ReviewedToken,
)
from tests.fake_apply import drop_leaf, fill_defaults, leaves_of, set_leaf
from tests.fake_schema import check_fields, check_immutable, check_quota, check_required
from tests.fake_select import chosen

FIRST_VERSION = 100  # anything older than this has "expired"


def atomic[**P, T](
    method: Callable[Concatenate["FakeGateway", P], T],
) -> Callable[Concatenate["FakeGateway", P], T]:
    """One write at a time, as in etcd: of two that create one name, the second meets the first's."""

    def alone(self: "FakeGateway", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._writing:
            return method(self, *args, **kwargs)

    return alone


class FakeGateway:
    """
    Implements `cluster.protocol.Gateway`.

    `fail(error, times)` makes the next calls raise; `calls` lists what was asked, as (method, plural, name);
    `denied` holds the (verb, plural) pairs that the credentials lack.
    """

    def __init__(self, *, name: str = "fake", minor: int = 37, simulated: bool = False) -> None:
        self.uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        self.minor = minor
        self.simulated = simulated
        self.calls: list[tuple[str, str, str]] = []
        self.denied: set[tuple[str, str]] = set()
        self.protected: set[str] = set()  # pods by name
        self.tokens: dict[str, tuple[str, ReviewedToken | None]] = {}  # text → audience, whose it is
        self.oldest = FIRST_VERSION
        self._objects: dict[tuple[str, str, str], Manifest] = {}
        self._applied: dict[str, set[tuple[str, ...]]] = {}  # object uid → leaves that `apply` owns
        self._events: list[tuple[int, str, str, Manifest]] = []
        self._versions = itertools.count(FIRST_VERSION)
        self._failures: list[Exception] = []
        self._writing = threading.RLock()
        for namespace in ("kube-system", "default"):
            self.put(NAMESPACE, {"metadata": {"name": namespace}})

    # What a test does in the cluster's place.

    @atomic
    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Create or replace an object whole, its status included, as the cluster itself would."""
        return self._store(kind, copy.deepcopy(manifest))

    @atomic
    def remove(self, kind: Kind, name: str, *, namespace: str | None = None) -> None:
        """Let an object vanish, whatever its finalizers say."""
        gone = self._objects.pop((kind.plural, namespace or "", name))
        self._record("DELETED", kind, self._next_version(gone))

    def fail(self, error: Exception, times: int = 1) -> None:
        self._failures.extend([error] * times)

    @atomic
    def compact(self) -> None:
        """Forget the past: watches and continue tokens from before are `Expired`."""
        self.oldest = next(self._versions)
        self._events.clear()

    # The protocol.

    def discover(self) -> Discovery:
        self._asked("discover")
        if self.minor < 34:
            raise ClusterInvalid(
                f"The cluster runs Kubernetes 1.{self.minor}; 1.34 is the oldest that works."
            )
        suffix = "-simulated" if self.simulated else ""
        kinds = {f"{kind.api_version}/{kind.plural}" for kind in MIRRORED}
        rules = DEVICE_TAINT_RULE_VERSIONS[0 if self.minor >= 37 else 2]
        kinds.add(f"{rules.api_version}/{rules.plural}")
        return Discovery(
            f"v1.{self.minor}.1{suffix}", (1, self.minor), rules, frozenset(kinds), self.simulated
        )

    def identity(self) -> str:
        self._asked("identity")
        found = self._objects["namespaces", "", "kube-system"]
        return str(found["metadata"]["uid"])

    def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> Iterator[Page]:
        self._asked("list", kind)
        wanted = dict(part.split("=", 1) for part in label_selector.split(",") if part)
        is_chosen = chosen(kind, field_selector)
        items = [
            copy.deepcopy(item)
            for (plural, inside, _), item in sorted(self._objects.items(), key=lambda pair: pair[0])
            if plural == kind.plural
            and namespace in (None, inside)
            and wanted.items() <= item["metadata"].get("labels", {}).items()
            and is_chosen(item)
        ]
        version, started = str(self._now()), self.oldest
        for start in range(0, len(items) or 1, limit):
            if self.oldest != started:
                raise Expired
            left = max(len(items) - start - limit, 0)
            yield Page(items[start : start + limit], version, left or None)

    def watch(
        self, kind: Kind, *, resource_version: str, seconds: int = 50, namespace: str | None = None
    ) -> Iterator[Event]:
        """Yield what has happened and a bookmark, then end: a server may end a watch at any time."""
        self._asked("watch", kind)
        since = int(resource_version)
        if since < self.oldest:
            raise Expired
        for version, plural, what, item in tuple(self._events):
            if version > since and plural == kind.plural and namespace in (None, _namespace(item)):
                yield Event(what, copy.deepcopy(item), str(version))  # type: ignore[arg-type]
        now = str(self._now())
        mark = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"resourceVersion": now}}
        yield Event("BOOKMARK", mark, now)

    def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Manifest | None:
        self._asked("get", kind, name)
        return copy.deepcopy(self._objects.get((kind.plural, namespace or "", name)))

    @atomic
    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        name = manifest["metadata"]["name"]
        self._asked("create", kind, name)
        if self._key(kind, manifest) in self._objects:
            raise ClusterConflict(f"{kind.plural} “{name}” exists already.")
        return self._write(kind, copy.deepcopy(manifest), dry_run=dry_run)

    @atomic
    def apply(
        self, kind: Kind, manifest: Manifest, *, dry_run: bool = False, force: bool = False
    ) -> Manifest:
        name = manifest["metadata"]["name"]
        self._asked("apply", kind, name)
        leaves = dict(leaves_of(manifest))
        before = self._objects.get(self._key(kind, manifest))
        if before is None:
            if "uid" in manifest["metadata"]:
                raise ClusterConflict(f"{kind.plural} “{name}” is not there.")
            made = self._write(kind, copy.deepcopy(manifest), dry_run=dry_run)
            if not dry_run:
                self._applied[made["metadata"]["uid"]] = set(leaves)
            return made
        owned = self._applied.get(before["metadata"]["uid"], set())
        now = dict(leaves_of(before))
        foreign = [path for path in leaves if path in now and now[path] != leaves[path] and path not in owned]
        if foreign and not force:
            raise ClusterConflict(f"Another manager owns {'.'.join(foreign[0])} of {kind.plural} “{name}”.")
        after = copy.deepcopy(before)
        for path in owned - set(leaves):
            drop_leaf(after, path)
        for path, value in leaves.items():
            set_leaf(after, path, value)
        fill_defaults(kind, after)
        check_immutable(kind, before, after)
        if after == before:
            return copy.deepcopy(before)
        written = self._write(kind, after, dry_run=dry_run)
        if not dry_run:
            self._applied[written["metadata"]["uid"]] = set(leaves)
        return written

    @atomic
    def delete(self, kind: Kind, name: str, *, namespace: str | None = None, uid: str | None = None) -> bool:
        self._asked("delete", kind, name)
        found = self._objects.get((kind.plural, namespace or "", name))
        if found is None:
            return False
        if uid is not None and found["metadata"]["uid"] != uid:
            raise ClusterConflict(f"{kind.plural} “{name}” was replaced: it is not the one with uid {uid}.")
        if found["metadata"].get("finalizers"):
            if "deletionTimestamp" not in found["metadata"]:
                leaving = copy.deepcopy(found)
                leaving["metadata"]["deletionTimestamp"] = _timestamp()
                self._store(kind, leaving)
        else:
            self.remove(kind, name, namespace=namespace)
        return True

    @atomic
    def evict(self, name: str, *, namespace: str, uid: str) -> bool:
        """`protected` pods are refused as by a PodDisruptionBudget; a pod on a node ends as `remove` says."""
        self._asked("create", EVICTION, name)
        found = self._objects.get((POD.plural, namespace, name))
        if found is None:
            return False
        if found["metadata"]["uid"] != uid:
            raise ClusterConflict(f"The pod “{name}” was replaced: it is not the one with uid {uid}.")
        if name in self.protected:
            raise EvictionRefused(f"The disruption budget {name} needs 1 healthy pods and has 1 currently")
        ending = copy.deepcopy(found)
        ending["metadata"].setdefault("deletionTimestamp", _timestamp())
        self._store(POD, ending)
        return True

    def allowed(self, permission: Permission) -> bool:
        self._asked("allowed")
        resource = "/".join(filter(None, (permission.resource, permission.subresource)))
        return (permission.verb, resource) not in self.denied

    def review_token(self, token: str, *, audience: str) -> ReviewedToken | None:
        """Know the tokens in `tokens`: those for this audience that have not expired."""
        self._asked("create", TOKEN_REVIEWS)
        known, reviewed = self.tokens.get(token, ("", None))
        if known != audience or reviewed is None or reviewed.expires_at <= datetime.now(UTC):
            return None
        return reviewed

    def close(self) -> None:
        """Nothing is open."""

    # How it is kept.

    def _asked(self, verb: str, kind: Kind | None = None, name: str = "") -> None:
        plural = kind.plural if kind else ""
        self.calls.append((verb, plural, name))
        if self._failures:
            raise self._failures.pop(0)
        if ("patch" if verb == "apply" else verb, plural) in self.denied:
            told = f"The credentials may not {verb} {plural}."
            raise Refused(told, verb=verb, resource=plural, fixable=True)

    def _key(self, kind: Kind, manifest: Manifest) -> tuple[str, str, str]:
        return kind.plural, _namespace(manifest), str(manifest["metadata"]["name"])

    def _write(self, kind: Kind, manifest: Manifest, *, dry_run: bool) -> Manifest:
        """Admit what a client sends: known fields, an existing namespace, quota."""
        namespace = _namespace(manifest)
        if namespace and ("namespaces", "", namespace) not in self._objects:
            raise ClusterInvalid(f"The cluster has no namespace “{namespace}”.")
        check_fields(kind, manifest)
        check_required(kind, manifest)
        new = self._key(kind, manifest) not in self._objects
        if kind is RESOURCE_CLAIM and new:
            check_quota(manifest, self._inside(RESOURCE_QUOTA, namespace), self._inside(kind, namespace))
        if dry_run:
            return self._completed(kind, manifest)
        return self._store(kind, manifest)

    def _inside(self, kind: Kind, namespace: str) -> Sequence[Manifest]:
        return [item for key, item in self._objects.items() if key[:2] == (kind.plural, namespace)]

    def _completed(self, kind: Kind, manifest: Manifest) -> Manifest:
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        metadata = manifest["metadata"]
        metadata.setdefault("uid", self.uid if _is_identity(kind, metadata) else str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", _timestamp())
        fill_defaults(kind, manifest)
        return manifest

    def _store(self, kind: Kind, manifest: Manifest) -> Manifest:
        key = self._key(kind, manifest)
        before = self._objects.get(key)
        if before is not None:
            manifest["metadata"].setdefault("uid", before["metadata"]["uid"])
            manifest["metadata"].setdefault("creationTimestamp", before["metadata"]["creationTimestamp"])
        stored = self._next_version(self._completed(kind, manifest))
        metadata = stored["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._objects.pop(key, None)
            self._record("DELETED", kind, stored)
        else:
            self._objects[key] = stored
            self._record("MODIFIED" if before else "ADDED", kind, stored)
        return copy.deepcopy(stored)

    def _next_version(self, manifest: Manifest) -> Manifest:
        self._latest = next(self._versions)
        return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self._latest)}}

    def _now(self) -> int:
        return max(self._latest, self.oldest)

    def _record(self, what: str, kind: Kind, stored: Manifest) -> None:
        self._events.append((self._latest, kind.plural, what, copy.deepcopy(stored)))


def _namespace(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("namespace", ""))


def _is_identity(kind: Kind, metadata: Manifest) -> bool:
    return kind is NAMESPACE and metadata["name"] == "kube-system"


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
