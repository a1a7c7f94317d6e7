from datetime import timedelta
from threading import BoundedSemaphore

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from claims import api_types
from claims.approvals.decide import approve
from claims.claim_page import api
from claims.inbox.comments import comment_on_claim
from claims.models import Alternative, Claim
from claims.states import ClaimState
from portal import api_urls
from tests.factories import make_allocation, make_claim, make_cluster, make_profile, make_team, make_user

pytestmark = pytest.mark.django_db
CLAIMS = "/api/v1/claims/"
ACTIONS = ("approve", "deny", "withdraw", "release")
READS = ("", "manifest/", "explain/", "history/")


def client(user) -> APIClient:
    made = APIClient()
    made.force_authenticate(user)
    return made


@pytest.fixture
def request_fields(vision, fra, train, quota, gateway):
    return {"team": "vision", "cluster": "fra-1", "profile": "train-80", "devices": 2}


@pytest.fixture
def claim(vision, fra, train, alice, quota):
    return make_claim(vision, by=alice, cluster=fra, profile=train, devices=2, reason="Fine-tune")


def test_api_requests_gpus_and_reads_claim(alice, request_fields):
    answer = client(alice).post(CLAIMS, request_fields, format="json", headers={"Idempotency-Key": "k1"})
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert (made["state"], made["devices"], made["team"], made["profile"]) == (
        "requested",
        2,
        "vision",
        "train-80",
    )
    assert made["duration"] == 86_400
    assert client(alice).get(f"{CLAIMS}{made['id']}/").json() == {**made, "woken_by": None}


def test_same_key_creates_one_claim(alice, request_fields):
    asked = [
        client(alice)
        .post(CLAIMS, request_fields, format="json", headers={"Idempotency-Key": "k1"})
        .json()["id"]
        for _ in "ab"
    ]
    assert asked[0] == asked[1]
    assert Claim.objects.count() == 1


def test_without_a_cluster_the_best_one_of_the_team_is_chosen_once(alice, vision, request_fields):
    del request_fields["cluster"]
    asked = []
    for _ in "ab":
        headers = {"Idempotency-Key": "k1"}
        asked.append(client(alice).post(CLAIMS, request_fields, format="json", headers=headers).json())
        make_cluster("aaa-1", teams=(vision,) if len(asked) == 1 else ())
    assert [one["cluster"] for one in asked] == ["fra-1", "fra-1"]
    assert asked[0]["id"] == asked[1]["id"]
    shown = client(alice).post("/api/v1/match/", request_fields, format="json")
    assert shown.status_code == 200


@pytest.mark.parametrize("key", ["k" * 81, "one\ttwo"])
def test_overlong_key_is_422(alice, request_fields, key):
    answer = client(alice).post(CLAIMS, request_fields, format="json", headers={"Idempotency-Key": key})
    assert answer.status_code == 422
    assert "An Idempotency-Key has at most 80 printable characters." in answer.content.decode()
    assert not Claim.objects.exists()


def test_without_key_each_request_creates_a_claim(alice, request_fields):
    for name in ("one", "two"):
        assert client(alice).post(CLAIMS, {**request_fields, "name": name}, format="json").status_code == 201
    assert Claim.objects.count() == 2


@pytest.mark.parametrize("part", READS)
@pytest.mark.parametrize("accept", [{}, {"Accept": "*/*"}, {"Accept": "application/json"}])
def test_address_works_without_accept_and_without_slash(alice, claim, part, accept):
    address = f"{CLAIMS}{claim.pk}/{part}"
    answer = client(alice).get(address, headers=accept)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"
    assert client(alice).get(address.rstrip("/"), headers=accept).json() == answer.json()


def test_every_address_of_the_api_ends_with_slash():
    for pattern in api_urls.urlpatterns:
        if getattr(pattern, "name", "") == "api-root":  # /api/v1/
            continue
        assert str(pattern.pattern).rstrip("$").removesuffix(r"\Z").endswith("/"), pattern


def test_refusal_is_problem_document_with_sentence_of_page(alice, request_fields):
    answer = client(alice).post(CLAIMS, request_fields | {"devices": 8, "name": "a"}, format="json")
    assert answer.status_code == 201
    answer = client(alice).post(CLAIMS, request_fields, format="json")
    assert (answer.status_code, answer["Content-Type"]) == (409, "application/problem+json")
    assert answer.json()["code"] == "quota-exceeded"
    assert answer.json()["detail"] == (
        "Quota of Vision exceeded by 2: 8 of 8 gpu.nvidia.com devices in use or reserved; "
        "this request needs 2. "
        "Release a claim of the team, request fewer devices, or ask for more quota."
    )


