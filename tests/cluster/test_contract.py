"""What every Gateway promises: the same assertions in memory, on the simulator and on real Kubernetes."""

import time

import pytest

from cluster.protocol import (
    DEVICE_CLASS,
    EVENT,
    MIRRORED,
    NAMESPACE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    ClusterConflict,
    ClusterInvalid,
    Event,
    EvictionRefused,
    Expired,
    Kind,
    Permission,
    Refused,
)
from tests import patience
from tests.cluster.conftest import COUNTED, Bench
from tests.fakes import FakeGateway

CLAIM = RESOURCE_CLAIM


def version_of(bench: Bench, kind: Kind = CLAIM) -> str:
    return list(bench.portal.list(kind))[-1].resource_version


def events_since(bench: Bench, version: str, *, at_least: int) -> list[Event]:
    """Return what happened in the namespace, without bookmarks. Close the watch as soon as it is enough."""
    seen = []
    for event in bench.portal.watch(
        CLAIM, resource_version=version, seconds=int(patience.EVENT), namespace=bench.namespace
    ):
        if event.type != "BOOKMARK":
            seen.append(event)
        if len(seen) == at_least:
            break
    return seen


def test_discovery_says_the_version_and_what_is_served(bench):
    found = bench.portal.discover()
    assert found.minor >= (1, 34)
    assert found.version.startswith("v1.")
    assert {f"{kind.api_version}/{kind.plural}" for kind in MIRRORED} <= found.kinds
    assert found.taint_rules is not None
    assert f"{found.taint_rules.api_version}/devicetaintrules" in found.kinds


def test_a_cluster_is_known_by_the_uid_of_its_kube_system_namespace(bench):
    namespace = bench.portal.get(NAMESPACE, "kube-system")
    assert bench.portal.identity() == namespace["metadata"]["uid"] != ""


def test_a_listing_comes_in_pages_of_one_version(bench):
    for number in range(5):
        bench.portal.create(CLAIM, bench.claim(f"claim-{number}"))
    pages = list(bench.portal.list(CLAIM, namespace=bench.namespace, limit=2))
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert [page.remaining or 0 for page in pages] == [3, 1, 0]
    assert len({page.resource_version for page in pages}) == 1
    names = [item["metadata"]["name"] for page in pages for item in page.items]
    assert names == [f"claim-{number}" for number in range(5)]


def test_an_empty_listing_is_one_page_to_watch_from(bench):
    (page,) = bench.portal.list(CLAIM, namespace=bench.namespace)
    assert page.items == []
    assert int(page.resource_version) > 0


def test_listed_objects_say_their_kind_and_nothing_of_field_managers(bench):
    bench.portal.apply(CLAIM, bench.claim("claim"))
    ((item,),) = (page.items for page in bench.portal.list(CLAIM, namespace=bench.namespace))
    assert (item["apiVersion"], item["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")
    assert "managedFields" not in item["metadata"]


def test_a_label_selects_what_is_listed(bench):
    bench.portal.create(CLAIM, bench.claim("mine", team="vision"))
    bench.portal.create(CLAIM, bench.claim("theirs", team="speech"))
    pages = bench.portal.list(CLAIM, namespace=bench.namespace, label_selector="team=vision")
    assert [item["metadata"]["name"] for page in pages for item in page.items] == ["mine"]


def test_fields_select_what_is_listed(bench):
    for name, uid in (("first", "uid-1"), ("second", "uid-2"), ("third", "uid-1")):
        bench.admin.create(EVENT, bench.event(name, uid=uid))
    wanted = "involvedObject.kind=Pod,involvedObject.uid=uid-1"
    pages = list(bench.portal.list(EVENT, namespace=bench.namespace, field_selector=wanted, limit=1))
    assert [[item["metadata"]["name"] for item in page.items] for page in pages] == [["first"], ["third"]]


def test_a_field_that_cannot_be_selected_by_is_refused(bench):
    with pytest.raises(ClusterInvalid):
        list(bench.portal.list(CLAIM, namespace=bench.namespace, field_selector="spec.nothing=1"))


def test_a_watch_tells_what_came_changed_and_went(bench):
    since = version_of(bench)
    bench.portal.apply(CLAIM, bench.claim("claim"))
    bench.portal.apply(CLAIM, bench.claim("claim", team="vision"))
    bench.portal.delete(CLAIM, "claim", namespace=bench.namespace)
    seen = events_since(bench, since, at_least=3)
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event.object["metadata"]["name"] for event in seen] == ["claim"] * 3
    versions = [int(event.resource_version) for event in seen]
    assert versions == sorted(set(versions))
    assert seen[0].object["kind"] == "ResourceClaim"
    assert "managedFields" not in seen[0].object["metadata"]


