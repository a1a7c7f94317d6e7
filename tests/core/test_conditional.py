"""ETag, If-None-Match, If-Match, and orders of the API."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from claims.lifecycle import services
from claims.models import Claim, Quota
from claims.states import ClaimState
from core.conditional import Changed, _expected, require_expected, tags_in, version_tag
from core.inputs import backwards, ordered
from teams.models import Membership, Role
from tests.factories import make_claim, make_quota, make_team, make_user
from usage.models import Rate
from usage.services import save_rate

pytestmark = pytest.mark.django_db

RATES = "/api/v1/rates/"
RATE = {"title": "H100", "per_hour": "2.5", "currency": "EUR", "valid_from": "2099-12-01T00:00:00Z"}


def as_person(user):
    api = APIClient()
    api.force_login(user)
    return api


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def api(root):
    return as_person(root)


@pytest.fixture
def rate(api):
    return RATES + api.post(RATES, RATE, format="json").json()["id"] + "/"


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def claim(alice):
    team = make_team("vision", members=(alice,))
    make_quota(team)
    return make_claim(by=alice, team=team)


def address(claim):
    return f"/api/v1/claims/{claim.pk}/"


def test_what_is_unchanged_is_not_sent_again(api, rate):
    first = api.get(rate)
    again = api.get(rate, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    api.put(rate, {**RATE, "per_hour": "3"}, format="json")
    changed = api.get(rate, headers={"If-None-Match": first.headers["ETag"]})
    assert (changed.status_code, changed.json()["per_hour"]) == (200, "3.0000")
    assert changed.headers["ETag"] != first.headers["ETag"]


def test_lists_have_etags_too(api, rate):
    first = api.get(RATES)
    tags = f'"other", W/{first.headers["ETag"]}'
    assert api.get(RATES, headers={"If-None-Match": tags}).status_code == 304
    api.delete(rate)
    assert api.get(RATES, headers={"If-None-Match": tags}).status_code == 200


def test_a_write_with_the_etag_that_was_read_happens(api, rate):
    etag = api.get(rate).headers["ETag"]
    answer = api.put(rate, {**RATE, "per_hour": "3"}, format="json", headers={"If-Match": etag})
    assert (answer.status_code, Rate.objects.get().per_hour) == (200, Decimal(3))


def test_what_changes_by_itself_counts_for_readers_and_not_for_writers(api, claim):
    quota = f"/api/v1/quotas/{Quota.objects.get().pk}/"
    first = api.get(quota).headers["ETag"]
    make_claim(claim.team, by=claim.requested_by)
    assert api.get(quota, headers={"If-None-Match": first}).status_code == 200
    now = api.get(quota).headers["ETag"]
    assert (first != now, first.partition(".")[0] == now.partition(".")[0]) == (True, True)
    Quota.objects.update(devices=3)
    assert api.delete(quota, headers={"If-Match": first}).status_code == 412
    Quota.objects.update(devices=8)
    assert api.delete(quota, headers={"If-Match": first}).status_code == 204


@pytest.mark.parametrize(("method", "body"), [("put", RATE), ("delete", None)])
def test_a_write_with_an_etag_of_before_is_refused(api, rate, method, body):
    etag = api.get(rate).headers["ETag"]
    api.put(rate, {**RATE, "per_hour": "3"}, format="json")
    answer = getattr(api, method)(rate, body, format="json", headers={"If-Match": etag})
    assert (answer.status_code, answer.json()["code"]) == (412, "changed")
    assert answer.json()["etag"] == api.get(rate).headers["ETag"]
    assert Rate.objects.get().per_hour == 3


def test_any_etag_is_one_of_what_there_is(api, rate):
    assert api.delete(rate, headers={"If-Match": "*"}).status_code == 204


def test_if_match_does_not_tell_outsiders_of_an_object(claim):
    outsider = as_person(make_user("eve"))
    answer = outsider.post(f"{address(claim)}release/", {}, format="json", headers={"If-Match": '"x"'})
    assert answer.status_code == 404


def test_the_etag_of_a_claim_is_its_version(alice, claim):
    me = as_person(alice)
    etag = me.get(address(claim)).headers["ETag"]
    assert etag.startswith(f'"v{claim.version}-')
    with CaptureQueriesContext(connection) as whole:
        me.get(address(claim))
    with CaptureQueriesContext(connection) as queries:
        assert me.get(address(claim), headers={"If-None-Match": etag}).status_code == 304
    assert len(queries) < len(whole)
    claim.remark("Looked at.", by=alice)
    assert me.get(address(claim), headers={"If-None-Match": etag}).status_code == 200


def test_an_action_on_a_claim_happens_only_to_the_version_that_was_read(alice, claim):
    me = as_person(alice)
    etag = me.get(address(claim)).headers["ETag"]
    claim.remark("Changed.", by=alice)
    withdraw = f"{address(claim)}withdraw/"
    answer = me.post(withdraw, {}, format="json", headers={"If-Match": etag})
    assert (answer.status_code, answer.json()["code"]) == (412, "changed")
    assert Claim.objects.get().state == ClaimState.REQUESTED
    now = me.get(address(claim)).headers["ETag"]
    assert me.post(withdraw, {}, format="json", headers={"If-Match": now}).status_code == 200


@pytest.mark.parametrize(
    ("service", "lock", "body"),
    [
        ("withdraw", "_lock_owned_claim", {}),
        ("transfer", "lock_claim", {"to": "bob"}),
    ],
)
def test_a_change_between_the_check_and_the_lock_is_refused_too(
    alice, claim, monkeypatch, service, lock, body
):
    Membership.objects.create(user=make_user("bob"), team=claim.team, role=Role.MEMBER)
    if service == "transfer":
        claim = make_claim(claim.team, by=alice, state=ClaimState.ALLOCATED)
    me = as_person(alice)
    etag = me.get(address(claim)).headers["ETag"]
    whole = getattr(services, lock)

    def changed_before(claim, *by):
        Claim.objects.get(pk=claim.pk).remark("Meanwhile.", by=alice)
        return whole(claim, *by)

    monkeypatch.setattr(services, lock, changed_before)
    answer = me.post(f"{address(claim)}{service}/", body, format="json", headers={"If-Match": etag})
    assert (answer.status_code, answer.json().get("code")) == (412, "changed")


@pytest.mark.security("races", "two writes at once that expect the same version of an object")
@pytest.mark.parametrize("weak", ["", "W/"])
def test_of_two_writes_at_once_with_one_etag_one_is_refused(api, rate, monkeypatch, weak):
    etag = api.get(rate).headers["ETag"]
    others: list[Any] = []

    def write(price, tag=etag):
        return api.put(rate, {**RATE, "per_hour": price}, format="json", headers={"If-Match": tag})

    def overtaken(**fields):
        """Another write comes after the first one has compared."""
        if not others:
            others.append(None)
            others[0] = write("9", f"{weak}{etag}")
        return save_rate(**fields)

    monkeypatch.setattr("usage.api.save_rate", overtaken)
    assert write("3").status_code == 200
    assert (others[0].status_code, others[0].json()["code"]) == (412, "changed")
    assert Rate.objects.get().per_hour == 3
    assert write("4").status_code == 412  # what was read is past
    assert write("4", api.get(rate).headers["ETag"]).status_code == 200  # and nothing is left marked


def test_what_one_request_expects_is_forgotten_with_it(alice, claim):
    me = as_person(alice)
    etag = me.get(address(claim)).headers["ETag"]
    me.post(f"{address(claim)}withdraw/", {}, format="json", headers={"If-Match": etag})
    assert _expected.get() is None
    require_expected(claim.pk, 99)


def test_only_the_object_of_the_request_is_expected():
    before = _expected.set(("a", 3))
    try:
        require_expected("b", 9)
        require_expected("a", 3)
        with pytest.raises(Changed, match="version 4 instead of 3"):
            require_expected("a", 4)
    finally:
        _expected.reset(before)


@pytest.mark.parametrize(
    ("header", "tags"),
    [("*", {"*"}), ('"a"', {'"a"'}), ('W/"a", "b"', {'"a"', '"b"'}), ("a", set()), ("", set())],
)
def test_tags_are_read_from_the_header(header, tags):
    assert tags_in(header) == tags


def test_a_version_with_other_defaults_is_another_tag():
    assert version_tag(1, "ask") != version_tag(1, "run")
    assert version_tag(1, "ask") == version_tag(1, "ask")


# Orders.


def test_lists_run_in_both_directions(api):
    for title in ("b", "a", "c"):
        api.post(RATES, {**RATE, "title": title}, format="json")
    titles = {
        order: [row["title"] for row in api.get(f"{RATES}?order={order}").json()["results"]]
        for order in ("created", "-created")
    }
    assert titles == {"created": ["b", "a", "c"], "-created": ["c", "a", "b"]}


def test_pages_of_a_chosen_order_follow_one_another(api):
    for title in ("b", "a", "c"):
        api.post(RATES, {**RATE, "title": title}, format="json")
    page = api.get(f"{RATES}?order=created&limit=2").json()
    following = api.get(page["next"]).json()
    assert [row["title"] for row in page["results"] + following["results"]] == ["b", "a", "c"]


def test_an_unknown_order_is_refused_with_the_known_ones(api):
    answer = api.get(f"{RATES}?order=price")
    assert (answer.status_code, answer.json()["field"]) == (422, "order")
    assert answer.json()["detail"] == "Unknown order price. Known: created, -created."


def test_the_order_is_named_by_its_first_field():
    assert ordered("-user__username", "id")().known_orders() == {
        "username": ("user__username", "-id"),
        "-username": ("-user__username", "id"),
    }
    assert backwards(("a", "-b")) == ("-a", "b")
