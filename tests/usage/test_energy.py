"""Energy and CO₂ by day: measured or estimated, stored, closed, and the same wherever they are shown."""

import csv
from datetime import timedelta
from io import StringIO

import pytest
import time_machine
from django.urls import reverse

from core.errors import Forbidden
from inventory.clusters import change_cluster
from inventory.models import Cluster
from tests.factories import make_claim, make_cluster
from tests.usage.conftest import NOON, hold, measure, price
from usage.closing import close_month
from usage.daily import forget_from, refresh_all, store_days
from usage.energy import Energy, added, team_energy
from usage.fleet_report import GroupBy, fleet_report, month_of
from usage.focus import focus_rows
from usage.idle.views import idle_in_month
from usage.models import DailyActivity, DailySum, Rollup
from usage.reports import Month

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
YESTERDAY = NOON - DAY
KWH = 3_600_000


def draw(held, start, hours, *, watts=None, joules=None, activity=0.5):
    """Write rollups of some hours: mean power, and the energy of five minutes if it was counted."""
    for number in range(hours * 12):
        Rollup.objects.create(
            claim=held.claim, driver=held.driver, pool=held.pool, device=held.device,
            bucket=start + number * timedelta(minutes=5), samples=10, activity=activity,
            power_watts=watts, energy_joules=joules,
        )  # fmt: skip


def stored(now=NOON):
    with time_machine.travel(now, tick=False):
        store_days(now=now)


@pytest.fixture
def held(claim):
    price("2.80")
    return hold(claim, YESTERDAY, YESTERDAY + 4 * HOUR)


def month(team):
    whole = Month.parse("2026-11")
    return team_energy(team, whole.first, whole.next.first)


def test_counted_joules_are_measured(held, vision):
    draw(held, YESTERDAY, 2, watts=500.0, joules=KWH / 24)
    stored()
    energy = month(vision)
    assert energy.kilowatt_hours == pytest.approx(1.0)
    assert energy.is_measured


def test_without_a_counter_it_is_mean_power_times_time_and_estimated(held, vision):
    draw(held, YESTERDAY, 2, watts=500.0)
    stored()
    energy = month(vision)
    assert energy.kilowatt_hours == energy.estimated_kilowatt_hours == pytest.approx(1.0)
    assert not energy.is_measured


def test_a_gap_of_the_counter_is_the_estimated_part(held, vision):
    draw(held, YESTERDAY, 1, watts=500.0, joules=KWH / 24)
    draw(held, YESTERDAY + HOUR, 1, watts=1000.0)
    stored()
    energy = month(vision)
    assert energy.kilowatt_hours == pytest.approx(1.5)
    assert energy.estimated_kilowatt_hours == pytest.approx(1.0)


def test_a_partition_has_its_part_of_the_gpu_and_is_estimated(claim, vision):
    part = hold(claim, YESTERDAY, NOON, fraction="0.25")
    draw(part, YESTERDAY, 2, joules=KWH / 24)
    stored()
    energy = month(vision)
    assert energy.kilowatt_hours == energy.estimated_kilowatt_hours == pytest.approx(0.25)


def test_without_telemetry_of_power_there_is_no_energy_and_not_0(held, vision):
    draw(held, YESTERDAY, 2)
    stored()
    assert month(vision) is None
    assert set(DailyActivity.objects.values_list("joules", flat=True)) == {None}
    assert set(DailySum.objects.values_list("joules", "grams")) == {(None, None)}


def test_power_without_activity_is_energy_without_utilization(held, vision):
    draw(held, YESTERDAY, 2, watts=500.0, activity=None)
    stored()
    report = fleet_report(month_of(YESTERDAY.date()), GroupBy.TEAM, now=NOON)
    assert report.parts.energy.kilowatt_hours == pytest.approx(1.0)
    assert report.parts.utilization is None


def test_co2_is_that_of_clusters_with_a_value(held, vision, fra, alice, claim):
    draw(held, YESTERDAY, 2, watts=500.0)
    other = make_claim(vision, by=alice, cluster=make_cluster("osl-1", teams=(vision,)), held=False)
    draw(hold(other, YESTERDAY, NOON), YESTERDAY, 2, watts=500.0)
    stored()
    assert month(vision).grams is None
    change_cluster(name="fra-1", grams_per_kwh=339)
    refresh_all()
    energy = month(vision)
    assert (energy.kilowatt_hours, energy.grams) == (pytest.approx(2.0), pytest.approx(339))


def test_the_grams_of_a_closed_month_stay(held, vision, root):
    draw(held, YESTERDAY, 2, watts=500.0)
    Cluster.objects.update(grams_per_kwh=300)
    later = NOON + 30 * DAY
    stored(later)
    with time_machine.travel(later, tick=False):
        close_month(by=root, month=Month.parse("2026-11"))
        Cluster.objects.update(grams_per_kwh=100)
        Rollup.objects.update(power_watts=900.0)
        refresh_all()
    assert (month(vision).kilowatt_hours, month(vision).grams) == (pytest.approx(1.0), pytest.approx(300))


