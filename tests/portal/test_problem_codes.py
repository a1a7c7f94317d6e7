"""Each code of a problem document has a section of the help, to which its `type` leads."""

import ast
import re

import pytest
from rest_framework.test import APIClient

from tests.factories import make_user
from tests.portal.service_calls import ROOT

PACKAGES = ("core", "teams", "notify", "cluster", "inventory", "claims", "usage", "portal")
HELP = ROOT / "docs" / "user" / "api.md"


def codes_of_refusals() -> set[str]:
    """Return the codes of all classes that have a text as `code`, as a PortalError has."""
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found |= {
                        part.value.value
                        for part in node.body
                        if isinstance(part, ast.Assign)
                        and isinstance(part.targets[0], ast.Name)
                        and part.targets[0].id == "code"
                        and isinstance(part.value, ast.Constant)
                        and isinstance(part.value.value, str)
                    }
    return found


def sections() -> set[str]:
    return set(re.findall(r"^### ([a-z_-]+)$", HELP.read_text(), re.MULTILINE))


def test_each_code_has_its_section_and_each_section_is_of_a_code():
    from core.problems import CODES, INTERNAL, UNAVAILABLE  # not before DRF has read its settings

    codes = codes_of_refusals() | set(CODES.values()) | {INTERNAL.code, UNAVAILABLE.code}
    assert len(codes) > 15
    assert codes == sections()


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/claims/?wrong=1", 422, "invalid"),
        ("/api/v1/approval-rules/", 403, "forbidden"),
        ("/api/v1/nowhere/", 404, "not-found"),
    ],
)
def test_type_leads_to_the_section_of_the_help(db, path, status, code):
    client = APIClient()
    client.force_login(make_user("alice"))
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    address, _hash, anchor = answer.json()["type"].partition("#")
    assert address.startswith("http://testserver/help/")
    assert f'id="{anchor}"' in client.get(address).text


def test_type_has_the_address_of_the_portal_where_it_is_set(db, settings):
    settings.PORTAL_URL = "https://gpus.example.org"
    answer = APIClient().get("/api/v1/me/")
    assert answer.json()["type"] == "https://gpus.example.org/help/api/#unauthenticated"
