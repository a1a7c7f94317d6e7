"""Search and tags over the REST API of a real MLflow server."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.urls import reverse

from claims.states import ClaimState
from dra.workload_parts import ClaimUse, environment
from tests import mlflow_server
from tests.factories import make_claim, make_team
from tests.mlflow_server import RealMlflow
from tests.usage.conftest import NOON, hold, price
from usage.models import TrackedRun, TrackingServer
from usage.tracking.runs import follow
from usage.tracking.servers import save_server, try_server

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    mlflow_server.required()
    server = RealMlflow(tmp_path_factory.mktemp("mlflow"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def server(mlflow, root):
    return save_server(by=root, url=mlflow.url)


@pytest.fixture
def experiment(mlflow, request):
    return mlflow.experiment(request.node.name)


def ms(when):
    return round(when.timestamp() * 1000)


def round_of(server, now=NOON):
    TrackingServer.objects.filter(pk=server.pk).update(begun_at=None)
    with time_machine.travel(now, tick=False):
        return follow(server.pk, now=now)


def tags_of_portal(mlflow, run):
    return {key: value for key, value in mlflow.tags(run).items() if key.startswith("dragoman.")}


def test_finished_run_has_the_cost_of_its_overlap_with_the_devices(mlflow, server, experiment, claim):
    price("2.80")
    hold(claim, NOON - 3 * HOUR, NOON - HOUR)
    hold(claim, NOON - 2 * HOUR, None)
    run = mlflow.run(
        experiment, "sweep-1", ms(NOON - 4 * HOUR), ms(NOON - 1.5 * HOUR), dragoman_claim=str(claim.pk)
    )
    assert round_of(server) >= 1
    # 3:00 to 1:30 before noon on the first device, 2:00 to 1:30 on the second: two hours.
    assert tags_of_portal(mlflow, run) == {
        "dragoman.claim": str(claim.pk),
        "dragoman.gpu_hours": "2.00",
        "dragoman.cost": "5.60",
        "dragoman.currency": "EUR",
    }
    stored = TrackedRun.objects.get(run_id=run)
    assert (stored.claim, stored.name, stored.status) == (claim, "sweep-1", "FINISHED")
    assert stored.experiment == test_finished_run_has_the_cost_of_its_overlap_with_the_devices.__name__
    assert stored.ended_at - stored.started_at == 2.5 * HOUR


def test_page_of_a_run_is_there_under_the_address_that_the_portal_shows(mlflow, server, experiment, claim):
    mlflow.run(experiment, "x", ms(NOON - HOUR), dragoman_claim=str(claim.pk))
    round_of(server)
    run = TrackedRun.objects.get(claim=claim)
    assert run.url == f"{mlflow.url}/#/experiments/{experiment}/runs/{run.run_id}"


def test_repeated_round_writes_nothing(mlflow, server, experiment, claim, monkeypatch):
    price("2.80")
    hold(claim, NOON - 3 * HOUR)
    mlflow.run(experiment, "x", ms(NOON - 2 * HOUR), ms(NOON - HOUR), dragoman_claim=str(claim.pk))
    round_of(server)
    written = []
    monkeypatch.setattr("usage.tracking.mlflow.Mlflow.write_tags", lambda *of: written.append(of))
    before = list(TrackedRun.objects.values_list())
    round_of(server)
    assert (written, list(TrackedRun.objects.values_list())) == ([], before)


def test_tags_of_a_running_run_grow(mlflow, server, experiment, claim):
    price("2.80")
    hold(claim, NOON - HOUR)
    run = mlflow.run(experiment, "x", ms(NOON - HOUR), dragoman_claim=str(claim.pk))
    round_of(server)
    assert tags_of_portal(mlflow, run)["dragoman.cost"] == "2.80"
    assert TrackedRun.objects.get(run_id=run).ended_at is None
    round_of(server, NOON + HOUR)
    assert tags_of_portal(mlflow, run)["dragoman.cost"] == "5.60"


def test_run_without_a_rate_has_hours_and_no_cost(mlflow, server, experiment, claim):
    hold(claim, NOON - 2 * HOUR)
    run = mlflow.run(
        experiment, "x", ms(NOON - 2 * HOUR), ms(NOON - HOUR),
        dragoman_claim=str(claim.pk), dragoman_cost="3.00", dragoman_currency="EUR",
    )  # fmt: skip
    round_of(server)
    assert tags_of_portal(mlflow, run) == {"dragoman.claim": str(claim.pk), "dragoman.gpu_hours": "1.00"}


def test_run_that_is_deleted_or_untagged_leaves_the_claim(mlflow, server, experiment, claim):
    kept, deleted, untagged = (
        mlflow.run(experiment, name, ms(NOON - HOUR), dragoman_claim=str(claim.pk)) for name in "abc"
    )
    round_of(server)
    assert TrackedRun.objects.filter(claim=claim).count() == 3
    mlflow.call("runs/delete", {"run_id": deleted})
    mlflow.call("runs/delete-tag", {"run_id": untagged, "key": "dragoman.claim"})
    round_of(server)
    assert [run.run_id for run in TrackedRun.objects.filter(claim=claim)] == [kept]


def test_run_that_is_tagged_late_is_found_once_a_day(mlflow, server, experiment, claim):
    round_of(server)
    mlflow.run(
        experiment, "x", ms(NOON - timedelta(days=20)), ms(NOON - timedelta(days=19)),
        dragoman_claim=str(claim.pk),
    )  # fmt: skip
    round_of(server, NOON + HOUR)
    assert not TrackedRun.objects.filter(claim=claim).exists()
    round_of(server, NOON + timedelta(days=1, hours=1))
    assert TrackedRun.objects.filter(claim=claim).count() == 1


def try_server_of_a_team_shows_nothing_of_other_teams(mlflow, root, experiment, claim, vision, eve, fra):
    price("2.80")
    other = make_claim(
        make_team("other", members=(eve,)), by=eve, cluster=fra, state=ClaimState.ALLOCATED, held=False
    )
    hold(other, NOON - 3 * HOUR)
    mine = mlflow.run(experiment, "mine", ms(NOON - HOUR), dragoman_claim=str(claim.pk))
    spy = mlflow.run(experiment, "spy", ms(NOON - HOUR), dragoman_claim=str(other.pk))
    wrong = mlflow.run(experiment, "wrong", ms(NOON - HOUR), dragoman_claim="no-uuid")
    of_team = save_server(by=root, team=vision, url=mlflow.url)
    round_of(of_team)
    assert [run.run_id for run in TrackedRun.objects.filter(tracking_server=of_team)] == [mine]
    for run in (spy, wrong):
        assert "dragoman.gpu_hours" not in mlflow.tags(run)


def test_more_runs_than_one_page_of_mlflow_are_all_found(mlflow, server, experiment, claim, monkeypatch):
    monkeypatch.setattr("usage.tracking.mlflow.PAGE", 2)
    monkeypatch.setattr("usage.tracking.runs.PAGE", 3)
    for number in range(7):
        mlflow.run(experiment, f"run-{number}", ms(NOON - HOUR) + number, dragoman_claim=str(claim.pk))
    round_of(server)
    assert TrackedRun.objects.filter(claim=claim).count() == 7


def test_clients_of_mlflow_tag_runs_by_the_variables_of_a_manifest(mlflow, server, claim):
    variables = dict(environment(ClaimUse(claim.name, claim.namespace, claim_id=str(claim.pk))))
    program = "import mlflow\nwith mlflow.start_run() as run:\n    print(f'<{run.info.run_id}>')"
    run = mlflow.python(program, **variables).partition("<")[2].partition(">")[0]
    assert mlflow.tags(run)["dragoman.claim"] == str(claim.pk)


def test_a_test_of_a_server_says_what_it_has_and_stores_nothing(mlflow, server, experiment, claim):
    mlflow.run(experiment, "x", ms(NOON - HOUR), dragoman_claim=str(claim.pk))
    found = try_server(server, None, since=NOON - timedelta(days=2))
    assert "experiment" in found
    assert "name a claim" in found
    assert not TrackedRun.objects.filter(claim=claim).exists()


def test_page_api_and_csv_show_what_was_written_back(mlflow, server, experiment, claim, alice, client):
    price("2.80")
    hold(claim, NOON - 3 * HOUR)
    run = mlflow.run(
        experiment, "epoch 3", ms(NOON - 2 * HOUR), ms(NOON - HOUR), dragoman_claim=str(claim.pk)
    )
    round_of(server)
    client.force_login(alice)
    page = client.get(reverse("usage:claim_fragment", args=[claim.pk])).content.decode()
    assert "epoch 3" in page
    assert "€2.80" in page
    (row,) = client.get(f"/api/v1/claims/{claim.pk}/runs/").json()["results"]
    assert row["run_id"] == run
    written = mlflow.tags(run)
    assert row["cost"]["device_hours"] == written["dragoman.gpu_hours"]
    assert row["cost"]["amounts"] == [{"currency": "EUR", "amount": written["dragoman.cost"]}]
    lines = client.get(reverse("usage:claim_runs_csv", args=[claim.pk])).content.decode().splitlines()
    assert Decimal(written["dragoman.cost"]) == Decimal(lines[1].split(",")[8])
