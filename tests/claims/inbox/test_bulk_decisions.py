"""Bulk decisions on every kind of request: the page, the API, and independent results."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.approvals import decide
from claims.models import Approval, ApprovalRule, Quota, RequestStatus
from claims.states import ClaimState
from tests.factories import make_claim, make_extension, make_quota_request

pytestmark = pytest.mark.django_db

BULK, INBOX = reverse("claims:bulk_decisions"), reverse("claims:approvals")
API = "/api/v1/approvals/decide/"
DAY = timedelta(days=1)


@pytest.fixture
def claim(ask):
    return ask(name="sam2", devices=2)


@pytest.fixture
def held(vision, fra, train, alice):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, name="held",
        state=ClaimState.PROVISIONED, expires_at=timezone.now() + DAY, decided_at=timezone.now(),
    )  # fmt: skip


@pytest.fixture
def longer(held, alice):
    return make_extension(held, by=alice, until=held.expires_at + 2 * DAY)


@pytest.fixture
def more(vision, alice, quota):
    return make_quota_request(vision, 12, by=alice)


@pytest.fixture
def mixed(claim, longer, more):
    return {"claim": [claim.pk], "extension": [longer.pk], "quota": [more.pk]}


def sent(mixed, claim, decision="approve", **more):
    return mixed | {"decision": decision, f"spec_hash_{claim.pk}": claim.spec_hash} | more


def answers(claim, longer, more):
    for row in (claim, longer, more):
        row.refresh_from_db()
    return claim.state, longer.status, more.status


def test_inbox_offers_a_checkbox_for_every_kind(client, root, lena, mixed):
    client.force_login(lena)
    page = client.get(INBOX).text
    assert f'name="claim" value="{mixed["claim"][0]}"' in page
    assert f'name="extension" value="{mixed["extension"][0]}"' in page
    assert 'name="quota"' not in page  # platform admins decide on quota
    client.force_login(root)
    assert f'name="quota" value="{mixed["quota"][0]}"' in client.get(INBOX).text


def test_bulk_preview_shows_effects_and_totals(client, root, mixed, longer):
    client.force_login(root)
    page = " ".join(client.get(BULK, mixed).text.split())
    assert "gpu.nvidia.com: 2 → 4 of 8 used" in page
    assert "2 d longer" in page
    assert "Limit of gpu.nvidia.com: 8 → 12, for good." in page
    assert "3 requests, 2 devices" in page
    assert "vision would use 4 of 8 gpu.nvidia.com devices, 2 of them for these requests." in page
    assert "vision would keep 2 × gpu.nvidia.com longer: 96 device-hours in total." in page
    assert "vision: limit of gpu.nvidia.com 8 → 12." in page


def test_bulk_preview_names_blocked_requests(client, lena, mixed):
    client.force_login(lena)
    page = client.get(BULK, mixed).text
    assert "Only platform admins decide on quota." in page
    assert 'name="quota"' not in page
    assert "You cannot decide on the other 1." in page


def test_own_request_is_not_decided_in_bulk(client, lena, held, claim):
    own = make_extension(held, by=lena)
    client.force_login(lena)
    chosen = {"claim": [claim.pk], "extension": [own.pk]}
    assert "This is your own request. Somebody else must decide on it." in client.get(BULK, chosen).text
    answer = client.post(BULK, sent(chosen, claim))
    assert answer.status_code == 409
    assert "1 of 2 requests approved." in answer.text
    own.refresh_from_db()
    assert own.status == RequestStatus.WAITING


def test_bulk_preview_warns_of_failing_approvals(client, root, quota, longer, more):
    Quota.objects.filter(pk=quota.pk).update(devices=20)
    type(longer.claim).objects.filter(pk=longer.claim_id).update(state=ClaimState.RELEASED)
    client.force_login(root)
    page = client.get(BULK, {"extension": [longer.pk], "quota": [more.pk]}).text
    assert "It has ended; there is nothing left to extend." in page
    assert "The team already has a limit of 20; there is nothing left to approve." in page


def test_bulk_preview_names_the_second_approval(client, lena, vision, claim):
    ApprovalRule.objects.create(team=vision, approval=Approval.BOTH)
    client.force_login(lena)
    assert (
        "You give the first approval; a platform admin gives the second."
        in client.get(BULK, {"claim": [claim.pk]}).text
    )
    answer = client.post(BULK, sent({"claim": [claim.pk]}, claim))
    assert "First approval recorded. A platform admin decides next." in answer.text
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


def test_bulk_approval_twice_decides_once(client, root, mixed, claim, longer, more):
    client.force_login(root)
    first = client.post(BULK, sent(mixed, claim, note="Fine."))
    assert first.status_code == 200
    assert "3 of 3 requests approved." in first.text
    assert answers(claim, longer, more) == (
        ClaimState.APPROVED,
        RequestStatus.APPROVED,
        RequestStatus.APPROVED,
    )
    assert (longer.decision_note, longer.claim.expires_at) == ("Fine.", longer.until)
    assert Quota.objects.get().devices == 12
    steps = claim.history.count()
    assert client.post(BULK, sent(mixed, claim, note="Fine.")).status_code == 200
    claim.refresh_from_db()
    assert claim.history.count() == steps
    assert Quota.objects.get().devices == 12


def test_bulk_denial_of_every_kind(client, root, mixed, claim, longer, more):
    client.force_login(root)
    assert client.post(BULK, sent(mixed, claim, "deny")).status_code == 422
    assert answers(claim, longer, more) == (
        ClaimState.REQUESTED,
        RequestStatus.WAITING,
        RequestStatus.WAITING,
    )
    answer = client.post(BULK, sent(mixed, claim, "deny", note="The cluster moves."))
    assert "3 of 3 requests denied." in answer.text
    assert answers(claim, longer, more) == (ClaimState.DENIED, RequestStatus.DENIED, RequestStatus.DENIED)
    assert {row.decision_note for row in (claim, longer, more)} == {"The cluster moves."}


def test_refused_request_does_not_stop_the_others(client, root, lena, mixed, claim, longer, more):
    decide.deny(claim=claim, by=lena, reason="No.")
    client.force_login(root)
    answer = client.post(BULK, sent(mixed, claim))
    assert answer.status_code == 409
    assert "lena already denied sam2" in answer.text
    assert "2 of 3 requests approved." in answer.text
    assert answers(claim, longer, more) == (ClaimState.DENIED, RequestStatus.APPROVED, RequestStatus.APPROVED)


def test_bulk_decision_of_outsiders_and_viewers(client, eve, bob, mixed, claim, longer, more):
    client.force_login(eve)
    page = client.get(BULK, mixed).text
    assert "No requests selected" in page
    assert "held" not in page
    client.post(BULK, sent(mixed, claim))
    client.force_login(bob)
    assert client.post(BULK, sent(mixed, claim)).status_code == 409
    assert answers(claim, longer, more) == (
        ClaimState.REQUESTED,
        RequestStatus.WAITING,
        RequestStatus.WAITING,
    )


def test_invalid_ids_are_ignored_and_too_many_refused(client, root, claim):
    client.force_login(root)
    assert "sam2" in client.get(BULK, {"claim": ["x", claim.pk], "quota": ["…"]}).text
    many = [f"00000000-0000-0000-0000-{number:012}" for number in range(51)]
    refused = client.get(BULK, {"extension": many})
    assert refused.status_code == 422
    assert "You selected 51 requests; you can decide on up to 50 at once." in refused.text


def test_bulk_page_offers_reasons_of_the_team(client, lena, mixed):
    client.force_login(lena)
    assert "Smaller device is enough" in client.get(BULK, mixed).text


def test_bulk_queries_do_not_grow_with_extensions(client, root, vision, fra, train, alice):
    def extensions(count):
        return [
            make_extension(claim, by=alice).pk
            for claim in (
                make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED,
                           expires_at=timezone.now() + DAY)
                for _ in range(count)
            )
        ]  # fmt: skip

    client.force_login(root)
    few, many = extensions(1), extensions(9)
    client.get(BULK, {"extension": few})
    with CaptureQueriesContext(connection) as one:
        client.get(BULK, {"extension": few})
    with CaptureQueriesContext(connection) as nine:
        client.get(BULK, {"extension": many})
    assert len(nine) == len(one)


# The API


def api_of(user):
    api = APIClient()
    api.force_login(user)
    return api


def requests(mixed, claim):
    return [
        {"kind": "claim", "id": str(claim.pk), "spec_hash": claim.spec_hash},
        {"kind": "extension", "id": str(mixed["extension"][0])},
        {"kind": "quota", "id": str(mixed["quota"][0])},
    ]


def test_the_api_previews_and_decides(root, mixed, claim, longer, more):
    body = {"decision": "approve", "requests": requests(mixed, claim)}
    shown = api_of(root).post(API, body | {"preview": True}, format="json").json()
    assert {one["kind"] for one in shown["results"]} == {"claim", "extension", "quota"}
    assert "vision: limit of gpu.nvidia.com 8 → 12." in shown["together"]
    assert answers(claim, longer, more) == (
        ClaimState.REQUESTED,
        RequestStatus.WAITING,
        RequestStatus.WAITING,
    )
    done = api_of(root).post(API, body, format="json", headers={"Idempotency-Key": "k"})
    assert done.status_code == 200
    assert [one["done"] for one in done.json()["results"]] == [True, True, True]
    again = api_of(root).post(API, body, format="json", headers={"Idempotency-Key": "k"})
    assert again.json() == done.json()


def test_api_names_each_refusal(lena, eve, mixed, claim, longer, more):
    body = {"decision": "approve", "requests": requests(mixed, claim)}
    body["requests"][0]["spec_hash"] = "0" * 64
    told = {one["kind"]: one for one in api_of(lena).post(API, body, format="json").json()["results"]}
    assert (told["claim"]["done"], told["claim"]["code"]) == (False, "conflict")
    assert (told["quota"]["done"], told["quota"]["code"]) == (False, "forbidden")
    assert told["extension"]["done"]
    assert api_of(eve).post(API, body, format="json").json()["results"] == []


def test_the_api_denies_only_with_a_reason(lena, mixed, claim, longer, more):
    body = {"decision": "deny", "requests": requests(mixed, claim)}
    assert api_of(lena).post(API, body, format="json").status_code == 422
    assert api_of(lena).post(API, body | {"note": "No."}, format="json").status_code == 200
    assert answers(claim, longer, more) == (ClaimState.DENIED, RequestStatus.DENIED, RequestStatus.WAITING)
    assert api_of(lena).post(API, {"decision": "perhaps", "requests": []}, format="json").status_code == 422
