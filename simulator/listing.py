"""
Lists with pages. A page after the first comes from the same moment as the first; when that moment has been
forgotten the token has expired, and the client must start over.
"""

import base64
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from simulator import errors
from simulator.errors import ApiError
from simulator.resources import Manifest, Resource
from simulator.selectors import field_matcher, label_matcher
from simulator.store import Store

KEPT_SNAPSHOTS = 32

type Snapshot = list[Manifest]


class Lister:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._snapshots: OrderedDict[tuple[int, str, str], Snapshot] = OrderedDict()

    def list(self, resource: Resource, namespace: str | None, query: Mapping[str, str]) -> dict[str, Any]:
        """Raise 400 for a bad selector or token, 410 for an expired token, 504 for a revision to come."""
        limit = _number(query.get("limit", ""), "limit")
        revision, start = self._position(resource, query)
        items = self._snapshot(resource, namespace, revision)
        labels, fields = (
            label_matcher(query.get("labelSelector", "")),
            field_matcher(resource, query.get("fieldSelector", "")),
        )
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        rest, found = items[start:], list[Manifest]()
        for index, manifest in enumerate(rest):
            if limit and len(found) == limit:
                self._snapshots[revision, resource.plural, namespace or ""] = items
                metadata["continue"] = _token(revision, start + index)
                if not query.get("labelSelector") and not query.get("fieldSelector"):
                    metadata["remainingItemCount"] = len(rest) - index
                break
            if labels(manifest) and fields(manifest):
                found.append(
                    {key: value for key, value in manifest.items() if key not in {"kind", "apiVersion"}}
                )
        while len(self._snapshots) > KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": found,
        }

    def forget(self) -> None:
        """Make every continue token expire, as a compaction does."""
        self._snapshots.clear()

    def _position(self, resource: Resource, query: Mapping[str, str]) -> tuple[int, int]:
        if token := query.get("continue"):
            return _opened(token)
        asked = _number(query.get("resourceVersion", ""), "resourceVersion")
        if asked > self.store.revision:
            raise _too_large(asked, self.store.revision)
        return self.store.revision, 0

    def _snapshot(self, resource: Resource, namespace: str | None, revision: int) -> Snapshot:
        kept = self._snapshots.get((revision, resource.plural, namespace or ""))
        if kept is not None:
            return kept
        if revision == self.store.revision:
            return self.store.all(resource, namespace)
        raise errors.expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter, or use the continue token in this response to retrieve "
            "the remainder of the results. Continuing with the provided token results in an inconsistent "
            "list - objects that were created, modified, or deleted between the time the first chunk was "
            "returned and now may show up in the list."
        )


def _number(text: str, what: str) -> int:
    if text and not text.isdigit():
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.bad_request(f"{what}: {why}")
    return int(text or 0)


def _token(revision: int, start: int) -> str:
    plain = json.dumps({"v": "simulator/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(plain.encode()).decode()


def _opened(token: str) -> tuple[int, int]:
    try:
        plain = json.loads(base64.urlsafe_b64decode(token))
        return int(plain["rv"]), int(plain["start"])
    except (ValueError, KeyError, TypeError) as problem:
        raise errors.bad_request(f"continue key is not valid: {problem}") from problem


def _too_large(asked: int, current: int) -> ApiError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
