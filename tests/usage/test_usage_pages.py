import csv
import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.urls import reverse

from claims.states import ClaimState
from tests.core.test_local_moments import sent
from tests.factories import make_claim, make_cluster
from tests.usage.conftest import NOON, hold, measure, price
from usage import team_views
from usage.models import Collection, Rate

FIVE = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client


def fragment(claim, **query):
    return reverse("usage:claim_fragment", args=[claim.pk], query=query)


def test_the_panel_shows_use_cost_price_and_projection(as_alice, claim):
    price("2.9")
    claim.expires_at = NOON + timedelta(hours=10)
    claim.save(update_fields=["expires_at"])
    held = hold(claim, NOON - timedelta(hours=10))
    measure(held, NOON - 6 * FIVE, [0.5, 0.6, None, 0.7, 0.8, 0.78])
    page = as_alice.get(fragment(claim), headers={"HX-Request": "true"}).content.decode()
    assert not page.lstrip().startswith("<!doctype")
    for said in ("In use 78 %", "no telemetry", "Show as table"):
        assert said in page
    head = as_alice.get(reverse("claims:detail", args=[claim.pk])).content.decode()
    for amount in ("€2.90", "€29.00", "€58.00"):
        assert amount in head
    assert "€2.90" not in page  # which is part of the same page


def test_page_of_a_claim_with_its_cost_needs_at_most_15_queries(
    as_alice, claim, django_assert_max_num_queries
):
    price("2.9")
    for _ in range(3):
        hold(claim, NOON - timedelta(hours=10))
    address = reverse("claims:detail", args=[claim.pk])
    assert "1 × gpu.nvidia.com" in as_alice.get(address).content.decode()
    with django_assert_max_num_queries(15):
        as_alice.get(address)


def test_head_of_a_claim_that_held_nothing_names_no_cost(as_alice, claim):
    price("2.9")
    head = as_alice.get(reverse("claims:detail", args=[claim.pk])).content.decode()
    assert "Cost so far" not in head
    assert "none held, nothing is billed" in head


def test_claim_in_grace_has_no_projection(as_alice, claim):
    price("2.9")
    claim.expires_at = NOON - timedelta(hours=1)
    claim.save(update_fields=["expires_at"])
    hold(claim, NOON - timedelta(hours=10))
    page = as_alice.get(fragment(claim)).content.decode()
    assert "€29.00" in page
    assert "billed while it holds devices" in page
    assert "no further cost" not in page
    assert "if kept until" not in page


def test_panel_shows_hours_without_a_rate(as_alice, claim):
    price("1", product="H100")
    hold(claim, NOON - timedelta(hours=10))
    hold(claim, NOON - timedelta(hours=3), product="NVIDIA L40S")
    page = as_alice.get(fragment(claim)).content.decode()
    assert "13.00 GPU-hours" in page
    assert "3.00 without a rate" in page
    assert "13.00 without a rate" not in page


def test_without_javascript_the_panel_is_a_page_of_its_own(as_alice, claim):
    response = as_alice.get(fragment(claim))
    assert response.content.decode().lstrip().startswith("<!doctype")
    assert "HX-Request" in response["Vary"]


def test_the_graph_has_gaps_where_nothing_was_measured(as_alice, claim):
    held = hold(claim, NOON - 4 * FIVE)
    measure(held, NOON - 4 * FIVE, [0.5, None, 0.25, 0.0])
    page = as_alice.get(fragment(claim, range="1h")).content.decode()
    data = json.loads(page.split('<script id="usage-data" type="application/json">')[1].split("</script>")[0])
    assert data["activity"] == [{"label": "utilization", "values": [50.0, None, 25.0, 0.0]}]
    assert data["lines"] == {
        "activity": [{"label": "idle below 10 %", "value": 10, "kind": "idle"}],
        "memory": [{"label": "allocated: 80 GiB", "value": 80.0}],
    }
    assert data["step"] == 300


@pytest.mark.parametrize("wanted", ["1h", "today", "24h", "7d", "30d", "month", "life", "", "century"])
def test_every_range_works_and_an_unknown_one_is_a_day(as_alice, claim, wanted):
    measure(hold(claim, NOON - timedelta(days=3)), NOON - FIVE, [0.5])
    response = as_alice.get(fragment(claim, range=wanted))
    assert response.status_code == 200
    expected = "24h" if wanted in ("", "century") else wanted
    assert response.context["series"].range == expected


