"""Rates with an expression: which devices they price, for how long, and what a person sees before saving."""

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from core.errors import Conflict, Forbidden, Invalid
from core.models import RowDifferences
from inventory import price_bases
from inventory.models import BasisKey, Device, FleetSpan, Node, PriceBasis
from portal.configuration.export import rate_document
from tests.threads import Race
from tests.usage.conftest import H100, NOON, hold, price
from usage import rate_matches
from usage.closing import close_month
from usage.coverage import coverage
from usage.daily import refresh_all, store_days
from usage.models import Correction, DailySum, DailyUse, Rate, RateMatch
from usage.rate_preview import preview
from usage.rates import PriceGroup, RateCard, specificity
from usage.reports import Month, report
from usage.services import retire_rate, save_rate

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
IS_SPOT = 'device.capacityType == "spot"'
SPOT = {"karpenter.sh/capacity-type": "spot"}


def add_basis(cluster, labels=None, *, product=H100, partition="", devices=1):
    """Add the basis of devices on a node of these labels; return it as allocations have it."""
    key = ""
    if labels is not None:
        name = f"node-{len(labels)}-{'-'.join(sorted(labels.values()))}"
        Node.objects.get_or_create(
            cluster=cluster, uid=name, name=name, labels=labels, labels_key=(key := name[:32])
        )
    basis = BasisKey(cluster.pk, "gpu.nvidia.com", product, partition, key)
    price_bases.add([basis])
    PriceBasis.objects.filter(pk=basis.pk).update(devices=devices)
    return PriceBasis.objects.get(pk=basis.pk)


def rate_of(basis, at=NOON):
    group = PriceGroup(basis.cluster_id, basis.driver, basis.product, basis.pk)
    found = RateCard.load().at(group, at)
    return found and found.title


def fields(**other):
    return {
        "title": "spot", "per_hour": Decimal(1), "currency": "EUR", "valid_from": NOON, "expression": IS_SPOT,
    } | other  # fmt: skip


def test_rate_prices_the_devices_for_which_its_expression_holds(fra):
    on_demand, spot = add_basis(fra, {}), add_basis(fra, SPOT)
    price("2", title="all")
    price("1", title="spot", expression=IS_SPOT)
    assert (rate_of(on_demand), rate_of(spot)) == ("all", "spot")


def test_basis_that_is_added_after_the_rate_is_priced_by_it(fra):
    price("1", title="spot", expression=IS_SPOT)
    assert rate_of(add_basis(fra, SPOT)) == "spot"
    assert rate_of(add_basis(fra, {})) is None


def test_expression_that_fails_prices_nothing(fra):
    gold, plain = add_basis(fra, {"tier": "gold"}), add_basis(fra, {})
    price("1", title="gold", expression='device.nodeLabels["tier"] == "gold"')
    assert (rate_of(gold), rate_of(plain)) == ("gold", None)


def test_expression_counts_as_one_condition_and_wins_a_tie(fra):
    spot = add_basis(fra, SPOT)
    price("1", title="expression", expression=IS_SPOT)
    price("2", title="cluster", cluster=fra, since=NOON - HOUR)
    assert rate_of(spot) == "expression"
    price("3", title="cluster and driver", cluster=fra, driver="gpu.nvidia.com")
    assert rate_of(spot) == "cluster and driver"
    price("4", title="product and expression", product="H100", expression=IS_SPOT)
    price("5", title="product and cluster", product="H100", cluster=fra, since=NOON - HOUR)
    assert rate_of(spot) == "product and expression"
    first, *_rest = sorted(Rate.objects.all(), key=specificity, reverse=True)
    assert first.title == "product and expression"


def test_change_of_a_rate_that_does_not_apply_yet_is_matched_again(root, fra):
    spot, gold = add_basis(fra, SPOT), add_basis(fra, {"tier": "gold"})
    later = NOON + DAY
    rate = save_rate(by=root, **fields(valid_from=later))
    gold_only = '"tier" in device.nodeLabels'
    save_rate(by=root, rate=rate, **fields(valid_from=later, expression=gold_only))
    assert (rate_of(spot, later), rate_of(gold, later)) == (None, "spot")
    save_rate(by=root, rate=rate, **fields(valid_from=later, expression=""))
    assert rate_of(spot, later) == "spot"
    assert not RateMatch.objects.exists()


