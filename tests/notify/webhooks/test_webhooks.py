"""Webhooks from the event to the receiver: written with the change, delivered, tried again, replayed."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

from claims.approvals.decide import approve, deny
from claims.lifecycle import services as lifecycle
from claims.quotas.services import deny_quota_request, request_quota
from claims.states import ClaimState
from claims.webhook_events import tell_of_budget, tell_of_end, tell_of_request, tell_of_state
from core.errors import Conflict, Forbidden
from notify.models import Notice
from notify.webhooks import delivery, services, signing, tasks
from notify.webhooks.kinds import CHOOSABLE, EventKind
from notify.webhooks.models import DeliveryState, Webhook, WebhookDelivery, WebhookEvent
from notify.webhooks.outbox import emit
from portal.openapi import resolved, stored
from teams.models import AuditEntry
from tests import patience
from tests.factories import (
    make_alert,
    make_budget,
    make_claim,
    make_extension,
    make_quota,
    make_quota_request,
    make_team,
    make_user,
)
from tests.notify.webhooks.receiver import running
from tests.notify.webhooks.test_sending import verification_in
from usage.alerts.services import notify_of

pytestmark = pytest.mark.django_db(transaction=True)

ALL = [key for key, _label in CHOOSABLE]


@pytest.fixture
def receiver():
    with running() as found:
        yield found


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def lea():
    return make_user("lea")


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def vision(lea, alice):
    team = make_team("vision", leads=(lea,), members=(alice,))
    make_quota(team)
    return team


def add(by, receiver, team=None, kinds=ALL, **more):
    return services.create_webhook(by=by, team=team, url=receiver.url, kinds=kinds, is_internal=True, **more)


@pytest.fixture
def hook(root, vision, receiver):
    """A webhook of the team, at a receiver on this machine, which an admin has allowed."""
    return add(root, receiver, vision)[0]


def later(monkeypatch, **span):
    now = timezone.now() + timedelta(**span)
    monkeypatch.setattr("notify.webhooks.delivery.timezone.now", lambda: now)
    return now


def types(receiver):
    return [json.loads(one.body)["type"] for one in receiver.got]


def happen(team, kind=EventKind.CLAIM_APPROVED, **data):
    emit(kind, team_id=team.pk if team else None, data=lambda: {"name": "x", **data})


# Events.


def test_the_life_of_a_claim_is_told(hook, receiver, vision, alice, lea):
    claim = make_claim(vision, by=alice)
    approve(claim=claim, by=lea, spec_hash=claim.spec_hash)
    lifecycle.withdraw(claim=make_claim(vision, by=alice), by=alice)
    deny(claim=make_claim(vision, by=alice), by=lea, reason="Not now.")
    told = [json.loads(one.body) for one in receiver.got]
    assert [one["type"] for one in told if one["type"] != "claim.requested"] == [
        "claim.approved",
        "claim.withdrawn",
        "claim.denied",
    ]
    (data,) = (one["data"] for one in told if one["type"] == "claim.approved")
    assert (data["id"], data["team"], data["state"], data["previous_state"]) == (
        str(claim.pk), "vision", "approved", "requested",
    )  # fmt: skip


def test_quota_requests_are_told(hook, receiver, vision, alice, root):
    asked = request_quota(
        by=alice, team=vision, device_class="mig.nvidia.com", devices=5, reason="More.", key="k"
    )
    deny_quota_request(quota_request=asked, by=root, reason="No.")
    assert types(receiver) == ["quota.requested", "quota.decided"]
    assert json.loads(receiver.got[1].body)["data"]["status"] == "denied"


def test_messages_are_as_the_api_describes_them(hook, receiver, vision, alice, lea, root):
    described = stored()
    claim = make_claim(vision, by=alice, state=ClaimState.ALLOCATED)
    tell_of_state(claim, "", ClaimState.REQUESTED)
    tell_of_end(claim)
    tell_of_request(make_extension(claim), decided=False)
    tell_of_request(make_quota_request(vision, by=alice), decided=True)
    tell_of_budget(make_budget(vision), share=0.81, threshold=0.8)
    notify_of(make_alert(vision, claim=claim), timezone.now())
    services.send_test(by=root, webhook=hook)
    kinds = set()
    for message in (json.loads(one.body) for one in receiver.got):
        kinds.add(message["type"])
        body = described["webhooks"][message["type"]]["post"]["requestBody"]["content"]["application/json"]
        data = resolved(described, body["schema"]["properties"]["data"])
        assert message["data"].keys() == data["properties"].keys() == set(data["required"])
        for part, schema in ((message, body["schema"]), (message["data"], data)):
            whole = {**schema, "components": described["components"]}
            Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(part)
    assert kinds >= {"claim.expiring", "extension.requested", "quota.decided", "budget.used", "alert.opened"}
    assert kinds >= {"claim.requested", "webhook.test"}


def test_every_kind_of_event_is_written_somewhere():
    """A kind that nobody can emit would be chosen in vain."""
    states = {f"claim.{state}" for state in ClaimState}
    others = {"claim.expiring", "extension.requested", "extension.decided", "quota.requested"}
    others |= {"quota.decided", "budget.used", "alert.opened"}
    assert set(ALL) == states | others


def test_an_event_is_of_its_team_and_of_the_portal(receiver, root, vision):
    nlp = make_team("nlp")
    add(root, receiver, vision, title="vision")
    add(root, receiver, nlp, title="nlp")
    add(root, receiver, None, title="portal")
    happen(vision)
    assert sorted(WebhookDelivery.objects.values_list("webhook__title", flat=True)) == ["portal", "vision"]
    happen(None, EventKind.ALERT_OPENED)
    assert WebhookDelivery.objects.filter(webhook__title="portal").count() == 2
    assert len(receiver.got) == 3


def test_only_the_chosen_kinds_are_sent(receiver, root, vision):
    add(root, receiver, vision, kinds=["claim.denied"])
    happen(vision, EventKind.CLAIM_APPROVED)
    happen(vision, EventKind.CLAIM_DENIED)
    assert types(receiver) == ["claim.denied"]


def test_an_event_is_gone_with_the_change_that_is_rolled_back(hook, receiver, vision):
    with transaction.atomic():
        happen(vision)
        transaction.set_rollback(True)
    assert not WebhookEvent.objects.exists()
    assert receiver.got == []


def test_without_a_webhook_an_event_costs_one_query_and_reads_nothing(vision):
    with CaptureQueriesContext(connection) as queries:
        emit(EventKind.CLAIM_APPROVED, team_id=vision.pk, data=lambda: pytest.fail("It was read."))
    assert len(queries) == 1


def test_a_url_in_the_data_gets_the_address_of_the_portal(hook, vision, settings):
    settings.PORTAL_URL = "https://gpus.example.org"
    happen(vision, url="/claims/1/")
    assert WebhookEvent.objects.get().data["url"] == "https://gpus.example.org/claims/1/"


# Delivery.


def test_a_message_is_signed_and_logged(root, vision, receiver):
    hook, secret = add(root, receiver, vision)
    happen(vision)
    (got,) = receiver.got
    scope: dict = {}
    exec(verification_in("docs/user/webhooks.md"), scope)
    assert scope["verify"](secret, got.headers, got.body)["type"] == "claim.approved"
    row = hook.deliveries.get()
    assert (row.state, row.due_at, row.taken_until) == (DeliveryState.DELIVERED, None, None)
    assert (row.last["status"], row.last["error"], row.last["answer"]) == (200, "", "thanks")
    assert got.headers["webhook-id"] == delivery.message_id(row.event)


def test_a_failed_message_comes_again_with_the_same_id_and_body(hook, receiver, vision, monkeypatch):
    receiver.statuses = [500, 503, 200]
    happen(vision)
    row = hook.deliveries.get()
    assert (row.state, row.tries, row.last["error"]) == (DeliveryState.WAITING, 1, "It answered 500.")
    assert timezone.now() < row.due_at <= timezone.now() + timedelta(seconds=11)
    tasks.deliver_webhooks()
    assert len(receiver.got) == 1  # it is not due yet
    later(monkeypatch, minutes=1)
    tasks.deliver_webhooks()
    later(monkeypatch, minutes=3)
    tasks.deliver_webhooks()
    assert len({(one.headers["webhook-id"], one.body) for one in receiver.got}) == 1
    row.refresh_from_db()
    assert (row.state, [one["status"] for one in row.attempts]) == (DeliveryState.DELIVERED, [500, 503, 200])
    hook.refresh_from_db()
    assert hook.failing_since is None


def test_waits_add_up_to_a_day():
    now, at = timezone.now(), timezone.now()
    for tries, wait in enumerate(delivery.WAITS, 1):
        ((column, due),) = delivery.after_failure(tries, at).items()
        assert column == "due_at"
        assert isinstance(due, datetime)
        assert abs(due - at - wait) <= wait / 10
        at = due
    assert timedelta(hours=21) < at - now < timedelta(hours=27)
    assert delivery.after_failure(tries + 1, at) == {"state": DeliveryState.FAILED, "due_at": None}


def test_a_webhook_that_fails_for_a_day_is_switched_off_and_its_leads_are_told(
    hook, receiver, vision, lea, monkeypatch
):
    receiver.statuses = [500]
    happen(vision)
    Webhook.objects.update(failing_since=timezone.now() - timedelta(hours=25))
    later(monkeypatch, minutes=1)
    tasks.deliver_webhooks()
    hook.refresh_from_db()
    assert hook.disabled_because == "It has failed for a day: It answered 500."
    notice = Notice.objects.get(user=lea)
    assert "is switched off" in notice.title
    happen(vision)
    assert len(receiver.got) == 2  # what happens meanwhile waits
    receiver.statuses = [200]
    monkeypatch.undo()
    services.set_webhook_enabled(by=lea, webhook=hook, enabled=True)
    assert hook.deliveries.filter(state=DeliveryState.DELIVERED).count() >= 1


def test_webhook_switched_on_again_has_another_day(hook, receiver, vision, lea):
    receiver.statuses = [500]
    happen(vision)
    Webhook.objects.update(failing_since=timezone.now() - timedelta(hours=25))
    services.replay(by=lea, delivery=hook.deliveries.get())
    hook.refresh_from_db()
    assert hook.disabled_at is not None
    services.set_webhook_enabled(by=lea, webhook=hook, enabled=True)
    services.replay(by=lea, delivery=hook.deliveries.get())
    assert len(receiver.got) >= 3
    hook.refresh_from_db()
    assert (hook.disabled_at, hook.disabled_because) == (None, "")


@pytest.mark.parametrize("portal", [False, True])
def test_410_switches_it_off_at_once_and_active_managers_are_told(hook, receiver, vision, lea, root, portal):
    for name in ("gone", "left"):
        person = make_user(name, admin=name == "gone")
        vision.memberships.create(user=person, role="lead")
        type(person).objects.filter(pk=person.pk).update(is_active=False)
    if portal:
        Webhook.objects.update(team=None)
    receiver.statuses = [410]
    happen(None if portal else vision)
    hook.refresh_from_db()
    assert hook.disabled_because == "It answered 410: it wants no more events."
    told = Notice.objects.filter(key__startswith=f"webhook:{hook.pk}").values_list("user", flat=True)
    assert list(told) == [root.pk if portal else lea.pk]


def test_log_keeps_newest_attempts_and_replay_begins_anew(hook, receiver, vision, lea):
    receiver.statuses = [500]
    happen(vision)
    old = [{"at": "2026-11-01T00:00:00+00:00", "status": 599, "ms": 1, "error": "x", "answer": ""}]
    hook.deliveries.update(
        attempts=old * delivery.KEPT_ATTEMPTS,
        tries=len(delivery.WAITS) + 1,
        state=DeliveryState.FAILED,
        due_at=None,
    )
    services.replay(by=lea, delivery=hook.deliveries.get())
    row = hook.deliveries.get()
    assert (len(row.attempts), row.last["status"]) == (delivery.KEPT_ATTEMPTS, 500)
    assert (row.state, row.tries) == (DeliveryState.WAITING, 1)


@pytest.mark.parametrize("values", [{"url": "https://x.example/"}, {"is_internal": False}])
def test_change_of_a_webhook_that_changed_meanwhile_is_refused(hook, lea, monkeypatch, values):
    def changed(kinds):
        Webhook.objects.update(**values)
        return list(kinds)

    monkeypatch.setattr(services, "require_kinds", changed)
    with pytest.raises(Conflict, match="Somebody else has just changed"):
        services.change_webhook(by=lea, webhook=hook, kinds=ALL[:1])
    hook.refresh_from_db()
    assert hook.kinds == ALL


@pytest.mark.parametrize("dead", range(1, delivery.IN_FLIGHT + 1))
def test_workers_that_died_are_replaced_after_a_minute(hook, receiver, vision, monkeypatch, dead):
    monkeypatch.setattr(tasks.deliver_webhooks, "delay", lambda: None)
    for _ in range(dead):
        happen(vision)
        assert delivery.take() is not None  # and nothing comes of it
    assert delivery.take() is None
    happen(vision)
    later(monkeypatch, seconds=61)
    tasks.deliver_webhooks()
    assert len(receiver.got) == dead + 1


def test_a_slow_receiver_gets_so_many_at_once_and_others_do_not_wait(root, vision, receiver, monkeypatch):
    monkeypatch.setattr(tasks.deliver_webhooks, "delay", lambda: None)
    add(root, receiver, vision, title="slow")
    for _ in range(delivery.IN_FLIGHT + 2):
        happen(vision)
    add(root, receiver, vision, title="other")
    happen(vision)
    taken = []
    while (row := delivery.take()) is not None:
        taken.append(row.webhook.title)
    assert taken.count("slow") == delivery.IN_FLIGHT
    assert taken.count("other") == 1


def test_of_two_workers_one_takes_it(hook, receiver, vision, monkeypatch):
    """Fails without the condition on `taken_until`; more than `IN_FLIGHT` at once without the slots."""
    monkeypatch.setattr(tasks.deliver_webhooks, "delay", lambda: None)
    for _ in range(6):
        happen(vision)
    barrier, receiver.takes = threading.Barrier(4, timeout=patience.LOCK), 0.05

    def work():
        try:
            barrier.wait()
            delivery.deliver_due()
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tasks.deliver_webhooks()
    ids = [one.headers["webhook-id"] for one in receiver.got]
    assert (len(ids), len(set(ids))) == (6, 6)
    assert 1 <= receiver.most_at_once <= delivery.IN_FLIGHT


def test_a_result_of_before_a_replay_does_not_undo_it(hook, receiver, vision, root, monkeypatch):
    monkeypatch.setattr(tasks.deliver_webhooks, "delay", lambda: None)
    happen(vision)
    taken = delivery.take()
    services.replay(by=root, delivery=WebhookDelivery.objects.select_related("webhook__team").get())
    delivery.attempt(taken)
    assert WebhookDelivery.objects.get().state == DeliveryState.WAITING


def test_failed_ones_are_replayed_together(hook, receiver, vision, root):
    for _ in range(3):
        happen(vision)
    WebhookDelivery.objects.filter(pk__in=[row.pk for row in hook.deliveries.all()[:2]]).update(
        state=DeliveryState.FAILED, due_at=None
    )
    assert services.replay_failed(by=root, webhook=hook) == 2
    assert len(receiver.got) == 5
    assert len({one.headers["webhook-id"] for one in receiver.got}) == 3


def test_while_a_secret_is_replaced_both_sign(root, vision, receiver, monkeypatch):
    hook, old = add(root, receiver, vision)
    new = services.rotate_secret(by=root, webhook=hook)
    happen(vision)
    scope: dict = {}
    exec(verification_in("docs/user/webhooks.md"), scope)
    got = receiver.got[0]
    assert scope["verify"](old, got.headers, got.body) == scope["verify"](new, got.headers, got.body)
    later(monkeypatch, hours=25)
    hook.refresh_from_db()
    assert delivery.secrets_of(hook, delivery.timezone.now()) == [new]


@pytest.mark.security("secrets", "reads secrets of webhooks from the database")
def test_secrets_are_stored_encrypted_and_resealed(root, vision, receiver, settings):
    hook, before = add(root, receiver, vision)
    secret = services.rotate_secret(by=root, webhook=hook)
    hook.refresh_from_db()
    assert secret.encode() not in bytes(hook.sealed)
    assert before.encode() not in bytes(hook.earlier)
    settings.CREDENTIAL_KEYS = ["bmV3LWtleS1uZXcta2V5LW5ldy1rZXktbmV3LWtleS0=", *settings.CREDENTIAL_KEYS]
    assert services.reseal_webhooks() == 1
    settings.CREDENTIAL_KEYS = settings.CREDENTIAL_KEYS[:1]
    hook.refresh_from_db()
    assert delivery.secrets_of(hook, timezone.now()) == [secret, before]


def test_of_two_secrets_given_at_once_one_is_refused(hook, root, monkeypatch):
    new_secret = signing.new_secret

    def meanwhile():
        monkeypatch.undo()
        services.rotate_secret(by=root, webhook=hook)
        return new_secret()

    monkeypatch.setattr(signing, "new_secret", meanwhile)
    with pytest.raises(Conflict, match="Somebody else has just replaced the secret"):
        services.rotate_secret(by=root, webhook=hook)


def test_secret_that_is_replaced_while_secrets_are_resealed_stays(hook, root, monkeypatch):
    reseal, given = services.reseal, []

    def meanwhile(sealed):
        monkeypatch.undo()
        given.append(services.rotate_secret(by=root, webhook=hook))
        return reseal(sealed)

    monkeypatch.setattr(services, "reseal", meanwhile)
    assert services.reseal_webhooks() == 0
    hook.refresh_from_db()
    assert delivery.secrets_of(hook, timezone.now())[0] == given[0]


@pytest.mark.parametrize("repair", ["enable", "remove"])
def test_notice_of_a_webhook_that_is_switched_off_is_read_once_it_is_repaired(
    hook, receiver, vision, lea, repair
):
    receiver.statuses = [410]
    happen(vision)
    assert Notice.objects.filter(user=lea, read_at=None, title__contains="is switched off").exists()
    if repair == "enable":
        services.set_webhook_enabled(by=lea, webhook=hook, enabled=True)
    else:
        services.remove_webhook(by=lea, webhook=hook)
    assert not Notice.objects.filter(user=lea, read_at=None).exists()


def test_delivery_that_is_due_for_longest_is_taken_first(hook, vision, monkeypatch):
    monkeypatch.setattr(tasks.deliver_webhooks, "delay", lambda: None)
    rows: list[UUID] = []
    for minutes in (1, 3, 2):
        happen(vision)
        row = hook.deliveries.exclude(pk__in=rows).get()
        hook.deliveries.filter(pk=row.pk).update(due_at=timezone.now() - timedelta(minutes=minutes))
        rows.append(row.pk)
    assert [delivery.take().pk, delivery.take().pk] == [rows[1], rows[2]]


def test_events_are_forgotten_after_a_month(hook, vision):
    happen(vision)
    WebhookEvent.objects.update(at=timezone.now() - timedelta(days=29))
    tasks.forget_webhook_events()
    assert WebhookDelivery.objects.count() == 1
    WebhookEvent.objects.update(at=timezone.now() - timedelta(days=31))
    tasks.forget_webhook_events()
    assert WebhookDelivery.objects.count() == 0


# Who may do what, over the API.


def as_person(person):
    api = APIClient()
    api.force_login(person)
    return api


HOOK = {"team": "vision", "url": "https://hooks.example.org/", "kinds": ["claim.approved"]}
HOOKS = "/api/v1/webhooks/"


def test_a_lead_adds_a_webhook_and_the_secret_is_returned_once(vision, lea, root):
    made = as_person(lea).post(HOOKS, HOOK, format="json")
    assert made.status_code == 201, made.content
    assert made.json()["secret"].startswith("whsec_")
    path = f"{HOOKS}{made.json()['id']}/"
    for text in (as_person(lea).get(path).content, as_person(root).get(HOOKS).content):
        assert b"whsec_" not in text
    assert "whsec_" not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [
        ("lea", {**HOOK, "url": "http://hooks.example.org/"}, 422),
        ("lea", {**HOOK, "url": "https://10.0.0.1/"}, 422),
        ("lea", {**HOOK, "internal": True}, 403),
        ("root", {**HOOK, "url": "http://10.0.0.1/", "internal": True}, 201),
        ("root", {**HOOK, "url": "http://169.254.169.254/", "internal": True}, 422),
        ("lea", {**HOOK, "kinds": []}, 422),
        ("lea", {**HOOK, "kinds": ["claim.nonsense"]}, 422),
        ("lea", {**HOOK, "kinds": ["webhook.test"]}, 422),
        ("lea", {**HOOK, "team": ""}, 403),
        ("root", {**HOOK, "team": ""}, 201),
        ("alice", HOOK, 403),
        ("eve", HOOK, 404),
    ],
)
def test_who_may_add_which_webhook(vision, lea, alice, root, who, body, status):
    people = {"lea": lea, "alice": alice, "root": root, "eve": make_user("eve")}
    answer = as_person(people[who]).post(HOOKS, body, format="json")
    assert answer.status_code == status, answer.content


def test_outsiders_and_members_see_no_webhook(hook, vision, alice):
    happen(vision)
    row = hook.deliveries.get()
    paths = [
        ("get", f"{HOOKS}{hook.pk}/"),
        ("patch", f"{HOOKS}{hook.pk}/"),
        ("delete", f"{HOOKS}{hook.pk}/"),
        ("post", f"{HOOKS}{hook.pk}/test/"),
        ("post", f"{HOOKS}{hook.pk}/rotate/"),
        ("post", f"{HOOKS}{hook.pk}/replay-failed/"),
        ("get", f"{HOOKS}{hook.pk}/deliveries/"),
        ("get", f"{HOOKS}{hook.pk}/deliveries/{row.pk}/"),
        ("post", f"{HOOKS}{hook.pk}/deliveries/{row.pk}/replay/"),
        ("get", f"/webhooks/{hook.pk}/"),
        ("post", f"/webhooks/{hook.pk}/act"),
        ("post", f"/webhooks/{hook.pk}/deliveries/{row.pk}/replay"),
    ]
    other_lead = make_user("otto")
    make_team("nlp", leads=(other_lead,))
    for person in (alice, other_lead):
        api = as_person(person)
        assert api.get(HOOKS).json()["results"] == []
        assert {getattr(api, method)(path, {}, format="json").status_code for method, path in paths} == {404}


def test_a_lead_changes_tests_and_removes_it_over_the_api(vision, lea, root, receiver):
    hook, _secret = add(root, receiver, vision)
    api, path = as_person(lea), f"{HOOKS}{hook.pk}/"
    assert api.patch(path, {"title": "CI", "kinds": ["claim.denied"]}, format="json").json()["title"] == "CI"
    sent = api.post(f"{path}test/").json()
    assert api.get(f"{path}deliveries/{sent['id']}/").json()["attempts"][0]["status"] == 200
    assert types(receiver) == ["webhook.test"]
    assert api.post(f"{path}deliveries/{sent['id']}/replay/").status_code == 202
    assert len(receiver.got) == 2
    assert api.get(f"{path}deliveries/?state=failed").json()["results"] == []
    assert api.get(f"{path}deliveries/?state=nonsense").status_code == 422
    assert (
        api.patch(path, {"enabled": False}, format="json").json()["disabled_because"]
        == "lea switched it off."
    )
    assert api.post(f"{path}test/").status_code == 409
    assert api.patch(path, {"enabled": True}, format="json").json()["disabled_at"] is None
    assert api.post(f"{path}rotate/").json()["secret"].startswith("whsec_")
    assert api.post(f"{path}replay-failed/").json() == {"replayed": 0}
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


def test_the_record_names_the_server_and_not_the_whole_address(vision, lea):
    """What follows the server may be a secret of the receiver, and members read the record."""
    hook, _secret = services.create_webhook(
        by=lea, team=vision, url="https://hooks.example.org/T00/very-secret", kinds=["claim.denied"]
    )
    services.change_webhook(by=lea, webhook=hook, url="https://other.example.org/T00/very-secret")
    assert "very-secret" not in str(list(AuditEntry.objects.values()))
    assert str(hook) == "hooks.example.org"


def test_a_lead_may_not_lead_an_internal_webhook_elsewhere(vision, lea, root, receiver):
    hook, _secret = add(root, receiver, vision)
    elsewhere = {"url": "http://10.0.0.9/"}
    assert as_person(lea).patch(f"{HOOKS}{hook.pk}/", elsewhere, format="json").status_code == 403
    with pytest.raises(Forbidden):
        services.change_webhook(by=lea, webhook=hook, url="http://10.0.0.9/")
    assert as_person(root).patch(f"{HOOKS}{hook.pk}/", elsewhere, format="json").status_code == 200


def test_a_team_has_so_many_webhooks(vision, root, monkeypatch, lea):
    monkeypatch.setattr(services, "MOST", 1)
    assert as_person(lea).post(HOOKS, HOOK, format="json").status_code == 201
    assert as_person(lea).post(HOOKS, HOOK, format="json").status_code == 409


@pytest.mark.parametrize("path", [HOOKS, "deliveries"])
def test_lists_cost_the_same_for_one_row_and_for_many(root, vision, receiver, path, monkeypatch):
    monkeypatch.setattr(tasks.deliver_webhooks, "delay", lambda: None)
    hook, _secret = add(root, receiver, vision)
    happen(vision)
    address = f"{HOOKS}{hook.pk}/deliveries/" if path == "deliveries" else path
    api = as_person(root)
    with CaptureQueriesContext(connection) as few:
        api.get(address)
    for number in range(8):
        add(root, receiver, make_team(f"team-{number}"))
        happen(vision)
    with CaptureQueriesContext(connection) as many:
        assert len(api.get(address).json()["results"]) == 9
    assert len(many) == len(few) <= 15


# Pages.


def test_a_lead_adds_a_webhook_in_the_browser_and_sees_its_secret_once(client, vision, lea):
    client.force_login(lea)
    assert "No webhook" in client.get("/teams/vision/webhooks/").text
    form = {"url": "https://hooks.example.org/", "title": "CI", "kinds": ["claim.approved"]}
    page = client.post("/webhooks/new/?team=vision", form)
    assert "whsec_" in page.text
    assert page["Cache-Control"] == "max-age=0, no-cache, no-store, must-revalidate, private"
    hook = Webhook.objects.get()
    shown = client.get(f"/webhooks/{hook.pk}/").text
    assert "whsec_" not in shown
    assert "Allow private addresses" not in shown
    refused = client.post("/webhooks/new/?team=vision", {**form, "url": "http://x.example/"})
    assert (refused.status_code, "has to begin with https://" in refused.text) == (422, True)
    saved = client.post(f"/webhooks/{hook.pk}/", {**form, "title": "Builds"}, follow=True)
    assert "Builds" in saved.text


def test_the_log_of_a_webhook_shows_what_each_attempt_met(client, hook, receiver, vision, lea):
    receiver.statuses = [500, 200]
    client.force_login(lea)
    happen(vision)
    page = client.get(f"/webhooks/{hook.pk}/").text
    assert "It answered 500." in page
    row = hook.deliveries.get()
    client.post(f"/webhooks/{hook.pk}/deliveries/{row.pk}/replay")
    assert "Delivered" in client.get(f"/webhooks/{hook.pk}/").text
    hook.deliveries.update(state=DeliveryState.FAILED, due_at=None)
    assert "Deliver 1 failed again" in client.get(f"/webhooks/{hook.pk}/").text
    client.post(f"/webhooks/{hook.pk}/act", {"do": "replay-failed"})
    assert len(receiver.got) == 3


@pytest.mark.parametrize(
    ("do", "text"),
    [
        ("test", "A test is being sent."),
        ("off", "The webhook is switched off."),
        ("on", "The webhook is switched on."),
        ("rotate", "whsec_"),
        ("remove", "The webhook was removed."),
        ("nonsense", "Choose what to do"),
    ],
)
def test_actions_on_the_page_of_a_webhook(client, hook, lea, do, text):
    client.force_login(lea)
    assert text in client.post(f"/webhooks/{hook.pk}/act", {"do": do}, follow=True).text


def test_members_get_403_and_outsiders_404_for_the_webhooks_of_a_team(client, vision, alice, root):
    for person, status in ((alice, 403), (make_user("eve"), 404), (root, 200)):
        client.force_login(person)
        assert client.get("/teams/vision/webhooks/").status_code == status
        assert client.get("/webhooks/new/?team=vision").status_code == status
    client.force_login(alice)
    assert client.get("/settings/webhooks/").status_code == 403
    assert client.get("/webhooks/new/").status_code == 403
    client.force_login(root)
    assert client.get("/settings/webhooks/").status_code == 200
