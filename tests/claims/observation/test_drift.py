"""What others did to the objects of a claim: found, told once, and put right."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.delivery import tasks
from claims.lifecycle import services
from claims.models import Claim
from claims.observation import drift
from claims.observation.observations import observe
from claims.states import ClaimState
from cluster.protocol import RESOURCE_CLAIM
from core.errors import Conflict, Forbidden
from inventory.models import ResourceClaim
from notify.models import Notice
from tests.claims.mirror import NINE, Mirror, result
from tests.factories import make_claim, make_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def mirror(fra):
    return Mirror(fra)


@pytest.fixture
def claim(vision, fra, train, alice, root, gateway):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, state=ClaimState.PROVISIONED,
        name="sam", object_uid="uid-1",
    )  # fmt: skip


@pytest.fixture
def template(vision, fra, train, alice, root, gateway):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, delivery="template",
        parallel=2, name="batch", object_uid="uid-t",
    )  # fmt: skip


@pytest.fixture
def remade(mirror, claim):
    """Somebody has made the object again, and it holds a device."""
    mirror.claim("sam", claim)
    mirror.gone("uid-1", timezone.now())
    mirror.claim("sam", claim, result("gpu-0"), uid="uid-2")
    return fresh(claim)


def fresh(claim) -> Claim:
    return Claim.objects.get(pk=claim.pk)


def code_of(claim):
    claim = fresh(claim)
    trouble = drift.find_drift(claim, observe([claim])[claim.pk])
    return trouble and trouble.code


def lose_label(mirror, uid):
    ResourceClaim.objects.filter(uid=uid).update(
        owner="", origin="foreign", resource_version="without", revision=mirror.next_revision()
    )
    mirror.tell("sam")


def test_an_object_made_again_within_seconds_is_replaced_and_not_gone(remade):
    assert remade.state == ClaimState.ALLOCATED
    assert code_of(remade) == "replaced"
    assert "It asks for what was approved, but it is another object" in remade.problem


def test_an_object_that_is_not_made_again_ends_the_claim(mirror, claim):
    mirror.claim("sam", claim)
    mirror.gone("uid-1", timezone.now())
    assert fresh(claim).state == ClaimState.PROVISIONED
    assert "Unless it is recreated now, this claim ends." in fresh(claim).problem
    ResourceClaim.objects.update(gone_at=timezone.now() - timedelta(seconds=21))
    tasks.sweep()
    assert fresh(claim).state == ClaimState.FAILED
    assert code_of(claim) == "deleted"
    assert Notice.objects.get(user=claim.requested_by).title == "sam was deleted by somebody else"


def test_the_end_says_that_a_strangers_object_has_the_name_now(mirror, claim, fra):
    mirror.claim("sam", claim)
    ResourceClaim.objects.create(cluster=fra, uid="foreign", namespace="vision", name="sam")
    mirror.gone("uid-1", NINE)
    assert "Another object of that name exists now" in fresh(claim).problem


def test_made_again_with_another_spec_says_both(mirror, claim):
    mirror.claim("sam", claim)
    mirror.gone("uid-1", timezone.now())
    mirror.claim("sam", claim, uid="uid-2", spec=make_spec(8))
    assert code_of(claim) == "replaced-edited"
    assert "was deleted and recreated" in fresh(claim).problem
    assert "differs from what was approved" in fresh(claim).problem


def test_without_its_label_the_object_is_still_known_and_billed(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.claim("sam", claim, result("gpu-0"), result("gpu-1"))
    lose_label(mirror, "uid-1")
    assert fresh(claim).state == ClaimState.ALLOCATED
    assert claim.allocations.filter(ended_at=None).count() == 2
    assert code_of(claim) == "unlabeled"
    mirror.gone("uid-1", NINE)
    assert fresh(claim).state == ClaimState.FAILED


def test_a_template_made_again_is_told_and_so_are_claims_of_the_other_one(mirror, template):
    mirror.template(template)
    mirror.claim("batch-a", template, uid="a", origin="template", spec=make_spec(4))
    assert code_of(template) == "generated-differ"
    assert "1 claim of this template differs from what was approved: batch-a." in fresh(template).problem
    Claim.objects.filter(pk=template.pk).update(object_uid="uid-before", observation_hash="")
    mirror.tell("batch")
    assert code_of(template) == "replaced"


def test_owner_and_platform_admins_are_told_once(mirror, remade, alice, root, bob):
    for _ in range(3):
        mirror.claim("sam", remade, result("gpu-0"), uid="uid-2")  # another version of it
    told = Notice.objects.filter(title="sam was deleted and recreated by somebody else")
    assert {notice.user for notice in told} == {alice, root}
    assert told.count() == 2
    assert all(notice.important and notice.url == f"/claims/{remade.pk}/" for notice in told)


def test_an_admin_accepts_the_new_object_and_all_is_well(client, remade, root):
    client.force_login(root)
    page = client.get(reverse("claims:accept", args=[remade.pk])).text
    assert "uid-2" in page
    assert fresh(remade).object_uid == "uid-1"
    answer = client.post(reverse("claims:accept", args=[remade.pk]), {"reason": "It was me."}, follow=True)
    assert "It was me." in answer.text
    claim = fresh(remade)
    assert (claim.object_uid, claim.state, claim.problem) == ("uid-2", ClaimState.ALLOCATED, "")
    assert code_of(claim) is None


def test_what_asks_for_something_else_cannot_be_accepted(client, mirror, claim, root):
    mirror.claim("sam", claim, uid="uid-2", spec=make_spec(8))
    with pytest.raises(Conflict, match="no new object with the approved spec"):
        services.accept_object(claim=claim, by=root)
    client.force_login(root)
    url = reverse("claims:accept", args=[claim.pk])
    assert "no new object with the approved spec" in client.get(url).text
    assert client.post(url).status_code == 409


def test_only_an_admin_accepts(client, remade, alice, lena, eve):
    with pytest.raises(Forbidden):
        services.accept_object(claim=remade, by=lena)
    url = reverse("claims:accept", args=[remade.pk])
    for person, status in ((alice, 403), (eve, 404)):
        client.force_login(person)
        assert client.get(url).status_code == status
        assert client.post(url).status_code == status
    client.force_login(alice)
    assert "Accept the new object" not in client.get(reverse("claims:detail", args=[remade.pk])).text


def test_the_label_is_put_back_on_that_object_alone(client, mirror, claim, gateway, alice):
    made = gateway.create(
        RESOURCE_CLAIM, {"metadata": {"name": "sam", "namespace": "vision"}, "spec": claim.spec}
    )
    Claim.objects.filter(pk=claim.pk).update(object_uid=made["metadata"]["uid"])
    mirror.claim("sam", claim, uid=made["metadata"]["uid"])
    lose_label(mirror, made["metadata"]["uid"])
    client.force_login(alice)
    assert "Restore label" in client.get(reverse("claims:detail", args=[claim.pk])).text
    url = reverse("claims:label", args=[claim.pk])
    assert client.post(url).status_code == 302
    tasks.label(str(claim.pk))
    now = gateway.get(RESOURCE_CLAIM, "sam", namespace="vision")
    assert now["metadata"]["labels"]["gpu.dragoman.dev/claim"] == str(claim.pk)
    assert now["spec"] == made["spec"]


def test_another_object_of_that_name_gets_no_label(claim, gateway):
    gateway.create(RESOURCE_CLAIM, {"metadata": {"name": "sam", "namespace": "vision"}, "spec": claim.spec})
    tasks.label(str(claim.pk))
    assert ("get", "resourceclaims", "sam") in gateway.calls
    assert "labels" not in gateway.get(RESOURCE_CLAIM, "sam", namespace="vision")["metadata"]


@pytest.mark.parametrize("why", ["it is over", "it has no object", "its cluster is read-only", "no claim"])
def test_no_cluster_is_asked_to_label_what_it_should_not(claim, gateway, fra, why):
    known = str(claim.pk)
    if why == "it is over":
        Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASED)
    elif why == "it has no object":
        Claim.objects.filter(pk=claim.pk).update(object_uid="")
    elif why == "its cluster is read-only":
        type(fra).objects.filter(pk=fra.pk).update(read_only=True)
    else:
        known = str(uuid4())
    tasks.label(known)
    assert gateway.calls == []


def test_viewers_and_outsiders_put_no_label_back(client, claim, bob, eve):
    for person, status in ((bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.post(reverse("claims:label", args=[claim.pk])).status_code == status


def test_an_object_that_lost_its_label_is_deleted_on_release(claim, gateway, alice):
    made = gateway.create(
        RESOURCE_CLAIM, {"metadata": {"name": "sam", "namespace": "vision"}, "spec": claim.spec}
    )
    Claim.objects.filter(pk=claim.pk).update(object_uid=made["metadata"]["uid"])
    fresh(claim).advance(ClaimState.RELEASING, why="done")
    tasks.remove(str(claim.pk))
    assert gateway.get(RESOURCE_CLAIM, "sam", namespace="vision") is None
    assert fresh(claim).state == ClaimState.RELEASED


def test_pods_that_come_and_go_are_not_told_of_again_and_again(mirror, template, alice, root):
    """A job makes and ends pods all day while another template has the name of the claim's."""
    mirror.template(template)
    for number in range(3):
        mirror.claim(f"batch-{number}", template, spec=make_spec(4), uid=f"p{number}", origin="template")
        mirror.gone(f"p{number}", NINE)
    assert Notice.objects.filter(user=alice).count() == 1
    assert Notice.objects.filter(user=root).count() == 1
    mirror.claim("batch-9", template, spec=make_spec(5), uid="p9", origin="template")
    assert Notice.objects.filter(user=alice).count() == 2  # this is news
