"""The request form and the panel beside it."""

import re
from datetime import datetime, timedelta
from fractions import Fraction
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.catalogue.listing import DeviceKind
from claims.models import Claim, ClusterAvailability, ProfileAvailability, ProfileVersion, Quota
from claims.states import ClaimState
from teams.models import Team
from tests.factories import make_claim, make_cluster, make_profile, make_team
from usage.models import Rate

pytestmark = pytest.mark.django_db

FORM = reverse("claims:request")
PANEL = reverse("claims:request_preview")


def verdict(page, card):
    """Return the words of a card of the field "Cluster"."""
    found = re.search(rf'<span class="dg-fit" id="fit-{card}"[^>]*>(.*)</span>', page)
    assert found
    return " ".join(re.sub("<[^>]*>", " ", found[1]).split())


def test_the_form_starts_with_what_the_address_says(client, alice, request_fields):
    client.force_login(alice)
    page = client.get(FORM + "?profile=train-80&devices=4&duration=36h&name=mine&reason=Why").text
    assert 'value="train-80" checked' in page
    assert 'id="id_devices" name="devices" min="1" max="1024" value="4"' in page
    assert 'value="36h"' in page
    assert 'value="mine"' in page


def test_a_request_makes_a_claim_and_leads_to_it(client, alice, request_fields):
    client.force_login(alice)
    answer = client.post(FORM, request_fields)
    claim = Claim.objects.get()
    assert answer.url == reverse("claims:detail", args=[claim.pk])
    assert (claim.name, claim.devices, claim.state) == ("sam2", 2, ClaimState.REQUESTED)
    assert (claim.reason, claim.key) == ("Fine-tuning.", "k-1")


def test_sending_twice_asks_once(client, alice, request_fields):
    client.force_login(alice)
    assert client.post(FORM, request_fields).url == client.post(FORM, request_fields).url
    assert Claim.objects.count() == 1
    assert "This request was already sent" in client.get(FORM).text


def test_a_template_says_how_many_pods(client, alice, request_fields):
    client.force_login(alice)
    client.post(FORM, request_fields | {"delivery": "template", "parallel": "3"})
    claim = Claim.objects.get()
    assert (claim.delivery, claim.parallel) == ("template", 3)


@pytest.mark.parametrize(("text", "hours"), [("36h", 36), ("1d 12h", 36), ("90 min", 1.5), ("5d", 120)])
def test_any_duration_can_be_written_out(client, alice, request_fields, text, hours):
    client.force_login(alice)
    client.post(FORM, request_fields | {"duration": "other", "duration_other": text})
    assert Claim.objects.get().duration.total_seconds() == hours * 3600


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"devices": "0"}, "greater than or equal to 1"),
        ({"devices": "many"}, "Enter a whole number"),
        ({"name": "Not A Name"}, "Use lower-case letters"),
        ({"profile": ""}, "This field is required"),
        ({"profile": "no-such"}, "“no-such” cannot be requested"),
        ({"duration": "soon"}, "Enter a duration such as 24h"),
        ({"duration": "other", "duration_other": ""}, "Enter a duration, for example"),
        ({"duration": "other", "duration_other": "a while"}, "Enter a duration such as 24h"),
        ({"duration": "other", "duration_other": "99d"}, "allows at most 14"),
        ({"devices": "9"}, "allows 8 devices per claim; this request needs 9"),
    ],
)
def test_what_is_malformed_is_422_and_loses_no_input(client, alice, request_fields, wrong, said):
    client.force_login(alice)
    answer = client.post(FORM, request_fields | wrong)
    assert answer.status_code == 422
    assert said in answer.text
    assert "Fine-tuning." in answer.text
    assert 'name="key" value="k-1"' in answer.text
    assert not Claim.objects.exists()


def test_more_than_the_quota_is_409_with_the_numbers(client, alice, request_fields, vision, fra):
    make_claim(vision, by=alice, cluster=fra, devices=7)
    client.force_login(alice)
    answer = client.post(FORM, request_fields)
    assert answer.status_code == 409
    assert "7 of 8 gpu.nvidia.com devices in use or reserved; this request needs 2." in answer.text
    assert "Fine-tuning." in answer.text


def test_a_cluster_without_a_namespace_of_the_team_is_named(client, alice, request_fields, lena):
    make_team("nlp", members=(alice,))
    client.force_login(alice)
    answer = client.post(FORM, request_fields | {"team": "nlp"})
    assert answer.status_code == 422
    assert "nlp has no namespace in fra-1." in answer.text


def test_a_viewer_may_not_ask(client, bob, request_fields):
    client.force_login(bob)
    assert client.get(FORM).status_code == 403
    assert client.post(FORM, request_fields).status_code == 403