def test_today_and_month_begin_at_midnight_in_the_readers_zone(as_alice, claim, alice):
    alice.timezone = "Asia/Tokyo"
    alice.save(update_fields=["timezone"])
    measure(hold(claim, NOON - timedelta(days=90)), NOON - FIVE, [0.5])
    midnight = NOON.astimezone(ZoneInfo("Asia/Tokyo")).replace(hour=0, minute=0)
    for wanted, start in (("today", midnight), ("month", midnight.replace(day=1))):
        series = as_alice.get(fragment(claim, range=wanted)).context["series"]
        assert series.start <= start < series.start + series.step, wanted


def test_an_own_range_shows_its_days_and_stays_while_the_panel_polls(as_alice, claim):
    measure(hold(claim, NOON - timedelta(days=9)), NOON - timedelta(days=3), [0.5])
    first, last = ((NOON - timedelta(days=days)).date() for days in (4, 2))
    page = as_alice.get(fragment(claim, range="own", since=first, until=last))
    series = page.context["series"]
    assert series.range == "own"
    assert (series.end - series.start).days == 3
    assert series.start.date() == first
    assert series.is_measured
    assert f"range=own&amp;since={first}&amp;until={last}" in page.text


@pytest.mark.parametrize(
    ("since", "until", "sentence"),
    [
        ("2026-11-20", "2026-11-19", "The range ends before it begins."),
        ("", "2026-11-19", "This field is required."),
        ("x", "2026-11-19", "Enter a valid date."),
        ("0001-01-01", "9999-12-31", "A date lies between"),
    ],
)
def test_an_own_range_that_makes_no_sense_is_a_day_with_the_reason(as_alice, claim, since, until, sentence):
    hold(claim, NOON - timedelta(days=9))
    page = as_alice.get(fragment(claim, range="own", since=since, until=until))
    assert page.context["series"].range == "24h"
    assert sentence in page.text


def test_an_own_range_in_which_nothing_was_held_is_empty(as_alice, claim):
    hold(claim, NOON - timedelta(days=3))
    page = as_alice.get(fragment(claim, range="own", since="2020-01-01", until="2020-01-02"))
    assert not page.context["series"].is_measured


def test_panel_polls_every_minute_while_devices_are_held(as_alice, claim):
    held = hold(claim, NOON - timedelta(hours=10))
    url = reverse("usage:claim_fragment", args=[claim.pk])
    again = f'hx-get="{url}?range=7d" data-poll="60" hx-trigger="poll"'
    assert again in as_alice.get(fragment(claim, range="7d")).text
    held.ended_at = NOON
    held.save(update_fields=["ended_at"])
    assert again not in as_alice.get(fragment(claim, range="7d")).text


def test_claim_that_never_held_a_device_costs_nothing(as_alice, vision, alice, fra):
    price("2")
    waiting = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    page = as_alice.get(fragment(waiting)).content.decode()
    assert "No device has been held yet" in page
    assert "Nothing is billed until then" in page
    assert "Cost so far" not in page


def test_devices_without_a_rate_have_no_rate_and_never_a_zero(as_alice, claim):
    hold(claim, NOON - timedelta(hours=1))
    page = as_alice.get(fragment(claim)).content.decode()
    assert "no rate" in page
    assert "€0.00" not in page


def test_panel_shows_why_there_is_no_telemetry(as_alice, claim, fra):
    hold(claim, NOON - timedelta(hours=1))
    assert "No exporter or Prometheus is configured" in as_alice.get(fragment(claim)).content.decode()
    fra.metrics_url = "http://127.0.0.1:1/metrics"
    fra.save(update_fields=["metrics_url"])
    assert "No measurements of its devices" in as_alice.get(fragment(claim)).content.decode()
    Collection.objects.create(cluster=fra, error="The telemetry source returned status 500.")
    page = as_alice.get(fragment(claim)).content.decode()
    assert "The telemetry source returned status 500." in page
    assert not re.search(r"(?<!\d)0 %", page)


def test_the_panel_is_for_the_team_alone(client, claim, eve, bob, root):
    client.force_login(eve)
    assert client.get(fragment(claim)).status_code == 404
    client.force_login(bob)
    assert client.get(fragment(claim)).status_code == 200
    client.force_login(root)
    assert client.get(fragment(claim)).status_code == 200


