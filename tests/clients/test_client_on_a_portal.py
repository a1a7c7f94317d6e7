"""The client against a running portal with simulated clusters."""

import asyncio
from typing import Any

import dragoman
import pytest
from dragoman import AsyncClient
from dragoman.results import LIVE


@pytest.fixture
def mira(client_of, simulated):
    """An engineer of one team; what she requests here is given back."""
    client = client_of(simulated, "engineer")
    before = {claim.id for claim in client.claims(state=LIVE, mine=True)}
    yield client
    for claim in client.claims(state=LIVE, mine=True):
        if claim.id not in before:
            claim.release()


@pytest.fixture
def people(client_of, simulated):
    return lambda name: client_of(simulated, name)


def test_a_claim_for_the_time_of_a_block(mira, capsys):
    with mira.claim("notebook-24g", hours=1, cluster="fra-1", reason="a block") as claim:
        assert claim.state == "provisioned"
        pod = claim.snippet("pod").text
        assert f"resourceClaimName: {claim.name}" in pod
        assert claim.info.team == "vision"
        assert claim.info.duration == 3600
    assert mira.info(claim.id).state in ("releasing", "released")
    shown = capsys.readouterr().err.splitlines()
    assert shown[-1].startswith(f"{claim.name}: Ready for a pod. You act next. Start a pod")


def test_the_notebook_cell_of_a_claim_runs_as_shown(mira, simulated, monkeypatch, capsys):
    claim = mira.request("notebook-24g", hours=1, cluster="fra-1", reason="a cell")
    monkeypatch.setenv("DRAGOMAN_TOKEN", simulated.token("engineer"))
    names: dict[str, Any] = {}
    exec(compile(claim.snippet("notebook").text, "cell", "exec"), names)
    names["client"].close()
    shown = capsys.readouterr()
    assert f"Start a pod that uses the ResourceClaim {claim.name}." in shown.out
    assert "Ready for a pod" in shown.err


def test_the_same_key_finds_the_same_claim(mira):
    wanted = {"hours": 1, "cluster": "fra-1", "key": "sdk-same-key"}
    first = mira.request("notebook-24g", **wanted)
    assert mira.request("notebook-24g", **wanted).id == first.id
    assert mira.request("notebook-24g", hours=1, key="sdk-same-key").id == first.id  # whatever fits best now


def test_without_a_cluster_it_goes_where_it_fits(mira):
    found = mira.match("slice-20g")
    assert found.match.fits
    claim = mira.request("slice-20g", hours=1)
    assert claim.info.cluster in {cluster.name for cluster in mira.clusters()}
    assert mira.match("slice-20g", cluster=claim.info.cluster).match.matching > 0


def test_a_lead_approves_and_the_wait_ends(mira, people, capsys):
    lead = people("lead")
    claim = mira.request("train-80g", hours=2, cluster="fra-1", reason="to be approved")
    assert claim.state == "requested"
    why = claim.why()
    assert "Aylin" in why.who
    assert claim.id in [pending.id for pending in lead.approvals() if pending.mine]
    assert lead.approve(claim.id, note="Until noon.").decided_by == "lead"
    info = claim.wait(timeout=120)
    assert info.state == "provisioned"
    assert info.decision_note == "Until noon."


def test_a_denial_ends_the_wait(mira, people):
    claim = mira.request("train-80g", hours=2, cluster="fra-1")
    people("lead").deny(claim.id, "Use a smaller one.")
    with pytest.raises(dragoman.ClaimEnded, match=r"is denied. Use a smaller one."):
        claim.wait()


def test_a_wait_that_is_too_long_says_who_has_to_act(mira):
    with (
        pytest.raises(dragoman.WaitTimeout, match=r"Aylin.* decides next"),
        mira.claim("train-80g", hours=2, cluster="fra-1", timeout=1) as claim,
    ):
        raise AssertionError(claim)
    assert next(one.state for one in mira.claims(mine=True, profile="train-80g")) == "withdrawn"


