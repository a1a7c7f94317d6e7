"""What is sent again, what is not, and what a refusal becomes; with and without `await`."""

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import dragoman
import httpx
import pytest
from dragoman import text
from dragoman._sync.transport import Transport
from dragoman.config import Settings

from tests.clients.portals import URL, Asynchronous, Scripted, Synchronous, answer, problem

CLAIM = {"id": "0190c8f4-0000-7000-8000-000000000001", "state": "requested", "version": 1, "name": "train"}
ID = CLAIM["id"]
LOST = httpx.ReadTimeout("timed out")
REFUSED = httpx.ConnectError("connection refused")
WANTED = {"team": "vision", "cluster": "fra-1", "hours": 4}


@pytest.fixture(params=[Synchronous, Asynchronous], ids=["sync", "async"])
def portal(request, no_pauses):
    return lambda script, **options: request.param(script, **options)


@pytest.mark.parametrize("trouble", [LOST, REFUSED, problem(503, "unavailable"), problem(502), problem(429)])
def test_a_read_is_sent_again(portal, trouble, no_pauses):
    script = Scripted(trouble, answer(username="mira"))
    assert portal(script).call("me").username == "mira"
    assert len(no_pauses) == 1


@pytest.mark.parametrize("trouble", [LOST, REFUSED, problem(503, "unavailable"), problem(429)])
def test_a_write_is_sent_again_with_the_same_key(portal, trouble):
    script = Scripted(trouble, answer(201, **CLAIM))
    assert portal(script).call("request", "train-80g", **WANTED).id == ID
    assert len(set(script.keys)) == 1
    assert script.keys[0]


def test_the_key_of_the_caller_is_sent(portal):
    script = Scripted(answer(201, **CLAIM))
    portal(script).call("request", "train-80g", key="nightly-7", **WANTED)
    assert script.keys == ["nightly-7"]
    assert script.bodies() == [
        {"team": "vision", "cluster": "fra-1", "profile": "train-80g", "devices": 1, "parallel": 1}
        | {"delivery": "claim", "duration": 4 * 3600}
    ]


@pytest.mark.parametrize(("status", "sent"), [(429, 2), (503, 1), (502, 1)])
def test_a_write_without_a_key_is_sent_again_only_if_nothing_was_done(status, sent, no_pauses):
    """A limit refuses before anything is done; another error may come after it."""
    script = Scripted(problem(status), answer(device_code="d", user_code="u", verification_uri="v"))
    http = httpx.Client(transport=httpx.MockTransport(script))
    transport = Transport(Settings(URL), http=http)
    with suppress(dragoman.Unavailable):
        transport.send("POST", "login/device/", json={}, signed=False)
    assert (len(script.asked), script.keys[0]) == (sent, None)


def test_two_writes_have_two_keys(portal):
    script = Scripted(answer(201, **CLAIM), answer(201, **CLAIM))
    client = portal(script)
    client.call("request", "train-80g", **WANTED)
    client.call("request", "train-80g", **WANTED)
    assert len(set(script.keys)) == 2


def test_a_write_whose_answer_was_lost_waits_while_the_first_is_in_progress(portal):
    script = Scripted(LOST, problem(409, "conflict", "A request is in progress."), answer(201, **CLAIM))
    assert portal(script).call("request", "train-80g", **WANTED).id == ID


def test_a_conflict_is_not_sent_again(portal):
    script = Scripted(problem(409, "conflict", "The name train is already used."))
    with pytest.raises(dragoman.Conflict, match="already used"):
        portal(script).call("request", "train-80g", **WANTED)
    assert len(script.asked) == 1


def test_the_portal_says_how_long_to_wait(portal, no_pauses):
    script = Scripted(problem(429, headers={"Retry-After": "7"}), answer(username="mira"))
    portal(script).call("me")
    assert 7 <= no_pauses[0] < 16


def test_a_long_wait_is_left_to_the_caller(portal):
    script = Scripted(problem(429, "too-many-requests", headers={"Retry-After": "900"}))
    with pytest.raises(dragoman.TooManyRequests) as error:
        portal(script).call("me")
    assert error.value.retry_after == 900


