"""Reads and writes of objects by the rules of the API server, between HTTP and the store."""

import copy
from dataclasses import dataclass, field
from typing import Any

from simulator import admission, patching
from simulator.admission import causes, with_defaults
from simulator.patching import Operation, json_patched, merge_patched
from simulator.resources import (
    CLAIMS,
    NAMESPACES,
    PODS,
    TEMPLATES,
    ApiError,
    FieldCause,
    Manifest,
    Resource,
    already_exists,
    bad_request,
    invalid,
    invalid_options,
    modified,
    no_such_uid,
    not_found,
    wrong_uid,
)
from simulator.schema import decoded_for_apply, decoded_for_write
from simulator.store import Store

KEPT = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
IMMUTABLE = (CLAIMS, TEMPLATES)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The query of a write. `manager` is the field manager; without one, the client's name."""

    manager: str = "simulator"
    dry_run: bool = False
    strictness: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    object: Manifest
    created: bool = False
    warnings: list[str] = field(default_factory=list)


class Registry:
    def __init__(self, store: Store) -> None:
        self.store = store

    def get(self, resource: Resource, namespace: str, name: str) -> Manifest:
        """Raise ApiError 404 if it is not there."""
        if manifest := self.store.get(resource, namespace, name):
            return manifest
        raise not_found(resource, name)

    def create(self, resource: Resource, namespace: str, body: Any, options: WriteOptions) -> Written:
        manifest, warnings = decoded_for_write(resource, body, options.strictness)
        metadata = manifest.setdefault("metadata", {})
        _match_namespace(resource, metadata, namespace)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self.store.new_suffix()
        if self.store.get(resource, namespace, metadata.get("name", "")):
            raise already_exists(resource, metadata["name"])
        stored = self._insert(resource, manifest, options, "Update")
        return Written(stored, created=True, warnings=warnings)

    def apply(
        self, resource: Resource, namespace: str, name: str, body: Any, options: WriteOptions
    ) -> Written:
        """Server-side apply. Raise 409 where another manager owns what would change, unless forced."""
        manifest = decoded_for_apply(resource, namespace, name, body)
        if not options.manager:
            raise invalid_options(
                "PatchOptions", FieldCause.required("fieldManager", "is required for apply patch")
            )
        live, uid = self.store.get(resource, namespace, name), manifest["metadata"].get("uid")
        if live is None and uid:
            raise no_such_uid(resource, name, uid)
        if live is None:
            return Written(self._insert(resource, manifest, options, "Apply"), created=True)
        if uid and uid != live["metadata"]["uid"]:
            raise invalid(resource, name, [FieldCause.invalid("metadata.uid", uid, "field is immutable")])
        mine, theirs = _owners(live, options.manager)
        owned = patching.owned_paths(manifest)
        changed = {
            path for path in owned if patching.value_at(live, path) != patching.value_at(manifest, path)
        }
        if not options.force and (conflicts := [(who, path) for who, path in theirs if path in changed]):
            raise _apply_conflict(resource, sorted(conflicts))
        dropped = mine - owned - {path for _, path in theirs}
        new = patching.merged(patching.without(live, dropped), manifest)
        return Written(self._change(resource, live, new, options, owned=owned, changed=changed))

    def patch(
        self, resource: Resource, namespace: str, name: str, patch: Any, options: WriteOptions, part: str = ""
    ) -> Written:
        """A merge patch (an object) or a JSON patch (a list). `part` is "status" for that subresource."""
        live = self.get(resource, namespace, name)
        new = json_patched(live, patch) if isinstance(patch, list) else merge_patched(live, patch)
        return self.replace(resource, namespace, name, new, options, part)

    def replace(
        self, resource: Resource, namespace: str, name: str, body: Any, options: WriteOptions, part: str = ""
    ) -> Written:
        live = self.get(resource, namespace, name)
        new, warnings = decoded_for_write(resource, body, options.strictness)
        metadata = new.get("metadata") or {}
        if metadata.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        _match_namespace(resource, metadata, namespace)
        if (
            metadata.get("resourceVersion", live["metadata"]["resourceVersion"])
            != live["metadata"]["resourceVersion"]
        ):
            raise modified(resource, name)
        if part == "status":
            new = live | {"status": new.get("status") or {}}
        elif resource.status and "status" in live:
            new["status"] = live["status"]
        return Written(self._change(resource, live, copy.deepcopy(new), options), warnings=warnings)

    def delete(
        self, resource: Resource, namespace: str, name: str, body: Manifest, options: WriteOptions
    ) -> Manifest:
        """Delete, or mark as deleting while finalizers or a kubelet hold it. Raise 409 for another uid."""
        live = self.get(resource, namespace, name)
        metadata = live["metadata"]
        preconditions = (body.get("preconditions") or {}).get("uid")
        if preconditions and preconditions != metadata["uid"]:
            raise wrong_uid(resource, name, preconditions, metadata["uid"])
        if options.dry_run:
            return live
        grace = body.get("gracePeriodSeconds")
        held = metadata.get("finalizers") or resource is NAMESPACES or _runs(resource, live, grace)
        if not held:
            return self.store.remove(resource, live)
        if metadata.get("deletionTimestamp"):
            return live
        new = copy.deepcopy(live)
        new["metadata"]["deletionTimestamp"] = self.store.timestamp()
        new["metadata"]["deletionGracePeriodSeconds"] = (
            grace if grace is not None else 30 if resource is PODS else 0
        )
        if resource is NAMESPACES:
            new["status"] = {"phase": "Terminating"}
        return self.store.put(resource, new)

    def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions) -> None:
        """Delete a pod as the Eviction API does, which names itself in the conditions of the pod."""
        live = self.get(PODS, namespace, name)
        body = eviction.get("deleteOptions") or {}
        deleted = self.delete(PODS, namespace, name, body, options)
        if options.dry_run or deleted is live or self.store.get(PODS, namespace, name) is None:
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": self.store.timestamp(),
        }
        status = copy.deepcopy(deleted.get("status") or {})
        status["conditions"] = [*(status.get("conditions") or ()), condition]
        self.store.put(PODS, {**deleted, "status": status})

    def _insert(
        self, resource: Resource, manifest: Manifest, options: WriteOptions, operation: Operation
    ) -> Manifest:
        metadata, at = manifest["metadata"], self.store.timestamp()
        name = metadata.get("name", "")
        by = patching.Writer(options.manager, operation, resource.api_version, at)
        patching.record(manifest, by, owned=patching.owned_paths(manifest), changed=set())
        manifest = with_defaults(resource, manifest, at=at)
        metadata["uid"], metadata["creationTimestamp"] = self.store.new_uid(), at
        metadata.pop("resourceVersion", None)
        metadata.pop("deletionTimestamp", None)
        if resource.generation:
            metadata["generation"] = 1
        if resource is CLAIMS:
            manifest["status"] = {}
        admission.check_namespace(self.store, resource, metadata)
        if wrong := [*causes(resource, manifest), *admission.admin_access(self.store, resource, manifest)]:
            raise invalid(resource, name, wrong)
        admission.check_quota(self.store, resource, manifest)
        if options.dry_run:
            return {"kind": resource.kind, "apiVersion": resource.api_version} | manifest
        stored = self.store.put(resource, manifest)
        admission.charge(self.store, metadata.get("namespace", ""))
        return stored

    def _change(
        self,
        resource: Resource,
        live: Manifest,
        new: Manifest,
        options: WriteOptions,
        *,
        owned: set[patching.FieldPath] | None = None,
        changed: set[patching.FieldPath] | None = None,
    ) -> Manifest:
        before, at = live["metadata"], self.store.timestamp()
        operation: Operation = "Update" if owned is None else "Apply"
        immutable = {key: before[key] for key in KEPT if key in before}
        new["metadata"] = {
            **(new.get("metadata") or {}),
            **immutable,
            "managedFields": before.get("managedFields") or [],
        }
        new["metadata"].pop("resourceVersion", None)
        if owned is None or changed is None:
            written = patching.owned_paths(new) | patching.owned_paths(live)
            changed = {
                path for path in written if patching.value_at(live, path) != patching.value_at(new, path)
            }
            owned = {path for path in changed if patching.value_at(new, path) is not None}
        new = with_defaults(resource, new, at=at)
        self._refuse_bad_change(resource, live, new)
        patching.record(
            new,
            patching.Writer(options.manager, operation, resource.api_version, at),
            owned=owned,
            changed=changed,
        )
        if _same(live, new):
            return live
        if resource.generation and live.get("spec") != new.get("spec"):
            new["metadata"]["generation"] = before.get("generation", 0) + 1
        if options.dry_run:
            return {"kind": resource.kind, "apiVersion": resource.api_version} | new
        if (
            before.get("deletionTimestamp")
            and not new["metadata"].get("finalizers")
            and resource is not NAMESPACES
        ):
            return self.store.remove(resource, new)
        return self.store.put(resource, new)

    def _refuse_bad_change(self, resource: Resource, live: Manifest, new: Manifest) -> None:
        wrong: list[FieldCause] = []
        if resource in IMMUTABLE and live.get("spec") != new.get("spec"):
            wrong.append(FieldCause.invalid("spec", "null", "field is immutable"))
        status = new.get("status") or {}
        if resource is CLAIMS and status.get("reservedFor") and not status.get("allocation"):
            wrong.append(
                FieldCause.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
            )
        if wrong := wrong or causes(resource, new):
            raise invalid(resource, new["metadata"]["name"], wrong)


