"""Labels on what others have made: nothing else of it changes, and only that very object is touched."""

import pytest

from cluster.protocol import RESOURCE_CLAIM, ClusterConflict, ClusterInvalid
from tests.cluster.conftest import Bench


def labels(bench: Bench, uid: str, **wanted: str) -> dict[str, object]:
    identity = {"name": "claim", "namespace": bench.namespace, "uid": uid}
    return {"metadata": {**identity, "labels": wanted}}


def plain(manifest):
    """Everything that whoever made the object has said."""
    metadata = {key: manifest["metadata"][key] for key in ("name", "namespace", "uid", "creationTimestamp")}
    return metadata, manifest["spec"]


def test_labels_are_added_and_nothing_else_changes(bench):
    made = bench.admin.create(RESOURCE_CLAIM, bench.claim("claim", team="vision"))
    uid = made["metadata"]["uid"]
    for _ in range(2):  # twice is once
        changed = bench.portal.apply(RESOURCE_CLAIM, labels(bench, uid, owner="me"), force=True)
    assert changed["metadata"]["labels"] == {"team": "vision", "owner": "me"}
    assert plain(changed) == plain(made)
    assert plain(bench.admin.get(RESOURCE_CLAIM, "claim", namespace=bench.namespace)) == plain(made)


def test_labels_for_another_uid_are_refused(bench):
    made = bench.admin.create(RESOURCE_CLAIM, bench.claim("claim"))
    other = made["metadata"]["uid"][:-4] + "0000"
    with pytest.raises(ClusterInvalid) as refusal:
        bench.portal.apply(RESOURCE_CLAIM, labels(bench, other, owner="me"), force=True)
    assert [field for field, _why in refusal.value.causes] == ["metadata.uid"]
    found = bench.admin.get(RESOURCE_CLAIM, "claim", namespace=bench.namespace)
    assert "owner" not in found["metadata"].get("labels", {})


def test_labels_make_no_object(bench):
    uid = bench.admin.create(RESOURCE_CLAIM, bench.claim("claim"))["metadata"]["uid"]
    bench.admin.delete(RESOURCE_CLAIM, "claim", namespace=bench.namespace)
    with pytest.raises(ClusterConflict):
        bench.portal.apply(RESOURCE_CLAIM, labels(bench, uid, owner="me"), force=True)
    assert bench.admin.get(RESOURCE_CLAIM, "claim", namespace=bench.namespace) is None
