"""What /metrics says: labels and values as dcgm-exporter and AMD's exporter give them."""

import re
from datetime import timedelta
from itertools import pairwise

import httpx
import pytest

from simulator import workloads
from simulator.cluster import SimulatedCluster
from simulator.resources import CLAIMS as CLAIM_KIND
from simulator.workloads import Workload
from simulator.world import AWAY_FOR, DIES_EVERY, DYING_EXPORTER, populate
from tests.simulator.conftest import CLAIMS as CLAIMS_PATH
from tests.simulator.conftest import NOW, PODS, created, eventually, make_claim, make_pod, on_product

SAMPLE = re.compile(r"^(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def parsed(text):
    """Return (metric, labels, value) of every sample; fails on a line that is none."""
    samples = []
    for line in text.splitlines():
        if not line.startswith("#"):
            found = SAMPLE.match(line)
            assert found, line
            samples.append((found["name"], dict(LABEL.findall(found["labels"])), float(found["value"])))
    return samples


def scrape(server):
    """Exporters ask nobody who they are."""
    answer = httpx.get(f"{server.base}/clusters/{server.cluster.name}/metrics", trust_env=False)
    assert answer.headers["content-type"].startswith("text/plain")
    return parsed(answer.text)


def of_claim(samples, name):
    return {
        metric: (labels, value) for metric, labels, value in samples if labels.get("dra_claim_name") == name
    }


@pytest.fixture
def lab(now):
    cluster = SimulatedCluster("lab-2", seed=7, now=lambda: now[0])
    populate(cluster.registry, "lab-2")
    for _ in range(20):
        cluster.step()
    return cluster


def test_a_held_device_carries_the_labels_of_its_claim_and_pod(fleet, engineer):
    created(engineer.post(CLAIMS_PATH, json=make_claim("a", selectors=on_product("NVIDIA H100"))))
    created(engineer.post(PODS, json=make_pod("a", claim="a")))
    assert eventually(lambda: engineer.get(f"{PODS}/a").json()["spec"].get("nodeName"))
    fleet.step(3)
    mine = of_claim(scrape(fleet), "a")
    labels, activity = mine["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    assert 0 <= activity <= 1
    assert labels["UUID"].startswith("GPU-")
    assert labels["modelName"] == "NVIDIA H100 80GB HBM3"
    assert re.fullmatch(r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0", labels["pci_bus_id"])
    assert labels["hostname"] == labels["dra_pool_name"]
    assert labels["dra_driver_name"] == "gpu.nvidia.com"
    assert (labels["dra_claim_namespace"], labels["dra_device_name"]) == ("vision", "gpu-0")
    assert (labels["namespace"], labels["pod"], labels["container"]) == ("vision", "a", "main")
    assert "GPU_I_ID" not in labels
    memory = [mine[f"DCGM_FI_DEV_FB_{part}"][1] for part in ("USED", "FREE", "RESERVED")]
    assert sum(memory) == 81559


def test_a_free_device_has_series_without_a_claim(fleet):
    samples = scrape(fleet)
    idle = [(labels, value) for name, labels, value in samples if name == "DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    assert len(idle) == 152
    assert not any("dra_claim_name" in labels or "pod" in labels for labels, _value in idle)
    assert {value for _labels, value in idle} == {0.0}


def test_the_sick_device_tells_its_last_error(fleet):
    errors = {
        (labels["hostname"], labels["gpu"]): value
        for name, labels, value in scrape(fleet)
        if name == "DCGM_FI_DEV_XID_ERRORS" and value
    }
    assert errors == {("fra1-a100-02", "2"): 79.0}


def test_partitions_name_their_gpu_and_have_no_gpu_util(lab):
    partitions = [
        (name, labels, value) for name, labels, value in parsed(lab.metrics()) if "GPU_I_PROFILE" in labels
    ]
    assert "DCGM_FI_DEV_GPU_UTIL" not in {name for name, _labels, _value in partitions}
    instances = {
        (labels["UUID"], labels["GPU_I_ID"], labels["GPU_I_PROFILE"])
        for name, labels, _value in partitions
        if name == "DCGM_FI_PROF_GR_ENGINE_ACTIVE" and labels["hostname"].startswith("lab2-mig-")
    }
    assert len(instances) == 54
    assert len({uuid for uuid, _instance, _profile in instances}) == 16
    held = [labels for _name, labels, _value in partitions if "dra_claim_name" in labels]
    assert held
    assert all(labels["dra_mig_device_uuid"].startswith("MIG-") for labels in held)


def test_the_power_of_a_board_is_the_same_on_all_its_partitions(lab):
    power: dict[str, set[float]] = {}
    for name, labels, value in parsed(lab.metrics()):
        if name == "DCGM_FI_DEV_POWER_USAGE" and "GPU_I_ID" in labels:
            power.setdefault(labels["UUID"], set()).add(value)
    assert {len(values) for values in power.values()} == {1}
    assert len(set.union(*power.values())) > 5


def test_a_silent_node_has_no_series_although_it_is_in_use(lab):
    assert "lab2-t4-04" not in lab.metrics()
    pools = {
        result["pool"]
        for claim in lab.store.all(CLAIM_KIND)
        for result in (claim["status"].get("allocation") or {"devices": {"results": []}})["devices"][
            "results"
        ]
    }
    assert "lab2-t4-04" in pools


def test_amd_says_pods_but_no_claims(lab):
    amd = [labels for name, labels, _value in parsed(lab.metrics()) if name == "gpu_gfx_activity"]
    assert len(amd) == 16
    assert any("pod" in labels for labels in amd)
    assert not any("dra_claim_name" in labels for labels in amd)


def test_energy_only_grows_and_by_the_power_drawn(lab, now):
    def energy():
        return {
            (labels["UUID"], labels.get("pod")): value
            for name, labels, value in parsed(lab.metrics())
            if name == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
        }

    before = energy()
    now[0] = NOW + timedelta(seconds=60)
    after = energy()
    grown = [after[key] - before[key] for key in before]
    assert all(10 * 60_000 * 0.9 <= joules <= 700 * 60_000 for joules in grown)


DAY = 86400.0  # 1970-01-02, midnight


def curve(key, start=DAY + 12 * 3600, end=DAY + 13 * 3600, *, step=15, **says):
    seconds = range(int(start), int(end), step)
    return [workloads.load_at(key, "gpu-0", float(second), **says).activity for second in seconds]


def test_curves_are_smooth_seeded_and_some_claims_are_stuck():
    assert curve("one") == curve("one") != curve("three")
    runs = [curve(f"claim-{number}") for number in range(200)]
    assert all(0 <= value <= 1 for run in runs for value in run)
    assert (
        max(abs(one - other) for run in runs for one, other in pairwise(run)) < 0.26
    )  # a ramp takes a minute
    kinds = [workloads.workload_of(f"claim-{number}") for number in range(200)]
    assert set(kinds) == set(Workload)
    assert 10 <= kinds.count(Workload.STUCK) <= 45


def test_stuck_job_keeps_its_memory_and_does_nothing():
    load = workloads.load_at("one", "gpu-0", DAY, workload=Workload.STUCK)
    assert (load.activity, load.tensor) == (0, 0)
    assert load.memory > 0.2


def test_training_has_plateaus_with_short_dips():
    run = curve("one", end=DAY + 15 * 3600, workload=Workload.TRAINING)
    high = sum(value > 0.8 for value in run) / len(run)
    assert 0.85 < high < 1
    assert min(run) < 0.4


def test_notebook_computes_in_bursts_and_sleeps_at_night():
    run = curve("one", end=DAY + 16 * 3600, workload=Workload.NOTEBOOK)
    assert max(run) > 0.3
    assert 0.75 < run.count(0.0) / len(run) < 0.98
    assert max(curve("one", DAY + 20 * 3600, DAY + 24 * 3600, workload=Workload.NOTEBOOK)) == 0


def test_inference_follows_day_and_night():
    def mean(hour):
        run = curve("one", DAY + hour * 3600, DAY + (hour + 1) * 3600, workload=Workload.INFERENCE)
        return sum(run) / len(run)

    assert mean(15) > 3 * mean(3) > 0


@pytest.mark.parametrize("mean", [0.03, 0.5, 0.93])
def test_work_that_says_how_busy_it_is_is_as_busy_in_the_mean(mean):
    seen = [
        workloads.load_at("one", "gpu-0", float(second), mean_activity=mean).activity
        for second in range(0, 7200, 15)
    ]
    assert sum(seen) / len(seen) == pytest.approx(mean, abs=0.05)
    assert max(seen) - min(seen) < 0.45


def test_a_pod_says_so_in_an_annotation(fleet, engineer):
    created(engineer.post(CLAIMS_PATH, json=make_claim("calm", selectors=on_product("NVIDIA L4"))))
    pod = make_pod("calm", claim="calm")
    pod["metadata"]["annotations"]["simulator.dragoman.dev/activity"] = "0.03"
    created(engineer.post(PODS, json=pod))
    eventually(lambda: of_claim(scrape(fleet), "calm"))
    _labels, activity = of_claim(scrape(fleet), "calm")["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    assert 0 < activity < 0.1


def test_a_pod_says_what_kind_of_work_it_is(fleet, engineer):
    created(engineer.post(CLAIMS_PATH, json=make_claim("stuck", selectors=on_product("NVIDIA L4"))))
    pod = make_pod("stuck", claim="stuck")
    pod["metadata"]["annotations"]["simulator.dragoman.dev/workload"] = "stuck"
    created(engineer.post(PODS, json=pod))
    eventually(lambda: of_claim(scrape(fleet), "stuck"))
    mine = of_claim(scrape(fleet), "stuck")
    assert mine["DCGM_FI_PROF_GR_ENGINE_ACTIVE"][1] == 0
    assert mine["DCGM_FI_DEV_FB_USED"][1] > 1000


def test_each_node_has_an_exporter_that_says_what_is_on_it(fleet):
    base = f"{fleet.base}/clusters/{fleet.cluster.name}"
    targets = httpx.get(f"{base}/exporters", trust_env=False).json()
    assert {target["targets"][0] for target in targets} == {fleet.base.removeprefix("http://")}
    whole = {line for line in fleet.cluster.metrics().splitlines() if "_ENGINE_ACTIVE{" in line}
    parts = []
    for target in targets:
        labels = target["labels"]
        node = labels["instance"].removesuffix(":9400")
        answer = httpx.get(f"{fleet.base}{labels['__metrics_path__']}", trust_env=False)
        mine = [line for line in answer.text.splitlines() if "_ENGINE_ACTIVE{" in line]
        assert all(f'hostname="{node}"' in line for line in mine)
        parts += mine
    assert sorted(parts) == sorted(whole)
    assert httpx.get(f"{base}/exporters/nowhere/metrics", trust_env=False).status_code == 503


def test_one_exporter_dies_and_comes_back(fleet, now):
    second = int(now[0].timestamp())
    now[0] += timedelta(seconds=DIES_EVERY - second % DIES_EVERY)
    assert fleet.cluster.metrics(DYING_EXPORTER) == ""
    assert DYING_EXPORTER not in fleet.cluster.metrics()
    now[0] += timedelta(seconds=AWAY_FOR)
    assert DYING_EXPORTER in fleet.cluster.metrics(DYING_EXPORTER)


def test_whole_gpus_have_traffic_and_errors_and_partitions_only_activity(lab):
    text = lab.metrics()
    of_kind: dict[bool, set[str]] = {True: set(), False: set()}
    for name, labels, _value in parsed(text):
        of_kind["GPU_I_PROFILE" in labels].add(name)
    traffic = {f"DCGM_FI_PROF_{bus}_{way}_BYTES" for bus in ("PCIE", "NVLINK") for way in ("TX", "RX")}
    both = {"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"}
    assert of_kind[False] >= traffic | both
    assert of_kind[True] >= both
    assert not of_kind[True] & traffic
    for name in traffic | both:
        assert re.search(rf"^# HELP {name} .*simulated", text, re.MULTILINE)


def test_only_boards_with_nvlink_report_nvlink_traffic(fleet):
    linked, all_models = set(), set()
    for name, labels, _value in parsed(fleet.cluster.metrics()):
        if "modelName" in labels:
            all_models.add(labels["modelName"])
            if "NVLINK" in name:
                linked.add(labels["modelName"])
    assert {"NVIDIA L4", "NVIDIA L40S"} <= all_models - linked
    assert linked == {model for model in all_models if "H100" in model or "A100-SXM" in model}
