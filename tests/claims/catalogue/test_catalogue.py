"""The catalogue: filters, sorting, CSV, waits, and the comparison of profiles."""

import csv
import io
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.catalogue.listing import CatalogueFilter
from claims.catalogue.sharing import Sharing, sharing_modes
from claims.models import BudgetUse
from tests.claims.requests.test_match_pages import TAINT, mirrored
from tests.dra.clusters import gpu
from tests.factories import make_allocation, make_budget, make_claim, make_profile, make_spec, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_availability")]

CATALOGUE, COMPARE = reverse("claims:catalogue"), reverse("claims:catalogue_compare")
L4 = 'device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA L4"'


def selecting(expression):
    return make_spec(selectors=[{"cel": {"expression": expression}}])


def page_of(profile):
    return reverse("claims:profile", args=[profile.slug])


@pytest.fixture
def shelf(client, alice, fra, quota, train):
    """`small` gives an L4 of 24 GB, `closed` belongs to others' quota, `train` gives anything."""
    mirrored(fra, [gpu(0, product="NVIDIA L4", memory="23034Mi"), gpu(1), gpu(2, taints=[TAINT])])
    small = make_profile("small", spec=selecting(L4), automatic_devices=1, max_devices=2)
    closed = make_profile("closed", spec=make_spec(device_class="gpu.amd.com"))
    client.force_login(alice)
    return {"train": train, "small": small, "closed": closed}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["closed", "small", "train"]),
        ("memory=24", ["small", "train"]),
        ("memory=25", []),
        ("model=NVIDIA+L4", ["small", "train"]),
        ("model=nothing", ["closed", "small", "train"]),  # malformed: no model of the catalogue
        ("sharing=exclusive", ["closed", "small", "train"]),
        ("sharing=partition", []),
        ("price=100", []),
        ("free=1", ["small", "train"]),
        ("mine=1", ["small", "train"]),
        ("automatic=1", ["small"]),
        ("q=sma", ["small"]),
        ("q=l4+tests&free=1", ["small", "train"]),
        ("view=table&mine=1", ["small", "train"]),
    ],
)
def test_filters_are_query_parameters(client, shelf, query, found):
    page = client.get(f"{CATALOGUE}?{query}").text
    assert [name for name in sorted(shelf) if page_of(shelf[name]) in page] == found


def test_locked_profiles_are_folded_unless_all_are_locked(client, shelf):
    shown, folded = client.get(CATALOGUE).text.split('<details class="dg-mt">')
    assert page_of(shelf["train"]) in shown
    assert page_of(shelf["closed"]) not in shown
    assert "1 profile that you cannot request</summary>" in folded
    assert page_of(shelf["closed"]) in folded
    assert '<details class="dg-mt" open>' in client.get(f"{CATALOGUE}?q=closed").text


def test_malformed_filter_shows_an_error_and_filters_nothing(client, shelf):
    answer = client.get(f"{CATALOGUE}?memory=much")
    assert answer.status_code == 200
    assert "Enter a whole number" in answer.text
    assert page_of(shelf["train"]) in answer.text


@pytest.mark.parametrize(
    ("sort", "first"), [("title", "closed"), ("free", "train"), ("devices", "closed"), ("memory", "small")]
)
def test_catalogue_is_sorted_as_requested(client, shelf, sort, first):
    rows = csv.DictReader(io.StringIO(client.get(f"{CATALOGUE}?sort={sort}&format=csv").text))
    assert next(rows)["profile"].startswith(first)