@pytest.mark.parametrize(
    ("field", "status", "sentence"),
    [
        ("cluster", 422, "There is no cluster nowhere. Clusters: fra-1."),
        ("profile", 422, "There is no profile nowhere. “dragoman profiles” lists them."),
        ("team", 404, "There is no team nowhere, or you are not in it. Your teams: vision."),
    ],
)
@pytest.mark.parametrize("address", [CLAIMS, "/api/v1/match/"])
def test_a_name_that_does_not_exist_is_named_with_those_that_do(
    alice, request_fields, address, field, status, sentence
):
    answer = client(alice).post(address, request_fields | {field: "nowhere"}, format="json")
    assert (answer.status_code, answer.json()["detail"]) == (status, sentence)
    assert answer.json()["code"] == ("not-found" if status == 404 else "unknown-name")


def test_too_many_devices_are_refused_with_one_limit(alice, request_fields):
    detail = client(alice).post(CLAIMS, request_fields | {"devices": 64}, format="json").json()["detail"]
    assert "train-80 allows 8 devices per claim; this request needs 64." in detail
    assert "32" not in detail


def test_who_is_not_signed_in_reads_how_to_send_a_token(request_fields):
    detail = APIClient().get(CLAIMS).json()["detail"]
    assert detail == "You are not signed in. Send a token of the page API tokens: Authorization: Bearer drg_…"


def test_a_claim_is_found_by_its_name_and_by_the_key_of_its_own_requester(alice, lena, claim):
    def found(person, **query):
        return [row["id"] for row in client(person).get(CLAIMS, query).json()["results"]]

    assert found(alice, name=claim.name) == found(alice, key=claim.key) == [str(claim.pk)]
    assert found(lena, name=claim.name) == [str(claim.pk)]
    assert found(alice, name=claim.name[:-1]) == found(lena, key=claim.key) == []


def test_an_explanation_says_of_which_version_it_is(alice, claim):
    body = client(alice).get(f"{CLAIMS}{claim.pk}/explain/").json()
    assert body["version"] == claim.version


@pytest.mark.parametrize(
    "change",
    [
        {"devices": 0}, {"devices": "many"}, {"cluster": "nowhere"}, {"profile": "nothing"},
        {"delivery": "pigeon"},
        {"duration": "P99999D"}, {"name": "Upper"}, {"parallel": 2},
    ],
)  # fmt: skip
def test_malformed_request_is_422(alice, request_fields, change):
    answer = client(alice).post(CLAIMS, request_fields | change, format="json")
    assert answer.status_code == 422, answer.json()
    assert answer["Content-Type"] == "application/problem+json"
    assert not Claim.objects.exists()


def test_outsider_cannot_request_for_hidden_team(eve, request_fields):
    assert client(eve).post(CLAIMS, request_fields, format="json").status_code == 404


def test_viewer_cannot_request(bob, request_fields):
    assert client(bob).post(CLAIMS, request_fields, format="json").status_code == 403


def test_anonymous_request_is_401(request_fields, claim):
    for answer in (
        APIClient().get(CLAIMS),
        APIClient().post(CLAIMS, request_fields, format="json"),
        APIClient().get(f"{CLAIMS}{claim.pk}/"),
    ):
        assert answer.status_code == 401


@pytest.mark.parametrize("path", READS)
def test_team_reads_claim_and_outsider_gets_404(alice, bob, lena, eve, root, claim, path):
    url = f"{CLAIMS}{claim.pk}/{path}"
    assert {client(user).get(url).status_code for user in (alice, bob, lena, root)} == {200}
    assert client(eve).get(url).status_code == 404


@pytest.mark.parametrize("action", ACTIONS)
def test_outsiders_and_viewers_cannot_change_claim(bob, eve, claim, action):
    body = {"approve": {"spec_hash": claim.spec_hash}, "deny": {"reason": "because"}}.get(action, {})
    url = f"{CLAIMS}{claim.pk}/{action}/"
    assert client(eve).post(url, body, format="json").status_code == 404
    assert client(bob).post(url, body, format="json").status_code == 403
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


def test_second_approval_names_first_decider(lena, lars, claim):
    url = f"{CLAIMS}{claim.pk}/approve/"
    answer = client(lena).post(url, {"spec_hash": claim.spec_hash, "note": "fine"}, format="json")
    assert (answer.status_code, answer.json()["decided_by"]) == (200, "lena")
    answer = client(lars).post(url, {"spec_hash": claim.spec_hash}, format="json")
    assert answer.status_code == 409
    assert answer.json()["detail"].startswith("lena already approved")