def test_the_time_is_extended(mira):
    claim = mira.request("notebook-24g", hours=1, cluster="fra-1")
    claim.wait(timeout=120)
    before = claim.expires_at
    extension = claim.extend(hours=1)
    assert extension.status in ("approved", "waiting")
    assert (extension.until - before).total_seconds() == pytest.approx(3600, abs=1)


def test_a_claim_is_found_by_its_name(mira):
    assert mira.get("sam2-finetune").info.requested_by == "engineer"
    with pytest.raises(dragoman.NotFound, match="no live claim nothing-of-this-name"):
        mira.get("nothing-of-this-name")


def test_use_and_cost_of_a_claim_are_tables(mira):
    claim = mira.get("sam2-finetune")
    assert [device.product for device in claim.devices]
    assert claim.environment["CUDA_VISIBLE_DEVICES"].count("GPU-") == len(claim.devices)
    usage = claim.usage("24h")
    frame = usage.frame()
    assert len(frame) == len(usage.points) > 10
    assert frame["activity"].mean() == pytest.approx(usage.mean_activity, abs=0.1)
    assert str(frame.index.tz) == "UTC"
    cost = claim.cost()
    assert cost.so_far.amounts[0].amount > 0
    assert cost.per_hour.amounts[0].currency == cost.so_far.amounts[0].currency


def test_the_month_of_a_team_is_a_table_that_adds_up(mira):
    month = mira.costs("vision")
    frame = month.frame("person")
    assert frame["device_hours"].sum() == pytest.approx(float(month.total.device_hours), abs=0.05)


def test_the_catalogue_is_filtered(mira):
    every, free = mira.profiles(), mira.profiles(free=True, memory=40)
    assert {profile.slug for profile in free} < {profile.slug for profile in every}
    assert all(profile.free > 0 for profile in free)
    assert mira.profile("train-80g").max_devices == 8


def test_what_is_beyond_the_quota_is_refused_with_the_numbers(mira):
    with pytest.raises(dragoman.QuotaExceeded, match="this request needs 64"):
        mira.request("train-80g", cluster="fra-1", devices=8, parallel=8, delivery="template")


def test_a_malformed_request_names_its_field(mira):
    with pytest.raises(dragoman.Invalid) as error:
        mira.request("train-80g", cluster="fra-1", devices=0)
    assert [field.field for field in error.value.fields] == ["devices"]


def test_others_learn_nothing_and_viewers_request_nothing(people):
    claim = people("engineer").get("sam2-finetune")
    outsider = people("outsider")
    for question in (outsider.info, outsider.why, outsider.cost, outsider.usage, outsider.manifest):
        with pytest.raises(dragoman.NotFound):
            question(claim.id)
    with pytest.raises(dragoman.Forbidden):
        people("emil").request("notebook-24g", team="vision", cluster="fra-1")


def test_the_cost_of_everything_is_for_admins(people):
    with people("admin").focus() as pieces:
        text = b"".join(pieces).decode()
    assert text.startswith("BilledCost,") or "BilledCost" in text.splitlines()[0]
    with pytest.raises(dragoman.Forbidden), people("engineer").focus() as pieces:
        list(pieces)


def test_a_wrong_token_is_a_sentence(simulated):
    with dragoman.Client(simulated.url, "drg_wrong") as client, pytest.raises(dragoman.Unauthenticated):
        client.me()


def test_the_same_with_await(mira):
    async def block():
        settings = mira.settings
        async with (
            AsyncClient(settings.url, settings.token) as client,
            client.claim("notebook-24g", hours=1, cluster="fra-1", display="quiet") as claim,
        ):
            assert claim.name in [one.name async for one in client.claims(state=LIVE, mine=True)]
            return claim.state, (await claim.why()).headline, claim.id

    state, headline, key = asyncio.run(block())
    assert (state, headline) == ("provisioned", "You act next.")
    assert mira.info(key).state in ("releasing", "released")