def test_rate_that_applies_keeps_its_expression(root, fra):
    rate = save_rate(by=root, **fields())
    with pytest.raises(Conflict):
        save_rate(by=root, rate=rate, **fields(expression=""))
    retire_rate(by=root, rate=rate, until=NOON + DAY)
    assert Rate.objects.get().expression == IS_SPOT


def test_past_is_billed_the_same_when_device_node_and_language_are_gone(root, claim, fra, monkeypatch):
    spot = add_basis(fra, SPOT)
    price("1", title="spot", expression=IS_SPOT)
    price("9", title="all")
    hold(claim, NOON - 40 * DAY, NOON - 2 * HOUR, basis=spot, capacity_type="spot")
    store_days(now=NOON)
    close_month(by=root, month=Month.current(NOON).previous)
    expected: list[Any] = list(DailyUse.objects.values_list("day", "amount", "rate__title"))
    assert {title for _day, _amount, title in expected} == {"spot"}
    Device.objects.all().delete()
    Node.objects.all().delete()
    monkeypatch.setattr(rate_matches, "compile_condition", None)
    assert refresh_all() == RowDifferences()
    assert list(DailyUse.objects.values_list("day", "amount", "rate__title")) == expected
    assert not Correction.objects.exists()


def test_rate_that_begins_earlier_prices_devices_that_are_gone_by_what_was_recorded(root, claim, fra):
    spot = add_basis(fra, SPOT, devices=0)
    hold(claim, NOON - 10 * HOUR, NOON - 5 * HOUR, basis=spot, capacity_type="spot")
    Node.objects.all().delete()
    save_rate(by=root, **fields(valid_from=NOON - DAY))
    costs = report(claim.team, Month.current(NOON), now=NOON)
    assert costs.total.amounts == {"EUR": Decimal("5.00")}


def test_spot_and_on_demand_of_one_claim_are_two_entries_and_two_sums(claim, fra):
    spot, plain = add_basis(fra, SPOT), add_basis(fra, {})
    price("2", title="all")
    hold(claim, NOON - 34 * HOUR, NOON - 24 * HOUR, basis=spot, capacity_type="spot")
    hold(claim, NOON - 34 * HOUR, NOON - 29 * HOUR, basis=plain, capacity_type="on-demand")
    hold(claim, NOON - 34 * HOUR, NOON - 33 * HOUR)
    store_days(now=NOON)
    entries: list[Any] = list(DailyUse.objects.order_by("capacity_type").values_list("capacity_type", "held"))
    hour = 3600 * 10**12
    assert entries == [("", hour), ("on-demand", 5 * hour), ("spot", 10 * hour)]
    sums = DailySum.objects.filter(dimension=DailySum.Dimension.CAPACITY).order_by("partition")
    assert list(sums.values_list("cluster", "product", "partition", "held")) == [
        (fra.pk, H100, kind, held) for kind, held in entries
    ]
    teams = DailySum.objects.filter(dimension=DailySum.Dimension.TEAM)
    assert sum(sums.values_list("amount", flat=True)) == sum(teams.values_list("amount", flat=True)) > 0


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.product", "must evaluate to bool"),
        ("device.zone == 'a'", "line 1, column 7: undefined field 'zone'"),
        ("device.product == ", "Syntax error"),
    ],
)
def test_mistake_is_refused_by_service_form_and_api(client, root, expression, message):
    with pytest.raises(Invalid, match=message):
        save_rate(by=root, **fields(expression=expression))
    client.force_login(root)
    form = {
        "title": "x", "per_hour": "1", "currency": "EUR", "valid_from": "2026-12-01T00:00",
        "expression": expression,
    }  # fmt: skip
    page = client.post(reverse("usage:rate_new"), form)
    assert page.status_code == 422
    assert message in page.context["form"].errors["expression"][0]
    body = form | {"valid_from": "2026-12-01T00:00:00Z"}
    for address in ("/api/v1/rates/", "/api/v1/rates/preview/"):
        answer = client.post(address, body, content_type="application/json")
        assert answer.status_code == 422
        assert message in answer.text.replace("\\u2019", "'")
    assert not Rate.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_rate_and_basis_that_are_added_at_once_find_each_other(monkeypatch, root, fra, locked):
    """The first has looked for bases and not committed; the second adds one."""
    race = Race(monkeypatch)
    race.hold_after(rate_matches, "_store")
    if not locked:
        monkeypatch.setattr(rate_matches, "lock_matches", lambda: None)
    key = BasisKey(fra.pk, "gpu.nvidia.com", H100, "", "")
    always = fields(expression='device.cluster == "fra-1"')
    race.run(partial(save_rate, by=root, **always), partial(price_bases.add, [key]))
    assert race.waited is locked
    assert RateMatch.objects.exists() is locked