def test_rows_of_each_grouping_add_up_to_the_energy_of_all(held, claim, vision, alice, fra):
    draw(held, YESTERDAY, 2, watts=500.0)
    both = hold(claim, YESTERDAY, YESTERDAY + 2 * HOUR, product="NVIDIA L4")
    draw(both, YESTERDAY, 2, joules=KWH / 24)
    second = make_claim(vision, by=alice, cluster=fra, held=False)
    draw(hold(second, YESTERDAY, NOON), YESTERDAY, 1, watts=700.0)
    Cluster.objects.update(grams_per_kwh=400)
    stored()
    for group in GroupBy:
        report = fleet_report(month_of(YESTERDAY.date()), group, now=NOON)
        whole = added(row.parts.energy for row in report.rows)
        assert whole.kilowatt_hours == pytest.approx(2.7)
        assert whole.estimated_kilowatt_hours == pytest.approx(1.7)
        assert whole.grams == pytest.approx(2.7 * 400)
        assert report.parts.energy.joules == pytest.approx(whole.joules)


def test_a_day_that_waits_to_be_stored_again_has_no_energy_and_no_idle_money(held, vision):
    measure(held, YESTERDAY, [0.0] * 48)
    store_days(now=NOON)
    assert month(vision)
    assert idle_in_month([vision.pk], NOON)[0]
    forget_from(YESTERDAY, now=NOON)
    assert month(vision) is None
    assert idle_in_month([vision.pk], NOON) == idle_in_month([], NOON)


def test_repeated_refresh_finds_no_difference(held):
    draw(held, YESTERDAY, 2, watts=333.3)
    stored()
    assert refresh_all(check=True).total == 0
    DailyActivity.objects.update(joules=1.0)
    assert refresh_all(check=True).total > 0


def test_page_api_csv_and_focus_show_the_same_energy(held, claim, vision, alice, root, client):
    draw(held, YESTERDAY, 2, watts=500.0)
    Cluster.objects.update(grams_per_kwh=339)
    stored()
    with time_machine.travel(NOON, tick=False):
        client.force_login(alice)
        page = client.get(reverse("usage:claim_fragment", args=[claim.pk])).content.decode()
        assert "0.34 kg" in page
        assert "339 g per kWh in fra-1" in page
        of_claim = client.get(f"/api/v1/claims/{claim.pk}/cost/").json()["energy"]
        of_team = client.get("/api/v1/costs/?team=vision").json()["energy"]
        assert "0.34 kg CO₂" in client.get(reverse("usage:team", args=["vision"])).content.decode()
        client.force_login(root)
        (row,) = client.get("/api/v1/costs/report/").json()["rows"]
        for energy in (of_claim, of_team, row["parts"]["energy"]):
            assert energy["kilowatt_hours"] == pytest.approx(1.0)
            assert energy["kilograms_co2"] == pytest.approx(0.339)
        page = client.get(reverse("usage:report")).content.decode()
        assert "1.00 kWh" in page
        assert "estimated, 0.34 kg CO₂" in page
        text = client.get(reverse("usage:report"), {"format": "csv"}).content.decode()
        line = next(csv.DictReader(StringIO(text)))
        assert (line["kwh"], line["kwh_estimated"], line["co2_kg"]) == ("1.000000", "1.000000", "0.339000")
        rows = list(focus_rows(month_of(YESTERDAY.date()), now=NOON))
        assert rows[0][-3:] == ["1.000000", "true", "0.339000"]


def test_a_cluster_without_grams_has_energy_and_no_co2(held, claim, vision, root, client):
    draw(held, YESTERDAY, 2, watts=500.0)
    stored()
    client.force_login(root)
    with time_machine.travel(NOON, tick=False):
        for address in ("usage:team", "usage:claim_fragment"):
            page = client.get(reverse(address, args=[claim.pk if "claim" in address else "vision"])).text
            assert "kWh" in page
            assert "CO₂" not in page
        report = client.get(reverse("usage:report"))
        assert "1.00 kWh" in report.text
        assert "CO₂" not in report.text
        assert client.get("/api/v1/costs/?team=vision").json()["energy"]["kilograms_co2"] is None
        text = client.get(reverse("usage:report"), {"format": "csv"}).content.decode()
        assert next(csv.DictReader(StringIO(text)))["co2_kg"] == ""


def test_page_without_energy_has_no_column_of_it(held, root, client):
    stored()
    client.force_login(root)
    with time_machine.travel(NOON, tick=False):
        assert ">Energy<" not in client.get(reverse("usage:report")).content.decode()


def test_only_platform_admins_set_the_grams_of_a_cluster(fra, alice, root, client):
    with pytest.raises(Forbidden):
        change_cluster(name="fra-1", by=alice, grams_per_kwh=100)
    client.force_login(root)
    address = reverse("setup:cluster", args=["fra-1"])
    sent = {"title": "", "end_policy": "run", "grams_per_kwh": "339"}
    assert client.post(address, sent | {"grams_per_kwh": "0"}).status_code == 422
    assert client.post(address, sent).status_code == 302
    assert Cluster.objects.get().grams_per_kwh == 339
    assert client.post(address, sent | {"grams_per_kwh": ""}).status_code == 302
    assert Cluster.objects.get().grams_per_kwh is None


def test_sum_with_what_is_not_known_is_what_is_known():
    assert added([None, None]) is None
    assert added([None, Energy(5.0), Energy(1.0, 1.0, 3.0)]) == Energy(6.0, 1.0, 3.0)
