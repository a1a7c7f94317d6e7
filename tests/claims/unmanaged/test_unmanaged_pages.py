"""What stands in the teams' namespaces and is not the portal's: the lists, the pages, and adopting."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.delivery import tasks
from claims.lifecycle.services import release
from claims.models import Claim
from claims.quotas.quota_usage import quota_usage
from claims.states import ClaimState
from claims.unmanaged import services as unmanaged_services
from cluster.protocol import RESOURCE_CLAIM
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from inventory.models import Pod, ResourceClaim, ResourceClaimTemplate
from notify.models import Notice
from tests.factories import make_claim, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db
LIST = "/claims/unmanaged/"


def make_unmanaged(fra, name="by-hand", *, uid="", devices=2, held=(), origin="foreign", **columns):
    """A ResourceClaim in the namespace of vision that the portal did not make."""
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-1", "device": device} for device in held
    ]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "p", "name": "p"}]}
    raw = {"metadata": {"name": name}, "spec": make_spec(devices), "status": status if held else {}}
    fields = {"namespace": "vision", "name": name, "raw": raw, "origin": origin, **columns}
    if held:
        fields |= {"allocated_at": timezone.now() - timedelta(hours=2), "state": "allocated,reserved"}
    return ResourceClaim.objects.create(cluster=fra, uid=uid or f"uid-{name}", **fields)


def page_of(client, person, path=LIST):
    client.force_login(person)
    return client.get(path)


def test_what_no_claim_owns_is_listed_and_what_one_owns_is_not(client, alice, vision, fra, train):
    mine = make_claim(vision, by=alice, cluster=fra, name="of-portal", object_uid="uid-known")
    make_unmanaged(fra, "labeled", owner=str(mine.pk), origin="portal")
    make_unmanaged(fra, "known", uid="uid-known")
    make_unmanaged(fra, "by-hand", held=("gpu-0", "gpu-1"))
    make_unmanaged(fra, "stray", owner="0190f5d4-0000-7000-8000-000000000000", origin="portal")
    make_unmanaged(fra, "over", gone_at=timezone.now())
    text = page_of(client, alice).text
    assert "by-hand" in text
    assert "stray" in text
    assert "unknown label" in text
    assert not [name for name in (">labeled<", ">known<", ">over<") if name in text]


def test_a_label_of_a_claim_of_another_namespace_makes_nothing_the_portals(client, alice, vision, fra, eve):
    other = make_claim(make_team("nlp", members=(eve,)), by=eve, cluster=fra, name="elsewhere")
    make_unmanaged(fra, "pretends", owner=str(other.pk), origin="portal")
    assert "pretends" in page_of(client, alice).text


def test_others_see_none_of_it(client, alice, eve, root, fra):
    row = make_unmanaged(fra)
    address = reverse("claims:unmanaged_claim", args=[row.uid])
    assert "by-hand" not in page_of(client, eve).text
    assert client.get(address).status_code == 404
    assert "by-hand" in page_of(client, root).text
    assert page_of(client, alice, address).status_code == 200


def test_the_list_is_narrowed_and_downloaded(client, alice, fra):
    make_unmanaged(fra, "by-hand", held=("gpu-0",))
    make_unmanaged(fra, "=made", origin="extended-resource")
    assert "by-hand" not in page_of(client, alice, f"{LIST}?origin=extended-resource").text
    assert "by-hand" in client.get(f"{LIST}?q=hand&team=vision&cluster=fra-1").text
    lines = b"".join(client.get(f"{LIST}?format=csv&sort=name")).decode().splitlines()
    assert lines[0].startswith("ResourceClaim,Origin,State,Requested devices,Held,Pods")
    assert lines[1].startswith("'=made,extended resource,pending,2,0,0")
    assert lines[2].startswith('by-hand,created outside the portal,"allocated,reserved",2,1,1')


def test_the_list_costs_the_same_for_one_and_for_many(client, alice, fra):
    make_unmanaged(fra, "first", held=("gpu-0",))
    page_of(client, alice)
    with CaptureQueriesContext(connection) as one:
        client.get(LIST)
    for number in range(12):
        make_unmanaged(fra, f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(LIST)
    assert len(many) == len(one)


@pytest.mark.parametrize(
    ("origin", "sentence"),
    [
        ("foreign", "Created with kubectl or another tool."),
        ("template", "Kubernetes created it for pod train-0 from a ResourceClaimTemplate"),
        ("extended-resource", "pod train-0 requests nvidia.com/gpu by number"),
    ],
)
def test_the_page_explains_where_it_came_from(client, alice, fra, origin, sentence):
    row = make_unmanaged(fra, "it", origin=origin, held=("gpu-0",))
    row.raw["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "train-0"}]
    row.save(update_fields=["raw"])
    made = {"resourceClaimName": "it", "requestMappings": [{"resourceName": "nvidia.com/gpu"}]}
    Pod.objects.create(
        cluster=fra, uid="p", name="train-0", namespace="vision", claims=["it"], phase="Running",
        raw={"status": {"extendedResourceClaimStatus": made}},
    )  # fmt: skip
    text = page_of(client, alice, f"{LIST}{row.uid}/").text
    assert sentence in text
    assert "gpu-0" in text
    assert "Adopt" not in text  # not an admin


def test_templates_have_a_list_and_a_page(client, alice, eve, fra):
    raw = {"metadata": {"name": "tpl"}, "spec": {"spec": make_spec(4)}}
    ResourceClaimTemplate.objects.create(cluster=fra, uid="t", name="tpl", namespace="vision", raw=raw)
    assert "tpl" in page_of(client, alice, f"{LIST}templates/").text
    assert "up to 4 devices" in client.get(f"{LIST}templates/t/").text
    assert page_of(client, eve, f"{LIST}templates/t/").status_code == 404


@pytest.fixture
def row(fra, gateway, quota, train):
    """An unmanaged claim that holds two devices, in the mirror and in the cluster."""
    wished = {"metadata": {"name": "by-hand", "namespace": "vision"}, "spec": make_spec(2)}
    made = gateway.create(RESOURCE_CLAIM, wished)
    return make_unmanaged(fra, uid=made["metadata"]["uid"], held=("gpu-0", "gpu-1"))


def adopt(row, root, alice, train, **more):
    adoption = {"row": row, "by": root, "owner": alice, "profile": train, "duration": timedelta(hours=24)}
    return unmanaged_services.adopt(**adoption | more)


def test_adopted_it_is_a_claim_like_any_other(row, root, alice, train, gateway):
    claim = adopt(row, root, alice, train, reason="From before the portal.")
    tasks.label(str(claim.pk))
    row.owner = str(claim.pk)
    row.save(update_fields=["owner"])
    tasks.sweep()
    claim = Claim.objects.get(pk=claim.pk)
    assert (claim.origin, claim.state, claim.problem) == ("adopted", ClaimState.ALLOCATED, "")
    assert claim.allocations.count() == 2
    assert {(charge.device_class, charge.devices) for charge in claim.charges.all()} == {
        ("gpu.nvidia.com", 2)
    }
    written = gateway.get(RESOURCE_CLAIM, "by-hand", namespace="vision")
    assert written["metadata"]["labels"]["gpu.dragoman.dev/claim"] == str(claim.pk)
    assert Notice.objects.get(user=alice).title == "by-hand is now your claim"


def test_adopting_twice_is_adopting_once(row, root, alice, train):
    assert adopt(row, root, alice, train).pk == adopt(row, root, alice, train).pk
    assert Claim.objects.count() == 1


def test_a_lost_message_is_made_good_by_the_sweep(row, root, alice, train, gateway, monkeypatch):
    monkeypatch.setattr("claims.delivery.tasks.label.delay", lambda _id: None)
    claim = adopt(row, root, alice, train)
    tasks.sweep()
    written = gateway.get(RESOURCE_CLAIM, "by-hand", namespace="vision")
    assert written["metadata"]["labels"]["gpu.dragoman.dev/claim"] == str(claim.pk)


def test_over_quota_is_refused_with_numbers_unless_it_is_known(row, root, alice, train, vision, quota):
    quota.devices = 1
    quota.save(update_fields=["devices"])
    with pytest.raises(QuotaExceeded, match="plus 2 unmanaged"):
        adopt(row, root, alice, train)
    claim = adopt(row, root, alice, train, over_quota=True)
    assert "plus 2 unmanaged" in claim.history.get().reason


def test_who_and_what_does_not_fit_is_refused(row, root, alice, eve, lena, train, fra):
    with pytest.raises(Forbidden):
        adopt(row, lena, alice, train)
    with pytest.raises(Invalid, match="eve is no member of vision"):
        adopt(row, root, eve, train)
    with pytest.raises(Invalid, match="allows"):
        adopt(row, root, alice, train, duration=timedelta(days=400))
    other = make_profile("other", spec=make_spec(1, device_class="mig.nvidia.com"))
    with pytest.raises(Invalid, match="requests other classes"):
        adopt(row, root, alice, other)
    generated = make_unmanaged(fra, "pod-made", origin="template")
    with pytest.raises(Conflict, match="comes and goes with its pod"):
        adopt(generated, root, alice, train)
    assert not Claim.objects.exists()


def test_an_admin_adopts_by_page(client, row, root, alice, vision, train):
    address = reverse("claims:adopt", args=[row.uid])
    text = page_of(client, root, address).text
    assert "It counts as 2 devices against the quota of the team." in text
    assert "plus 2 unmanaged" in text
    assert not Claim.objects.exists()
    wrong = client.post(address, {"owner": "eve", "profile": "train-80", "duration": "1d"})
    assert wrong.status_code == 422
    sent = {"owner": "alice", "profile": "train-80", "duration": "1d"}
    answer = client.post(address, sent, follow=True)
    assert "by-hand is now a claim of the portal." in answer.text
    assert Claim.objects.get().requested_by == alice


def test_over_quota_the_page_asks_for_the_tick(client, row, root, quota):
    quota.devices = 1
    quota.save(update_fields=["devices"])
    address = reverse("claims:adopt", args=[row.uid])
    sent = {"owner": "alice", "profile": "train-80", "duration": "1d"}
    refused = page_of(client, root, address) and client.post(address, sent)
    assert refused.status_code == 409
    assert "Tick the box below" in refused.text
    assert client.post(address, sent | {"over_quota": "on"}).status_code == 302


def test_only_admins_adopt(client, row, alice, bob, eve):
    address = reverse("claims:adopt", args=[row.uid])
    for person, status in ((alice, 403), (bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.get(address).status_code == status
        assert client.post(address).status_code == status


def test_released_it_is_deleted_as_any_claim(row, root, alice, train, gateway):
    claim = adopt(row, root, alice, train)
    release(claim=claim, by=alice)
    tasks.remove(str(claim.pk))
    assert gateway.get(RESOURCE_CLAIM, "by-hand", namespace="vision") is None


def test_two_quotas_of_the_team_are_counted(row, root, alice, train, vision):
    make_quota(vision, 1, profile=train)
    with pytest.raises(QuotaExceeded, match="of profile train-80 in use or reserved; this claim needs 2"):
        adopt(row, root, alice, train)


def test_adopted_use_is_not_counted_twice(row, root, alice, train, quota):
    quota.devices = 2
    quota.save(update_fields=["devices"])
    adopt(row, root, alice, train)
    (now,) = quota_usage([quota])
    assert (now.reserved, now.unmanaged, now.over) == (2, 0, 0)
