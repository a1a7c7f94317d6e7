"""The rules that `make check` holds docker-compose.yml to."""

import pytest
import yaml

from scripts.compose import complaints
from tests.postgres import ROOT


@pytest.fixture
def services():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def test_file_follows_every_rule(services):
    assert complaints(services, {"PORTAL_URL", "EMAIL_URL"}) == []


@pytest.mark.parametrize(
    ("service", "key", "complaint"),
    [
        ("web", "healthcheck", "web has no health check"),
        ("proxy", "healthcheck", "proxy has no health check"),
        ("enroll", "read_only", "enroll has a writable file system"),
    ],
)
def test_missing_key_is_reported(services, service, key, complaint):
    del services[service][key]
    assert complaints(services, set()) == [complaint]


def test_missing_service_and_setting_are_reported(services):
    del services["redis"]
    del services["beat"]["environment"]["EMAIL_URL"]
    services["worker"]["environment"] = dict(services["web"]["environment"])  # beat's is the same mapping
    assert "service redis is missing" in complaints(services, {"EMAIL_URL"})
    assert "beat does not get EMAIL_URL" in complaints(services, {"EMAIL_URL"})
    assert "web does not get NEW_ONE" in complaints(services, {"NEW_ONE"})