def test_csv_has_the_filtered_profiles(client, shelf):
    answer = client.get(f"{CATALOGUE}?model=NVIDIA+L4&format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    rows = {row["profile"]: row for row in csv.DictReader(io.StringIO(answer.text))}
    assert set(rows) == {"small", "train-80"}
    small = rows["small"]
    assert (small["free"], small["total"], small["memory at least"]) == ("1", "1", str(23034 * 2**20))
    assert small["price per hour"] == ""  # no rate is set: unknown, not 0


def test_unknown_value_meets_no_condition(shelf, alice):
    from claims.catalogue.listing import catalogue

    entries = {entry.profile.slug: entry for entry in catalogue(alice)}
    assert entries["closed"].memory is None
    assert not CatalogueFilter(memory_gb=1).matches(entries["closed"])
    assert not CatalogueFilter(price=Decimal(10**6)).matches(entries["train-80"])


def past(claim, *, decided_after, device_after=None, by=None, ago=timedelta(days=1)):
    """Set the times of request, decision and first device of the claim, in minutes after each other."""
    created_at = timezone.now() - ago
    decided = created_at + timedelta(minutes=decided_after)
    type(claim).objects.filter(pk=claim.pk).update(created_at=created_at, decided_at=decided, decided_by=by)
    if device_after is not None:
        make_allocation(claim, decided + timedelta(minutes=device_after))


def test_fewer_than_five_waits_are_not_enough_data(client, shelf, vision, fra, lena):
    for _ in range(4):
        past(make_claim(vision, cluster=fra, profile=shelf["train"]), decided_after=3, by=lena)
    own, table = reverse("claims:profile", args=["train-80"]), f"{CATALOGUE}?view=table"
    known = '3 min<span class="dg-3">, 90 % within 3 min</span>'
    assert "not enough data (4 in 30 d)" in client.get(own).text
    assert known not in client.get(table).text
    past(make_claim(vision, cluster=fra, profile=shelf["train"]), decided_after=3, by=lena)
    assert known in " ".join(client.get(own).text.split())
    assert known in " ".join(client.get(table).text.split())


def test_comparison_marks_the_rows_that_differ(client, shelf):
    answer = client.get(f"{COMPARE}?profile=train-80&profile=small")
    page = " ".join(answer.text.split())
    assert "Train 80" in page
    assert "Small" in page
    assert "<mark> selectors:</mark>" in page
    assert [row.label for row in answer.context["rows"] if row.differs] == [
        "Model",
        "Memory",
        "Requests",
        "Max devices",
        "Approval",
    ]


def test_comparison_leaves_out_unknown_and_further_profiles(client, shelf, alice):
    secret = make_profile("secret", teams=(make_team("nlp"),))
    more = make_profile("more")
    page = client.get(f"{COMPARE}?profile=secret&profile=train-80&profile=none").text
    assert "Select two or three profiles" in page
    assert secret.title not in page
    four = "&".join(f"profile={one}" for one in ("train-80", "small", "closed", "more"))
    page = client.get(f"{COMPARE}?{four}").text
    assert f"At most three can be compared. Not shown: {more.title}." in page


def test_cards_are_selected_for_comparison_without_javascript(client, shelf):
    page = client.get(f"{CATALOGUE}?profile=small").text
    assert f'id="compare" action="{COMPARE}"' in page
    assert 'form="compare" name="profile" value="small" checked' in page


@pytest.mark.parametrize("view", ["", "table"])
def test_query_count_is_the_same_for_one_profile_and_100(client, shelf, view):
    client.get(f"{CATALOGUE}?view={view}")
    with CaptureQueriesContext(connection) as few:
        client.get(f"{CATALOGUE}?view={view}")
    for number in range(100):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(f"{CATALOGUE}?view={view}")
    assert len(many) == len(few)


def with_strategy(strategy, *requests, kind="GpuConfig"):
    spec = make_spec()
    parameters = {"kind": kind, "sharing": {"strategy": strategy}}
    config = {"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}
    spec["devices"]["config"] = [config | ({"requests": list(requests)} if requests else {})]
    return spec


IS_MIG = 'device.attributes["gpu.nvidia.com"].type == "mig"'


@pytest.mark.parametrize(
    ("spec", "fractions", "found"),
    [
        (make_spec(), [], [Sharing.EXCLUSIVE]),
        (make_spec(), [Fraction(1)], [Sharing.EXCLUSIVE]),
        (make_spec(), [Fraction(1, 7)], [Sharing.PARTITION]),
        (make_spec(), [Fraction(1, 7), Fraction(1)], [Sharing.EXCLUSIVE]),
        (make_spec(device_class="mig.nvidia.com"), [], [Sharing.PARTITION]),
        (selecting(IS_MIG), [], [Sharing.PARTITION]),
        (selecting(IS_MIG.replace("mig", "gpu")), [], [Sharing.EXCLUSIVE]),
        (make_spec(capacity={"requests": {"memory": "10Gi"}}), [], [Sharing.SHARE]),
        (selecting("device.allowMultipleAllocations == true"), [], [Sharing.SHARE]),
        (with_strategy("MPS"), [], [Sharing.MPS]),
        (with_strategy("TimeSlicing", "gpu"), [], [Sharing.TIME_SLICED]),
        (with_strategy("TimeSlicing", "other"), [], [Sharing.EXCLUSIVE]),
        (
            {
                "devices": {
                    "requests": [
                        {
                            "name": "gpu",
                            "firstAvailable": [
                                {"name": "slice", "deviceClassName": "mig.nvidia.com"},
                                {"name": "whole", "deviceClassName": "gpu.nvidia.com"},
                            ],
                        }
                    ]
                }
            },
            [],
            [Sharing.EXCLUSIVE, Sharing.PARTITION],
        ),
    ],
)
def test_sharing_mode_is_read_from_the_spec(spec, fractions, found):
    assert sharing_modes(spec, fractions) == found


def test_what_is_left_of_budgets_stands_beside_prices(client, shelf, vision):
    for page in (CATALOGUE, page_of(shelf["train"])):
        assert "not used, until" not in client.get(page).text
    budget = make_budget(vision, amount=Decimal(1000))
    BudgetUse.objects.filter(budget=budget).update(used_amount=480, share=0.48)
    make_budget(make_team("nlp"), amount=Decimal(77))
    for page in (CATALOGUE, page_of(shelf["train"])):
        text = client.get(page).text
        assert "€520.00</b>" in text
        assert "of €1,000.00 not used, until" in text
        assert "€77.00" not in text


def test_people_without_budgets_need_no_query_for_them(client, shelf, vision):
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as context:
            client.get(CATALOGUE)
        return [query["sql"] for query in context if "claims_budgetuse" in query["sql"]]

    make_budget(make_team("nlp"), amount=Decimal(77))
    assert queries() == []
    make_budget(vision, amount=Decimal(1000))
    assert len(queries()) == 1
