"""Halves of characters and other things that no text has: refused where JSON is read, and in one place."""

import json

import pytest

from core.addresses import literal, reason_to_refuse
from core.text import is_text, one_line

API = "/api/v1/"


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


@pytest.mark.security("bombs", "halves of characters in bodies of the API, signed in or not")
@pytest.mark.parametrize("path", ["login/kubernetes/", "login/device/", "tokens/", "claims/", "me/"])
def test_half_of_a_character_in_a_body_is_422_or_refused(client, db, path):
    body = json.dumps({"title": "\ud800", "theme": "\ud800", "cluster": "\ud800", "client": "\ud800"})
    for method in ("POST", "PATCH"):
        answer = client.generic(method, f"{API}{path}", body, content_type="application/json")
        assert answer.status_code in (401, 403, 404, 405, 422), (method, answer.status_code)


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
