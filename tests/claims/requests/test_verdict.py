"""One verdict: the panel says yes exactly when sending succeeds, and every way out that it offers works."""

import re
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from random import Random

import pytest
from django.core.management import call_command
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from claims.catalogue.availability import refresh
from claims.models import Claim, Draft
from claims.requests.verdict import Outcome, verdict_on
from claims.states import ClaimState
from dra.match import Preview
from tests.claims.requests.test_match_pages import mirrored
from tests.dra.clusters import gpu, holds
from tests.factories import make_budget, make_claim, make_cluster, make_profile, make_quota
from usage.models import Rate

pytestmark = pytest.mark.django_db
FORM, PANEL = reverse("claims:request"), reverse("claims:request_preview")
DEVICES = 6


@contextmanager
def undone():
    block = transaction.atomic()
    block._from_testcase = True  # the service may be the outermost transaction in it
    with block:
        yield
        transaction.set_rollback(True)


def make_world(chance, vision, fra, alice):
    """Make random free devices, a quota, what others of the team hold or asked for, and a budget."""
    held = chance.randrange(DEVICES + 1)
    claims = [holds(f"gpu-{index}", name=f"other-{index}") for index in range(held)]
    mirrored(fra, [gpu(index) for index in range(DEVICES)], *claims)
    train = make_profile("train-80", max_devices=chance.choice([4, 8]))
    make_profile(
        "other-80",
        max_devices=chance.choice([2, 8]),
        default_duration=DURATIONS[0],
        max_duration=chance.choice(DURATIONS),
    )
    if chance.random() < 0.9:
        make_quota(vision, chance.randrange(10))
    if chance.random() < 0.3:
        make_quota(vision, chance.randrange(6), profile=train)
    for _index in range(chance.randrange(3)):
        make_claim(team=vision, by=alice, cluster=fra, profile=train, devices=chance.randrange(1, 3))
    refresh(fra)
    if chance.random() < 0.5:
        Rate.objects.create(title="All", per_hour=1, valid_from=timezone.now() - timedelta(days=60))
        make_budget(vision, Decimal(chance.randrange(20, 200)), at_limit=chance.choice(["block", "notify"]))


DURATIONS = [timedelta(hours=4), timedelta(days=7)]


@pytest.mark.parametrize("seed", range(24))
def test_verdict_is_yes_exactly_when_sending_succeeds(client, alice, vision, fra, gateway, seed):
    chance = Random(seed)
    make_world(chance, vision, fra, alice)
    client.force_login(alice)
    fields = {
        "profile": "train-80", "devices": str(chance.randrange(1, 8)), "delivery": "claim",
        "duration": "24h", "team": "vision", "cluster": "fra-1", "key": "k",
    }  # fmt: skip
    panel = client.get(PANEL, fields | {"help": "1"})
    verdict = panel.context["panel"].verdict
    with undone():
        sent = client.post(FORM, fields)
    assert (sent.status_code == 302) is verdict.accepted
    if not verdict.accepted:
        refused = " ".join(sent.text.split())
        assert verdict.label in refused
        assert "You can still send the request" not in refused
        assert not Draft.objects.exists()
    result = client.get("/api/v1/match/", {k: v for k, v in fields.items() if k not in ("key", "duration")})
    if result.status_code == 200:
        said = result.json()["verdict"]
        assert said["fits"] is (said["outcome"] == Outcome.FITS)
    for name, value in re.findall(
        r'<button[^>]*name="(use_devices|use_profile)" value="([^"]*)"', panel.text
    ):
        slug, _colon, devices = value.rpartition(":")
        changed = fields | {"devices": devices} | ({"profile": slug} if name == "use_profile" else {})
        followed = client.get(PANEL, changed).context["panel"].verdict
        with undone():
            answer = client.post(FORM, changed | {"key": f"k-{value}"})
        assert (followed.outcome, answer.status_code) == (Outcome.FITS, 302), value


def test_over_quota_is_said_in_head_footer_card_and_refusal(client, alice, vision, fra, gateway):
    lab = make_cluster("lab-1", teams=(vision,))
    mirrored(fra, [gpu(index) for index in range(DEVICES)])
    train = make_profile("train-80")
    quota = make_quota(vision, 4)
    make_claim(team=vision, by=alice, cluster=fra, profile=train, devices=2)
    for cluster in (fra, lab):
        refresh(cluster)
    client.force_login(alice)
    fields = {"profile": "train-80", "devices": "6", "team": "vision", "duration": "24h", "key": "k"}
    page = client.post(FORM, fields)
    assert page.status_code == 409
    text = " ".join(page.text.split())
    head, banner = text.partition("<h2>Summary</h2>")[2][:200], text.partition('role="alert"')[2][:2500]
    assert "Over quota by 4 devices" in head
    assert 'id="refusal" role="status">Over quota by 4 devices<' in text
    assert [card.verdict for card in page.context["cluster_cards"]][:2] == ["over quota by 4 devices"] * 2
    assert 'name="use_devices" value="2"' in banner
    assert f"?quota={quota.pk}&amp;more=4" in banner
    assert not Draft.objects.exists()