def _match_namespace(resource: Resource, metadata: dict[str, Any], namespace: str) -> None:
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _owners(
    live: Manifest, manager: str
) -> tuple[set[patching.FieldPath], list[tuple[str, patching.FieldPath]]]:
    mine: set[patching.FieldPath] = set()
    theirs: list[tuple[str, patching.FieldPath]] = []
    for entry in live["metadata"].get("managedFields") or []:
        paths = patching.from_v1(entry["fieldsV1"])
        if (entry["manager"], entry["operation"]) == (manager, "Apply"):
            mine |= paths
        else:
            using = "" if entry["operation"] == "Apply" else f" using {entry['apiVersion']}"
            theirs += [(f'conflict with "{entry["manager"]}"{using}', path) for path in paths]
    return mine, theirs


def _apply_conflict(resource: Resource, conflicts: list[tuple[str, patching.FieldPath]]) -> ApiError:
    causes_ = [
        {"reason": "FieldManagerConflict", "message": who, "field": patching.shown(path)}
        for who, path in conflicts
    ]
    count = f"{len(conflicts)} conflict" + ("s" if len(conflicts) > 1 else "")
    messages = [f"{who}: {patching.shown(path)}" for who, path in conflicts]
    text = messages[0] if len(messages) == 1 else "\n" + "\n".join(f"- {line}" for line in messages)
    separator = ": " if len(messages) == 1 else ":"
    return ApiError(409, "Conflict", f"Apply failed with {count}{separator}{text}", {"causes": causes_})


def _runs(resource: Resource, live: Manifest, grace: int | None) -> bool:
    return resource is PODS and bool(live["spec"].get("nodeName")) and grace != 0


def _same(live: Manifest, new: Manifest) -> bool:
    ignored = ("managedFields", "resourceVersion")

    def plain(manifest: Manifest) -> Manifest:
        metadata = {
            key: value
            for key, value in manifest["metadata"].items()
            if key not in ignored and value not in ({}, None)
        }
        return {**manifest, "metadata": metadata, "kind": "", "apiVersion": ""}

    return plain(live) == plain(new)