def test_the_panel_costs_the_same_for_one_device_and_for_many(as_alice, claim, django_assert_max_num_queries):
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - FIVE, [0.5])
    as_alice.get(fragment(claim))
    with django_assert_max_num_queries(30) as one:
        as_alice.get(fragment(claim))
    for _ in range(8):
        measure(hold(claim, NOON - timedelta(hours=1)), NOON - 5 * FIVE, [0.5] * 5)
    with django_assert_max_num_queries(len(one)):
        as_alice.get(fragment(claim))


def cost(slug="vision", **query):
    return reverse("usage:team", args=[slug], query=query)


def test_the_month_of_a_team_adds_up_on_its_page(as_alice, claim, lena, vision, fra):
    price("3")
    hold(claim, NOON - timedelta(hours=10))
    hold(
        make_claim(vision, by=lena, cluster=fra, state=ClaimState.RELEASED),
        NOON - timedelta(hours=2),
        NOON - timedelta(hours=1),
    )
    page = as_alice.get(cost()).content.decode()
    # Headline, today in legend and table of days, the feet of four tables, product and profile.
    assert page.count("€33.00") == 9
    assert "€30.00" in page


def test_a_long_table_of_a_month_has_the_highest_costs_and_totals(as_alice, vision, fra, lena, monkeypatch):
    monkeypatch.setattr(team_views, "SHOWN_CLAIMS", 1)
    price("3")
    for name, hours in (("cheap-one", 1), ("costly-one", 9)):
        over = make_claim(vision, by=lena, cluster=fra, state=ClaimState.RELEASED, name=name)
        hold(over, NOON - timedelta(hours=10), NOON - timedelta(hours=10 - hours))
    page = as_alice.get(cost()).content.decode()
    assert ("costly-one" in page, "cheap-one" in page) == (True, False)
    assert "The 1 with the highest cost of 2." in page
    assert "€30.00" in page
    rows = as_alice.get(reverse("usage:team_csv", args=[vision.slug])).text
    assert "cheap-one" in rows


def test_empty_month_links_to_the_catalogue(as_alice, vision):
    page = as_alice.get(cost(month="2026-02")).content.decode()
    assert "vision" in page.lower()
    assert "held no device in February 2026" in page


def test_malformed_month_is_422(as_alice, vision):
    response = as_alice.get(cost(month="soon"))
    assert response.status_code == 422
    assert "A month is written like 2026-11" in response.content.decode()


def test_cost_csv_has_the_lines_of_the_page(as_alice, claim):
    price("3", product="H100")
    hold(claim, NOON - timedelta(hours=10))
    hold(claim, NOON - timedelta(hours=1), product="NVIDIA L40S")
    response = as_alice.get(reverse("usage:team_csv", args=["vision"], query={"month": "2026-11"}))
    rows = list(csv.DictReader(StringIO(response.text)))
    assert [(row["product"], row["device_hours"], row["amount"]) for row in rows] == [
        ("NVIDIA H100 80GB HBM3", "10.000000", "30.00"),
        ("NVIDIA L40S", "1.000000", ""),
    ]
    assert "cost-vision-2026-11.csv" in response["Content-Disposition"]


@pytest.mark.parametrize("name", ["usage:team", "usage:team_csv"])
def test_the_cost_of_a_team_is_for_the_team_alone(client, vision, eve, bob, name):
    address = reverse(name, args=["vision"])
    client.force_login(eve)
    assert client.get(address).status_code == 404
    client.force_login(bob)
    assert client.get(address).status_code == 200


def test_the_cost_page_costs_the_same_for_one_claim_and_for_many(
    as_alice, claim, vision, alice, fra, django_assert_max_num_queries
):
    hold(claim, NOON - timedelta(hours=1))
    as_alice.get(cost())
    with django_assert_max_num_queries(30) as one:
        as_alice.get(cost())
    for _ in range(9):
        hold(make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED), NOON - timedelta(hours=1))
    with django_assert_max_num_queries(len(one)):
        as_alice.get(cost())


FORM = {
    "title": "H100 from December",
    "product": "H100",
    "driver": "",
    "cluster": "",
    "per_hour": "3.10",
    "currency": "eur",
    "valid_from": "2026-12-01T00:00",
}


