"""Refused writes, tokens and codes are in the audit log, and nobody can fill it with them."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from notify.models import Notice
from portal.tasks import verify_audit_log
from teams import device_login
from teams.audit.chain import seal
from teams.models import AuditEntry, record
from teams.tokens import new_text
from tests.factories import changing_the_log, make_claim, make_cluster, make_team, make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_counts():
    cache.clear()


@pytest.fixture
def eve():
    return make_user("eve")


@pytest.fixture
def browser(eve):
    client = Client()
    client.force_login(eve)
    return client


@pytest.fixture
def claim():
    alice = make_user("alice")
    team = make_team("vision", members=(alice,))
    return make_claim(team, by=alice, cluster=make_cluster(teams=(team,)))


def entries(action):
    return list(AuditEntry.objects.filter(action=action).order_by("at"))


@pytest.mark.security("audit", "writes to a claim of another team, and then many more of them")
def test_a_refused_write_is_recorded_and_repeats_are_counted(browser, eve, claim):
    path = f"/claims/{claim.pk}/release/"
    assert browser.post(path).status_code == 404
    (entry,) = entries("request.refused")
    assert (entry.by_id, entry.name, entry.object_id) == (eve.pk, "POST claims:release", str(claim.pk))
    assert (entry.address, entry.source) == ("127.0.0.1", "web")
    for _ in range(5):
        browser.post(path)
    assert len(entries("request.refused")) == 1
    cache.delete(f"refused:request.refused:{eve.pk}")  # a minute later
    with changing_the_log():
        AuditEntry.objects.filter(pk=entry.pk).update(at=entry.at - timedelta(minutes=2))
    browser.post(path)
    _first, second = entries("request.refused")
    assert second.values == [["More of these since the entry before", "–", "5"]]


@pytest.mark.security("audit", "floods the log with refusals while the cache is away")
def test_without_a_cache_the_log_itself_says_what_was_recorded(browser, claim, monkeypatch):
    monkeypatch.setattr("teams.audit.refusals.cache.add", lambda *_key: True)
    for _ in range(3):
        browser.post(f"/claims/{claim.pk}/release/")
    assert len(entries("request.refused")) == 1


def test_a_refusal_of_the_api_names_the_token(eve, claim):
    row, text = make_token(eve)
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert api.post(f"/api/v1/claims/{claim.pk}/release/", {}, format="json").status_code == 404
    (entry,) = entries("request.refused")
    assert (entry.by_id, entry.token, entry.source) == (eve.pk, row.start, "token")


def test_reading_and_unknown_addresses_and_allowed_writes_leave_no_refusal(browser, claim):
    browser.get(f"/claims/{claim.pk}/")
    browser.post("/no/such/address/")
    browser.post("/me/notices/read/")
    Client().post(f"/claims/{claim.pk}/release/")  # led to the sign-in
    assert entries("request.refused") == []


@pytest.mark.security("audit", "tries tokens: of the portal, and of somewhere else")
def test_a_wrong_token_is_recorded_by_its_start_and_another_secret_not_at_all(db):
    text, api = new_text(), APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert api.get("/api/v1/me/").status_code == 401
    (entry,) = entries("token.refused")
    assert (entry.actor_kind, entry.name, entry.address) == ("nobody", text[:10], "127.0.0.1")
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}", REMOTE_ADDR="10.0.0.9")
    assert api.get("/api/v1/me/").status_code == 401
    _first, other = entries("token.refused")
    assert secret[:10] not in str(other.__dict__)
    for _ in range(4):
        api.get("/api/v1/me/")
    assert len(entries("token.refused")) == 2


@pytest.mark.security("audit", "guesses the codes of device logins, as a person and as a program")
def test_wrong_codes_of_a_device_login_are_recorded(browser, eve):
    assert browser.get("/device/?code=BCDF-GHJK").status_code == 422
    answer = APIClient().post("/api/v1/login/device/token/", {"device_code": "x"}, format="json")
    assert answer.status_code == 400
    typed, sent = entries("device_login.failed")
    assert (typed.by_id, typed.actor_kind) == (eve.pk, "person")
    assert (sent.by_id, sent.actor_kind, sent.address) == (None, "nobody", "127.0.0.1")


def test_a_program_that_waits_leaves_no_entry():
    started = device_login.start(client="CLI", scopes=["read"], address=None)
    body = {"device_code": started.device_code}
    assert APIClient().post("/api/v1/login/device/token/", body, format="json").status_code == 400
    assert entries("device_login.failed") == []


def test_a_pod_with_a_wrong_token_is_recorded(claim):
    body = {"cluster": "fra-1", "token": "a.b.c"}
    assert APIClient().post("/api/v1/login/kubernetes/", body, format="json").status_code == 401
    (entry,) = entries("token.refused")
    assert entry.name == "pod of fra-1"


@pytest.mark.security("audit", "changes an entry in the database: platform admins and Prometheus are told")
def test_a_changed_log_is_told_of_once(client):
    root = make_user("root", admin=True)
    make_user("eve")
    record(by=None, action="team.changed", kind="team", name="one")
    seal()
    verify_audit_log()
    assert Notice.objects.count() == 0
    assert "dragoman_audit_log_changed 0.0" in client.get("/metrics").text
    with changing_the_log():
        AuditEntry.objects.filter(name="one").update(text="nothing happened")
    verify_audit_log()
    verify_audit_log()
    (notice,) = Notice.objects.all()
    assert (notice.user_id, notice.url, notice.important) == (root.pk, "/audit/", True)
    assert "was changed" in notice.body
    metrics = client.get("/metrics").text
    assert "dragoman_audit_log_changed 1.0" in metrics
    assert "dragoman_audit_log_verification_age_seconds" in metrics
