"""The id that people are given finds what the portal did for them: in its log, its audit log, its tasks and
the audit logs of clusters. Each test reads the very lines of the log.
"""

import json
import logging
from io import StringIO
from typing import Any

import pytest
import structlog
from celery.app.trace import build_tracer
from celery.signals import after_task_publish
from django.test import Client
from kombu import Connection
from rest_framework.test import APIClient

from cluster.credentials import Credentials
from cluster.kube import KubeGateway
from cluster.protocol import POD
from portal import logs
from portal.celery import app
from teams.models import AuditEntry
from tests.cluster.scripted import Answer, scripted_server
from tests.factories import make_user, sign_in_just_now


@pytest.fixture
def lines():
    """Return a function that reads the lines that were logged, as the portal writes them in production."""
    configured = logs.configure(json=True, level="DEBUG")
    formatter = dict(configured["formatters"]["lines"])
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter.pop("()")(**formatter))
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel("INFO")
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.django_db
@pytest.mark.parametrize("sent", [None, "build-17.a", "x" * 64, "x" * 65, "two words", "a;b"])
def test_request_id_of_header_problem_and_audit_entry_is_in_every_line(lines, sent):
    client = APIClient()
    sign_in_just_now(client, make_user("alice"))
    headers = {} if sent is None else {"HTTP_X_REQUEST_ID": sent}
    made = client.post("/api/v1/tokens/", {"title": "Nightly", "scopes": ["read"]}, "json", **headers)
    assert made.status_code == 201
    given = made.headers["X-Request-ID"]
    assert (given == sent) == (sent in ("build-17.a", "x" * 64))
    assert AuditEntry.objects.get(action="token.created").request_id == given
    assert [line["request_id"] for line in lines()] == [given] * len(lines())

    refused = client.post("/api/v1/tokens/", {"title": ""}, "json", **headers)
    assert refused.json()["request_id"] == refused.headers["X-Request-ID"]
    finished = [line for line in lines() if line["event"] == "request_finished"]
    assert [line["code"] for line in finished] == [201, 422]
    assert finished[-1]["request_id"] == refused.json()["request_id"]


def broken(*_arguments, **_named):
    raise RuntimeError("broken")


@pytest.mark.django_db
@pytest.mark.parametrize("refusal", ["csrf", "host", "error in a view", "error in a middleware"])
def test_refusal_before_the_log_middleware_is_logged_with_its_id(lines, monkeypatch, refusal):
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(make_user("alice"))
    match refusal:
        case "csrf":
            answer = client.post("/claims/request/", {})
        case "host":
            answer = client.get("/help/", HTTP_HOST="elsewhere.example.org")
        case "error in a view":
            monkeypatch.setattr("portal.help.views.render", broken)
            answer = client.get("/help/")
        case _:
            monkeypatch.setattr("teams.sessions.UserMiddleware.__call__", broken)
            answer = client.get("/help/")
    assert answer.status_code >= 400
    assert lines()
    assert {line.get("request_id") for line in lines()} == {answer.headers["X-Request-ID"]}


def test_task_logs_id_of_the_request_that_queued_it(lines, settings):
    """The message is published to a broker, and the task runs as a worker runs it."""
    messages = []

    def published(headers, **_):
        messages.append(headers)

    @app.task(name="tests.say", shared=False)
    def say():
        structlog.get_logger("tests").info("said")

    settings.CELERY_TASK_ALWAYS_EAGER = False
    after_task_publish.connect(published)
    try:
        with Connection("memory://") as broker:
            published_at: Any = {"connection": broker, "queue": "said"}
            with structlog.contextvars.bound_contextvars(request_id="of-alice"):
                say.apply_async(**published_at)
            say.apply_async(**published_at)
        structlog.contextvars.bind_contextvars(request_id="of-the-thread-before")
        for headers in messages:
            build_tracer("tests.say", say, app=app)(headers["id"], [], {}, {**headers, "is_eager": False})
    finally:
        after_task_publish.disconnect(published)
        app.tasks.pop("tests.say")
        structlog.contextvars.clear_contextvars()
    said = [line for line in lines() if line["event"] == "said"]
    assert [line["task_id"] for line in said] == [headers["id"] for headers in messages]
    assert [line.get("request_id") for line in said] == ["of-alice", None]


def test_api_server_gets_the_request_id_as_audit_id():
    with scripted_server() as server:
        server.answers += [Answer(body={"kind": "Pod", "metadata": {}})] * 2
        gateway = KubeGateway(Credentials(server=server.address, token="secret"))
        with structlog.contextvars.bound_contextvars(request_id="build-17.a"):
            gateway.get(POD, "web", namespace="vision")
        gateway.get(POD, "web", namespace="vision")
        gateway.close()
    assert [headers.get("audit-id") for _method, _path, headers, _body in server.asked] == [
        "build-17.a",
        None,
    ]
