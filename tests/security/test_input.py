"""What somebody sends: fields that they may not set, text that is code elsewhere, and input without end."""

import ast
import csv
import struct
from pathlib import Path

import pytest
from django import forms
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import get_resolver
from django.utils.html import escape
from rest_framework import serializers
from rest_framework.test import APIClient

from claims.models import Claim
from core.inputs import Input
from core.listing import FORMULA
from teams.models import Membership, Role, User
from tests.factories import make_team, make_token, make_user
from tests.portal.every_address import address, one_of_everything, routes

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "teams", "notify", "inventory", "claims", "usage", "portal", "cluster", "dra")
# Columns that no request sets: who somebody is, what was decided, what is secret.
NEVER = {
    *("id", "pk", "uuid", "is_superuser", "is_staff", "is_active", "created_at", "decided_by", "decided_at"),
    *("state", "user", "by", "digest", "sealed", "made_with", "previous_digest", "last_used_at"),
    *("accepted_by", "invited_by", "service_of", "object_uid", "groups", "user_permissions"),
}
# Inputs in which such a name means something else.
ELSE = {
    ("BulkIn", "by"): "for how long claims are extended",
    ("ItemIn", "id"): "of the request to decide on",
    ("SecretIn", "user"): "of basic authentication at a server",
    ("SecretForm", "user"): "of basic authentication at a server",
    ("TelemetryForm", "user"): "the same",
    ("TrackingForm", "user"): "the same",
    ("BulkForm", "by"): "for how long claims are extended",
    ("IdsForm", "id"): "of the claims to act on",
    ("ReportForm", "by"): "what a report is grouped by",
}


def sources():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path, ast.parse(path.read_text())


def below(cls):
    for each in cls.__subclasses__():
        yield each
        yield from below(each)


def of_the_portal(cls):
    return [each for each in below(cls) if each.__module__.partition(".")[0] in PACKAGES]


@pytest.mark.security("injection", "fields that a form or an input of the API takes and should not")
def test_no_input_has_a_field_that_nobody_may_set():
    assert get_resolver().url_patterns  # imports every view
    inputs = {one.__qualname__: set(one().fields) for one in of_the_portal(Input)}
    found = {one.__qualname__: set(one.base_fields) for one in of_the_portal(forms.BaseForm)}
    assert len(inputs) > 40
    assert len(found) > 20
    taken = {(name, field) for name, fields in (inputs | found).items() for field in fields & NEVER}
    assert taken - set(ELSE) == set()
    for form in of_the_portal(forms.BaseModelForm):
        assert isinstance(form._meta.fields, list | tuple), f"{form.__qualname__} names its fields"


@pytest.mark.security("injection", "a body of the API that is written to columns without an input of its own")
def test_no_serializer_of_a_model_reads_a_body():
    assert get_resolver().url_patterns  # imports every view
    outputs = {one.__name__ for one in of_the_portal(serializers.ModelSerializer)}
    assert len(outputs) > 10
    read = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in outputs
        and any(word.arg == "data" for word in node.keywords)
    ]
    assert read == []


EXTRA = {
    "is_superuser": True,
    "is_staff": True,
    "role": "owner",
    "state": "approved",
    "id": "01a1fd0e-cd81-741b-ad1f-8943d5325f9e",
    "user": "root",
    "by": "root",
}


@pytest.mark.security("injection", "rights and states beside what a form and an operation take")
def test_what_is_sent_beside_the_fields_changes_nothing():
    alice = make_user("alice")
    make_team("vision", members=(alice,))
    page, api = Client(), APIClient()
    page.force_login(alice)
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(alice)[1]}")
    sent = {"timezone": "Europe/Berlin"}
    assert api.patch("/api/v1/me/", sent | EXTRA, format="json").status_code in (200, 422)
    page.post("/me/", {"first_name": "Al", "last_name": "", "email": "a@example.org"} | EXTRA)
    found = User.objects.get(pk=alice.pk)
    assert (found.is_superuser, found.is_staff) == (False, False)
    assert Membership.objects.get(user=alice).role == Role.MEMBER
    assert not Claim.objects.exists()


CODE = ("{{ 7|add:7 }}<img src=x onerror=alert(1)>", "'><svg/onload=alert(1)>", "=cmd|'/c calc'!A1")


