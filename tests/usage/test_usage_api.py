from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
import time_machine
from django.utils import timezone

from claims.states import ClaimState
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold, measure, price
from usage.models import Rate

FIVE = timedelta(minutes=5)
RATE = {
    "title": "H100",
    "product": "H100",
    "per_hour": "3.1000",
    "currency": "EUR",
    "valid_from": "2026-12-01T00:00:00Z",
}


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client


def test_claim_usage_has_null_for_gaps(as_alice, claim):
    measure(hold(claim, NOON - 3 * FIVE), NOON - 3 * FIVE, [0.5, None, 0.7])
    body = as_alice.get(f"/api/v1/claims/{claim.pk}/usage/?range=1h").json()
    assert [point["activity"] for point in body["points"]] == [0.5, None, 0.7]
    assert [point["presence"] for point in body["points"]] == ["measured", "no-telemetry", "measured"]
    assert body["now"]["use"] == "in-use"
    assert (body["step_seconds"], body["unmeasured_seconds"]) == (300, 300)


def test_the_cost_of_a_claim_is_strings_with_a_currency(as_alice, claim):
    price("2.9")
    hold(claim, NOON - timedelta(hours=10), fraction="0.5")
    body = as_alice.get(f"/api/v1/claims/{claim.pk}/cost/").json()
    assert body["so_far"] == {
        "device_hours": "5.00",
        "hours_without_rate": "0.00",
        "amounts": [{"currency": "EUR", "amount": "14.50"}],
    }
    assert body["per_hour"]["amounts"] == [{"currency": "EUR", "amount": "1.45"}]
    assert body["projected"] == {  # to its end, in 24 hours
        "device_hours": "17.00",
        "hours_without_rate": "0.00",
        "amounts": [{"currency": "EUR", "amount": "49.30"}],
    }
    assert body["lines"][0]["product"] == "NVIDIA H100 80GB HBM3"


def test_the_cost_of_a_claim_that_holds_nothing_is_not_projected(as_alice, claim):
    price("2.9")
    hold(claim, NOON - timedelta(hours=10), NOON - timedelta(hours=9))
    body = as_alice.get(f"/api/v1/claims/{claim.pk}/cost/").json()
    assert (body["so_far"]["device_hours"], body["projected"]) == ("1.00", None)


def test_without_a_rate_there_are_hours_and_no_amounts(as_alice, claim):
    hold(claim, NOON - timedelta(hours=1))
    body = as_alice.get(f"/api/v1/claims/{claim.pk}/cost/").json()
    assert (body["so_far"]["hours_without_rate"], body["so_far"]["amounts"]) == ("1.00", [])


def test_the_month_of_a_team_adds_up_in_every_grouping(as_alice, claim, lena, vision, fra):
    price("3")
    hold(claim, NOON - timedelta(hours=10))
    hold(
        make_claim(vision, by=lena, cluster=fra, state=ClaimState.RELEASED),
        NOON - timedelta(hours=2),
        NOON - timedelta(hours=1),
    )
    body = as_alice.get("/api/v1/costs/?team=vision&month=2026-11").json()
    assert body["total"]["amounts"] == [{"currency": "EUR", "amount": "33.00"}]
    for grouping in ("by_claim", "by_person", "by_product"):
        amounts = [amount for row in body[grouping] for amount in row["cost"]["amounts"]]
        assert sum(Decimal(amount["amount"]) for amount in amounts) == Decimal("33.00")


@pytest.mark.parametrize("path", ["claims/{claim}/usage", "claims/{claim}/cost", "costs?team=vision"])
def test_usage_and_cost_are_for_the_team(client, claim, eve, bob, path):
    address = f"/api/v1/{path.format(claim=claim.pk)}"
    assert client.get(address).status_code == 401
    client.force_login(eve)
    response = client.get(address)
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    client.force_login(bob)
    assert client.get(address).status_code == 200


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("costs", "Name the team"),
        ("costs?team=vision&month=never", "A month is written"),
        ("{claim}?range=1y", "A range is one of 1h, today, 24h, 7d, 30d, month, life; “1y” was sent."),
        ("{claim}?range=abcdefghijklmnopqrstuvw", "“abcdefghijklmnopqrst” was sent."),
    ],
)
def test_malformed_parameters_are_422(as_alice, claim, query, said):
    path = query.format(claim=f"claims/{claim.pk}/usage")
    response = as_alice.get(f"/api/v1/{path}")
    assert response.status_code == 422
    assert said in response.json()["detail"]


def test_everybody_reads_rates_and_platform_admins_write_them(client, eve, root):
    future = price("2", since=datetime(2027, 1, 1, tzinfo=UTC))
    one = f"/api/v1/rates/{future.pk}"
    client.force_login(eve)
    assert client.get("/api/v1/rates/").json()["results"][0]["per_hour"] == "2.0000"
    assert client.get(one).json()["valid_from"] == "2027-01-01T00:00:00Z"
    assert client.post("/api/v1/rates/", RATE, content_type="application/json").status_code == 403
    assert client.put(one, RATE, content_type="application/json").status_code == 403
    assert client.delete(one).status_code == 403
    client.force_login(root)
    made = client.post("/api/v1/rates/", RATE, content_type="application/json")
    assert made.status_code == 201
    assert Rate.objects.filter(pk=made.json()["id"]).exists()
    assert client.put(one, RATE, content_type="application/json").json()["per_hour"] == "3.1000"
    assert client.delete(one).status_code == 204


