"""The Grafana dashboards: valid by Grafana's schema; each query returns data from a real Prometheus."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_socket
from django.conf import settings
from django.utils import timezone
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from claims.states import ClaimState
from inventory.counts import store_counts
from inventory.models import Device, Freshness, ResourceSlice
from portal import queues
from simulator.cluster import SimulatedCluster
from simulator.world import populate
from tests.factories import make_budget, make_claim, make_cluster, make_team
from tests.prometheus import Exposition, RealPrometheus, growing, running_prometheus
from usage.models import Collection

FOLDER = settings.BASE_DIR / "deploy/monitoring/dashboards"
EXPOSITIONS = Path(__file__).parent / "expositions"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
plugins.register_default_plugins()


def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def understood(document: dict[str, Any]) -> dict[str, Any]:
    """Return what Grafana's SDK makes of a dashboard: names that its schema does not have are gone."""
    read: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(document)))
    return read


def lost(document: Any, read: Any, path: str = "") -> Iterator[str]:
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(read, dict) and name in read:
                yield from lost(value, read[name], f"{path}/{name}")
            else:
                yield f"{path}/{name}"
    elif isinstance(document, list):
        for number, (one, other) in enumerate(zip(document, read, strict=True)):
            yield from lost(one, other, f"{path}/{number}")
    elif document != read:
        yield path


@pytest.mark.parametrize("name", NAMES)
def test_grafana_understands_all_of_a_dashboard(name):
    document = dashboard(name)
    assert list(lost(document, understood(document))) == []
    document["panels"][0]["titel"] = "misspelled"
    assert list(lost(document, understood(document))) == ["/panels/0/titel"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_can_be_imported_as_it_is(name):
    document = dashboard(name)
    assert document["uid"] == f"dragoman-{name}"  # links of the portal lead there
    assert "id" not in document
    variables = [variable["name"] for variable in document["templating"]["list"]]
    assert variables[0] == "datasource"
    for panel in document["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"]))
            assert used <= set(variables)


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_their_own_place(name):
    taken: set[tuple[int, int]] = set()
    panels = dashboard(name)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _y in cells) < 24
        taken |= cells


@pytest.fixture(scope="module")
def exporter() -> str:
    """What the simulator's exporter says of a cluster with claims."""
    now = [datetime(2026, 11, 17, 12, 0, tzinfo=UTC)]
    cluster = SimulatedCluster("fra-1", seed=7, now=lambda: now[0])
    populate(cluster.registry, "fra-1")
    for _ in range(600):
        now[0] += timedelta(seconds=1)
        cluster.step()
    return cluster.telemetry.text()


@pytest.fixture
def prometheus(db, client, exporter, tmp_path, monkeypatch) -> Iterator[RealPrometheus]:
    """Prometheus with an hour of what exporter, portal and Kubernetes say."""
    vision = make_team("vision")
    fra = make_cluster("fra-1", teams=(vision,), metrics_url="http://dcgm:9400/metrics")
    Collection.objects.create(cluster=fra, succeeded_at=timezone.now())
    where = {"cluster": fra, "driver": "gpu.nvidia.com", "pool": "node"}
    piece = ResourceSlice.objects.create(uid="s", name="s", generation=1, pool_slices=1, **where)
    Device.objects.create(slice=piece, name="gpu-0", product="H100", **where)
    Freshness.objects.create(cluster=fra, resource="pods")
    make_claim(vision, cluster=fra, state=ClaimState.REQUESTED)
    make_budget(vision)
    store_counts()
    # tests/portal/test_queues.py reads a real Redis.
    monkeypatch.setattr(queues, "lengths", lambda names: dict.fromkeys(names, 3.0))
    pages = {
        "/portal": client.get("/metrics").text,
        "/exporter": exporter,
        **{f"/{path.stem}": growing(path.read_text()) for path in EXPOSITIONS.glob("*.prom")},
    }
    pytest_socket.enable_socket()
    with (
        Exposition(pages) as exposition,
        running_prometheus(tmp_path, [exposition.scrape(path[1:], path) for path in pages]) as running,
    ):
        running.wait_for_samples(len(pages))
        yield running


def filled(expression: str, variables: dict[str, str]) -> str:
    """Return a query with the values of its variables, as Grafana fills them in."""
    return re.sub(r"\$(\w+)", lambda match: variables[match[1]], expression)


def values_of(running: RealPrometheus, variable: dict[str, Any], chosen: dict[str, str]) -> set[str]:
    """Return the values that Grafana offers for a variable with a query."""
    query = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
    assert query, variable["query"]
    rows = running.series(filled(query[1], chosen))
    return {row["metric"][query[2]] for row in rows if query[2] in row["metric"]}


def test_every_query_of_every_dashboard_returns_data(prometheus):
    for name in NAMES:
        document = dashboard(name)
        chosen: dict[str, str] = {}
        for variable in document["templating"]["list"][1:]:
            if variable["type"] == "textbox":
                chosen[variable["name"]] = variable["query"]  # what stands there first
                continue
            values = values_of(prometheus, variable, chosen)
            assert values, f"{name}: no value of {variable['name']}"
            # All of them, or the one that a link names.
            chosen[variable["name"]] = "|".join(sorted(values)) if variable.get("multi") else min(values)
        for panel in document["panels"]:
            for target in panel["targets"]:
                rows = prometheus.series(filled(target["expr"], chosen))
                assert rows, f"{name}, {panel['title']}: {target['expr']}"
                assert any(row["value"][1] != "NaN" for row in rows), f"{name}, {panel['title']}: only NaN"


def test_two_portal_processes_that_are_scraped_do_not_count_twice(db, client, tmp_path):
    fra = make_cluster("fra-1")
    where = {"cluster": fra, "driver": "gpu.nvidia.com", "pool": "node"}
    piece = ResourceSlice.objects.create(uid="s", name="s", generation=1, pool_slices=1, **where)
    Device.objects.create(slice=piece, name="gpu-0", product="H100", **where)
    store_counts()
    pytest_socket.enable_socket()
    with (
        Exposition({"/a": client.get("/metrics").text, "/b": client.get("/metrics").text}) as exposition,
        running_prometheus(tmp_path, [exposition.scrape(job, f"/{job}") for job in "ab"]) as running,
    ):
        running.wait_for_samples(2)
        first = dashboard("fleet")["panels"][0]
        (row,) = running.series(filled(first["targets"][0]["expr"], {"cluster": ".+"}))
        assert row["value"][1] == "1"