def found(rate) -> list[Any]:
    return [
        (kind.product, kind.capacity_type, kind.devices, kind.wins, kind.without and kind.without.title)
        for kind in preview(rate, now=NOON).kinds
    ]


def test_preview_tells_what_the_rate_would_price_and_what_prices_it_now(fra):
    add_basis(fra, SPOT, devices=3)
    add_basis(fra, {}, devices=5)
    add_basis(fra, SPOT, product="NVIDIA L4", devices=2)
    add_basis(fra, SPOT, product="NVIDIA T4", devices=0)
    price("2", title="H100", product="H100", cluster=fra, driver="gpu.nvidia.com")
    price("1", title="all")
    assert found(Rate(**fields())) == [
        ("NVIDIA L4", "spot", 2, True, "all"),
        (H100, "spot", 3, False, "H100"),
    ]
    shown = preview(Rate(**fields()), now=NOON)
    assert (shown.priced, shown.devices) == (2, 10)
    assert found(Rate(**fields(expression="", product="H100", valid_from=NOON + DAY))) == [
        (H100, "on-demand", 5, False, "H100"),
        (H100, "spot", 3, False, "H100"),
    ]


def test_preview_says_where_an_expression_fails(fra):
    add_basis(fra, {"tier": "gold"}, devices=1)
    add_basis(fra, {}, devices=4)
    kinds = preview(Rate(**fields(expression='device.nodeLabels.tier == "gold"')), now=NOON).kinds
    assert [(kind.devices, kind.wins, kind.problem) for kind in kinds] == [
        (1, True, ""),
        (4, False, "no such key: tier"),
    ]


def test_preview_of_a_pending_rate_leaves_its_stored_version_out(root, fra):
    add_basis(fra, SPOT, devices=3)
    rate = save_rate(by=root, **fields(valid_from=NOON + DAY))
    assert found(rate) == [(H100, "spot", 3, True, None)]


def test_page_shows_the_preview_and_saves_nothing(client, root, fra):
    add_basis(fra, SPOT, devices=3)
    client.force_login(root)
    form = {
        "title": "Spot", "per_hour": "1", "currency": "EUR", "valid_from": "2026-12-01T00:00",
        "expression": IS_SPOT,
    }  # fmt: skip
    page = client.post(reverse("usage:rate_new"), form | {"preview": "1"})
    assert page.status_code == 200
    assert "would price 3 of 3 devices" in page.text
    assert not Rate.objects.exists()
    client.post(reverse("usage:rate_new"), form)
    assert Rate.objects.get().expression == IS_SPOT
    assert "device.capacityType ==" in client.get(reverse("usage:rates")).text
    listed = client.get(reverse("usage:rates"), {"format": "csv"}).text
    assert 'device.capacityType == ""spot""' in listed


MISTYPED = {"title": "H100", "per_hour": "1", "currency": "EUR", "driver": "gpu.nvida.com"}