@pytest.mark.security("injection", "templates, markup and formulas in a name that many pages and files show")
@pytest.mark.parametrize("text", CODE)
def test_a_name_that_is_code_elsewhere_is_text_on_every_page_and_in_every_file(text):
    known = one_of_everything()
    User.objects.update(first_name=text, last_name="")
    Claim.objects.update(reason=text)
    client = Client(raise_request_exception=False)
    client.force_login(make_user("root"))
    wrong, shown = [], 0
    for route in routes(skipped=("admin/", "accounts/", "api/")):
        for query in ({}, {"format": "csv"}):
            answer = client.get(address(route, known), query)
            body = b"".join(answer).decode() if answer.streaming else answer.content.decode(errors="replace")
            is_csv = answer.headers.get("Content-Type", "").startswith("text/csv")
            shown += escape(text) in body or text in body
            if not is_csv and "<" in text and text in body:
                wrong.append(f"{route}: markup")
            if is_csv and any(
                cell.startswith(FORMULA) for row in csv.reader(body.splitlines()) for cell in row
            ):
                wrong.append(f"{route}: formula")
    assert wrong == []
    assert shown > 5


@pytest.mark.security("injection", "templates and queries that are built of text while the portal runs")
def test_no_template_and_no_pattern_is_built_of_what_somebody_sends():
    found = []
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                words = [word.arg or "" for word in node.keywords if not is_fixed(word.value)]
                is_built = "shell" in words or any(word.endswith("regex") for word in words)
                if is_built or ast.unparse(node.func) in BUILDING:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}")
    assert found == []


BUILDING = {
    *("Template", "engines.from_string", "Engine.from_string", "eval", "exec", "pickle.loads"),
    *("yaml.unsafe_load", "yaml.full_load", "os.system", "os.popen"),
}


def is_fixed(node):
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


PATTERNS = {
    "nested": "^(([a-z])+.)+[A-Z]([a-z])+$((((((x?)*)*)*)*)*)*",
    "long": "a" * 5000,
    "wildcards": "%" * 500 + "\\" * 99,
    "words": "a " * 2000,
}


@pytest.mark.security("bombs", "patterns that take exponential time, in the search of every list")
@pytest.mark.parametrize("kind", PATTERNS)
def test_a_search_takes_text_and_no_pattern(kind):
    """A search is a comparison with LIKE, whose signs are escaped: nothing of it is a pattern."""
    known = one_of_everything()
    client = Client(raise_request_exception=False)
    client.force_login(make_user("root"))
    broken = {}
    for route in routes(skipped=("admin/", "accounts/", "api/")):
        status = client.get(address(route, known), {"q": PATTERNS[kind]}).status_code
        if status >= 500:
            broken[route] = status
    assert broken == {}


def levels(count):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, count)]
    return "\n".join(lines)


BOMBS = {
    "aliases": levels(9),
    "directive": "%YAML 1.3\n---\n" + levels(9),
    "deep": "[" * 3000,
    "long": "a: " + "x" * 3_000_000,
    "object": "!!python/object/apply:os.system ['true']",
    "merge": "a: &a {b: c}\nd: {<<: *a}",
}


@pytest.mark.security("bombs", "YAML that grows, nests, is long or makes objects, wherever YAML is read")
@pytest.mark.parametrize("kind", BOMBS)
def test_no_yaml_that_grows_is_read(kind):
    root = make_user("root", admin=True)
    make_team("vision", members=(root,))
    page, api = Client(raise_request_exception=False), APIClient(raise_request_exception=False)
    page.force_login(root)
    api.force_authenticate(root)
    text = BOMBS[kind]
    answers = [
        api.post("/api/v1/profiles/import/", {"text": text, "dry_run": True}, format="json"),
        page.post("/profiles/import/", {"text": text}),
        page.post("/claims/request/import/", {"manifest": text, "text": text}),
        api.post("/api/v1/clusters/check/", {"kubeconfig": text}, format="json"),
    ]
    assert {answer.status_code for answer in answers} <= {400, 413, 422}


def png(width, height, size=100):
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", width, height)
    return head + b"\0" * size


@pytest.mark.security("bombs", "a logo that is large, has many pixels, is no PNG, or is a page")
@pytest.mark.parametrize(
    "content",
    [
        png(30_000, 30_000),
        png(10, 10, size=70_000),
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"GIF89a",
        b"<html><script>alert(1)</script>",
        png(0, 0),
    ],
    ids=["pixels", "bytes", "svg", "gif", "html", "empty"],
)
def test_only_a_small_png_is_a_logo(content):
    client = Client()
    client.force_login(make_user("root", admin=True))
    file = SimpleUploadedFile("../../logo.png", content, content_type="image/png")
    answer = client.post("/settings/", {"name": "x", "currency": "EUR", "timezone": "UTC", "file": file})
    assert answer.status_code == 422
    assert client.get("/logo.png").status_code == 404
