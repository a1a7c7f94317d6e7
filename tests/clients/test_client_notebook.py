"""Claims in a real Jupyter kernel: the line that says why, interruption, a killed kernel, `%gpu`."""

import re

import pytest
from dragoman.results import LIVE

from tests.clients.kernels import kernel

BLOCK = """
from dragoman import Client
with Client().claim({profile!r}, hours=1, cluster="fra-1", reason="kernel") as claim:
    print("inside", claim.id)
    {inside}
"""


@pytest.fixture
def mira(client_of, simulated):
    client = client_of(simulated, "engineer")
    before = {claim.id for claim in client.claims(state=LIVE, mine=True)}
    yield client
    for claim in client.claims(state=LIVE, mine=True):
        if claim.id not in before:
            claim.release()


@pytest.fixture
def start(mira, tmp_path):
    """Return a function that starts a kernel of the same notebook."""
    return lambda: kernel(tmp_path, DRAGOMAN_URL=mira.settings.url, DRAGOMAN_TOKEN=mira.settings.token)


def block(profile="notebook-24g", inside="pass"):
    return BLOCK.format(profile=profile, inside=inside)


def id_in(shown):
    (found,) = re.findall(r"inside ([0-9a-f-]{36})", "".join(shown))
    return found


def test_the_wait_is_one_line_of_html_and_the_end_releases(start, mira):
    with start() as notebook:
        shown = notebook.run(block())
    lines = [text for text in shown if 'role="status"' in text]
    assert "Ready for a pod" in lines[-1]
    assert mira.info(id_in(shown)).state in ("releasing", "released")


def test_an_interrupted_wait_withdraws_the_request(start, mira):
    with start() as notebook:
        cell = notebook.begin(block("train-80g"))
        notebook.read(cell, until="decides next")
        (claim,) = [one for one in mira.claims(state=["requested"], mine=True) if one.info.reason == "kernel"]
        notebook.interrupt()
        assert "KeyboardInterrupt" in "".join(notebook.read(cell))
    assert claim.refresh().state == "withdrawn"


def test_a_killed_kernel_finds_its_claim_again_and_releases_it(start, mira):
    with start() as notebook:
        killed = id_in(
            notebook.read(notebook.begin(block(inside="import time; time.sleep(600)")), until="inside")
        )
        notebook.kill()
    assert mira.info(killed).state == "provisioned"
    with start() as notebook:
        assert id_in(notebook.run(block(inside="import time; time.sleep(600)".replace("600", "0")))) == killed
    assert mira.info(killed).state in ("releasing", "released")


def test_an_error_in_the_block_releases_the_claim(start, mira):
    with start() as notebook:
        shown = notebook.run(block(inside="raise RuntimeError('training failed')"))
    assert "RuntimeError: training failed" in shown
    assert mira.info(id_in(shown)).state in ("releasing", "released")


def test_the_magic_requests_explains_and_releases(start, mira):
    with start() as notebook:
        notebook.run("%load_ext dragoman")
        (table,) = notebook.run("%gpu free notebook")
        assert "<td>notebook-24g</td>" in table
        shown = notebook.run(
            "claim = %gpu request notebook-24g --hours 1 --cluster fra-1\nprint('inside', claim.id)"
        )
        claim = id_in(shown)
        (why,) = notebook.run("%gpu why")
        assert "You act next." in why
        assert any(mira.info(claim).name in text for text in notebook.run("%gpu claims"))
        assert "".join(notebook.run("%gpu release")).startswith(mira.info(claim).name)
    assert mira.info(claim).state in ("releasing", "released")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("%gpu extend", "the following arguments are required: --hours"),
        ("%gpu request nothing-of-this-name --cluster fra-1", "There is no profile nothing-of-this-name."),
        ("%gpu why nothing-of-this-name", "no live claim"),
    ],
)
def test_a_mistake_is_a_sentence(start, line, sentence):
    with start() as notebook:
        notebook.run("%load_ext dragoman")
        shown = "".join(notebook.run(line))
    assert sentence in shown
    assert "Traceback" not in shown