def test_page_asks_once_before_it_saves_a_rate_that_no_device_has(client, root, fra):
    add_basis(fra, SPOT, devices=3)
    client.force_login(root)
    form = MISTYPED | {"valid_from": "2026-12-01T00:00"}
    asked = client.post(reverse("usage:rate_new"), form)
    assert asked.status_code == 422
    assert "None of the 3 devices of the clusters matches this rate now." in asked.text
    assert "Save anyway" in asked.text
    assert not Rate.objects.exists()
    client.post(reverse("usage:rate_new"), form | {"allow_unknown": "on"})
    assert Rate.objects.get().driver == "gpu.nvida.com"


def test_the_api_asks_before_it_saves_a_rate_that_no_device_has(client, root, fra):
    add_basis(fra, SPOT, devices=3)
    client.force_login(root)
    sent = MISTYPED | {"valid_from": "2036-12-01T00:00:00Z"}
    asked = client.post("/api/v1/rates/", sent, "application/json")
    assert (asked.status_code, asked.json()["code"]) == (422, "unknown-name")
    assert "None of the 3 devices" in asked.json()["detail"]
    assert not Rate.objects.exists()
    made = client.post("/api/v1/rates/", sent | {"allow_unknown": True}, "application/json").json()
    changed = client.put(f"/api/v1/rates/{made['id']}/", sent, "application/json")
    assert (changed.status_code, changed.json()["code"]) == (422, "unknown-name")
    assert client.post("/api/v1/rates/", sent | {"driver": ""}, "application/json").status_code == 201


def test_api_saves_expressions_and_previews_for_platform_admins_only(client, root, alice, fra):
    add_basis(fra, SPOT, devices=3)
    body = {
        "title": "Spot", "per_hour": "1", "currency": "EUR", "valid_from": "2026-12-01T00:00:00Z",
        "expression": IS_SPOT,
    }  # fmt: skip
    client.force_login(alice)
    assert client.post("/api/v1/rates/preview/", body, "application/json").status_code == 403
    client.force_login(root)
    shown = client.post("/api/v1/rates/preview/", body, "application/json").json()
    assert (shown["priced"], shown["devices"]) == (3, 3)
    assert shown["kinds"][0] == {
        "cluster": "fra-1", "driver": "gpu.nvidia.com", "product": H100, "partition": "",
        "capacity_type": "spot", "devices": 3, "wins": True, "without": None, "problem": "",
    }  # fmt: skip
    assert not Rate.objects.exists()
    made = client.post("/api/v1/rates/", body, "application/json")
    assert (made.status_code, made.json()["expression"]) == (201, IS_SPOT)
    assert client.get("/api/v1/rates/preview/").status_code in (404, 405)


def test_queries_of_a_preview_do_not_grow(fra):
    price("2", title="all", expression=IS_SPOT)

    def queries():
        with CaptureQueriesContext(connection) as captured:
            preview(Rate(**fields()), now=NOON)
        return len(captured)

    add_basis(fra, SPOT)
    before = queries()
    for number in range(20):
        add_basis(fra, SPOT | {"tier": str(number)})
    assert queries() == before


def test_coverage_tells_spot_from_on_demand(fra):
    for basis in (add_basis(fra, SPOT), add_basis(fra, {})):
        FleetSpan.objects.create(
            cluster=fra, driver=basis.driver, product=H100, basis=basis, use="available", parts=2 * 10**6,
            started_at=NOON - DAY,
        )  # fmt: skip
    price("1", title="spot", expression=IS_SPOT)
    priced = coverage(RateCard.load(), now=NOON)
    rows: list[Any] = [(one.capacity_type, one.gpus, one.rate and one.rate.title) for one in priced]
    assert rows == [("on-demand", 2, None), ("spot", 2, "spot")]


def test_rate_is_exported_with_its_expression(fra):
    assert rate_document(price("1", expression=IS_SPOT))["expression"] == IS_SPOT
    assert "expression" not in rate_document(price("1"))


def test_outsiders_may_not_write_rates(alice):
    with pytest.raises(Forbidden):
        save_rate(by=alice, **fields())
