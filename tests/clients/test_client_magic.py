"""`%gpu` without a kernel: what it may end, what it asks, and its help."""

import builtins
import json

import httpx
import pytest
from dragoman import keepalive
from dragoman.magic import GpuMagics
from IPython.core.error import UsageError

from tests import patience

URL = "http://portal.test"


class Portal:
    """Claims by name; `ended` are those that were released."""

    def __init__(self):
        self.claims, self.ended = {}, []
        self.add("mt-large")

    def add(self, name):
        key = f"0190c8f4-0000-7000-8000-{len(self.claims):012}"
        self.claims[key] = {"id": key, "name": name, "state": "provisioned", "version": 1, "allocations": []}
        return self.claims[key]

    def __call__(self, request):
        method, path = request.method, request.url.path.removeprefix("/api/v1/").rstrip("/")
        if path == "claims" and method == "POST":
            assert json.loads(request.content)["keep_alive"] == "15m"
            return httpx.Response(201, json=self.add("here"))
        if path == "claims":
            name = request.url.params.get("name")
            rows = [one for one in self.claims.values() if name in (None, one["name"])]
            return httpx.Response(200, json={"results": rows, "next": None})
        _claims, key, *action = path.split("/")
        if action == ["release"]:
            self.ended.append(self.claims[key]["name"])
            self.claims[key]["state"] = "releasing"
        if action == ["explain"]:
            return httpx.Response(200, json={"headline": "You act next.", "sentence": ""})
        return httpx.Response(200, json=self.claims[key])


@pytest.fixture
def portal(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_URL", URL)
    monkeypatch.setenv("DRAGOMAN_TOKEN", "drg_x")
    return Portal()


@pytest.fixture
def gpu(portal):
    from dragoman import Client

    magics = GpuMagics(None)
    http = httpx.Client(transport=httpx.MockTransport(portal))
    magics._client = Client(http=http)
    return magics.gpu  # type: ignore[misc,unused-ignore]


REQUEST = "request train-80g --team vision --cluster fra-1"


def test_release_without_a_claim_of_this_notebook_ends_nothing(gpu, portal):
    with pytest.raises(UsageError, match=r"requested no claim\. Name one of yours: mt-large"):
        gpu("release")
    assert portal.ended == []


def test_release_ends_what_this_notebook_requested_and_nothing_after_it(gpu, portal, capsys):
    gpu(REQUEST)
    gpu("release")
    with pytest.raises(UsageError, match="has requested no claim"):
        gpu("release")
    assert portal.ended == ["here"]
    assert "here: releasing." in capsys.readouterr().out


@pytest.mark.parametrize(("said", "ended"), [("y", ["mt-large"]), ("", []), ("no", [])])
def test_another_claim_is_released_only_after_a_question(gpu, portal, monkeypatch, said, ended):
    asked = []
    monkeypatch.setattr(builtins, "input", lambda question: asked.append(question) or said)
    gpu("release mt-large")
    assert asked == ["mt-large was not requested here. Release it? [y/N] "]
    assert portal.ended == ended


def test_where_nobody_can_answer_it_says_what_to_add(gpu, portal, monkeypatch):
    def nobody(question):
        raise EOFError

    monkeypatch.setattr(builtins, "input", nobody)
    with pytest.raises(UsageError, match="Add --yes"):
        gpu("release mt-large")
    assert portal.ended == []
    gpu("release mt-large --yes")
    assert portal.ended == ["mt-large"]


@pytest.mark.parametrize("line", ["", "help", "--help", "-h"])
def test_help_lists_the_commands_without_an_error(gpu, capsys, line):
    assert gpu(line) is None
    shown = capsys.readouterr()
    assert all(name in shown.out for name in ("free", "match", "request", "extend", "usage", "release"))
    assert shown.err == ""


@pytest.mark.parametrize("line", ["why 'unfinished", "nothing", "extend", "request"])
def test_a_mistake_is_a_sentence(gpu, line):
    with pytest.raises(UsageError) as error:
        gpu(line)
    assert str(error.value)


def test_help_of_a_command_has_its_options(gpu, capsys):
    gpu("request --help")
    assert "--keep-alive" in capsys.readouterr().out


class TestRenewals:
    """What the thread does with each answer; `KeepAlive` itself runs in tests of whole processes."""

    @pytest.fixture
    def told(self, monkeypatch):
        said: list[str] = []
        monkeypatch.setattr(keepalive, "tell", said.append)
        monkeypatch.setattr(keepalive, "RETRY", 0.01)
        return said

    def renewed(self, *answers):
        """Run until the answers are used up; an exception is raised."""
        left = list(answers)

        def renew():
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer if left else {"keep_alive": None}

        kept = keepalive.KeepAlive("train", 0.03, renew=renew)
        kept._thread.join(patience.COMMAND)
        return len(answers) - len(left), kept

    def test_an_outage_is_told_once_and_renewals_go_on(self, told):
        from dragoman import Unavailable

        alive = {"keep_alive": 60}
        away = Unavailable("It does not answer.")
        count, _kept = self.renewed(alive, away, away, alive, away, alive)
        assert count == 6
        assert len(told) == 2
        assert told[0].startswith("train is not renewed: It does not answer. Trying again;")

    def test_an_ended_claim_is_told_and_not_renewed_again(self, told):
        from dragoman import Conflict

        count, kept = self.renewed(Conflict("train has ended."), {"keep_alive": 60})
        assert (count, told) == (1, ["train is no longer yours to use: train has ended."])
        assert kept.ended == told[0]

    def test_a_claim_that_somebody_keeps_is_not_renewed_again(self, told):
        count, kept = self.renewed({"keep_alive": None}, {"keep_alive": 60})
        assert (count, told, kept.ended) == (1, [], "")
