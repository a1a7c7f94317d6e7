"""A claim for the time of a block: why it waits is shown, and it is released whatever happens."""

import io
import itertools
import os
import signal
import time

import dragoman
import httpx
import pytest
from dragoman import keepalive, remember
from dragoman.display import Log, Waiting, html
from dragoman.results import ClaimInfo, Explanation

from tests.clients.portals import URL, problem

ID = "0190c8f4-0000-7000-8000-000000000001"


class OneClaim:
    """
    A portal with one claim. `states` are those that long polls find, one after the other; the last one stays.

    `keys` has the keys of the requests, `actions` what was done to the claim.
    """

    def __init__(self, *states):
        self.states, self.keys, self.actions = list(states), [], []
        self.state, self.version, self.refuses = self.states.pop(0), 1, False

    def __call__(self, request):
        path = request.url.path.removeprefix("/api/v1/")
        if request.method == "POST" and path == "claims/":
            self.keys.append(request.headers["Idempotency-Key"])
            if self.refuses:
                return problem(409, "quota-exceeded", "vision has 8 of 8.")
        elif request.method == "POST":
            return self.act(path.rstrip("/").rpartition("/")[2])
        elif path.endswith("/explain/"):
            return httpx.Response(
                200, json={"headline": "Aylin decides next.", "sentence": f"It is {self.state}."}
            )
        elif "wait" in request.url.params:
            assert request.url.params["version"] == str(self.version)
            if self.states:
                self.state, self.version = self.states.pop(0), self.version + 1
        return httpx.Response(200, json=self.claim)

    def act(self, action):
        self.actions.append(action)
        if (action == "withdraw") != (self.state == "requested"):
            return problem(409, "illegal-transition", "It was approved meanwhile.")
        self.state, self.version = {"withdraw": "withdrawn", "release": "releasing"}[action], self.version + 1
        return httpx.Response(200, json=self.claim)

    @property
    def claim(self):
        held = [
            {
                "device": "gpu-0",
                "driver": "gpu.nvidia.com",
                "uuid": "GPU-1",
                "product": "H100",
                "node_name": "n1",
            }
        ]
        return {
            "id": ID,
            "name": "train",
            "state": self.state,
            "version": self.version,
            "allocations": held if self.state == "allocated" else [],
            "decision_note": "Wait until Monday." if self.state == "denied" else "",
        }

    def client(self, url=URL):
        http = httpx.Client(transport=httpx.MockTransport(self))
        return dragoman.Client(url, "drg_x", http=http)

    def block(self, url=URL, **options):
        options = {"display": "quiet", **options}
        return self.client(url).claim("train-80g", team="vision", cluster="fra-1", **options)


@pytest.fixture(autouse=True)
def no_short_polls(monkeypatch):
    """A scripted portal answers a long poll at once, as one without a slot for it does."""
    monkeypatch.setattr("dragoman._sync.claim.SHORT_POLL", 0.0)


@pytest.fixture(autouse=True)
def left_blocks(monkeypatch):
    """What is left of blocks that a test enters and never leaves, as a killed process does."""
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(keepalive, "_terminable", 0)
    for descriptor in remember._locked.values():
        os.close(descriptor)
    remember._locked.clear()
    remember._in_use.clear()


def test_it_waits_until_it_is_usable_and_is_released_at_the_end():
    portal = OneClaim("requested", "approved", "provisioned")
    with portal.block() as claim:
        assert (claim.name, claim.state, portal.actions) == ("train", "provisioned", [])
    assert portal.actions == ["release"]


def test_it_waits_until_a_pod_holds_the_devices_if_asked_to():
    portal = OneClaim("requested", "provisioned", "allocated")
    with portal.block(until="allocated") as claim:
        assert [str(device) for device in claim.devices] == ["H100 GPU-1 on n1"]
        assert claim.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
        assert claim.environment["WANDB_TAGS"] == f"dragoman.claim={ID}"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_it_is_released_after_an_exception(error):
    portal = OneClaim("provisioned")
    with pytest.raises(error), portal.block():
        raise error
    assert portal.actions == ["release"]


def test_it_is_withdrawn_when_the_wait_is_interrupted():
    portal = OneClaim("requested")

    class Impatient(Log):
        def show(self, waiting):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), portal.block(display=Impatient()):
        pass
    assert portal.actions == ["withdraw"]


def test_it_is_withdrawn_when_the_wait_is_too_long(monkeypatch):
    moments = itertools.count(step=20)
    monkeypatch.setattr("dragoman._sync.claim.time.monotonic", lambda: next(moments))
    portal = OneClaim("requested")
    with pytest.raises(dragoman.WaitTimeout, match=r"train is not ready after 60 s. Aylin decides next"):
        portal.block(timeout=60).__enter__()
    assert portal.actions == ["withdraw"]
    assert issubclass(dragoman.WaitTimeout, TimeoutError)


def test_a_denied_request_ends_the_wait_with_the_reason():
    portal = OneClaim("requested", "denied")
    with (
        pytest.raises(dragoman.ClaimEnded, match=r"train is denied. Wait until Monday.") as error,
        portal.block(),
    ):
        pass
    assert error.value.state == "denied"
    assert portal.actions == []


def test_a_request_that_is_approved_while_it_is_withdrawn_is_released(monkeypatch):
    portal = OneClaim("requested")
    claim = portal.client().request("train-80g", team="vision", cluster="fra-1")
    act = portal.act

    def approved_first(action):
        portal.state = "provisioned"
        monkeypatch.setattr(portal, "act", act)
        return act(action)

    monkeypatch.setattr(portal, "act", approved_first)
    claim.release()
    assert portal.actions == ["withdraw", "release"]
    assert claim.state == "releasing"


