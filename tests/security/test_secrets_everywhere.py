"""A secret that somebody sends is in no answer, no log and no entry of the audit log, whatever happens."""

import json
import logging
import re

import pytest
import yaml
from django.apps import apps
from django.conf import settings as django_settings
from django.test import Client

from portal import logs
from portal.openapi import EXAMPLES
from teams.models import AuditEntry
from tests.factories import make_user
from tests.fakes import FakeGateway
from tests.portal.every_address import address, one_of_everything, routes

pytestmark = pytest.mark.django_db

SECRET = "s3cret-that-nobody-may-read-again"  # also what begins a longer one, such as a PEM text
PEM = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
KUBECONFIG = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://fra.example:6443"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
)
# The fields that take secrets, wherever they are, with a value for them.
FIELDS = {
    "token": SECRET,
    "password": SECRET,
    "oldpassword": SECRET,
    "password1": SECRET,
    "password2": SECRET,
    "key": PEM,
    "certificate": PEM,
    "kubeconfig": KUBECONFIG,
    "device_code": SECRET,
    "secret": SECRET,
    "login": "alice",
}


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr("inventory.clusters.KubeGateway", lambda _credentials: FakeGateway())
    return one_of_everything()


@pytest.fixture
def lines():
    """Every line that the portal logs meanwhile, as production writes it."""
    found = []
    formatter = dict(logs.configure(json=True, level="DEBUG")["formatters"]["lines"])
    writes = formatter.pop("()")(**formatter)

    class Keeping(logging.Handler):
        def emit(self, record):
            found.append(writes.format(record))

    handler, root = Keeping(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for name in ("django.request", "django_structlog", "django.security"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield found
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def root(known):
    client = Client(raise_request_exception=False)
    client.force_login(make_user("root"))
    return client


def stored_in_plain():
    """Return the tables in which the secret can be read."""
    found = []
    for model in apps.get_models():
        for row in model._default_manager.values():
            kept = [value for value in row.values() if not isinstance(value, bytes | memoryview)]
            if SECRET in str(kept):
                found.append(model.__name__)
    return found


def operations():
    """Yield method, path and body of each operation of the API that takes a secret."""
    schema = yaml.safe_load((django_settings.BASE_DIR / "docs/openapi.yaml").read_text())
    examples = json.loads(EXAMPLES.read_text())
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            name = content["schema"].get("$ref", "").rpartition("/")[2]
            fields = schema["components"]["schemas"].get(name, {}).get("properties", {})
            if sent := {field: FIELDS[field] for field in fields if field in FIELDS}:
                example = examples.get(f"{method.upper()} {path}", {}).get("request", {})
                for field, value in sent.items():
                    yield method, path, example | {field: value}


def test_there_are_operations_that_take_secrets():
    assert len({path for _method, path, _body in operations()}) > 5


@pytest.mark.security(
    "secrets", "a secret in each field of the API that takes one, then in answers, logs, tables"
)
def test_no_secret_sent_to_the_api_is_seen_again(root, known, lines):
    told = []
    for method, path, body in operations():
        route = re.sub(r"\{(\w+)\}", r"<str:\1>", path.removeprefix("/"))
        answer = getattr(root, method)(address(route, known), body, content_type="application/json")
        assert answer.status_code != 500, path
        if SECRET in answer.text:
            told.append(f"{method} {path}: {answer.status_code}")
    assert told == []
    assert stored_in_plain() == []
    assert [line for line in lines if SECRET in line] == []
    assert len(lines) > 20


@pytest.mark.security("secrets", "a secret in every form, then in pages, logs and tables")
def test_no_secret_sent_to_a_form_is_seen_again(root, known, lines):
    told, sent = [], 0
    for route in routes(skipped=("admin/", "api/")):
        answer = root.post(address(route, known), FIELDS | {"kind": "token", "url": "https://x.example"})
        sent += answer.status_code in (200, 302, 422)
        text = b"".join(answer).decode() if answer.streaming else answer.content.decode(errors="replace")
        if SECRET in text:
            told.append(f"{route}: {answer.status_code}")
    client = Client()
    wrong = client.post("/accounts/login/", {"login": "alice", "password": SECRET})
    typed = client.post("/accounts/login/", {"login": SECRET, "password": "x"})
    assert wrong.status_code == typed.status_code == 200
    assert SECRET not in wrong.text
    assert told == []
    assert stored_in_plain() == []
    assert [line for line in lines if SECRET in line] == []
    assert sent > 50


@pytest.mark.security("secrets", "a secret in hand while something breaks")
def test_an_error_shows_no_secret_that_was_in_hand(root, lines, monkeypatch):
    def broken(_credentials):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("inventory.clusters.KubeGateway", broken)
    body = {"name": "new", "server": "https://fra.example:6443", "token": SECRET}
    answers = [
        root.post("/api/v1/clusters/check/", body | {"name": ""}, content_type="application/json"),
        root.post("/api/v1/clusters/", body, content_type="application/json"),
        root.post("/api/v1/clusters/check/", {"kubeconfig": KUBECONFIG}, content_type="application/json"),
    ]
    assert 500 in {answer.status_code for answer in answers}
    for answer in answers:
        assert SECRET not in answer.text
        assert "on purpose" not in answer.text
    assert any("broken on purpose" in line for line in lines), "the log says what broke"
    assert [line for line in lines if SECRET in line] == []


@pytest.mark.security("secrets", "what the audit log and Activity keep of what was sent")
def test_the_audit_log_names_what_was_changed_without_the_secret(root, known):
    body = {"kind": "token", "token": SECRET, "prometheus_url": "http://prometheus.example:9090"}
    path = "/api/v1/clusters/fra-1/telemetry/"
    assert root.patch(path, body, content_type="application/json").status_code in (200, 422)
    entries = [str(entry.__dict__) for entry in AuditEntry.objects.all()]
    assert not [entry for entry in entries if SECRET in entry]