def test_it_gives_up_with_a_sentence(portal, no_pauses):
    script = Scripted(REFUSED, REFUSED, REFUSED)
    with pytest.raises(dragoman.Unavailable, match=r"http://portal.test does not answer: connection refused"):
        portal(script, tries=3).call("me")
    assert len(no_pauses) == 2
    assert no_pauses[1] > no_pauses[0] / 2


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthenticated", dragoman.Unauthenticated),
        (403, "forbidden", dragoman.Forbidden),
        (404, "not-found", dragoman.NotFound),
        (409, "conflict", dragoman.Conflict),
        (409, "illegal-transition", dragoman.Conflict),
        (409, "quota-exceeded", dragoman.QuotaExceeded),
        (409, "budget-exceeded", dragoman.BudgetExceeded),
        (409, "a-code-of-next-year", dragoman.Conflict),
        (422, "invalid", dragoman.Invalid),
        (500, "internal", dragoman.Unavailable),
        (422, "unknown-name", dragoman.UnknownName),
        (418, "teapot", dragoman.Refused),
    ],
)
def test_a_refusal_has_its_class_and_the_sentence_of_the_portal(portal, status, code, kind):
    with pytest.raises(kind, match=r"It is not possible.") as error:
        portal(Scripted(problem(status, code))).call("me")
    assert type(error.value) is kind
    assert (error.value.status, error.value.code) == (status, code)


def test_a_malformed_request_names_its_fields(portal):
    errors = [{"field": "devices", "message": "At least 1.", "code": "min_value"}]
    with pytest.raises(dragoman.Invalid) as error:
        portal(Scripted(problem(422, "invalid", errors=errors))).call("request", "train-80g", **WANTED)
    assert error.value.fields == (dragoman.FieldError("devices", "At least 1.", "min_value"),)


def test_a_token_that_is_no_longer_valid_says_how_to_sign_in_again(portal):
    with pytest.raises(dragoman.Unauthenticated, match=r"Sign in again: dragoman login http://portal\.test"):
        portal(Scripted(problem(401, "unauthenticated"))).call("me")


def test_a_scope_that_is_missing_says_how_to_get_it(portal):
    with pytest.raises(dragoman.Forbidden, match=r"dragoman login http://portal\.test --scope approve"):
        portal(Scripted(problem(403, "scope_missing", scope="approve"))).call("me")


def test_who_is_in_no_team_reads_what_helps(portal):
    nobody = answer(username="root", platform_admin=True, teams=[])
    with pytest.raises(dragoman.ConfigurationError, match="as platform admin you may request for each"):
        portal(Scripted(nobody)).call("request", "train-80g", cluster="fra-1")


def test_spans_are_told_by_the_clock_of_the_portal(portal):
    """A clock of this machine that is two hours ahead."""
    ahead = datetime.now(timezone.utc) - timedelta(hours=2)  # noqa: UP017 (Python 3.10)
    script = Scripted(answer(headers={"Date": format_datetime(ahead, usegmt=True)}, username="mira"))
    portal(script).call("me")
    try:
        assert text.ago(ahead + timedelta(hours=1, seconds=5)) in ("in 1 h", "in 59 min")
    finally:
        text.set_clock(format_datetime(datetime.now(timezone.utc), usegmt=True))  # noqa: UP017 (Python 3.10)
    assert text.ago(ahead) == "2 h ago"


def test_an_answer_of_something_else_is_no_crash(portal):
    with pytest.raises(dragoman.NotFound, match="answered 404 without an explanation"):
        portal(Scripted(httpx.Response(404, text="<html>nginx</html>"))).call("me")


def test_another_address_of_the_portal_is_named(portal):
    moved = httpx.Response(301, headers={"Location": "https://portal.test/api/v1/me/"})
    with pytest.raises(dragoman.Refused, match="redirects to https://portal"):
        portal(Scripted(moved)).call("me")


def test_a_page_instead_of_an_answer_is_a_sentence(portal):
    page = httpx.Response(200, text="<html>Sign in</html>")
    with pytest.raises(dragoman.Refused, match="something other than JSON"):
        portal(Scripted(page)).call("me")


def test_lists_follow_their_pages(portal):
    first = {"results": [{"name": "fra-1"}], "next": "http://inside:8000/api/v1/clusters/?cursor=abc"}
    script = Scripted(answer(**first), answer(results=[{"name": "lab-2"}], next=None))
    assert [cluster.name for cluster in portal(script).call("clusters")] == ["fra-1", "lab-2"]
    assert str(script.asked[1].url) == "http://portal.test/api/v1/clusters/?cursor=abc"


@pytest.mark.parametrize("name", ["../me", "a/b", "", "..", "a?b"])
def test_a_name_never_leads_to_another_address(portal, name):
    script = Scripted()
    with pytest.raises(dragoman.NotFound):
        portal(script).call("profile", name)
    assert script.asked == []