def test_a_rate_that_applies_is_409_and_a_malformed_one_422(client, root):
    applies = price("2")
    client.force_login(root)
    response = client.put(f"/api/v1/rates/{applies.pk}", RATE, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    response = client.post("/api/v1/rates/", RATE | {"per_hour": "-1"}, content_type="application/json")
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "per_hour")


@pytest.mark.parametrize(
    "path", ["claims/{claim}/usage", "claims/{claim}/cost", "costs?team=vision", "rates"]
)
def test_api_queries_do_not_grow_with_rows(
    as_alice, claim, vision, alice, fra, path, django_assert_max_num_queries
):
    address = f"/api/v1/{path.format(claim=claim.pk)}"
    measure(hold(claim, NOON - timedelta(hours=1)), NOON - FIVE, [0.5])
    price("1", cluster=fra)
    as_alice.get(address)
    with django_assert_max_num_queries(20) as one:
        as_alice.get(address)
    for number in range(5):
        price(str(number), cluster=fra)
        measure(hold(claim, NOON - timedelta(hours=1)), NOON - FIVE, [0.5])
        hold(make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED), NOON - timedelta(hours=1))
    with django_assert_max_num_queries(len(one)):
        as_alice.get(address)


def test_claim_usage_has_every_field(as_alice, claim):
    held = hold(claim, NOON - 4 * FIVE, device="gpu-a")
    measure(held, NOON - 4 * FIVE, [0.5, None, 0.7, 0.25], samples=2)
    assert as_alice.get(f"/api/v1/claims/{claim.pk}/usage/?range=life").json() == {
        "range": "life",
        "start": "2026-11-17T11:40:00Z",
        "end": "2026-11-17T12:00:00Z",
        "step_seconds": 300,
        "now": {
            "use": "in-use",
            "activity": 0.25,
            "idle_since": None,
            "measured_at": "2026-11-17T11:55:00Z",
        },
        "mean_activity": pytest.approx(1.45 / 3),
        "peak_memory_bytes": 2**30,
        "unmeasured_seconds": 300,
        "approximations": [],
        "points": [
            {
                "at": f"2026-11-17T11:{minute}:00Z",
                "presence": "no-telemetry" if activity is None else "measured",
                "activity": activity,
                "memory_bytes": activity and 2**30,
                "power_watts": activity and 300.0,
                "by_device": {} if activity is None else {"gpu-a": activity},
                "samples": 0 if activity is None else 2,
                "expected": 10,
                **dict.fromkeys(("activity_max", "sm_activity", "tensor_activity", "memory_activity")),
                **dict.fromkeys(("energy_joules", "pcie_bytes", "nvlink_bytes", "temperature")),
            }
            for minute, activity in ((40, 0.5), (45, None), (50, 0.7), (55, 0.25))
        ],
    }


def test_claim_usage_is_of_a_day_by_default(as_alice, claim):
    hold(claim, NOON - timedelta(days=9))
    address = f"/api/v1/claims/{claim.pk}/usage/"
    spans = {
        query: as_alice.get(address + query).json()["start"]
        for query in ("", "?range=24h", "?range=1h", "?range=7d", "?range=life")
    }
    assert spans == {
        "": "2026-11-16T12:00:00Z",
        "?range=24h": "2026-11-16T12:00:00Z",
        "?range=1h": "2026-11-17T11:00:00Z",
        "?range=7d": "2026-11-10T12:00:00Z",
        "?range=life": "2026-11-08T12:00:00Z",
    }


def test_a_claim_that_is_being_released_and_still_holds_has_no_telemetry(as_alice, vision, alice, fra):
    leaving = make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASING, held=False)
    address = f"/api/v1/claims/{leaving.pk}/usage/"
    held = hold(leaving, NOON - timedelta(hours=1))
    assert as_alice.get(address).json()["now"]["use"] == "no-telemetry"
    held.ended_at = NOON
    held.save(update_fields=["ended_at"])
    assert as_alice.get(address).json()["now"]["use"] == "not-held"