def test_approval_needs_current_spec_hash(lena, claim):
    url = f"{CLAIMS}{claim.pk}/approve/"
    assert client(lena).post(url, {}, format="json").status_code == 422
    assert client(lena).post(url, {"spec_hash": "0"}, format="json").status_code == 409


def test_denial_needs_reason(lena, claim):
    url = f"{CLAIMS}{claim.pk}/deny/"
    assert client(lena).post(url, {"reason": ""}, format="json").status_code == 422
    assert client(lena).post(url, {"reason": "no"}, format="json").json()["state"] == "denied"


def test_requester_withdraws_once(alice, claim):
    assert client(alice).post(f"{CLAIMS}{claim.pk}/withdraw/").json()["state"] == "withdrawn"
    answer = client(alice).post(f"{CLAIMS}{claim.pk}/release/")
    assert (answer.status_code, answer.json()["code"]) == (409, "illegal-transition")


def test_requester_releases_claim(alice, lena, claim):
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert client(alice).post(f"{CLAIMS}{claim.pk}/release/").json()["state"] == "releasing"


def test_manifest_is_delivered_object_and_snippets_use_it(alice, claim):
    shown = client(alice).get(f"{CLAIMS}{claim.pk}/manifest/").json()
    assert shown["manifest"]["kind"] == "ResourceClaim"
    assert shown["manifest"]["metadata"]["labels"]["gpu.dragoman.dev/claim"] == str(claim.pk)
    texts = {snippet["key"]: snippet["text"] for snippet in shown["snippets"]}
    assert f"resourceClaimName: {claim.name}" in texts["pod"]
    compile(texts["notebook"], "cell", "exec")


def test_explanation_names_next_actor(alice, claim):
    shown = client(alice).get(f"{CLAIMS}{claim.pk}/explain/").json()
    assert (shown["actor"], shown["headline"]) == ("person", "lars or lena decides next.")
    assert [step["status"] for step in shown["steps"]][:3] == ["done", "done", "now"]


def test_history_names_actors_oldest_first(alice, lena, claim):
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash, note="fine")
    shown = client(alice).get(f"{CLAIMS}{claim.pk}/history/").json()
    assert [(step["new"], step["by"], step["reason"]) for step in shown["results"]] == [
        ("requested", "alice", "Fine-tune"),
        ("approved", "lena", "fine"),
    ]


def test_list_filters_by_state_team_and_cluster(root, vision, fra, train, claim):
    nlp, lab = make_team("nlp"), make_cluster("lab-2")
    other = make_claim(nlp, by=root, cluster=lab, profile=train, state=ClaimState.ALLOCATED)
    for query, found in (
        ("state=allocated", {other}), ("state=allocated&state=requested", {claim, other}),
        ("team=vision", {claim}),
        ("cluster=lab-2", {other}), ("mine=true", {other}), ("profile=train-80", {claim, other}),
    ):  # fmt: skip
        rows = client(root).get(f"{CLAIMS}?{query}").json()["results"]
        assert {row["id"] for row in rows} == {str(one.pk) for one in found}, query
    assert client(root).get(f"{CLAIMS}?state=nonsense").status_code == 422


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_list_shows_each_claim_as_its_own_address_does(alice, lena, vision, fra, train, zone):
    other = make_profile("nic")
    states = (ClaimState.REQUESTED, ClaimState.ALLOCATED, ClaimState.DENIED, ClaimState.RELEASED)
    claims = [make_claim(vision, by=alice, cluster=fra, profile=train, state=state) for state in states]
    claims.append(make_claim(vision, by=lena, cluster=fra, profile=train, parallel=3, problem="It is gone."))
    for claim, together in zip(claims[:2], (False, True), strict=True):
        for position, profile in enumerate((other, train)):
            Alternative.objects.create(
                claim=claim,
                position=position,
                name=profile.slug,
                profile_version=profile.current,
                devices=1,
                together=together,
            )
    with timezone.override(zone):
        rows = {row["id"]: row for row in client(alice).get(CLAIMS).json()["results"]}
        for claim in claims:
            whole = client(alice).get(f"{CLAIMS}{claim.pk}/").json()
            assert rows[str(claim.pk)] == {name: whole[name] for name in api_types.ClaimOut.Meta.fields}
    assert len(rows) == len(claims)