def test_an_admin_without_any_team_is_told_to_create_one(client, root, bob):
    Team.objects.all().delete()
    client.force_login(root)
    answer = client.get(FORM)
    assert answer.status_code == 403
    assert "There is no team yet. Create one under Teams" in answer.text
    client.force_login(bob)
    assert "Ask a team owner." in client.get(FORM).text


def test_a_viewer_of_one_team_may_ask_for_another_alone(client, bob, request_fields):
    make_team("nlp", members=(bob,))
    client.force_login(bob)
    assert client.get(FORM).status_code == 200
    assert client.post(FORM, request_fields).status_code == 403


def test_team_is_404_for_an_outsider(client, eve, request_fields):
    make_team("nlp", members=(eve,))
    client.force_login(eve)
    assert client.post(FORM, request_fields).status_code == 404


def test_the_panel_shows_match_quota_approver_and_manifest(client, alice, request_fields):
    client.force_login(alice)
    part = client.get(PANEL, request_fields).text
    assert "<html" not in part
    assert "vision holds 0 of 8 gpu.nvidia.com devices; this request needs 2." in part
    assert "A lead of vision decides" in part
    assert "ResourceClaim" in part
    assert not Claim.objects.exists()


@pytest.mark.parametrize(("grace", "said"), [(2, "after 1 d and then 2 h of grace: "), (0, "after 1 d: ")])
def test_the_panel_says_how_long_the_grace_period_is(client, alice, request_fields, train, grace, said):
    ProfileVersion.objects.filter(pk=train.current_id).update(grace=timedelta(hours=grace))
    client.force_login(alice)
    assert f"At the end, {said}" in client.get(PANEL, request_fields).text


def test_the_end_stands_beside_the_duration_and_follows_it(client, alice, request_fields):
    client.force_login(alice)
    begun = timezone.now().replace(microsecond=0)
    for duration, time in (("24h", timedelta(days=1)), ("3d", timedelta(days=3))):
        part = client.get(PANEL, request_fields | {"duration": duration}).text
        (until,) = re.findall(
            r'id="until" hx-swap-oob="true">until <time datetime="([^"]*)".*?</time>',
            part,
        )
        assert timedelta(0) <= datetime.fromisoformat(until) - begun - time < timedelta(minutes=5)
    page = client.get("/claims/request/", {"profile": "train-80", "cluster": "fra-1"})
    usual = page.context["panel"].plan.duration
    assert timedelta(0) <= page.context["until"] - begun - usual < timedelta(minutes=5)
    part = client.get(PANEL, request_fields | {"duration": "other", "duration_other": ""}).text
    assert 'id="until" hx-swap-oob="true">from approval</span>' in part


def test_link_to_the_filled_form_is_copied_above_it(client, alice, request_fields):
    client.force_login(alice)
    assert "Copy link" not in client.get(FORM).text
    part = client.get(PANEL, request_fields).text
    (link,) = re.findall(r'id="copy-link" hx-swap-oob="true"><button[^>]* data-copy="([^"]*)"', part)
    page = client.get(unescape(link)).text
    assert 'id="copy-link"><button' in page
    assert ' value="3d" checked' in client.get(unescape(link).replace("duration=24h", "duration=3d")).text


def test_the_panel_names_quotas_as_their_page_does(client, alice, request_fields, vision, quota):
    Quota.objects.create(team=vision, devices=3, counts=Quota.Counts.CLAIMS)
    client.force_login(alice)
    part = client.get(PANEL, request_fields).text
    assert '<span class="dg-b">Claims at once</span>' in part
    assert f'<span class="dg-b"><code>{quota.device_class}</code></span>' in part
    quota.delete()  # the line says that there is none
    part = client.get(PANEL, request_fields).text
    assert '<span class="dg-b"><code>gpu.nvidia.com</code></span>' in part


def test_the_panel_says_what_is_missing(client, alice, request_fields):
    client.force_login(alice)
    assert "Choose a profile" in client.get(PANEL).text
    assert "Devices:" in client.get(PANEL, request_fields | {"devices": "x"}).text


def test_the_panel_says_that_the_quota_does_not_allow_it(client, alice, request_fields, vision, fra):
    make_claim(vision, by=alice, cluster=fra, devices=8)
    client.force_login(alice)
    assert (
        "8 of 8 gpu.nvidia.com devices in use or reserved; this request needs 2."
        in client.get(PANEL, request_fields).text
    )


def test_the_panel_shows_an_outsider_nothing_of_the_team(client, eve, request_fields):
    make_team("nlp", members=(eve,))
    client.force_login(eve)
    part = client.get(PANEL, request_fields).text
    assert "Team: " in part
    assert "vision" not in part