def test_everybody_reads_rates_and_platform_admins_write_them(client, eve, root):
    future = price("2", since=datetime(2027, 1, 1, tzinfo=UTC), title="Later")
    writes = [reverse("usage:rate_new"), reverse("usage:rate_edit", args=[future.pk])]
    client.force_login(eve)
    page = client.get(reverse("usage:rates")).content.decode()
    assert "Later" in page
    assert "Add a rate" not in page
    for address in writes:
        assert client.get(address).status_code == 403
        assert client.post(address, FORM).status_code == 403
    assert client.post(reverse("usage:rate_remove", args=[future.pk])).status_code == 403
    client.force_login(root)
    assert client.post(writes[0], FORM).status_code == 302
    assert Rate.objects.get(title="H100 from December").currency == "EUR"
    assert client.post(writes[1], FORM | {"title": "Changed"}).status_code == 302
    future.refresh_from_db()
    assert (future.title, future.per_hour) == ("Changed", Decimal("3.1000"))
    assert client.post(reverse("usage:rate_remove", args=[future.pk])).status_code == 302
    assert not Rate.objects.filter(pk=future.pk).exists()


def test_rate_that_applies_offers_a_new_price(client, root):
    applies = price("2", title="H100 now")
    client.force_login(root)
    response = client.post(reverse("usage:rate_edit", args=[applies.pk]), FORM)
    assert response.status_code == 409
    assert "Add a new rate instead" in response.content.decode()
    assert client.post(reverse("usage:rate_remove", args=[applies.pk])).status_code == 409
    applies.refresh_from_db()
    assert applies.per_hour == 2
    page = client.get(reverse("usage:rate_new", query={"like": applies.pk})).content.decode()
    assert 'value="H100 now"' in page
    assert 'value="2026-11-17T12:00"' in page


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("per_hour", "-1"),
        ("per_hour", "dear"),
        ("currency", "€"),
        ("valid_from", "soon"),
        ("title", ""),
        ("cluster", "1"),
    ],
)
def test_a_malformed_rate_is_422_and_keeps_what_was_typed(client, root, field, value):
    client.force_login(root)
    response = client.post(reverse("usage:rate_new"), FORM | {field: value})
    assert response.status_code == 422
    assert "dg-err" in response.content.decode()
    assert not Rate.objects.exists()


def test_unknown_rates_are_404(client, root):
    client.force_login(root)
    unknown = "019a0000-0000-7000-8000-000000000000"
    assert client.get(reverse("usage:rate_edit", args=[unknown])).status_code == 404
    assert client.get(reverse("usage:rate_new", query={"like": "1' --"})).status_code == 200


def test_the_rates_page_costs_the_same_for_one_rate_and_for_many(
    as_alice, fra, django_assert_max_num_queries
):
    price("1", cluster=fra)
    as_alice.get(reverse("usage:rates"))
    with django_assert_max_num_queries(30) as one:
        as_alice.get(reverse("usage:rates"))
    for number in range(9):
        price(str(number), cluster=fra)
    with django_assert_max_num_queries(len(one)):
        as_alice.get(reverse("usage:rates"))


def test_anonymous_user_is_redirected_to_sign_in(client, claim):
    for address in (fragment(claim), cost(), reverse("usage:rates")):
        assert client.get(address).status_code == 302


def test_points_are_listed_newest_first_with_each_device(as_alice, claim):
    one, two = (hold(claim, NOON - 3 * FIVE, device=f"gpu-{name}") for name in "ab")
    measure(one, NOON - 3 * FIVE, [0.5, None, 0.25])
    measure(two, NOON - 3 * FIVE, [0.75])
    context = as_alice.get(fragment(claim, range="1h")).context
    assert [(row["point"].at, row["activities"]) for row in context["rows"]] == [
        (NOON - FIVE, [0.25, None]),
        (NOON - 2 * FIVE, [None, None]),
        (NOON - 3 * FIVE, [0.5, 0.75]),
    ]
    assert (context["width"], context["series"].devices) == (5, ["gpu-a", "gpu-b"])


def test_table_has_no_column_per_device_for_one_device(as_alice, claim):
    measure(hold(claim, NOON - FIVE), NOON - FIVE, [0.5])
    context = as_alice.get(fragment(claim, range="1h")).context
    assert [row["activities"] for row in context["rows"]] == [[]]
    assert context["width"] == 3


def test_panel_of_a_releasing_claim_shows_held_devices(as_alice, vision, alice, fra):
    leaving = make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASING, held=False)
    hold(leaving, NOON - timedelta(hours=2), NOON - timedelta(hours=1))
    assert as_alice.get(fragment(leaving)).context["utilization"].use == "not-held"
    hold(leaving, NOON - timedelta(hours=1))
    assert as_alice.get(fragment(leaving)).context["utilization"].use == "no-telemetry"