def test_a_claim_that_is_kept_lives_on():
    portal = OneClaim("provisioned")
    with portal.block(keep=True):
        pass
    assert portal.actions == []


def test_a_requested_claim_is_released_at_the_end_of_its_own_block():
    portal = OneClaim("provisioned")
    with portal.client().request("train-80g", team="vision", cluster="fra-1"):
        assert portal.actions == []
    assert portal.actions == ["release"]


class TestInANotebook:
    """The same cell finds its claim after the kernel was killed."""

    @pytest.fixture(autouse=True)
    def session(self, monkeypatch):
        monkeypatch.setenv("JPY_SESSION_NAME", "work/train.ipynb")

    def killed(self, portal, **options):
        """Enter the block and never leave it, as a killed kernel does."""
        portal.block(**options).__enter__()
        remember._in_use.clear()  # of the process that is gone

    def test_a_killed_kernel_finds_its_claim_again(self):
        portal = OneClaim("provisioned")
        self.killed(portal)
        with portal.block():
            pass
        assert len(portal.keys) == 2
        assert len(set(portal.keys)) == 1
        assert portal.actions == ["release"]

    def test_two_blocks_at_the_same_time_have_two_claims(self):
        portal = OneClaim("provisioned")
        with portal.block(), portal.block():
            assert len(set(portal.keys)) == 2

    def test_two_blocks_of_a_killed_kernel_are_both_found_again(self):
        portal = OneClaim("provisioned")
        portal.block().__enter__()
        self.killed(portal)
        with portal.block(), portal.block():
            assert portal.keys[:2] == portal.keys[2:]

    def test_a_claim_that_is_kept_is_found_by_the_same_cell(self):
        portal = OneClaim("provisioned")
        for _run in range(2):
            with portal.block(keep=True):
                pass
        assert len(set(portal.keys)) == 1

    def test_a_refused_request_may_be_sent_again(self, monkeypatch):
        portal = OneClaim("provisioned")
        monkeypatch.setattr(portal, "refuses", True)
        with pytest.raises(dragoman.QuotaExceeded):
            portal.block().__enter__()
        monkeypatch.setattr(portal, "refuses", False)
        with portal.block():
            pass
        assert len(portal.keys) == 2
        assert len(set(portal.keys)) == 1

    def test_after_the_end_of_a_block_the_next_request_is_a_new_one(self):
        portal = OneClaim("provisioned")
        with portal.block():
            pass
        portal.state = "provisioned"
        with portal.block():
            pass
        assert len(set(portal.keys)) == 2

    def test_a_claim_that_has_ended_meanwhile_is_replaced_by_a_new_one(self):
        portal = OneClaim("provisioned")
        self.killed(portal)
        portal.state = "released"
        states = iter(["released", "provisioned"])
        call = portal.__class__.__call__

        class Again(OneClaim):
            def __call__(self, request):
                if request.url.path == "/api/v1/claims/":
                    self.state = next(states)
                return call(self, request)

        portal.__class__ = Again
        with portal.block():
            pass
        assert portal.keys[0] == portal.keys[1] != portal.keys[2]

    @pytest.mark.parametrize("change", [{"devices": 2}, {"hours": 1}, {"reason": "another"}])
    def test_another_request_is_another_claim(self, change):
        portal = OneClaim("provisioned")
        self.killed(portal)
        self.killed(portal, **change)
        assert len(set(portal.keys)) == 2

    def test_another_notebook_has_another_claim(self, monkeypatch):
        portal = OneClaim("provisioned")
        self.killed(portal)
        monkeypatch.setenv("JPY_SESSION_NAME", "work/other.ipynb")
        self.killed(portal)
        assert len(set(portal.keys)) == 2

    def test_another_portal_has_another_claim(self):
        portal = OneClaim("provisioned")
        self.killed(portal)
        self.killed(portal, url="http://other.test")
        assert len(set(portal.keys)) == 2

    def test_a_script_never_shares_a_claim_with_another_run(self, monkeypatch):
        monkeypatch.delenv("JPY_SESSION_NAME")
        portal = OneClaim("provisioned")
        self.killed(portal)
        self.killed(portal)
        assert len(set(portal.keys)) == 2

    def test_a_home_that_cannot_be_written_does_not_stop_the_request(self, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
        portal = OneClaim("provisioned")
        with portal.block():
            pass
        assert portal.actions == ["release"]


def test_state_and_sentence_are_of_one_version():
    """It changes between the two answers: what was read first is read again."""

    class Changing(OneClaim):
        def __call__(self, request):
            found = super().__call__(request)
            if request.url.path.endswith("/explain/") and self.state == "approved":
                self.state, self.version = "provisioned", self.version + 1
                return httpx.Response(200, json={"sentence": "Start a pod.", "version": self.version})
            return found

    portal, log = Changing("approved"), io.StringIO()
    with portal.block(display=Log(log)):
        pass
    assert log.getvalue().splitlines() == ["train: Ready for a pod. Aylin decides next. It is provisioned."]


def test_a_log_has_a_line_for_each_change():
    portal, log = OneClaim("requested", "requested", "provisioned"), io.StringIO()
    with portal.block(display=Log(log)):
        pass
    assert log.getvalue().splitlines() == [
        "train: Waiting for approval. Aylin decides next. It is requested.",
        "train: Ready for a pod. Aylin decides next. It is provisioned.",
    ]


def test_a_notebook_shows_text_of_others_as_text():
    claim = ClaimInfo.of({"id": ID, "state": "requested", "version": 1, "name": "<img src=x>"})
    shown = html(Waiting(claim, Explanation.of({"sentence": "<script>alert(1)</script>"}), time.monotonic()))
    assert "<img" not in shown
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