def test_check_shows_the_panel_without_javascript_and_makes_nothing(client, alice, request_fields):
    client.force_login(alice)
    page = client.post(FORM, request_fields | {"check": "1"})
    assert page.status_code == 200
    assert "this request needs 2." in page.text
    assert "Fine-tuning." in page.text
    assert not Claim.objects.exists()


def test_the_form_costs_the_same_for_one_profile_and_for_many(client, alice, request_fields):
    client.force_login(alice)
    client.get(FORM)
    with CaptureQueriesContext(connection) as one:
        client.get(FORM)
    for number in range(10):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(FORM)
    assert len(many) == len(one)


@pytest.fixture
def lab(vision, fra, train):
    """A second cluster that has 34 free devices for the profile, where fra-1 has none that match."""
    cluster = make_cluster("lab-2", teams=(vision,))
    stored(fra, train, matching=0, free=0, nodes=0, most=0)
    stored(cluster, train, matching=80, free=34, nodes=9, most=8)
    return cluster


def stored(cluster, profile, **figures):
    head, _new = ClusterAvailability.objects.get_or_create(
        cluster=cluster, defaults={"revision": 0, "computed_at": timezone.now()}
    )
    row, _new = ProfileAvailability.objects.update_or_create(
        computation=head, version=profile.current, defaults=figures
    )
    return row


def test_a_request_without_a_cluster_goes_where_it_fits(client, alice, request_fields, lab):
    client.force_login(alice)
    page = client.get(FORM + "?profile=train-80").text
    assert 'name="cluster" value="" checked' in page
    assert "lab-2 has not been read yet" in page  # the panel is about lab-2
    client.post(FORM, request_fields | {"cluster": ""})
    assert Claim.objects.get().cluster == lab


def test_only_a_cluster_with_free_devices_has_a_button(client, alice, request_fields, lab, train):
    client.force_login(alice)
    assert "Use lab-2</button>" in client.get(PANEL, request_fields).text
    stored(lab, train, matching=80, free=0, nodes=0, most=0)
    part = client.get(PANEL, request_fields).text
    assert verdict(part, "in-lab-2") == "not now 0 of 80 free."
    assert "Use lab-2</button>" not in part


def test_a_request_for_any_cluster_sent_twice_is_one_claim(client, alice, request_fields, lab, fra, train):
    client.force_login(alice)
    first = client.post(FORM, request_fields | {"cluster": ""})
    stored(lab, train, matching=80, free=0, nodes=0, most=0)
    stored(fra, train, matching=80, free=9, nodes=9, most=8)
    assert client.post(FORM, request_fields | {"cluster": ""}).url == first.url
    assert Claim.objects.get().cluster == lab


def test_the_panel_shows_each_cluster_and_a_button_uses_it(client, alice, request_fields, lab):
    client.force_login(alice)
    part = client.get(PANEL, request_fields).text
    assert verdict(part, "in-lab-2").startswith("fits now 34 of 80 free")
    assert verdict(part, "in-fra-1") == "no match No device of this profile."
    assert "lab-2 instead of fra-1: <b>fits now</b>" in part
    page = client.post(FORM, request_fields | {"use": "lab-2"}).text
    assert 'name="cluster" value="lab-2" checked' in page
    assert "Fine-tuning." in page
    assert not Claim.objects.exists()


@pytest.mark.parametrize(
    ("here", "there", "more", "best"),
    [
        ({"free": 9, "nodes": 9, "most": 2}, {"free": 4, "nodes": 1, "most": 4}, {"devices": "4"}, "lab-2"),
        ({"free": 9, "nodes": 9, "most": 8}, {"free": 4, "nodes": 1, "most": 4}, {"devices": "4"}, "fra-1"),
        (
            {"free": 3, "nodes": 3, "most": 8},
            {"free": 8, "nodes": 1, "most": 2},
            {"delivery": "template", "parallel": "4"},
            "lab-2",
        ),
        ({"free": 0, "nodes": 0, "most": 0}, {"free": None, "nodes": None, "most": None}, {}, "fra-1"),
        ({"free": 3, "nodes": 0, "most": 0}, {"free": 2, "nodes": 0, "most": 0}, {}, "fra-1"),
    ],
)
def test_the_best_cluster_is_where_all_claims_fit(
    client, alice, request_fields, lab, fra, train, here, there, more, best
):
    stored(fra, train, matching=80, **here)
    stored(lab, train, **{"matching": None if there["free"] is None else 80} | there)
    client.force_login(alice)
    client.post(FORM, request_fields | {"cluster": ""} | more)
    assert Claim.objects.get().cluster.name == best