@pytest.mark.parametrize(
    ("urls", "source"),
    [(("", ""), False), (("http://a", ""), True), (("", "http://b"), True)],
)
def test_the_panel_knows_whether_its_cluster_has_a_source(as_alice, claim, fra, urls, source):
    other = make_cluster("ber-1", metrics_url="http://a")
    Collection.objects.create(cluster=other, error="of another cluster")
    fra.metrics_url, fra.prometheus_url = urls
    fra.save(update_fields=["metrics_url", "prometheus_url"])
    context = as_alice.get(fragment(claim)).context
    assert (context["has_source"], context["collection"]) == (source, None)


def csv_of(response):
    return list(csv.DictReader(StringIO(response.text)))


def test_cost_csv_has_every_column_and_hours_once(as_alice, claim, alice, vision):
    price("3", product="H100")
    price("4", product="H100", since=NOON - timedelta(hours=2), currency="CHF")
    claim.name = "=sam2"
    claim.save(update_fields=["name"])
    hold(claim, NOON - timedelta(hours=10))
    hold(claim, NOON - timedelta(hours=1), product="NVIDIA L40S", partition="half", fraction="0.5")
    response = as_alice.get(reverse("usage:team_csv", args=["vision"]))
    assert response["Content-Disposition"] == 'attachment; filename="cost-vision-2026-11.csv"'
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    common = {
        "month": "2026-11",
        "team": "vision",
        "claim": "'=sam2",
        "claim_id": str(claim.pk),
        "person": "alice",
        "profile": "train-80",
        "cluster": "fra-1",
        "product": "NVIDIA H100 80GB HBM3",
        "partition": "",
        "corrects": "",
    }
    figures = [
        {"device_hours": "10.000000", "hours_without_rate": "0.000000", "amount": "8.00", "currency": "CHF"},
        {"device_hours": "", "hours_without_rate": "", "amount": "24.00", "currency": "EUR"},
    ]
    half = {"product": "NVIDIA L40S", "partition": "half"}
    unknown = {"device_hours": "0.500000", "hours_without_rate": "0.500000", "amount": "", "currency": ""}
    assert csv_of(response) == [*(common | one for one in figures), common | half | unknown]


@pytest.mark.parametrize("name", ["usage:team", "usage:team_csv"])
def test_cost_page_shows_the_requested_month(as_alice, claim, name):
    hold(claim, datetime(2026, 10, 3, tzinfo=UTC), datetime(2026, 10, 3, 5, tzinfo=UTC))
    hold(claim, NOON - timedelta(hours=2))
    address = reverse(name, args=["vision"])
    for query, hours in (("?month=2026-10", "5.00"), ("?month=2026-11", "2.00"), ("", "2.00")):
        response = as_alice.get(address + query)
        if name == "usage:team":
            assert str(response.context["cost"].hours) == hours
        else:
            assert [row["device_hours"] for row in csv_of(response)] == [f"{hours}0000"]
    assert as_alice.get(address + "?month=soon").status_code == 422


def test_cost_page_links_adjacent_months_but_not_the_future(as_alice, claim):
    hold(claim, NOON - timedelta(hours=2))
    now = as_alice.get(cost()).text
    assert 'href="?month=2026-10"' in now
    assert 'href="?month=2026-12"' not in now
    assert "So far this month" in now
    hold(claim, datetime(2026, 10, 3, tzinfo=UTC), datetime(2026, 10, 3, 5, tzinfo=UTC))
    before = as_alice.get(cost(month="2026-10")).text
    assert 'href="?month=2026-11"' in before
    assert "So far this month" not in before


def test_groups_of_a_month_are_shown_with_their_rows(as_alice, claim):
    hold(claim, NOON - timedelta(hours=2))
    context = as_alice.get(cost()).context
    groups = [context["people"], *(group for row in context["groups"] for group in row)]
    assert [(name, [row.label for row in rows]) for name, _head, rows, _count in groups] == [
        ("person", ["alice"]),
        ("profile", [claim.profile_version.profile.title]),
        ("product", ["NVIDIA H100 80GB HBM3"]),
        ("claim", ["sam2-finetune"]),
    ]


