"""Halves of characters and other things that no text has: refused where JSON is read, and in one place."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import get_resolver
from rest_framework.serializers import CharField

from core.addresses import literal, reason_to_refuse
from core.inputs import Input
from core.middleware import WrittenTextMiddleware
from core.text import is_text, one_line, written
from portal.openapi import METHODS, description, examples, resolved
from tests.factories import make_user, sign_in_just_now
from tests.fakes import FakeGateway
from tests.portal.every_address import address, one_of_everything


@pytest.mark.parametrize("value", ["\ud800", ["\udfff"], {"\ud800": 1}, {"a": [{"b": "x\udc00"}]}], ids=ascii)
def test_half_of_a_character_is_no_text(value):
    assert not is_text(value)


def test_whole_characters_are_text():
    assert is_text({"é": ["\U0001f642", 5, None, "\x00"]})


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\r\nb", "a b"), ("\x1b[31mred", "[31mred"), ("a\u202eb", "ab"), (" a  b ", "a b"), ("é", "é")],
)
def test_shown_text_has_no_controls_and_one_line(text, shown):
    assert one_line(text) == shown


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (" a \r\n", " a \n"), ("\u200ba", "\u200ba"), ("é", "é"), ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("", ""), ("\u00a0 \n", ""), ("\u200b\u2060\ufeff", ""), ("\u3164", ""), ("\u2800\u00ad", ""),
        ("\u200e\ufe0f", ""),
    ],
)  # fmt: skip
def test_a_text_in_which_nothing_can_be_seen_is_empty(text, kept):
    assert written(text) == kept


def inputs(base=Input):
    for one in base.__subclasses__():
        yield one
        yield from inputs(one)


def test_every_input_of_the_api_takes_a_text_without_anything_to_see_for_an_empty_one(db):
    get_resolver().url_patterns  # noqa: B018, imports every view
    for_text = {
        (one, name)
        for one in set(inputs())
        for name, field in one().fields.items()
        if type(field) is CharField and not field.allow_blank
    }
    taken = [
        (one.__name__, name)
        for one, name in for_text
        if not any(error.code == "blank" for error in errors_of(one(data={name: "\u200b\u2800"}), name))
    ]
    assert taken == []
    assert len(for_text) > 40


def errors_of(body, name):
    body.is_valid()
    return body.errors.get(name, [])


def test_a_form_takes_a_text_without_anything_to_see_for_an_empty_one(rf):
    request = rf.post("/", {"note": ["a\r\nb", "\u200b", " c"], "other": "d"})
    WrittenTextMiddleware(lambda _request: None).process_view(request)
    assert dict(request.POST.lists()) == {"note": ["a\nb", "", " c"], "other": ["d"]}
    assert not request.POST._mutable


def with_half(value: Any) -> Iterator[Any]:
    """Yield a JSON value once for each text in it, with half of a character in place of that one."""
    if isinstance(value, str):
        yield "\ud800"
    parts = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, part in parts:
        for changed in with_half(part):
            copy = value.copy()
            copy[key] = changed
            yield copy


def operations() -> Iterator[tuple[str, str, list[Any]]]:
    """Yield method, path and bodies of each operation that takes one, each with half of a character."""
    described = description()
    for path, item in described["paths"].items():
        for method in METHODS:
            content = item.get(method, {}).get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            fields = resolved(described, content["schema"]).get("properties", {})
            example = examples().get(f"{method.upper()} {path}", {}).get("request", {})
            yield method, path, [*with_half(example), *({**example, field: "\ud800"} for field in fields)]


@pytest.mark.security("bombs", "half of a character in each field of each operation of the API")
def test_half_of_a_character_in_any_field_of_the_api_is_422(db, monkeypatch):
    monkeypatch.setattr("inventory.clusters.KubeGateway", lambda _credentials: FakeGateway())
    known, root, nobody = one_of_everything(), Client(raise_request_exception=False), Client()
    sign_in_just_now(root, make_user("admin", admin=True))
    wrong, sent = [], 0
    for method, path, bodies in operations():
        route = re.sub(r"\{(\w+)\}", r"<str:\1>", path.removeprefix("/"))
        for body in bodies:
            cache.clear()  # what counts requests
            text, kind = json.dumps(body), "application/json"
            answer = root.generic(
                method.upper(), f"/{address(route, known).lstrip('/')}", text, content_type=kind
            )
            sent += 1
            if answer.status_code not in (404, 422):
                wrong.append((answer.status_code, method, path, text[:80]))
    assert wrong == []
    assert sent > 300
    body = json.dumps({"cluster": "\ud800", "token": "\ud800"})
    for path in ("login/kubernetes/", "login/device/", "login/device/token/"):
        answer = nobody.post(f"/api/v1/{path}", body, content_type="application/json")
        assert answer.status_code in (404, 422), path


# IANA's registries of special-purpose addresses, and those that lead to an IPv4 address inside.
INSIDE = (
    *("10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "127.0.0.1", "0.1.2.3", "192.0.0.1"),
    *("192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "240.0.0.1", "192.88.99.1"),
    *("::1", "fc00::1", "fd00::1", "fec0::1", "2001:db8::1", "3fff::1", "5f00::1", "100::1", "100:0:0:1::1"),
    *("64:ff9b::a00:1", "64:ff9b:1::1", "64:ff9b:1::808:808", "::ffff:10.0.0.1", "::ffff:0:10.0.0.1"),
    *("2002:a00:1::1", "::10.0.0.1", "2001:2::1"),
)
MACHINE = (
    *("169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "0.0.0.0", "::", "fd00:ec2::254"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "::ffff:169.254.169.254", "::ffff:0:169.254.169.254"),
    *("2002:a9fe:a9fe::1", "2852039166", "0xa9fea9fe"),
)
OUTSIDE = ("8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1")


@pytest.mark.security("outbound", "special addresses of each registry of IANA, plain and within others")
@pytest.mark.parametrize("text", INSIDE + MACHINE + OUTSIDE)
def test_special_address_is_refused_as_its_registry_says(text):
    address = literal(text)
    assert address is not None
    assert bool(reason_to_refuse(address, is_internal=False)) is (text not in OUTSIDE)
    assert bool(reason_to_refuse(address, is_internal=True)) is (text in MACHINE)