def test_list_hides_claims_of_other_teams(alice, eve, claim):
    assert [row["id"] for row in client(alice).get(CLAIMS).json()["results"]] == [str(claim.pk)]
    assert client(eve).get(CLAIMS).json()["results"] == []


def test_list_pages_by_cursor(alice, vision, fra, train, claim):
    for _ in range(3):
        make_claim(vision, by=alice, cluster=fra, profile=train)
    page = client(alice).get(f"{CLAIMS}?limit=3").json()
    rest = client(alice).get(page["next"]).json()
    assert len(page["results"]) == 3
    assert [row["id"] for row in rest["results"]] == [str(claim.pk)]


def test_the_list_costs_the_same_for_one_and_for_many(
    alice, vision, fra, train, claim, django_assert_num_queries
):
    user_of = client(alice)
    with CaptureQueriesContext(connection) as one:
        user_of.get(CLAIMS)
    for _ in range(20):
        make_claim(vision, by=alice, cluster=fra, profile=make_profile(f"p-{_}"))
    with django_assert_num_queries(len(one)):
        user_of.get(CLAIMS)


def test_wait_returns_at_once_for_old_version(alice, claim, monkeypatch):
    monkeypatch.setattr("claims.claim_page.api.time.sleep", lambda _seconds: pytest.fail("It waited."))
    url = f"{CLAIMS}{claim.pk}/?wait=20&version={claim.version - 1}"
    answer = client(alice).get(url).json()
    assert (answer["version"], answer["woken_by"]) == (claim.version, "earlier")


def test_wait_returns_when_claim_changes(alice, lena, claim, monkeypatch):
    def approve_meanwhile(_seconds):
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)

    monkeypatch.setattr("claims.claim_page.api.time.sleep", approve_meanwhile)
    url = f"{CLAIMS}{claim.pk}/?wait=20&version={claim.version}"
    answer = client(alice).get(url).json()
    assert (answer["state"], answer["woken_by"]) == ("approved", "state")


def add_comment(claim):
    comment_on_claim(claim=claim, by=claim.requested_by, text="Why?", key="k")


def get_device(claim):
    make_allocation(claim, timezone.now())
    claim.remark("Devices.")


MEANWHILE = {
    "decision": lambda claim: claim.remark("First approval.", decision_note="Fine by me."),
    "devices": get_device,
    "end": lambda claim: claim.remark("Longer.", expires_at=timezone.now() + timedelta(days=1)),
    "owner": lambda claim: claim.remark("Another owner.", requested_by=make_user("next")),
    "problem": lambda claim: claim.remark("Trouble.", problem="Refused."),
    "pods": lambda claim: claim.remark("Seen.", observation_hash="other"),
    "comment": add_comment,
    "other": lambda claim: claim.remark("Something else."),
    "timeout": lambda claim: None,
}


@pytest.mark.parametrize("reason", MEANWHILE)
def test_wait_says_what_has_woken_it(alice, claim, monkeypatch, reason):
    steps = iter([MEANWHILE[reason], *[lambda _claim: None] * 99])
    clock = iter(range(10_000))
    monkeypatch.setattr("claims.claim_page.api.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("claims.claim_page.api.time.sleep", lambda _seconds: next(steps)(claim))
    url = f"{CLAIMS}{claim.pk}/?wait=20&version={claim.version}"
    assert client(alice).get(url).json()["woken_by"] == reason


def test_wait_that_has_no_room_says_so(alice, claim, monkeypatch):
    monkeypatch.setattr("claims.claim_page.api.WAIT_SLOTS", BoundedSemaphore(1))
    assert api.WAIT_SLOTS.acquire(blocking=False)
    url = f"{CLAIMS}{claim.pk}/?wait=20&version={claim.version}"
    assert client(alice).get(url).json()["woken_by"] == "busy"


def test_wait_is_shorter_than_proxy_timeout(alice, claim, monkeypatch):
    clock = iter(range(10_000))
    waited: list[float] = []
    monkeypatch.setattr("claims.claim_page.api.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("claims.claim_page.api.time.sleep", waited.append)
    assert client(alice).get(f"{CLAIMS}{claim.pk}/?wait=9999&version={claim.version}").status_code == 200
    assert len(waited) < api.MAX_WAIT


@pytest.mark.parametrize(
    "query", ["wait=soon&version=1", "wait=1&version=x", "wait=-1&version=1", "wait=²&version=1"]
)
def test_wait_needs_whole_numbers(alice, claim, query):
    assert client(alice).get(f"{CLAIMS}{claim.pk}/?{query}").status_code == 422