class TestWithoutACluster:
    closed = ({"name": "old", "enabled": False}, {"name": "mirror", "read_only": True})
    clusters = answer(results=[{"name": "fra-1"}, *closed, {"name": "lab-2"}], next=None)
    full = answer(match={"fits": False, "claims_that_fit": 0})
    free = answer(match={"fits": True, "claims_that_fit": 3})

    def test_the_request_goes_where_it_fits(self, portal):
        script = Scripted(self.clusters, self.full, self.free, answer(201, **CLAIM))
        portal(script).call("request", "train-80g", team="vision")
        assert script.bodies()[-1]["cluster"] == "lab-2"

    def test_the_same_key_finds_its_claim_although_another_cluster_fits_now(self, portal):
        used = problem(422, "invalid", "This Idempotency-Key was used for the request train.")
        script = Scripted(self.clusters, self.full, self.free, used, answer(201, **CLAIM))
        assert portal(script).call("request", "train-80g", team="vision", key="nightly").id == ID
        assert [body["cluster"] for body in script.bodies()[-2:]] == ["lab-2", "fra-1"]


def test_the_only_team_is_taken(portal):
    me = answer(
        username="mira", teams=[{"team": "vision", "role": "member"}, {"team": "nlp", "role": "viewer"}]
    )
    script = Scripted(me, answer(201, **CLAIM))
    portal(script).call("request", "train-80g", cluster="fra-1")
    assert script.asked[-1].read().count(b'"vision"') == 1


def test_several_teams_have_to_be_named(portal):
    me = answer(
        username="mira", teams=[{"team": "vision", "role": "member"}, {"team": "nlp", "role": "lead"}]
    )
    with pytest.raises(dragoman.ConfigurationError, match="Name one of: vision, nlp"):
        portal(Scripted(me)).call("request", "train-80g", cluster="fra-1")


class TestInsideAPod:
    """DRAGOMAN_CLUSTER and a projected token: the client signs in by itself."""

    @pytest.fixture(autouse=True)
    def pod(self, monkeypatch, tmp_path):
        (tmp_path / "token").write_text("projected\n")
        monkeypatch.setenv("DRAGOMAN_CLUSTER", "fra-1")
        monkeypatch.setenv("DRAGOMAN_TOKEN_FILE", str(tmp_path / "token"))

    def client(self, script):
        http = httpx.Client(transport=httpx.MockTransport(script))
        return dragoman.Client("http://portal.test", http=http)

    def test_it_exchanges_its_token_once(self):
        script = Scripted(answer(access_token="drg_pod"), answer(username="mira"), answer(username="mira"))
        client = self.client(script)
        client.me()
        client.me()
        assert str(script.asked[0].url) == "http://portal.test/api/v1/login/kubernetes/"
        assert script.asked[0].read() == b'{"cluster":"fra-1","token":"projected"}'
        assert [request.headers.get("Authorization") for request in script.asked] == [
            None,
            "Bearer drg_pod",
            "Bearer drg_pod",
        ]

    def test_an_expired_token_is_exchanged_again(self):
        expired = problem(401, "unauthenticated")
        script = Scripted(
            answer(access_token="drg_1"), expired, answer(access_token="drg_2"), answer(username="mira")
        )
        assert self.client(script).me().username == "mira"
        assert script.asked[-1].headers["Authorization"] == "Bearer drg_2"

    def test_a_refusal_is_not_tried_for_ever(self):
        expired = problem(401, "unauthenticated")
        script = Scripted(answer(access_token="drg_1"), expired, answer(access_token="drg_2"), expired)
        with pytest.raises(dragoman.Unauthenticated):
            self.client(script).me()

    def test_a_token_of_the_environment_comes_first(self, monkeypatch):
        monkeypatch.setenv("DRAGOMAN_TOKEN", "drg_own")
        script = Scripted(answer(username="mira"))
        self.client(script).me()
        assert script.asked[0].headers["Authorization"] == "Bearer drg_own"


def test_an_extension_begins_at_the_end_that_the_portal_says_now():
    """Somebody has extended the claim since it was read."""
    now = CLAIM | {"expires_at": "2026-11-18T16:00:00Z"}
    given = answer(201, id="e-1", until="2026-11-18T17:00:00Z")
    script = Scripted(answer(201, **CLAIM | {"expires_at": "2026-11-18T12:00:00Z"}))
    script.answers += [answer(**now), given, answer(**now)]
    claim = Synchronous(script).call("request", "train-80g", **WANTED)
    claim.extend(hours=1)
    assert script.bodies()[-1]["until"] == "2026-11-18T17:00:00+00:00"