def test_a_watch_can_go_on_from_any_of_its_events(bench):
    since = version_of(bench)
    for name in ("first", "second"):
        bench.portal.create(CLAIM, bench.claim(name))
    first, second = events_since(bench, since, at_least=2)
    assert events_since(bench, first.resource_version, at_least=1) == [second]


def test_a_watch_ends_by_itself(bench):
    started = time.monotonic()
    events = bench.portal.watch(
        CLAIM, resource_version=version_of(bench), seconds=1, namespace=bench.namespace
    )
    assert [event for event in events if event.type != "BOOKMARK"] == []
    assert time.monotonic() - started < patience.EVENT


def test_a_watch_from_before_what_the_cluster_remembers_has_expired(bench):
    bench.forget()
    with pytest.raises(Expired):
        list(bench.portal.watch(CLAIM, resource_version="1", seconds=int(patience.EVENT)))


def test_missing_object_is_none(bench):
    assert bench.portal.get(CLAIM, "nothing", namespace=bench.namespace) is None


def test_what_is_created_can_be_read(bench):
    made = bench.portal.create(CLAIM, bench.claim("claim", team="vision"))
    assert made["metadata"]["uid"]
    assert made["metadata"]["labels"] == {"team": "vision"}
    read = bench.portal.get(CLAIM, "claim", namespace=bench.namespace)
    assert read is not None
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert read["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] == "ExactCount"


def test_creating_twice_is_a_conflict(bench):
    bench.portal.create(CLAIM, bench.claim("claim"))
    with pytest.raises(ClusterConflict, match="claim"):
        bench.portal.create(CLAIM, bench.claim("claim"))


@pytest.mark.parametrize("method", ["create", "apply"])
def test_a_dry_run_leaves_nothing_behind(bench, method):
    answer = getattr(bench.portal, method)(CLAIM, bench.claim("claim"), dry_run=True)
    assert answer["metadata"]["name"] == "claim"
    assert bench.portal.get(CLAIM, "claim", namespace=bench.namespace) is None


@pytest.mark.parametrize("method", ["create", "apply"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_an_unknown_field_is_named_and_nothing_is_made(bench, method, dry_run):
    wrong = bench.claim("claim")
    wrong["spec"]["devices"]["strategy"] = "fastest"
    with pytest.raises(ClusterInvalid, match="strategy") as refusal:
        getattr(bench.portal, method)(CLAIM, wrong, dry_run=dry_run)
    assert [field for field, _why in refusal.value.causes] == ["spec.devices.strategy"]
    assert bench.portal.get(CLAIM, "claim", namespace=bench.namespace) is None


@pytest.mark.parametrize("method", ["create", "apply"])
def test_a_malformed_request_is_named_with_field_and_reason(bench, method):
    wrong = bench.claim("claim")
    wrong["spec"]["devices"]["requests"] = [{"name": "gpu"}]
    with pytest.raises(ClusterInvalid) as refusal:
        getattr(bench.portal, method)(CLAIM, wrong)
    ((field, reason),) = refusal.value.causes
    assert field == "spec.devices.requests[0]"
    assert "exactly" in reason


@pytest.mark.parametrize("method", ["create", "apply"])
def test_a_namespace_that_is_missing_is_named(bench, method):
    wrong = bench.claim("claim")
    wrong["metadata"]["namespace"] = "nowhere"
    with pytest.raises(ClusterInvalid, match="nowhere"):
        getattr(bench.portal, method)(CLAIM, wrong)


def test_applying_twice_changes_nothing(bench):
    first = bench.portal.apply(CLAIM, bench.claim("claim", team="vision"))
    second = bench.portal.apply(CLAIM, bench.claim("claim", team="vision"))
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_applying_anew_changes_labels_and_drops_those_left_out(bench):
    bench.portal.apply(CLAIM, bench.claim("claim", team="vision", fields="1"))
    changed = bench.portal.apply(CLAIM, bench.claim("claim", team="speech"))
    assert changed["metadata"]["labels"] == {"team": "speech"}


def test_the_spec_of_a_claim_cannot_be_changed(bench):
    bench.portal.apply(CLAIM, bench.claim("claim"))
    with pytest.raises(ClusterInvalid, match="immutable") as refusal:
        bench.portal.apply(CLAIM, bench.claim("claim", count=2))
    assert [field for field, _why in refusal.value.causes] == ["spec"]


def test_the_spec_of_a_template_cannot_be_changed(bench):
    def template(count: int) -> dict[str, object]:
        claim = bench.claim("template", count=count)
        return {"metadata": claim["metadata"], "spec": {"spec": claim["spec"]}}

    bench.portal.apply(RESOURCE_CLAIM_TEMPLATE, template(1))
    with pytest.raises(ClusterInvalid, match="immutable"):
        bench.portal.apply(RESOURCE_CLAIM_TEMPLATE, template(2))


def test_a_field_of_another_manager_is_a_conflict_unless_forced(bench):
    bench.admin.create(CLAIM, bench.claim("claim", team="vision"))
    with pytest.raises(ClusterConflict, match="team"):
        bench.portal.apply(CLAIM, bench.claim("claim", team="speech"))
    taken = bench.portal.apply(CLAIM, bench.claim("claim", team="speech"), force=True)
    assert taken["metadata"]["labels"] == {"team": "speech"}


def test_delete_returns_whether_the_object_was_there(bench):
    bench.portal.create(CLAIM, bench.claim("claim"))
    assert bench.portal.delete(CLAIM, "claim", namespace=bench.namespace) is True
    assert bench.portal.delete(CLAIM, "claim", namespace=bench.namespace) is False
    assert bench.portal.get(CLAIM, "claim", namespace=bench.namespace) is None


def test_only_the_very_object_is_deleted(bench):
    old = bench.portal.create(CLAIM, bench.claim("claim"))
    bench.portal.delete(CLAIM, "claim", namespace=bench.namespace)
    new = bench.portal.create(CLAIM, bench.claim("claim"))
    with pytest.raises(ClusterConflict):
        bench.portal.delete(CLAIM, "claim", namespace=bench.namespace, uid=old["metadata"]["uid"])
    assert bench.portal.delete(CLAIM, "claim", namespace=bench.namespace, uid=new["metadata"]["uid"]) is True


def test_a_finalizer_keeps_a_deleted_claim(bench):
    kept = bench.claim("claim")
    kept["metadata"]["finalizers"] = ["test.dragoman.dev/keep"]
    bench.portal.apply(CLAIM, kept)
    assert bench.portal.delete(CLAIM, "claim", namespace=bench.namespace) is True
    leaving = bench.portal.get(CLAIM, "claim", namespace=bench.namespace)
    assert leaving is not None
    assert leaving["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("method", ["create", "apply"])
def test_an_exceeded_quota_is_told_in_the_words_of_the_cluster(bench, method):
    bench.limit_claims(1)
    bench.portal.create(CLAIM, bench.claim("first"))
    with pytest.raises(
        Refused, match=f"exceeded quota: claims, requested: {COUNTED}=1, used: {COUNTED}=1"
    ) as why:
        getattr(bench.portal, method)(CLAIM, bench.claim("second"))
    assert why.value.quota


def test_a_missing_permission_is_named(bench):
    pod = {"metadata": {"name": "pod", "namespace": bench.namespace}, "spec": {"containers": []}}
    with pytest.raises(Refused) as refusal:
        bench.portal.create(POD, pod)
    assert (refusal.value.verb, refusal.value.resource, refusal.value.quota) == ("create", "pods", False)


def test_the_cluster_says_what_is_allowed(bench):
    assert bench.portal.allowed(Permission("create", "resourceclaims", CLAIM.group))
    assert not bench.portal.allowed(Permission("create", "pods"))
    assert bench.portal.allowed(Permission("create", "pods", subresource="eviction"))


def test_only_the_very_pod_is_evicted(bench):
    containers = [{"name": "main", "image": "images.example.org/train:1"}]
    pod = {"metadata": {"name": "pod", "namespace": bench.namespace}, "spec": {"containers": containers}}
    make = bench.admin.put if isinstance(bench.admin, FakeGateway) else bench.admin.create
    made = make(POD, pod)
    with pytest.raises(ClusterConflict) as refusal:
        bench.portal.evict("pod", namespace=bench.namespace, uid="another")
    assert not isinstance(refusal.value, EvictionRefused)
    assert bench.portal.evict("pod", namespace=bench.namespace, uid=made["metadata"]["uid"]) is True
    left = bench.portal.get(POD, "pod", namespace=bench.namespace)
    assert left is None or left["metadata"]["deletionTimestamp"]


def test_evicting_a_pod_that_is_not_there_is_false(bench):
    assert bench.portal.evict("nobody", namespace=bench.namespace, uid="any") is False


def test_what_is_no_token_of_a_service_account_is_nobodys(bench):
    assert bench.portal.review_token("not a token", audience="dragoman") is None


def test_only_who_may_review_tokens_learns_whose_they_are(bench):
    with pytest.raises(Refused):
        bench.someone.review_token("not a token", audience="dragoman")


def test_user_without_permissions_is_refused(bench):
    with pytest.raises(Refused):
        list(bench.someone.list(DEVICE_CLASS))