def test_rates_are_listed_by_product_the_newest_first(as_alice, fra):
    later = datetime(2026, 12, 1, tzinfo=UTC)
    price("2", product="H100", title="old")
    price("3", product="H100", title="new", since=later, cluster=fra, driver="gpu.nvidia.com", currency="USD")
    price("0.0042", product="", title="all")
    rows = list(csv.reader(StringIO(as_alice.get(reverse("usage:rates"), {"format": "csv"}).text)))
    assert [row[:5] + row[7:] for row in rows] == [
        ["Rate", "Product", "Driver", "Cluster", "Expression", "Per hour", "Currency"],
        ["all", "", "", "", "", "0.0042", "EUR"],
        ["new", "H100", "gpu.nvidia.com", "fra-1", "", "3.0000", "USD"],
        ["old", "H100", "", "", "", "2.0000", "EUR"],
    ]
    assert [row[5][:10] for row in rows[1:]] == ["2026-01-01", "2026-12-01", "2026-01-01"]


def test_admin_is_offered_change_or_new_price(client, eve, root):
    began = price("2", since=NOON, title="began")
    later = price("2", since=NOON + timedelta(microseconds=1), title="later")
    change = reverse("usage:rate_edit", args=[later.pk])
    follow = reverse("usage:rate_new", query={"like": began.pk})
    for user, offered in ((root, True), (eve, False)):
        client.force_login(user)
        page = client.get(reverse("usage:rates")).text
        assert [link in page for link in (change, follow, reverse("usage:rate_new"))] == [offered] * 3
        retire = f'href="{reverse("usage:rate_edit", args=[began.pk])}" aria-label="Retire began"'
        assert (retire in page) is offered
        assert str(later.pk) not in page.replace(change, "")
    client.force_login(root)
    assert client.get(reverse("usage:rate_edit", args=[began.pk])).context["applies"]
    assert not client.get(change).context["applies"]


def test_new_price_copies_the_earlier_rate(client, root, fra):
    began = price("2.5", title="began", product="H100", driver="gpu.nvidia.com", cluster=fra, currency="USD")
    client.force_login(root)
    fields = ("title", "product", "driver", "cluster", "per_hour", "currency", "valid_from")
    form = client.get(reverse("usage:rate_new", query={"like": began.pk})).context["form"]
    assert [form.initial[name] for name in fields] == [
        *("began", "H100", "gpu.nvidia.com", fra, Decimal("2.5000"), "USD", NOON)
    ]
    for query in ({}, {"like": "019a0000-0000-7000-8000-000000000000"}, {"like": "x"}):
        form = client.get(reverse("usage:rate_new", query=query)).context["form"]
        assert form.initial == {"valid_from": NOON, "currency": "EUR"}
    later = price("7", since=NOON + timedelta(days=1))
    form = client.get(reverse("usage:rate_edit", args=[later.pk])).context["form"]
    assert (form.initial["valid_from"], form.initial["per_hour"]) == (later.valid_from, Decimal("7.0000"))


def test_saving_and_removing_a_rate_return_to_the_list(client, root, fra):
    client.force_login(root)
    made = client.post(
        reverse("usage:rate_new"), FORM | {"cluster": fra.pk, "driver": "gpu.nvidia.com"}, follow=True
    )
    assert made.redirect_chain == [(reverse("usage:rates"), 302)]
    assert "“H100 from December” saved." in made.text
    rate = Rate.objects.get()
    assert (rate.product, rate.driver, rate.cluster, rate.per_hour, rate.valid_from) == (
        *("H100", "gpu.nvidia.com", fra, Decimal("3.1000")),
        datetime(2026, 12, 1, tzinfo=UTC),
    )
    removed = client.post(reverse("usage:rate_remove", args=[rate.pk]), follow=True)
    assert removed.redirect_chain == [(reverse("usage:rates"), 302)]
    assert "“H100 from December” removed." in removed.text
    assert client.post(reverse("usage:rate_remove", args=[rate.pk])).status_code == 404


@pytest.mark.parametrize("hour", [0, 1])
def test_rate_that_is_saved_as_it_is_shown_keeps_its_times(client, root, hour):
    begin, end = datetime(2027, 6, 1, 1, 30, 45, 5, tzinfo=UTC), datetime(2027, 10, 31, hour, 30, tzinfo=UTC)
    rate = price("2.50", since=begin, valid_until=end, product="H100")
    root.timezone = "Europe/Berlin"
    root.save(update_fields=["timezone"])
    client.force_login(root)
    address = reverse("usage:rate_edit", args=[rate.pk])
    shown = sent(client.get(address).text)
    assert shown["valid_until"] == "2027-10-31T02:30"
    response = client.post(
        address, shown | {"title": "Another", "driver": "", "cluster": "", "expression": ""}
    )
    assert response.status_code == 302
    rate.refresh_from_db()
    assert (rate.title, rate.valid_from, rate.valid_until) == ("Another", begin, end)
