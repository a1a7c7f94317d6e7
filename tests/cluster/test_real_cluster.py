"""What only a real control plane can show: rights, restarts, compaction, bookmarks, strangers."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from kubernetes.config import incluster_config

from cluster.checkup import QUOTA_NAME, permissions
from cluster.credentials import IN_CLUSTER, Credentials, from_kubeconfig, seal
from cluster.kube import KubeGateway, connect
from cluster.protocol import (
    EVENT,
    MIRRORED,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    Expired,
    Kind,
    Manifest,
    Permission,
    Refused,
    Unreachable,
)
from demo.controlplane.client import eventually
from demo.controlplane.harness import ControlPlane
from tests import patience

pytestmark = pytest.mark.controlplane

SECRET = Kind("", "v1", "Secret", "secrets", namespaced=True)
WISH = {"deviceClassName": "gpu.nvidia.com", "count": 1}
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": WISH}]}}


def gateway(plane: ControlPlane, user: str) -> KubeGateway:
    return KubeGateway(from_kubeconfig(plane.kubeconfig(user)))


@pytest.fixture
def portal(controlplane: ControlPlane) -> Iterator[KubeGateway]:
    found = gateway(controlplane, "portal")
    yield found
    found.close()


def claim(name: str, namespace: str = "vision") -> Manifest:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": SPEC}


def test_the_printed_role_is_enough_to_read_everything_that_is_mirrored(portal):
    rules = portal.discover().taint_rules
    assert rules is not None

    def list_and_watch(kind: Kind) -> None:
        page = next(portal.list(kind))
        list(portal.watch(kind, resource_version=page.resource_version, seconds=1))

    with ThreadPoolExecutor() as threads:  # they share the connection, as the threads of a worker do
        list(threads.map(list_and_watch, (*MIRRORED, rules, EVENT, RESOURCE_QUOTA)))


def test_the_printed_role_is_enough_to_deliver_and_to_take_back(portal):
    for kind, spec in ((RESOURCE_CLAIM, SPEC), (RESOURCE_CLAIM_TEMPLATE, {"spec": SPEC})):
        manifest = {"metadata": {"name": "delivered", "namespace": "vision"}, "spec": spec}
        portal.apply(kind, manifest, dry_run=True)
        made = portal.apply(kind, manifest)
        assert portal.get(kind, "delivered", namespace="vision")
        assert portal.delete(kind, "delivered", namespace="vision", uid=made["metadata"]["uid"])


@pytest.mark.parametrize(
    ("user", "role"),
    [
        ("portal", {"write_quotas": True, "evict_pods": True, "review_tokens": True}),
        ("reader", {"read_only": True}),
    ],
)
def test_the_cluster_confirms_every_permission_of_the_printed_role(controlplane, user, role):
    asking = gateway(controlplane, user)
    assert [wanted for wanted in permissions(**role) if not asking.allowed(wanted)] == []
    asking.close()


def test_the_portal_writes_its_own_quotas_and_no_others(portal):
    def quota(name: str) -> Manifest:
        return {"metadata": {"name": name, "namespace": "vision"}, "spec": {"hard": {"pods": "1000"}}}

    assert not portal.allowed(Permission("patch", "resourcequotas"))
    with pytest.raises(Refused, match="they lack “patch” on “resourcequotas”"):
        portal.apply(RESOURCE_QUOTA, quota("of-somebody-else"))
    made = portal.apply(RESOURCE_QUOTA, quota(QUOTA_NAME))
    assert portal.delete(RESOURCE_QUOTA, QUOTA_NAME, namespace="vision", uid=made["metadata"]["uid"])


def test_the_read_only_role_delivers_nothing(controlplane):
    reader = gateway(controlplane, "reader")
    with pytest.raises(Refused, match=r"they lack “patch” on “resourceclaims\.resource\.k8s\.io”"):
        reader.apply(RESOURCE_CLAIM, claim("never"))
    reader.close()


def test_the_portal_sees_no_secrets_and_cannot_write_nodes(portal):
    with pytest.raises(Refused, match="they lack “list” on “secrets”"):
        list(portal.list(SECRET))
    with pytest.raises(Refused, match="they lack “patch” on “nodes”"):
        portal.apply(NODE, {"metadata": {"name": "h100-a", "labels": {"mine": "yes"}}})


def test_a_namespace_of_others_is_named_in_the_refusal(controlplane):
    alice = gateway(controlplane, "alice")
    with pytest.raises(Refused, match="in namespace “kube-system”") as refusal:
        list(alice.list(RESOURCE_CLAIM, namespace="kube-system"))
    assert (refusal.value.verb, refusal.value.resource) == ("list", "resourceclaims")
    alice.close()


def test_a_wrong_token_is_refused_and_a_wrong_authority_is_not_trusted(controlplane):
    opened = from_kubeconfig(controlplane.kubeconfig("portal"))
    with pytest.raises(Refused, match="does not know the credentials"):
        KubeGateway(Credentials(opened.server, authority=opened.authority, token="wrong")).identity()
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        KubeGateway(Credentials(opened.server, token=opened.token)).identity()


def restart_api_server(controlplane):
    """
    Restart it and those that follow it. A scheduler that missed what was deleted meanwhile believes for some
    ten minutes, until its watch ends by itself, that pods which are gone hold their devices.
    """
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"):
        controlplane.restart(name)


def test_a_restarted_api_server_is_found_again_and_a_watch_goes_on(controlplane, portal):
    before = next(portal.list(RESOURCE_CLAIM)).resource_version
    restart_api_server(controlplane)
    made = portal.create(RESOURCE_CLAIM, claim("after-restart"))
    version = next(portal.list(RESOURCE_CLAIM, namespace="vision")).resource_version
    assert int(version) > int(before)
    portal.delete(RESOURCE_CLAIM, "after-restart", namespace="vision")
    events = portal.watch(
        RESOURCE_CLAIM, resource_version=version, seconds=int(patience.PROGRAM_READY), namespace="vision"
    )
    event = next(events)
    events.close()
    assert (event.type, event.object["metadata"]["uid"]) == ("DELETED", made["metadata"]["uid"])


def test_an_api_server_that_dies_ends_a_watch(controlplane, portal):
    version = next(portal.list(NODE)).resource_version
    problems: list[Exception] = []

    def watch() -> None:
        try:
            list(portal.watch(NODE, resource_version=version, seconds=int(patience.PROGRAM_READY)))
        except Unreachable as problem:
            problems.append(problem)

    watching = threading.Thread(target=watch)
    watching.start()
    controlplane.pause("kube-apiserver")
    watching.join(patience.PROGRAM_READY)
    assert not watching.is_alive()
    with pytest.raises(Unreachable, match="refuses connections"):
        portal.get(NODE, "h100-a")
    restart_api_server(controlplane)
    assert portal.get(NODE, "h100-a") is not None


def test_a_watch_from_before_a_restart_and_compaction_has_expired(controlplane, portal):
    old = next(portal.list(RESOURCE_CLAIM)).resource_version
    for number in range(3):
        portal.create(RESOURCE_CLAIM, claim(f"older-{number}"))
        portal.delete(RESOURCE_CLAIM, f"older-{number}", namespace="vision")
    controlplane.compact()
    restart_api_server(controlplane)
    with pytest.raises(Expired):
        list(portal.watch(RESOURCE_CLAIM, resource_version=old, seconds=int(patience.EVENT)))


def test_a_listing_that_is_overtaken_by_a_compaction_has_expired(controlplane, portal):
    pages = portal.list(NODE, limit=3)
    assert len(next(pages).items) == 3
    portal.create(RESOURCE_CLAIM, claim("newer"))
    portal.delete(RESOURCE_CLAIM, "newer", namespace="vision")
    controlplane.compact()
    restart_api_server(controlplane)
    with pytest.raises(Expired):
        list(pages)


def test_a_bookmark_says_how_far_a_watch_has_come(portal):
    """
    None is guaranteed, and none comes that only repeats what was sent when the watch began: quiet is no sign
    of death. So something happens during the watch, and it is tried again if no bookmark comes.
    """
    for attempt in range(6):
        names = f"first-{attempt}", f"second-{attempt}"
        version = next(portal.list(RESOURCE_CLAIM)).resource_version
        portal.create(RESOURCE_CLAIM, claim(names[0]))
        events = portal.watch(RESOURCE_CLAIM, resource_version=version, seconds=8)
        seen = [next(events)]  # it has begun
        portal.create(RESOURCE_CLAIM, claim(names[1]))
        seen.extend(events)
        for name in names:
            portal.delete(RESOURCE_CLAIM, name, namespace="vision")
        if seen[-1].type == "BOOKMARK":
            break
    assert {event.type for event in seen[2:]} == {"BOOKMARK"}
    assert int(seen[-1].resource_version) >= int(seen[1].resource_version)


def test_what_the_portal_cannot_know_of_a_field_is_not_lost(controlplane, portal):
    raw = controlplane.client().get("ResourceSlice", "mig-dynamic-gpu.nvidia.com-1")
    (found,) = (
        item
        for page in portal.list(RESOURCE_SLICE)
        for item in page.items
        if item["metadata"]["name"] == "mig-dynamic-gpu.nvidia.com-1"
    )
    assert raw is not None
    assert found["spec"] == raw["spec"]


def test_a_pod_of_alice_holds_what_the_portal_delivered(controlplane, portal):
    portal.apply(RESOURCE_CLAIM, claim("hers"))
    alice = gateway(controlplane, "alice")
    alice.create(
        POD,
        {
            "metadata": {"name": "notebook", "namespace": "vision"},
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "hers"}],
                "containers": [
                    {"name": "main", "image": "example", "resources": {"claims": [{"name": "gpu"}]}}
                ],
            },
        },
    )

    def state() -> Manifest:
        found = portal.get(RESOURCE_CLAIM, "hers", namespace="vision") or {}
        status: Manifest = found.get("status", {})
        return status

    eventually(lambda: state().get("reservedFor"), subject="the pod to hold the claim")
    assert [user["name"] for user in state()["reservedFor"]] == ["notebook"]
    # Deleting does not take the device from the pod: the claim stays until the pod is gone.
    assert portal.delete(RESOURCE_CLAIM, "hers", namespace="vision")
    assert state().get("allocation")
    controlplane.client().delete("Pod", "notebook", "vision")
    eventually(
        lambda: portal.get(RESOURCE_CLAIM, "hers", namespace="vision") is None, subject="the end of the claim"
    )
    alice.close()


def test_inside_a_cluster_the_token_of_the_pod_is_used(controlplane, tmp_path, monkeypatch):
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text(controlplane.people["portal"].token)
    authority.write_text(controlplane.authority)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    address = urlsplit(controlplane.server)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    inside = connect(seal(IN_CLUSTER))
    assert inside.discover().version == "v1.37.1"
    inside.close()
