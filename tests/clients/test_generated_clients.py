"""Clients that tools generate from the description compile, and fetch a claim from a portal that runs."""

import os
import subprocess

import pytest

from claims.states import ClaimState
from teams.tokens import create_token
from tests.claims.conftest import *  # noqa: F403
from tests.clients.generated import build
from tests.clients.live_portal import Portal
from tests.factories import make_claim

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("generated clients"),
]


@pytest.fixture
def portal():
    found = Portal()
    found.start()
    yield found
    found.stop()


@pytest.mark.parametrize("language", build.LANGUAGES)
def test_generated_client_compiles_and_fetches_a_claim(language, portal, alice, vision, fra):
    if reason := build.install():
        pytest.skip(reason)
    claim = make_claim(vision, by=alice, state=ClaimState.REQUESTED)
    _row, token = create_token(by=alice, title="Generated")
    told = subprocess.run(
        build.command(language),
        env=os.environ | {"DRAGOMAN_URL": portal.url, "DRAGOMAN_TOKEN": token, "CLAIM": str(claim.pk)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout.strip(), told.returncode) == (claim.name, 0), told.stderr[-2000:]