@pytest.mark.parametrize("chosen", ["fra-1", "lab-1", ""])
def test_card_says_over_budget_where_sending_is_refused(client, alice, vision, fra, gateway, chosen):
    lab = make_cluster("lab-1", teams=(vision,))
    long_ago = timezone.now() - timedelta(days=60)
    make_profile("train-80")
    make_quota(vision, 99)
    for cluster, price in ((fra, 1), (lab, 50)):
        mirrored(cluster, [gpu(index) for index in range(DEVICES)])
        Rate.objects.create(title=cluster.name, cluster=cluster, per_hour=price, valid_from=long_ago)
        refresh(cluster)
    make_budget(vision, Decimal(30), at_limit="block")
    client.force_login(alice)
    fields = {"profile": "train-80", "team": "vision", "duration": "1h", "devices": "1", "cluster": chosen}
    cards = client.get(PANEL, fields).context["cluster_cards"]
    for card in cards:
        with undone():
            sent = client.post(FORM, fields | {"cluster": card.value, "delivery": "claim", "key": "k"})
        assert (card.verdict, sent.status_code) in (("fits now", 302), ("over budget", 409)), card
    assert [card.verdict for card in cards] == ["fits now", "fits now", "over budget"]


def test_cluster_that_can_never_host_says_so_and_is_not_offered(client, alice, vision, fra, gateway):
    lab = make_cluster("lab-1", teams=(vision,))
    mirrored(fra, [gpu(index) for index in range(4)], holds("gpu-0", name="x"))
    make_profile("train-80")
    make_quota(vision, 99)
    for cluster in (fra, lab):
        refresh(cluster)
    client.force_login(alice)
    fields = {"profile": "train-80", "team": "vision", "duration": "24h"}
    cards = {
        devices: {
            card.value: card.verdict
            for card in client.get(PANEL, fields | {"devices": devices}).context["cluster_cards"]
        }
        for devices in ("3", "4", "5")
    }
    assert cards["3"] == {"": "fits now", "fra-1": "fits now", "lab-1": "no match"}
    assert cards["4"] == {"": "not now", "fra-1": "not now", "lab-1": "no match"}
    assert cards["5"] == {"": "never", "fra-1": "never", "lab-1": "no match"}
    panel = client.get(PANEL, fields | {"devices": "5", "cluster": "fra-1"})
    assert panel.context["panel"].verdict.outcome == Outcome.NEVER
    assert 'name="use"' not in panel.text


@pytest.mark.parametrize(
    ("nodes", "could_fit", "outcome"),
    [
        (1, True, Outcome.FITS),
        (0, True, Outcome.WAITS),
        (0, False, Outcome.NEVER),
        (0, None, Outcome.WAITS),  # nobody has looked
        (None, None, Outcome.UNKNOWN),
    ],
)
def test_never_is_said_only_of_what_was_computed(nodes, could_fit, outcome):
    result = Preview([], nodes_that_fit=nodes, problem="" if nodes else "The search took too long.")
    assert result.fits is bool(nodes)
    assert verdict_on(result, "fra-1", could_fit=could_fit).outcome is outcome


def test_explain_spec_judges_the_quota_of_a_team(tmp_path, vision, fra):
    mirrored(fra, [gpu(index) for index in range(4)])
    make_quota(vision, 1)
    file = tmp_path / "claim.yaml"
    file.write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\n"
        "spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 3}}]}}\n"
    )
    said = {}
    for team in ("", "vision"):
        out = StringIO()
        call_command("explain_spec", str(file), stdout=out, **({"team": team} if team else {}))
        said[team] = out.getvalue()
    assert "fits now" in said[""]
    assert "Over quota by 2 devices" in said["vision"]
    assert "fits now" not in said["vision"]


def test_refused_form_and_typing_leave_no_draft(client, alice, vision, fra, gateway):
    make_profile("train-80")
    client.force_login(alice)
    assert "hx-post" not in client.get(FORM).text.partition('id="request-form"')[2].partition("</form>")[0]
    fields = {"profile": "train-80", "devices": "2", "team": "vision", "cluster": "fra-1", "key": "k"}
    assert client.post(FORM, fields).status_code == 409
    assert not Draft.objects.exists()
    assert not Claim.objects.filter(state=ClaimState.REQUESTED).exists()


@pytest.mark.parametrize(("limit", "pods"), [(None, 2), (1, 1), (0, 0)])
def test_pods_of_which_some_fit_are_offered_as_fewer_pods(client, alice, vision, fra, gateway, limit, pods):
    mirrored(fra, [gpu(0), gpu(1)])
    make_profile("train-80")
    make_quota(vision, 8 if limit is None else limit)
    refresh(fra)
    client.force_login(alice)
    fields = {"profile": "train-80", "devices": "1", "team": "vision", "cluster": "fra-1", "duration": "24h"}
    fields |= {"key": "k", "delivery": "template", "parallel": "4"}
    panel = client.get(PANEL, fields | {"help": "1"})
    offered = re.findall(r'name="use_parallel" value="(\d+)"', panel.text)
    assert offered == ([str(pods)] if pods else [])
    if pods:
        assert f"With {pods} pod{'s' * (pods > 1)} instead of 4" in panel.text
        with undone():
            sent = client.post(FORM, fields | {"parallel": offered[0]})
        assert sent.status_code == 302


def test_kubernetes_newer_than_known_is_told_on_cluster_page_and_in_preview(client, root, alice, vision, fra):
    mirrored(fra, [gpu(0)])
    make_profile("train-80")
    make_quota(vision, 2)
    told = "up to 1.37: what it predicts may differ"
    for version, is_told in (("v1.38.0", True), ("v1.37.1", False)):
        type(fra).objects.filter(pk=fra.pk).update(version=version)
        client.force_login(alice)
        fields = {"profile": "train-80", "devices": "1", "team": "vision", "cluster": "fra-1", "key": "k"}
        assert (told in client.get(PANEL, fields | {"duration": "24h"}).text) is is_told
        client.force_login(root)
        assert (told in client.get("/clusters/fra-1/").text) is is_told