def test_team_month_has_a_row_per_group(as_alice, claim, alice, vision):
    price("3", product="H100")
    hold(claim, NOON - timedelta(hours=10))
    hold(claim, NOON - timedelta(hours=1), product="NVIDIA L40S", partition="half", fraction="0.5")
    cost = {
        "device_hours": "10.50",
        "hours_without_rate": "0.50",
        "amounts": [{"currency": "EUR", "amount": "30.00"}],
    }
    free = {"device_hours": "0.50", "hours_without_rate": "0.50", "amounts": []}
    priced = {**cost, "device_hours": "10.00", "hours_without_rate": "0.00"}
    h100, half = "NVIDIA H100 80GB HBM3", "NVIDIA L40S half"
    nothing = {"device_hours": "0.00", "hours_without_rate": "0.00", "amounts": []}
    assert as_alice.get("/api/v1/costs/?team=vision").json() == {
        "team": "vision",
        "month": "2026-11",
        "until": "2026-11-17T12:00:00Z",
        "total": cost,
        "corrections": nothing,
        "energy": None,
        "closed_at": None,
        "by_claim": [{"key": str(claim.pk), "label": "sam2-finetune", "cost": cost, "corrects": None}],
        "by_person": [{"key": str(alice.pk), "label": "alice", "cost": cost, "corrects": None}],
        "by_product": [
            {"key": h100, "label": h100, "cost": priced, "corrects": None},
            {"key": half, "label": half, "cost": free, "corrects": None},
        ],
    }
    assert as_alice.get("/api/v1/costs/?team=vision&month=2026-10").json()["total"]["device_hours"] == "0.00"


def test_this_month_is_that_of_utc_in_any_time_zone(as_alice, alice, claim, clock):
    clock.move_to(datetime(2026, 11, 30, 23, 30, tzinfo=UTC))
    as_alice.force_login(alice)
    assert as_alice.get("/api/v1/costs/?team=vision").json()["month"] == "2026-11"
    with timezone.override("Europe/Berlin"):
        body = as_alice.get("/api/v1/costs/?team=vision").json()
    assert (body["month"], body["until"]) == ("2026-11", "2026-12-01T00:30:00+01:00")


def test_costs_of_an_unknown_team_are_404(as_alice, vision):
    assert as_alice.get("/api/v1/costs/?team=nobody").status_code == 404


def test_rates_have_every_field_newest_first(client, eve, fra):
    one = price(
        "2.9",
        product="H100",
        driver="gpu.nvidia.com",
        cluster=fra,
        title="one",
        currency="USD",
        id=UUID(int=1),
    )
    two = price("0.0042", title="two", id=UUID(int=2))
    client.force_login(eve)
    told = [
        {
            "id": str(two.pk),
            "title": "two",
            "product": "",
            "driver": "",
            "cluster": None,
            "expression": "",
            "per_hour": "0.0042",
            "currency": "EUR",
            "valid_from": "2026-01-01T00:00:00Z",
            "valid_until": None,
        },
        {
            "id": str(one.pk),
            "title": "one",
            "product": "H100",
            "driver": "gpu.nvidia.com",
            "cluster": "fra-1",
            "expression": "",
            "per_hour": "2.9000",
            "currency": "USD",
            "valid_from": "2026-01-01T00:00:00Z",
            "valid_until": None,
        },
    ]
    assert client.get("/api/v1/rates/").json()["results"] == told
    assert client.get(f"/api/v1/rates/{one.pk}/").json() == told[1]
    assert client.get(f"/api/v1/rates/{uuid4()}/").status_code == 404


def test_rate_without_conditions_matches_everything_in_euros(client, root, fra):
    client.force_login(root)

    def send(body):
        return client.post("/api/v1/rates/", body, content_type="application/json").json()

    full = RATE | {"driver": "gpu.nvidia.com", "cluster": "fra-1", "currency": "USD"}
    made = send(full)
    assert made == {"id": made["id"], **full, "expression": "", "valid_until": None}
    least = send({key: RATE[key] for key in ("title", "per_hour", "valid_from")})
    assert least == {
        **RATE,
        "id": least["id"],
        "valid_until": None,
        "product": "",
        "driver": "",
        "cluster": None,
        "expression": "",
    }
    changed = client.put(f"/api/v1/rates/{least['id']}/", full, content_type="application/json").json()
    assert changed == {"id": least["id"], **full, "expression": "", "valid_until": None}
    assert Rate.objects.count() == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "t" * 81),
        ("title", ""),
        ("per_hour", "0.00001"),
        ("per_hour", "123456789"),
        ("currency", "eur"),
        ("currency", "EURO"),
        ("cluster", "nowhere"),
        ("valid_from", "soon"),
        ("product", "p" * 121),
        ("driver", "d" * 64),
    ],
)
def test_a_field_of_a_rate_that_is_malformed_is_named(client, root, field, value):
    client.force_login(root)
    response = client.post("/api/v1/rates/", RATE | {field: value}, content_type="application/json")
    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [field]
    assert not Rate.objects.exists()


def test_a_rate_that_applies_is_not_removed_either(client, root):
    applies = price("2")
    client.force_login(root)
    assert client.delete(f"/api/v1/rates/{applies.pk}").status_code == 409
    assert Rate.objects.filter(pk=applies.pk).exists()


def test_rate_sent_twice_with_one_key_is_created_once(client, root):
    client.force_login(root)
    for _ in range(2):
        made = client.post(
            "/api/v1/rates/", RATE, content_type="application/json", headers={"Idempotency-Key": "k-1"}
        )
        assert made.status_code == 201
    assert Rate.objects.count() == 1
