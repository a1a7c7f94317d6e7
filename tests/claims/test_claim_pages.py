"""The list of claims, the page of one, the part of it that polls, and its snippets."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.approvals.decide import approve, deny
from claims.models import Allocation, Alternative, Profile
from claims.states import FINAL, ClaimState
from inventory.models import Cluster, Device, Pod, ResourceClaim, ResourceSlice
from tests.factories import make_allocation, make_claim, make_profile, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def claim(vision, fra, train, alice):
    return make_claim(vision, by=alice, cluster=fra, name="sam2")


@pytest.fixture
def held(vision, fra, train, alice):
    """A claim that holds a healthy device, by a pod, for three days."""
    claim = make_claim(
        vision, by=alice, cluster=fra, name="sam2", object_uid="rc-1", state=ClaimState.ALLOCATED, held=False,
        duration=timedelta(days=3),
    )  # fmt: skip
    hold(claim, "gpu-0")
    return claim


def hold(claim, *names):
    """Let the mirror show that the claim holds these devices of node-a for pod `train-0`."""
    at = timezone.now()
    seen = ResourceClaim.objects.create(
        cluster=claim.cluster, uid="rc-1", name=claim.name, namespace=claim.namespace, owner=str(claim.pk)
    )
    pod = {"cluster": claim.cluster, "uid": "pod-1", "name": "train-0", "namespace": claim.namespace}
    Pod.objects.create(**pod, phase="Running", node_name="node-a", claims=[claim.name], created_at=at)
    piece = ResourceSlice.objects.create(
        cluster=claim.cluster, uid="s", name="s", driver="d", pool="node-a", generation=1, pool_slices=1
    )
    for name in names:
        where: dict[str, Any] = {
            "driver": "d",
            "pool": "node-a",
            "node_name": "node-a",
            "uuid": f"GPU-{name}",
        }
        Device.objects.create(cluster=claim.cluster, slice=piece, name=name, held_by=seen, **where)
        make_allocation(claim, at, device=name, product="NVIDIA H100", **where)


def detail(claim):
    return reverse("claims:detail", args=[claim.pk])


def live(claim):
    return reverse("claims:detail_live", args=[claim.pk])


def test_list_shows_claims_of_own_teams_only(client, alice, eve, claim):
    client.force_login(alice)
    assert "sam2" in client.get(reverse("claims:list")).text
    client.force_login(eve)
    assert "sam2" not in client.get(reverse("claims:list")).text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=requested", True),
        ("state=live", True),
        ("state=over", False),
        ("state=denied", False),
        ("team=vision", True),
        ("cluster=fra-1", True),
        ("profile=train-80", True),
        ("who=me", False),
        ("who=alice", True),
        ("who=lena", False),
        ("who=alic", False),
        ("who=%00", True),  # an invalid filter filters nothing
        ("q=sam", True),
        ("q=nothing", False),
    ],
)
def test_list_filters_by_query_of_address(client, lena, claim, query, found):
    client.force_login(lena)
    assert (detail(claim) in client.get(reverse("claims:list") + f"?{query}").text) is found


def test_list_of_one_persons_claims_stays_so_when_another_filter_is_chosen(client, lena, claim):
    client.force_login(lena)
    page = client.get(reverse("claims:list") + "?who=alice").text
    assert '<option value="alice" selected>alice</option>' in page
    assert '<option value="alice"' not in client.get(reverse("claims:list")).text


def test_cells_of_a_folded_row_say_what_they_are(client, alice, claim):
    client.force_login(alice)
    page = client.get(reverse("claims:list")).text
    for label, value in (("Team", "vision"), ("Requested by", "alice"), ("Cluster", "fra-1")):
        assert re.search(f'<td[^>]* data-l="{label}">{value}</td>', page), label


@pytest.mark.parametrize(
    ("state", "ended", "words"),
    [
        (ClaimState.ALLOCATED, timedelta(minutes=35), r"expired 35 min ago.*grace ends in 1 h 2\d min"),
        (ClaimState.ALLOCATED, timedelta(hours=-3), r"in [23] h.* then 2 h of grace"),
        (ClaimState.ALLOCATED, timedelta(hours=3), r"expired 3 h ago.*is being deleted"),
        (ClaimState.RELEASED, timedelta(minutes=35), "—"),
    ],
)
def test_a_claim_says_the_grace_after_its_end(client, alice, vision, fra, state, ended, words):
    over = timezone.now() - ended
    profile = make_profile("soon", grace=timedelta(hours=2))
    make_claim(vision, by=alice, cluster=fra, profile=profile, name="flow", state=state, expires_at=over)
    client.force_login(alice)
    (row,) = re.findall("<tr>(?:(?!</tr>).)*flow.*?</tr>", client.get(reverse("claims:list")).text, re.DOTALL)
    text = " ".join(re.sub("<[^>]*>", " ", row).split())
    assert re.search(words, text), text
    assert ("expired" in text) is (state is ClaimState.ALLOCATED and over < timezone.now())


def test_list_as_csv_has_selected_columns(client, alice, claim):
    client.force_login(alice)
    answer = client.get(reverse("claims:list") + "?format=csv&col=state&col=team")
    lines = answer.getvalue().decode().splitlines()
    assert lines == ["Claim,State,Team", "sam2,Waiting for approval,vision"]


def test_the_list_costs_the_same_for_one_claim_and_for_many(client, alice, vision, fra, train, claim):
    client.force_login(alice)
    client.get(reverse("claims:list"))
    with CaptureQueriesContext(connection) as one:
        client.get(reverse("claims:list"))
    for _ in range(20):
        make_claim(vision, by=alice, cluster=fra)
    with CaptureQueriesContext(connection) as many:
        client.get(reverse("claims:list"))
    assert len(many) == len(one)


@pytest.mark.parametrize("state", ClaimState)
def test_claim_page_renders_in_every_state(client, alice, vision, fra, train, state):
    client.force_login(alice)
    claim = make_claim(vision, by=alice, cluster=fra, state=state)
    page = client.get(detail(claim))
    assert page.status_code == 200
    assert str(state.label) in page.text
    assert (live(claim) in page.text) is (state not in FINAL)  # a claim that is over does not poll


@pytest.mark.parametrize("name", ["detail", "detail_live", "withdraw", "release"])
def test_claim_page_is_404_for_outsider(client, eve, claim, name):
    client.force_login(eve)
    assert client.get(reverse(f"claims:{name}", args=[claim.pk])).status_code == 404
    assert client.get(reverse("claims:snippet", args=[claim.pk, "pod"])).status_code == 404


def test_page_shows_device_node_uuid_health_and_pod(client, alice, held):
    client.force_login(alice)
    page = client.get(detail(held)).text
    for word in ("gpu-0", "node-a", "GPU-gpu-0", "NVIDIA H100", "Healthy", "train-0", "Running"):
        assert word in page


def test_tainted_device_is_not_healthy(client, alice, held):
    taint = {"key": "gpu.nvidia.com/xid", "effect": "NoExecute", "value": "79"}
    Device.objects.update(taints=[taint])
    client.force_login(alice)
    page = client.get(detail(held)).text
    assert "gpu.nvidia.com/xid" in page
    assert "Healthy" not in page


def test_device_missing_from_mirror_is_unknown(client, alice, held):
    Device.objects.all().delete()
    client.force_login(alice)
    page = client.get(detail(held)).text
    assert "Not in the mirror" in page
    assert "Healthy" not in page


def test_page_queries_do_not_grow_with_devices(client, alice, held):
    client.force_login(alice)
    client.get(detail(held))
    with CaptureQueriesContext(connection) as one:
        client.get(detail(held))
    ResourceClaim.objects.all().delete()
    Pod.objects.all().delete()
    ResourceSlice.objects.all().delete()
    Allocation.objects.all().delete()
    hold(held, *(f"gpu-{number}" for number in range(8)))
    with CaptureQueriesContext(connection) as many:
        client.get(detail(held))
    assert len(many) == len(one)


def test_polling_is_304_until_claim_changes(client, alice, held):
    client.force_login(alice)
    first = client.get(live(held))
    tag = {"If-None-Match": first["ETag"]}
    assert client.get(live(held), headers=tag).status_code == 304
    Pod.objects.update(phase="Succeeded")
    mirror_moves()
    assert client.get(live(held), headers=tag).status_code == 200


def mirror_moves() -> None:
    """Count a batch, as the sync does in the transaction that writes the rows."""
    Cluster.objects.update(revision=F("revision") + 1)


def test_unchanged_poll_reads_the_stamp_alone(client, alice, held, django_assert_num_queries):
    client.force_login(alice)
    tag = {"If-None-Match": client.get(live(held))["ETag"]}
    with django_assert_num_queries(2):  # session and user, stamp
        assert client.get(live(held), headers=tag).status_code == 304


def test_poll_is_304_with_a_new_tag_after_a_change_elsewhere(client, alice, held, django_assert_num_queries):
    client.force_login(alice)
    before = client.get(live(held))["ETag"]
    mirror_moves()
    answer = client.get(live(held), headers={"If-None-Match": before})
    assert answer.status_code == 304
    assert answer["ETag"] != before
    with django_assert_num_queries(2):
        again = client.get(live(held), headers={"If-None-Match": answer["ETag"]})
    assert again.status_code == 304


def test_polling_announces_transition_once(client, alice, lena, claim):
    client.force_login(alice)
    tag = {"If-None-Match": client.get(live(claim))["ETag"]}
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    moved = client.get(live(claim) + "?seen=requested", headers=tag)
    assert 'id="claim-status"' in moved.text
    assert 'id="claim-status"' not in client.get(live(claim) + "?seen=approved").text


def test_guessed_etag_is_404_for_outsider(client, alice, eve, claim):
    client.force_login(alice)
    tag = client.get(live(claim))["ETag"]
    client.force_login(eve)
    assert client.get(live(claim), headers={"If-None-Match": tag}).status_code == 404


def test_page_shows_problem_of_claim(client, alice, claim):
    claim.problem = "fra-1 refused it."
    claim.save(update_fields=["problem"])
    client.force_login(alice)
    assert "fra-1 refused it." in client.get(detail(claim)).text


@pytest.mark.parametrize("key", ["pod", "job", "kubectl"])
def test_snippet_opens_by_address_and_as_fragment(client, alice, claim, key):
    client.force_login(alice)
    part = client.get(reverse("claims:snippet", args=[claim.pk, key])).text
    assert "<html" not in part
    assert "sam2" in part
    assert client.get(detail(claim) + f"?snippet={key}").status_code == 200


def test_an_unknown_snippet_is_404(client, alice, claim):
    client.force_login(alice)
    assert client.get(reverse("claims:snippet", args=[claim.pk, "cobol"])).status_code == 404


def test_request_again_prefills_the_request(client, alice, bob, claim):
    client.force_login(alice)
    page = client.get(detail(claim)).text
    asked = "profile=train-80&amp;devices=1&amp;delivery=claim&amp;parallel=1&amp;duration=24h"
    assert f"{asked}&amp;reason=&amp;team=vision&amp;cluster=fra-1" in page
    client.force_login(bob)
    assert "Request again" not in client.get(detail(claim)).text


def test_page_shows_age_of_mirror(client, alice, claim):
    client.force_login(alice)
    assert "fra-1 has not been read yet" in client.get(detail(claim)).text
    old = timezone.now() - timedelta(minutes=6)
    for resource in ("resourceslices", "resourceclaims", "pods"):
        claim.cluster.freshness.create(resource=resource, listed_at=old, seen_at=old)
    page = client.get(detail(claim)).text
    assert "dg-fresh dg-end old" in page
    assert "6 min" in page


def test_usage_panel_loads_after_approval(client, alice, lena, claim):
    client.force_login(alice)
    usage = f'hx-get="{reverse("usage:claim_fragment", args=[claim.pk])}" hx-trigger="'
    assert (
        f'{usage}claim-changed from:body"' in client.get(detail(claim)).text
    )  # waits, and loads nothing yet
    assert "HX-Trigger" not in client.get(live(claim) + "?seen=requested")
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert client.get(live(claim) + "?seen=requested")["HX-Trigger"] == "claim-changed"
    assert "HX-Trigger" not in client.get(live(claim) + "?seen=approved")
    assert f'{usage}load, claim-changed from:body"' in client.get(detail(claim)).text


def test_denied_request_loads_no_usage_panel(client, alice, lena, claim):
    deny(claim=claim, by=lena, reason="no")
    client.force_login(alice)
    assert 'hx-trigger="load' not in client.get(detail(claim)).text
    assert "HX-Trigger" not in client.get(live(claim) + "?seen=requested")


def test_relative_times_of_figures_are_kept_current(client, alice, held):
    client.force_login(alice)
    page = client.get(detail(held)).text
    strip = page[page.index("dg-stats") : page.index("dg-chain")]
    since, ends = (
        held.state_since.isoformat(timespec="seconds"),
        held.expires_at.isoformat(timespec="seconds"),
    )
    assert f'<time datetime="{since}"' in strip
    assert f'<time datetime="{ends}"' in strip
    assert strip.count('data-time="elapsed">') == 1
    assert strip.count('data-time="relative">in 2 d 23 h</time>') == 1
    assert "&lt;time" not in page


def test_polling_notices_newer_mirror(client, alice, claim):
    before = timezone.now() - timedelta(minutes=4)
    for resource in ("resourceslices", "resourceclaims", "pods"):
        claim.cluster.freshness.create(resource=resource, listed_at=before, seen_at=before)
    client.force_login(alice)
    tag = {"If-None-Match": client.get(live(claim))["ETag"]}
    assert client.get(live(claim), headers=tag).status_code == 304
    claim.cluster.freshness.update(seen_at=timezone.now())
    assert client.get(live(claim), headers=tag).status_code == 200


def test_list_offers_no_request_to_viewer(client, claim, alice, bob):
    offer = f'<a class="btn btn-primary" href="{reverse("claims:request")}">'
    for person, offered in ((alice, True), (bob, False)):
        client.force_login(person)
        assert (offer in client.get(reverse("claims:list")).text) is offered


@pytest.mark.parametrize("person", ["alice", "root"])
def test_each_word_is_found_in_name_reason_person_or_profile(
    client, request, vision, fra, alice, root, person
):
    mira = make_user("mira")
    texts = [("sam2-run", "fine tuning", alice), ("whisper", "Fine mesh", mira), ("llama", "inference", mira)]
    for name, reason, by in texts:
        make_claim(team=vision, by=by, cluster=fra, name=name, reason=reason)
    client.force_login(request.getfixturevalue(person))
    for words, names in (
        ("fine", {"sam2-run", "whisper"}),
        ("fine mira", {"whisper"}),
        ("mira fine", {"whisper"}),
        ("MIRA", {"whisper", "llama"}),
        ("am2", {"sam2-run"}),
        ("a 2", {"sam2-run"}),
        ("nowhere a", set()),
    ):
        page = client.get(reverse("claims:list"), {"q": words}).text
        assert {name for name, *rest in texts if f">{name}</a>" in page} == names, words


@pytest.mark.parametrize("rare", [0, 3000], ids=["compared", "by index"])
@pytest.mark.parametrize("person", ["alice", "root"])
def test_a_word_is_found_in_each_profile_and_special_characters_are_text(
    client, request, monkeypatch, vision, fra, alice, root, person, rare
):
    monkeypatch.setattr("claims.claim_filters.RARE", rare)
    large, small = make_profile("large-gpu"), make_profile("small-gpu")
    Profile.objects.filter(pk=large.pk).update(title="Large_GPU")
    claims = {
        name: make_claim(vision, by=alice, cluster=fra, profile=profile, name=name, reason=reason)
        for name, profile, reason in (("one", large, "100%"), ("two", small, "100 x"), ("both", small, ""))
    }
    Alternative.objects.create(
        claim=claims["both"], position=1, name="l", profile_version=large.current, devices=1, together=True
    )
    client.force_login(request.getfixturevalue(person))
    for words, names in (
        ("gpu", {"one", "two", "both"}),
        ("large", {"one", "both"}),
        ("large_", {"one", "both"}),
        ("small_", set()),
        ("100%", {"one"}),
        ("100", {"one", "two"}),
        ("large 100", {"one"}),
        ("%s", set()),
    ):
        page = client.get(reverse("claims:list"), {"q": words})
        assert {row.name for row in page.context["listing"].loaded} == names, words


def test_no_text_turns_the_words_behind_it_round(client, vision, fra, train, alice):
    claim = make_claim(vision, by=alice, cluster=fra, name="sam2", reason="safe\u202eexe.txt\u2066")
    client.force_login(alice)
    assert "safeexe.txt" in client.get(f"/claims/{claim.pk}/").text
