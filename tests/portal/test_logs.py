"""What a line of the log says, and what it never says."""

import json
import logging
import sys

import pytest

from portal import logs


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


def test_a_traceback_shows_no_values_of_variables():
    token = "drg_secret-of-somebody"
    try:
        raise RuntimeError("broken" + token[:0])
    except RuntimeError:
        line = line_of("failed", exc_info=sys.exc_info())
    assert line["exception"][0]["exc_value"] == "broken"
    assert token not in json.dumps(line)


@pytest.mark.django_db
def test_every_answer_of_the_portal_is_logged_with_an_id(caplog, client):
    with caplog.at_level(logging.INFO, logger="django_structlog"):
        client.get("/help/")
    said = [record.msg for record in caplog.records if record.name.startswith("django_structlog")]
    finished = [line for line in said if line["event"] == "request_finished"]
    assert len(finished) == 1
    assert finished[0]["request_id"]
