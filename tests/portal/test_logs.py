"""What a line of the log says, and what it never says."""

import json
import logging
import re
import sys

import pytest

from portal import logs
from tests.factories import make_user
from tests.portal.every_address import PLACE, routes


def line_of(message, *args, exc_info=None):
    """Return the object that a machine reads for one call of a logger."""
    formatter = dict(logs.configure(json=True, level="INFO")["formatters"]["lines"])
    record = logging.LogRecord("inventory.sync", logging.WARNING, __file__, 1, message, args, exc_info)
    return json.loads(formatter.pop("()")(**formatter).format(record))


def test_a_line_is_one_json_object_with_time_level_and_logger():
    line = line_of("slow listing of %s", "fra-1")
    assert line["event"] == "slow listing of fra-1"
    assert (line["level"], line["logger"]) == ("warning", "inventory.sync")
    assert line["timestamp"].endswith("Z")


@pytest.mark.security("secrets", "a secret in the variables of a traceback")
def test_a_traceback_shows_no_values_of_variables():
    token = "drg_secret-of-somebody"
    try:
        raise RuntimeError("broken" + token[:0])
    except RuntimeError:
        line = line_of("failed", exc_info=sys.exc_info())
    assert line["exception"][0]["exc_value"] == "broken"
    assert token not in json.dumps(line)


@pytest.mark.security("secrets", "a token in an address")
def test_a_token_in_an_address_is_not_logged():
    line = line_of("GET /api/v1/claims/?token=drg_s3cret-of_somebody&limit=1")
    assert line["event"] == "GET /api/v1/claims/?token=drg_…&limit=1"


SECRET = "s3cret-of_somebody.x:1"
LINKS = [route for route in routes() if re.search(r"<str:token>|\(\?P<key>", route)]
ADDRESSES = [
    *(f"/{PLACE.sub(SECRET, route)}" for route in LINKS),
    f"/device/?code={SECRET}",
    f"/accounts/oidc/sso/login/callback/?state={SECRET}&session_state=x&code={SECRET}",
    f"/webhooks/?q=whsec_{SECRET}",
]


@pytest.mark.security("secrets", "links of invitations and of mails, and codes, in the log of requests")
@pytest.mark.parametrize("address", ADDRESSES)
def test_what_opens_something_is_not_logged_with_its_address(address):
    assert len(LINKS) > 2
    said = line_of("GET %s", address)["event"]
    assert "s3cret" not in said
    assert said.startswith(f"GET {address.partition(SECRET)[0]}…")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "code"),
    [("/help/", 200), ("/nonsense/", 404), ("/teams/", 403), ("/claims/drafts/save/", 405),
     ("/api/v1/x/", 404),
     ("/api/v1/claims/?limit=0", 422), ("/api/v1/profiles/lint/", 403)],
)  # fmt: skip
def test_request_is_one_line_without_a_traceback(caplog, client, path, code):
    client.force_login(make_user("alice"))
    for name, logger in logs.configure(json=True, level="INFO")["loggers"].items():
        caplog.set_level(logger["level"], logger=name)
    caplog.set_level("INFO", logger="django_structlog")
    assert client.get(path).status_code == code
    (record,) = caplog.records
    assert (record.msg["event"], record.msg["code"], record.exc_info) == ("request_finished", code, None)
    assert record.levelname == ("INFO" if code == 200 else "WARNING")


@pytest.mark.django_db
def test_error_of_the_portal_is_logged_with_its_traceback(caplog, client, monkeypatch):
    client.force_login(make_user("alice"))
    client.raise_request_exception = False
    monkeypatch.setattr("portal.help.views.render", None)
    assert client.get("/help/").status_code == 500
    assert any(record.exc_info or record.msg.get("exc_info") for record in caplog.records)
