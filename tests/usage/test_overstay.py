"""Claims that have ended and whose pods still run: what they cost since, on its page and in the API."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.models import Claim
from claims.states import ClaimState
from inventory.models import Pod, ResourceClaim
from inventory.states import EndPolicy
from tests.factories import make_claim, make_team
from tests.usage.conftest import NOON, hold, price
from usage.overstay import overstays_of

OVERSTAY = "/waste/overstay/"
API = "/api/v1/waste/overstay/"
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOON, tick=False):
        yield


def ended(team, by, cluster, name, *, since=2 * HOUR, held=5 * HOUR, pod=True):
    """Return a claim that ended some time ago and whose pod still holds a device."""
    claim = make_claim(
        team,
        by=by,
        cluster=cluster,
        state=ClaimState.ALLOCATED,
        held=False,
        name=name,
        object_uid=f"uid-{name}",
    )
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASING, state_since=NOON - since)
    hold(claim, NOON - held, object_uid=f"uid-{name}", object_name=name)
    reserved = [{"resource": "pods", "name": f"{name}-0", "uid": f"pod-{name}"}] if pod else []
    place = {"cluster": cluster, "namespace": claim.namespace}
    raw = {"metadata": {}, "status": {"reservedFor": reserved}}
    ResourceClaim.objects.create(uid=f"uid-{name}", name=name, owner=str(claim.pk), raw=raw, **place)
    Pod.objects.create(
        uid=f"pod-{name}", name=f"{name}-0", phase="Running", claims=[name], raw={"metadata": {}}, **place
    )
    return claim


@pytest.fixture
def claim(vision, alice, fra):
    price("3")
    return ended(vision, alice, fra, "old-train")


def page_of(client, person, address=OVERSTAY):
    client.force_login(person)
    return " ".join(client.get(address).text.split())


def test_an_ended_claim_shows_its_pods_and_what_they_cost_since_its_end(client, claim, alice):
    page = page_of(client, alice)
    for part in ("old-train", "old-train-0", "2 h ago", "€6.00", "€3.00", "Pods keep running"):
        assert part in page
    assert "Evict…" not in page  # the policy is to let them run
    claim.cluster.end_policy = EndPolicy.ASK
    claim.cluster.save(update_fields=["end_policy"])
    assert f'href="/claims/{claim.pk}/evict/"' in page_of(client, alice)


def test_the_end_has_to_be_longer_ago_than_pods_need_to_end(client, claim, alice):
    Claim.objects.filter(pk=claim.pk).update(state_since=NOON - timedelta(minutes=4))
    assert "old-train" not in page_of(client, alice)


def test_device_given_back_costs_until_then_and_is_no_longer_held(claim):
    hold(claim, NOON - 5 * HOUR, NOON - HOUR, device="gpu-8", uuid="GPU-8")  # since the end
    hold(claim, NOON - 5 * HOUR, NOON - 3 * HOUR, device="gpu-9", uuid="GPU-9")  # before it
    found = overstays_of(Claim.objects.filter(pk=claim.pk), now=NOON)[claim.pk]
    assert (found.devices, found.per_hour.prices, found.cost.amounts) == (
        1,
        {"EUR": Decimal(3)},
        {"EUR": Decimal(9)},
    )


def test_what_holds_nothing_is_not_listed(client, claim, alice):
    claim.allocations.update(ended_at=NOON - HOUR)
    page = page_of(client, alice)
    assert "old-train" not in page
    assert "No pod outlives its claim" in page


def test_the_sum_of_all_claims_is_the_last_row(client, claim, vision, alice, fra):
    ended(vision, alice, fra, "older", since=3 * HOUR)
    page = page_of(client, alice)
    row = page.partition('<tr class="sumrow">')[2].partition("</tr>")[0]
    for part in ("2 claims", "€15.00", "€6.00"):
        assert part in row
    assert "sumrow" not in page_of(client, alice, f"{OVERSTAY}?q=older")
    client.force_login(alice)
    assert client.get(f"{OVERSTAY}?format=csv").getvalue().decode().count("\r\n") == 3


def test_other_teams_see_none_of_it_and_viewers_cannot_evict(client, claim, eve, bob, fra):
    fra.end_policy = EndPolicy.ASK
    fra.save(update_fields=["end_policy"])
    make_team("nlp", leads=(eve,))
    assert "old-train" not in page_of(client, eve)
    assert client.get(API).json()["results"] == []
    assert client.get(f"{API}?team=vision").status_code == 422
    page = page_of(client, bob)
    assert "old-train" in page
    assert "Evict…" not in page


def test_the_list_has_the_same_queries_for_many_claims(client, claim, vision, root, alice, fra):
    def queries() -> int:
        with CaptureQueriesContext(connection) as context:
            assert client.get(OVERSTAY).status_code == 200
        return len(context)

    client.force_login(root)
    ended(vision, alice, fra, "second")
    queries()
    for_two = queries()
    for number in range(5):
        ended(vision, alice, fra, f"more-{number}")
    assert queries() == for_two <= 24


def test_the_api_has_the_same_figures(client, claim, alice):
    client.force_login(alice)
    (row,) = client.get(API).json()["results"]
    assert (row["name"], row["devices"], row["end_policy"]) == ("old-train", 1, "run")
    assert row["cost"]["amounts"] == [{"currency": "EUR", "amount": "6.00"}]
    assert row["per_hour"]["amounts"] == [{"currency": "EUR", "amount": "3.00"}]


def test_the_tabs_of_waste_count_them(client, claim, alice):
    for address in ("/waste/", "/waste/oversized/"):
        assert 'Expired, pod still running <span class="dg-count">1</span>' in page_of(client, alice, address)
