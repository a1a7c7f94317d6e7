"""A pod gets a token of the portal for the one that Kubernetes gave it, if an owner has allowed that."""

import base64
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from claims.models import TeamNamespace, WorkloadIdentity
from claims.workloads.services import TokenRefused, allow, disallow, exchange
from cluster.protocol import ReviewedToken, Unreachable
from core.errors import Conflict, Invalid
from inventory.models import Cluster
from teams.models import ApiToken, Role, recorded_changes
from teams.service_accounts import create_service_account, set_enabled
from teams.tokens import find_token
from tests.factories import make_cluster, make_team, make_user
from tests.fakes import FakeGateway

LOGIN = "/api/v1/login/kubernetes/"
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
SENTENCE = (
    "This token gives no access. It needs the audience “dragoman”, must not have expired, and an owner of "
    "the team must have allowed its service account."
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_counts_of_others():
    cache.clear()


@pytest.fixture
def olga():
    return make_user("olga")


@pytest.fixture
def vision(olga):
    return make_team("vision", owners=(olga,), leads=(make_user("lena"),), members=(make_user("alice"),))


@pytest.fixture
def fra(vision):
    return make_cluster("fra-1", teams=(vision,))


@pytest.fixture
def ci(olga, vision):
    return create_service_account(by=olga, team=vision, name="ci")


@pytest.fixture
def identity(ci, olga, fra):
    return allow(by=olga, account=ci, cluster="fra-1", service_account="trainer")


@pytest.fixture
def gateway(monkeypatch):
    fake = FakeGateway()

    @contextmanager
    def connected(cluster):
        fake.calls.append(("connect", cluster.name, ""))
        yield fake

    monkeypatch.setattr("claims.workloads.services.gateway_for", connected)
    return fake


def token_of(gateway, *, namespace="vision", name="trainer", audience="dragoman", ends_in=600, known=True):
    """Return a token of a pod, which the cluster knows."""
    claims = {"sub": f"system:serviceaccount:{namespace}:{name}", "aud": [audience]}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    text = f"head.{payload}.signature"
    if known:
        ends = datetime.now(UTC) + timedelta(seconds=ends_in)
        gateway.tokens[text] = (audience, ReviewedToken(namespace, name, ends, "train-0"))
    return text


def login(cluster="fra-1", token="", **environ):
    return APIClient().post(LOGIN, {"cluster": cluster, "token": token}, format="json", **environ)


def test_a_pod_gets_a_token_of_the_service_account_that_never_outlives_its_own(identity, gateway, ci):
    with time_machine.travel(NOW, tick=False):
        answer = login(token=token_of(gateway, ends_in=600))
        assert answer.status_code == 200
        body = answer.json()
        assert body["expires_at"] == "2026-11-22T09:10:00Z"
        assert (body["token_type"], body["scopes"]) == ("Bearer", ["read", "request"])
        assert answer.headers["Cache-Control"] == "no-store"
        me = (
            APIClient().get("/api/v1/me/", headers={"Authorization": f"Bearer {body['access_token']}"}).json()
        )
    assert (me["username"], me["token"]["title"]) == ("ci@vision", "train-0 in fra-1/vision")
    assert [row["team"] for row in me["teams"]] == ["vision"]


def test_its_token_lasts_an_hour_at_most(identity, gateway):
    with time_machine.travel(NOW, tick=False):
        body = login(token=token_of(gateway, ends_in=86_400)).json()
    assert body["expires_at"] == "2026-11-22T10:00:00Z"


def test_a_viewer_gets_a_token_that_reads(gateway, olga, vision, fra):
    viewer = create_service_account(by=olga, team=vision, name="exporter", role=Role.VIEWER)
    allow(by=olga, account=viewer, cluster="fra-1", service_account="trainer")
    assert login(token=token_of(gateway)).json()["scopes"] == ["read"]


WRONG = {
    "nonsense": lambda gateway: ("fra-1", "nonsense"),
    "not JSON": lambda gateway: ("fra-1", "a.b.c"),
    "a list": lambda gateway: ("fra-1", f"a.{base64.urlsafe_b64encode(b'[]').decode()}.c"),
    "unknown to the cluster": lambda gateway: ("fra-1", token_of(gateway, known=False)),
    "another audience": lambda gateway: ("fra-1", token_of(gateway, audience="another")),
    "expired": lambda gateway: ("fra-1", token_of(gateway, ends_in=-1)),
    "another service account": lambda gateway: ("fra-1", token_of(gateway, name="default")),
    "another namespace": lambda gateway: ("fra-1", token_of(gateway, namespace="speech")),
    "another cluster": lambda gateway: ("lab-2", token_of(gateway)),
    "an unknown cluster": lambda gateway: ("nowhere", token_of(gateway)),
}


@pytest.mark.security("sign-in", "signs in as a pod with forged, expired and foreign tokens")
@pytest.mark.parametrize("kind", WRONG)
def test_every_wrong_token_is_401_with_one_sentence(identity, gateway, kind):
    make_cluster("lab-2")
    cluster, token = WRONG[kind](gateway)
    answer = login(cluster, token)
    assert (answer.status_code, answer.json()["detail"]) == (401, SENTENCE)
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    assert not ApiToken.objects.exists()


def test_a_cluster_that_does_not_answer_is_no_other_sentence(identity, gateway):
    token = token_of(gateway)
    gateway.fail(Unreachable("fra:6443 does not answer."))
    answer = login(token=token)
    assert (answer.status_code, answer.json()["detail"]) == (401, SENTENCE)


@pytest.mark.security("outbound", "makes the portal ask clusters about made-up tokens of pods")
def test_the_cluster_is_not_asked_about_a_token_that_names_nobody_allowed(identity, gateway):
    login(token=token_of(gateway, name="default"))
    login("nowhere", token_of(gateway))
    assert gateway.calls == []


@pytest.mark.security("sign-in", "a token of a pod that names another service account than its cluster does")
def test_what_the_cluster_says_counts_and_not_what_the_token_says(identity, gateway):
    token = token_of(gateway)
    ends = datetime.now(UTC) + timedelta(minutes=5)
    gateway.tokens[token] = ("dragoman", ReviewedToken("vision", "default", ends))
    assert login(token=token).status_code == 401


@pytest.mark.parametrize("change", ["disallowed", "disabled", "cluster off", "namespace taken away"])
def test_nothing_is_given_any_more_once_it_is_not_allowed(identity, gateway, ci, olga, fra, change):
    if change == "disallowed":
        disallow(by=olga, identity=identity)
    elif change == "disabled":
        set_enabled(by=olga, account=ci, enabled=False)
    elif change == "cluster off":
        Cluster.objects.update(enabled=False)
    else:
        TeamNamespace.objects.all().delete()
    assert login(token=token_of(gateway)).status_code == 401


def test_past_tokens_of_pods_are_forgotten_and_others_stay(identity, gateway, ci):
    with time_machine.travel(NOW, tick=False):
        login(token=token_of(gateway))
        ApiToken.objects.update(created_at=NOW)
    with time_machine.travel(NOW + timedelta(days=2), tick=False):
        login(token=token_of(gateway))
    assert ApiToken.objects.count() == 1


def test_logins_are_limited_by_address(identity, gateway, settings):
    settings.API_ANONYMOUS_RATE = "2/min"
    statuses = [login(token="x").status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    assert login(token="x", REMOTE_ADDR="192.0.2.7").status_code == 401


def test_nothing_is_allowed_by_default(ci, gateway, fra):
    assert not WorkloadIdentity.objects.exists()
    with pytest.raises(TokenRefused):
        exchange(cluster="fra-1", token=token_of(gateway))


def test_allowing_is_recorded_and_repeating_it_changes_nothing(identity, ci, olga, vision):
    assert allow(by=olga, account=ci, cluster="fra-1", service_account="trainer") == identity
    texts = [entry.text for entry in recorded_changes(vision)]
    assert texts.count("service account ci: allowed fra-1/vision/trainer") == 1


def test_one_pod_acts_as_one_account(identity, olga, vision):
    other = create_service_account(by=olga, team=vision, name="other")
    with pytest.raises(Conflict, match="fra-1/vision/trainer acts as ci"):
        allow(by=olga, account=other, cluster="fra-1", service_account="trainer")


@pytest.mark.parametrize(("cluster", "name"), [("lab-2", "trainer"), ("fra-1", ""), ("fra-1", "a:b")])
def test_a_place_of_others_or_no_name_is_refused(ci, olga, fra, cluster, name):
    make_cluster("lab-2")
    with pytest.raises(Invalid):
        allow(by=olga, account=ci, cluster=cluster, service_account=name)


# Page and API.


def as_(name):
    client = Client()
    client.force_login(make_user(name))
    return client


def test_the_page_is_for_leads_and_only_owners_change_it(ci, fra):
    page = f"/teams/vision/service-accounts/{ci.pk}/pods/"
    body = {"cluster": "fra-1", "service_account": "trainer"}
    assert [as_(name).get(page).status_code for name in ("olga", "lena", "alice", "eve")] == [
        200,
        200,
        403,
        404,
    ]
    assert [as_(name).post(page, body).status_code for name in ("lena", "alice", "eve")] == [403, 403, 404]
    assert as_("olga").post(page, {"cluster": "lab-2", "service_account": "x"}).status_code == 422
    assert as_("olga").post(page, body).status_code == 302
    row = WorkloadIdentity.objects.get()
    assert "trainer" in as_("lena").get(page).text
    remove = f"{page}{row.pk}/remove"
    assert as_("lena").post(remove).status_code == 403
    assert as_("olga").post(remove).status_code == 302
    assert not WorkloadIdentity.objects.exists()


def test_the_api_lists_allows_and_ends(ci, fra):
    address = "/api/v1/teams/vision/service-accounts/ci/workloads/"
    body = {"cluster": "fra-1", "service_account": "trainer"}

    def api(name):
        client = APIClient()
        client.force_login(make_user(name))
        return client

    assert [api(name).post(address, body, format="json").status_code for name in ("lena", "eve")] == [
        403,
        404,
    ]
    made = api("olga").post(address, body, format="json")
    assert made.status_code == 201
    assert made.json()["namespace"] == "vision"
    assert api("lena").get(address).json()["results"] == [made.json()]
    assert api("alice").get(address).status_code == 403
    assert api("olga").post(address, body | {"cluster": "lab-2"}, format="json").status_code == 422
    assert api("lena").delete(f"{address}{made.json()['id']}/").status_code == 403
    assert api("olga").delete(f"{address}{made.json()['id']}/").status_code == 204


def test_a_token_of_a_pod_is_found_with_one_query(identity, gateway, django_assert_num_queries):
    text = login(token=token_of(gateway)).json()["access_token"]
    find_token(text)
    with django_assert_num_queries(1):
        assert find_token(text) is not None


@pytest.mark.security("access", "names of Kubernetes service accounts that mean more than one, or none")
@pytest.mark.parametrize(
    "name", ["*", "../x", "x y", "", "X", "x:y", "-x", "x-", "x..y", "x\n", "é", "x/y", "a" * 254], ids=ascii
)
def test_what_is_no_name_of_a_service_account_is_refused(olga, ci, fra, name):
    with pytest.raises(Invalid, match="Each one is allowed by its name"):
        allow(by=olga, account=ci, cluster="fra-1", service_account=name)
    assert not WorkloadIdentity.objects.exists()


@pytest.mark.parametrize("name", ["default", "a", "build.robot-2", "0", "a" * 253], ids=ascii)
def test_each_name_of_a_service_account_that_kubernetes_takes_is_allowed(olga, ci, fra, name):
    assert allow(by=olga, account=ci, cluster="fra-1", service_account=name).service_account == name