def test_the_best_cluster_has_the_first_alternative_that_fits(client, alice, request_fields, lab, fra, train):
    other = make_profile("other")
    stored(lab, train, matching=80, free=0, nodes=0, most=0)
    stored(fra, other, matching=9, free=3, nodes=3, most=8)
    stored(lab, other, matching=9, free=0, nodes=0, most=0)
    client.force_login(alice)
    client.post(FORM, request_fields | {"cluster": "", "alternatives": "other"})
    assert Claim.objects.get().cluster == fra


def kind_of(cluster):
    kind = DeviceKind(cluster.pk, "gpu.nvidia.com", "NVIDIA H100", Fraction(1))
    return [kind.as_json()]


@pytest.mark.parametrize(
    ("in_fra", "in_lab", "best", "said"),
    [
        (
            "2.90",
            "1.00",
            "lab-2",
            "Uses lab-2 for its price, the lowest of 2 clusters where it fits now",
        ),
        (
            "1.00",
            "2.90",
            "fra-1",
            "Uses fra-1 for its price, the lowest of 2 clusters where it fits now",
        ),
        ("2.00", "2.00", "fra-1", "Uses fra-1: 9 of 80 free"),
        ("2.90", None, "fra-1", "Uses fra-1: 9 of 80 free"),
    ],
)
def test_of_clusters_where_it_fits_the_cheapest_is_taken_and_the_page_says_so(
    client, alice, request_fields, lab, fra, train, in_fra, in_lab, best, said
):
    stored(fra, train, matching=80, free=9, nodes=9, most=8, kinds=kind_of(fra))
    stored(lab, train, matching=80, free=4, nodes=4, most=4, kinds=kind_of(lab))
    for cluster, price in ((fra, in_fra), (lab, in_lab)):
        if price:
            Rate.objects.create(
                title="x", cluster=cluster, per_hour=price, valid_from=timezone.now() - timedelta(days=1)
            )
    client.force_login(alice)
    assert said in client.get(PANEL, request_fields | {"cluster": ""}).text
    client.post(FORM, request_fields | {"cluster": ""})
    assert Claim.objects.get().cluster.name == best


def test_price_does_not_choose_a_cluster_where_the_request_does_not_fit(
    client, alice, request_fields, lab, fra, train
):
    stored(fra, train, matching=80, free=9, nodes=9, most=8, kinds=kind_of(fra))
    stored(lab, train, matching=80, free=0, nodes=0, most=0, kinds=kind_of(lab))
    began = timezone.now() - timedelta(days=1)
    for cluster, price in ((fra, "9"), (lab, "1")):
        Rate.objects.create(title="x", cluster=cluster, per_hour=price, valid_from=began)
    client.force_login(alice)
    client.post(FORM, request_fields | {"cluster": ""})
    assert Claim.objects.get().cluster == fra


def test_a_read_only_cluster_is_never_the_best(client, alice, request_fields, lab, fra):
    lab.read_only = True
    lab.save()
    client.force_login(alice)
    client.post(FORM, request_fields | {"cluster": ""})
    assert Claim.objects.get().cluster == fra


def test_a_team_without_a_namespace_gets_a_sentence(client, alice, request_fields, lab):
    make_team("nlp", members=(alice,))
    client.force_login(alice)
    answer = client.post(FORM, request_fields | {"team": "nlp", "cluster": ""})
    assert answer.status_code == 422
    assert "nlp has no namespace in any cluster." in answer.text


def test_a_reader_with_one_cluster_has_it_selected(client, alice, request_fields):
    client.force_login(alice)
    page = client.get(FORM).text
    assert 'name="cluster" value="fra-1" checked' in page
    assert "Any that fits" not in page


def test_any_cluster_costs_the_same_for_two_clusters_and_for_many(
    client, alice, request_fields, lab, vision, train
):
    client.force_login(alice)
    client.get(FORM + "?profile=train-80")
    with CaptureQueriesContext(connection) as two:
        client.get(FORM + "?profile=train-80")
    for number in range(4):
        stored(make_cluster(f"more-{number}", teams=(vision,)), train, matching=1, free=1, nodes=1, most=1)
    with CaptureQueriesContext(connection) as many:
        client.get(FORM + "?profile=train-80")
    assert len(many) == len(two)


def test_request_like_last_fills_the_form_with_the_readers_newest_request(client, ask, alice, eve, train):
    ask(name="first", duration=timedelta(hours=3), reason="first")
    ask(name="second", duration=timedelta(hours=5), reason="second")
    client.force_login(alice)
    address = client.get("/claims/request/last/").headers["Location"]
    assert "profile=train-80" in address
    assert "duration=5h" in address
    assert client.get(address).status_code == 200
    client.force_login(eve)
    assert client.get("/claims/request/last/").headers["Location"] == "/claims/request/"
