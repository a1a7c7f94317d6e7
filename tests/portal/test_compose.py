"""The rules that `make check` holds docker-compose.yml to."""

import re

import pytest
import yaml

from scripts.compose import complaints, setting_names
from tests.postgres import ROOT


@pytest.fixture
def services():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def test_file_follows_every_rule(services):
    assert complaints(services, setting_names()) == []


def test_deployment_page_describes_every_setting_and_no_other():
    page = (ROOT / "docs/deployment.md").read_text()
    table = page.partition("## Settings")[2].partition("\n## ")[0]
    described = {
        name for row in re.findall(r"^\| (`[^|]+) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert described == setting_names()


def test_deployment_page_names_services_and_variables_of_the_file(services):
    page, file = (ROOT / "docs/deployment.md").read_text(), (ROOT / "docker-compose.yml").read_text()
    written = page.partition("cat > .env <<END")[2].partition("END")[0]
    names = {*re.findall(r"^ *(\w+)=", written, re.M), "HTTP_PORT", "HTTPS_PORT"}
    assert names > {"SECRET_KEY", "POSTGRES_PASSWORD"}
    assert {name for name in names if f"${{{name}:" not in file} == set()
    commands = re.findall(
        r"docker compose (?:--profile \w+ )?(?:run --rm|exec|stop)((?: -T)?(?: [a-z]+)+)", page
    )
    named = {word for command in commands for word in command.split()} - {"-T", "python", "manage", "pg"}
    assert {"web", "enroll", "db"} <= named <= services.keys()


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
