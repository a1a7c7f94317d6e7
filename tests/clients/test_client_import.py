"""`dragoman import`: what it prints and requests, and its exit codes."""

import json
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from dragoman import Client
from dragoman.cli.commands import dragoman

CLAIM: dict[str, Any] = {
    "title": "ResourceClaimTemplate train",
    "name": "train",
    "delivery": "template",
    "parallel": 4,
    "note": "Job train requests nvidia.com/gpu: 1 from a device plugin.",
    "problems": [],
    "exact": [{"profile": "train-80g", "devices": 2, "differences": []}],
    "nearest": [],
    "clusters": [{"cluster": "fra-1", "fits": False, "sentence": "It does not fit.", "findings": []}],
}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run `dragoman import FILE` before a portal that finds `claim`; return the result and what was sent."""

    def running(*options, **claim):
        sent = []

        def portal(request):
            body = json.loads(request.content or b"{}")
            sent.append((request.url.path, body))
            answer = {
                "claims": [CLAIM | claim],
                "remarks": ["Skipped: Service web."],
                "converted": "kind: Job\n",
            }
            if request.url.path == "/api/v1/claims/":
                answer = {"id": "01", "name": body["name"], "state": "requested", "version": 1}
            return httpx.Response(200, json=answer)

        monkeypatch.setenv("DRAGOMAN_URL", "http://portal")
        monkeypatch.setenv("DRAGOMAN_TOKEN", "drg_x")
        client = Client(http=httpx.Client(transport=httpx.MockTransport(portal)))
        monkeypatch.setattr("dragoman.cli.importing.client_of", lambda _ctx: client)
        file = tmp_path / "train.yaml"
        file.write_text("kind: Job\n")
        return CliRunner().invoke(dragoman, ["import", str(file), *options]), sent

    return running


def test_file_is_sent_and_the_sentences_of_the_portal_are_printed(run):
    done, sent = run()
    assert done.exit_code == 0
    assert [path for path, _body in sent] == ["/api/v1/claims/import/"]
    assert sent[0][1]["text"] == "kind: Job\n"
    for line in (
        CLAIM["title"],
        CLAIM["note"],
        "Profiles: train-80g × 2",
        "fra-1: It does not fit.",
        "Skipped: Service web.",
    ):
        assert line in done.output


def test_check_is_an_exit_code(run):
    assert run("--check")[0].exit_code == 1
    fits = [CLAIM["clusters"][0] | {"fits": True}]
    assert run("--check", clusters=fits)[0].exit_code == 0


def test_converted_file_is_printed_alone(run):
    assert run("--converted")[0].output == "kind: Job\n"


def test_request_sends_what_the_file_asks_for(run):
    done, sent = run("--request", "--team", "vision", "--cluster", "fra-1")
    assert done.exit_code == 0, done.output
    path, body = sent[-1]
    assert path == "/api/v1/claims/"
    wanted = {"profile": "train-80g", "devices": 2, "parallel": 4, "delivery": "template", "name": "train"}
    assert {key: body[key] for key in wanted} == wanted


def test_nothing_is_requested_without_a_profile_that_matches(run):
    done, sent = run("--request", exact=[])
    assert done.exit_code == 1
    assert "No profile matches exactly: ResourceClaimTemplate train." in done.output
    assert len(sent) == 1
