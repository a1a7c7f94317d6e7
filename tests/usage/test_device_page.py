"""The page of a device: holder, price, utilization and history, as their reader may see them."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.states import ClaimState
from inventory.models import Device, DeviceUtilization, Pod, ResourceClaim
from inventory.states import DeviceUse
from tests.factories import make_claim, make_profile, make_team, make_user
from tests.usage.conftest import H100, NOON, hold, measure, price
from tests.usage.test_collect import mirrored
from usage.device_use import BinState, device_usage, history_with_holders
from usage.models import IdlePeriod
from usage.series import Range

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def device(fra):
    mirrored(fra, "gpu-0", "")
    Device.objects.update(product=H100, node_name="fra1-h100-03", memory_bytes=80 * 2**30)
    ResourceClaim.objects.update(name="sam2-finetune", namespace="vision")
    return Device.objects.select_related("held_by", "utilization").get()


@pytest.fixture
def held(claim, device):
    ResourceClaim.objects.update(owner=str(claim.pk))
    return hold(claim, NOON - 10 * HOUR, device="gpu-0", object_name="sam2-finetune")


def page_of(client, person, device, view="inventory:device", **query):
    client.force_login(person)
    response = client.get(reverse(view, args=[device.pk]), query)
    assert response.status_code == 200
    return " ".join(response.content.decode().replace("</time>", "").split())


def test_member_sees_holder_pod_price_and_what_the_device_has_cost(client, alice, fra, device, held):
    price("2.90", product="H100")
    Pod.objects.create(
        cluster=fra, uid="p", namespace="vision", name="train-0", raw={}, claims=["sam2-finetune"]
    )
    text = page_of(client, alice, device)
    assert "€2.90 / h" in text
    assert '>sam2-finetune</a> <span class="dg-3">vision, alice</span>' in text
    assert "train-0" in text
    assert "<b>€29.00</b>" in text


def test_grace_of_the_holder_is_named_beside_its_end(client, alice, vision, fra, device):
    lenient = make_profile("lenient", grace=2 * HOUR)
    claim = make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=lenient,
        state=ClaimState.ALLOCATED,
        expires_at=NOON + 3 * HOUR,
    )
    hold(claim, NOON - HOUR, device="gpu-0", object_name="sam2-finetune")
    assert "then 2 h of grace" in page_of(client, alice, device)


def test_device_without_a_rate_has_no_rate(client, alice, device, held):
    assert "no rate" in page_of(client, alice, device)


def test_outsider_sees_neither_holder_nor_utilization_nor_history(client, eve, device, held):
    make_team("robotics", members=(eve,))
    measure(held, NOON - HOUR, [0.5] * 12)
    for view in ("inventory:device", "usage:device"):
        text = page_of(client, eve, device, view)
        for secret in ("sam2-finetune", "alice", "vision", "50 %", "Remind"):
            assert secret not in text, (view, secret)
    assert "another team" in page_of(client, eve, device)
    assert "None of your teams held it" in page_of(client, eve, device, "usage:device")


def test_unmanaged_holder_is_not_billed(client, root, device):
    ResourceClaim.objects.update(allocated_at=NOON - 2 * HOUR)
    device.refresh_from_db()
    assert "no claim of the portal, so it is not billed" in page_of(client, root, device)
    usage = device_usage(root, device, Range.DAY, now=NOON)
    assert usage.states.count(BinState.UNMANAGED) == 24


def test_graph_says_where_the_device_was_free_in_use_idle_and_not_measured(root, claim, device):
    old = hold(claim, NOON - 6 * HOUR, NOON - 5 * HOUR, device="gpu-0")
    now = hold(claim, NOON - 3 * HOUR, device="gpu-0")
    measure(old, old.started_at, [0.6] * 6)
    measure(now, now.started_at, [0.8] * 18 + [0.01] * 18)
    usage = device_usage(root, device, Range.DAY, now=NOON)
    said = {state: usage.states.count(state) for state in BinState}
    assert said[BinState.IN_USE] == 6 + 18
    assert said[BinState.NO_TELEMETRY] == 6
    assert said[BinState.IDLE] == 18
    assert said[BinState.FREE] == 24 * 12 - 48
    spans = [(span["kind"], span["to"] - span["from"]) for span in usage.chart["spans"]]
    assert spans == [("free", 18 * 3600), ("free", 2 * 3600), ("idle", 5400)]
    assert usage.chart["activity"][0] is None
    assert usage.series.mean_activity == pytest.approx((6 * 0.6 + 18 * 0.8 + 18 * 0.01) / 42)


def test_short_pause_is_not_idle(root, claim, device):
    now = hold(claim, NOON - HOUR, device="gpu-0")
    measure(now, now.started_at, [0.5] * 4 + [0.0] * 5 + [0.5] * 3)
    assert BinState.IDLE not in device_usage(root, device, Range.DAY, now=NOON).states


@pytest.mark.parametrize(
    ("range_", "bins"), [("1h", 12), ("24h", 288), ("7d", 336), ("life", 288), ("x", 288)]
)
def test_range_is_an_hour_a_day_or_a_week_else_a_day(client, root, device, held, range_, bins):
    measure(held, NOON - HOUR, [0.5] * 12)
    client.force_login(root)
    response = client.get(reverse("usage:device", args=[device.pk]), {"range": range_})
    assert len(response.context["usage"].states) == bins


def test_panel_alone_goes_to_htmx_with_graph_and_table(client, root, device, held):
    measure(held, NOON - HOUR, [0.5] * 12)
    client.force_login(root)
    address = reverse("usage:device", args=[device.pk])
    text = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in text
    assert 'data-from="device-usage-data"' in text
    assert "Show as table" in text
    assert client.get(reverse("usage:device", args=[claim_id := held.claim_id])).status_code == 404, claim_id


def test_claim_of_another_team_is_no_part_of_the_graph_of_a_member(alice, fra, device):
    other = make_claim(make_team("nlp"), by=make_user("theo"), cluster=fra, state=ClaimState.ALLOCATED)
    measure(hold(other, NOON - HOUR, device="gpu-0"), NOON - HOUR, [0.5] * 12)
    usage = device_usage(alice, device, Range.DAY, now=NOON)
    assert set(usage.states) == {BinState.NOT_YOURS}
    assert not usage.series.is_measured


def test_history_names_who_held_it_when_it_was_idle_and_how_it_ended(root, eve, claim, device):
    hold(claim, NOON - 8 * HOUR, NOON - 6 * HOUR, device="gpu-0")
    IdlePeriod.objects.create(
        claim=claim, team=claim.team, since=NOON - 7 * HOUR, noticed_at=NOON - 6 * HOUR, devices=1
    )
    lines = [(line.change, *line.details) for line in history_with_holders(root, device, [])]
    assert lines == [
        ("Released by sam2-finetune", "vision, after 2 h"),
        ("Idle", "sam2-finetune: 1 device"),
        ("Allocated to sam2-finetune", "vision, alice"),
    ]
    assert history_with_holders(eve, device, []) == []


def test_idle_device_says_since_when_and_what_that_cost(client, lena, device, held):
    price("2", product="H100")
    DeviceUtilization.objects.create(
        device=device, held_by=device.held_by, use=DeviceUse.IDLE, since=NOON - 30 * MINUTE
    )
    assert "30 min, €1.00" in page_of(client, lena, device)
    IdlePeriod.objects.create(
        claim=held.claim, team=held.claim.team, since=NOON - 4 * HOUR, noticed_at=NOON, devices=1,
        per_hour=Decimal(2),
    )  # fmt: skip
    assert "4 h, €8.00" in page_of(client, lena, device)
    assert "Remind alice" in page_of(client, lena, device)


@pytest.mark.parametrize("name", ["alice", "bob", "eve"])
def test_only_leads_and_platform_admins_are_offered_a_reminder(client, request, device, held, name):
    assert "Remind alice" not in page_of(client, request.getfixturevalue(name), device)


@pytest.mark.parametrize("version", ["v1", "v1beta2", None])
def test_admin_copies_a_taint_rule_that_the_cluster_serves(client, root, alice, fra, device, version):
    fra.discovery = {"taint_rules": version}
    fra.save()
    text = page_of(client, root, device)
    if version:
        assert f"resource.k8s.io/{version}" in text
        assert "out-of-service-fra1-h100-03-gpu-0" in text
    else:
        assert "fra-1 does not serve DeviceTaintRules" in text
    assert "Taint…" not in page_of(client, alice, device)


def test_drawer_gets_the_device_alone_and_the_first_lines_of_its_history(client, root, claim, device):
    for hours in range(1, 6):
        hold(claim, NOON - 2 * hours * HOUR, NOON - (2 * hours - 1) * HOUR, device="gpu-0")
    client.force_login(root)
    address = reverse("inventory:device", args=[device.pk])
    drawer = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in drawer
    assert drawer.count("by sam2-finetune") + drawer.count("to sam2-finetune") == 5
    assert f'href="{address}#history">All 11</a>' in drawer
    page = client.get(address).content.decode()
    assert page.count("by sam2-finetune") + page.count("to sam2-finetune") == 10


def test_queries_do_not_grow_with_holders_and_their_past(client, root, fra, claim, device, held):
    client.force_login(root)
    addresses = [reverse(view, args=[device.pk]) for view in ("inventory:device", "usage:device")]

    def counts():
        numbers = []
        for address in addresses:
            with CaptureQueriesContext(connection) as queries:
                assert client.get(address).status_code == 200
            numbers.append(len(queries))
        return numbers

    counts()
    before = counts()
    for number in range(3):
        hold(
            claim, NOON - (number + 2) * HOUR, device="gpu-0", object_uid=f"u{number}", share_id=f"s{number}"
        )
        hold(claim, NOON - 40 * HOUR, NOON - 30 * HOUR, device="gpu-0")
    assert counts() <= before
    assert max(before) <= 15
