from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.usage.test_samples import series
from tests.usage.test_sources import SHARED
from usage import sources
from usage.attribution import JoinKey, NotJoined, OpenAllocation, join
from usage.samples import ACTIVITY, ENERGY, MIB, Measurement, Series, measurements


def held(*, pods: tuple[str, ...] = (), **fields: str) -> OpenAllocation:
    values: dict[str, Any] = {
        "namespace": "vision",
        "object_name": "sam2",
        "driver": "gpu.nvidia.com",
        "pool": "fra1-h100-03",
        "device": "gpu-2",
        "uuid": "GPU-a",
        "partition": "",
        "parent_uuid": "",
        **fields,
    }
    return OpenAllocation(claim_id=uuid4(), pods=frozenset(pods), **values)


def attribute(allocations, measured):
    """Return each allocation that has a measurement, with it."""
    found = [(one.allocation, one.measurement) for one in join(allocations, measured)]
    return [(allocation, measurement) for allocation, measurement in found if measurement is not None]


def test_pods_on_one_device_count_as_the_largest_value():
    found = measurements(sources.parse_exposition(SHARED.splitlines()).series)
    sam2 = held()
    assert attribute([sam2], found) == [(sam2, Measurement(activity=0.80, memory_bytes=59494 * MIB))]


def test_uuid_identifies_a_gpu_without_dra_labels():
    mine, other = held(), held(uuid="GPU-b", device="gpu-3")
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-a", Hostname="fra1")])
    assert attribute([mine, other], found) == [(mine, Measurement(activity=0.4))]


def test_two_claims_on_one_device_each_get_the_series_with_their_name():
    first, second = held(object_name="one"), held(object_name="two")
    place = {"dra_driver_name": "gpu.nvidia.com", "dra_pool_name": "fra1-h100-03", "dra_device_name": "gpu-2"}
    found = measurements(
        series(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            value,
            dra_claim_name=name,
            dra_claim_namespace="vision",
            **place,
        )
        for name, value in (("one", 0.1), ("two", 0.6))
    )
    assert [reading.activity for _, reading in attribute([first, second], found)] == [0.1, 0.6]


def test_a_claim_of_another_namespace_with_the_same_name_gets_nothing():
    found = measurements([series(ACTIVITY, 0.4, dra_claim_namespace="vision", dra_claim_name="sam2")])
    assert attribute([held(namespace="vision", uuid="")], found) != []
    assert attribute([held(namespace="nlp", uuid="")], found) == []


def test_partition_is_identified_by_gpu_and_profile_only_if_unique():
    def instance(number: str) -> Series:
        labels = {"UUID": "GPU-a", "GPU_I_ID": number, "GPU_I_PROFILE": "1g.10gb"}
        return series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.3, **labels)

    mine = held(uuid="MIG-1", parent_uuid="GPU-a", partition="1g.10gb")
    twin = held(uuid="MIG-2", parent_uuid="GPU-a", partition="1g.10gb", device="gpu-2-mig-2")
    assert attribute([mine], measurements([instance("7")])) == [(mine, Measurement(activity=0.3))]
    assert attribute([mine], measurements([instance("7"), instance("8")])) == []
    assert attribute([mine, twin], measurements([instance("7")])) == []


LABELS = {
    "dra_claim_namespace": "vision",
    "dra_claim_name": "sam2",
    "dra_driver_name": "gpu.nvidia.com",
    "dra_pool_name": "fra1-h100-03",
    "dra_device_name": "gpu-2",
}


@pytest.mark.parametrize("label", ["dra_driver_name", "dra_pool_name", "dra_device_name"])
def test_series_of_another_device_does_not_match(label):
    found = measurements([series(ACTIVITY, 0.4, **LABELS | {label: "other"})])
    assert attribute([held(uuid="")], found) == []
    found = measurements([series(ACTIVITY, 0.4, **LABELS)])
    assert [reading.activity for _, reading in attribute([held(uuid="")], found)] == [0.4]


@pytest.mark.parametrize("label", ["dra_claim_namespace", "dra_claim_name"])
def test_device_decides_where_its_series_names_another_claim(label):
    """The other claim shares the device; what it does is what the device does."""
    found = measurements([series(ACTIVITY, 0.4, **LABELS | {label: "other"})])
    (joined,) = join([held(uuid="")], found)
    assert (joined.key, joined.measurement) == (JoinKey.DEVICE, Measurement(activity=0.4))


def test_labels_of_dra_count_before_the_uuid():
    mine = held()
    found = measurements(
        [
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.9, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-b", **LABELS),
        ]
    )
    assert attribute([mine], found) == [(mine, Measurement(activity=0.4))]


def test_series_of_a_gpu_without_its_partitions_count_by_uuid():
    mine = held(object_name="mine")
    found = measurements(
        [
            series(ACTIVITY, 0.4, UUID="GPU-a"),
            series("DCGM_FI_DEV_FB_USED", 1, UUID="GPU-a"),
            series(ACTIVITY, 1, UUID="GPU-a", GPU_I_ID="3", GPU_I_PROFILE="1g.10gb"),
        ]
    )
    (joined,) = join([mine], found)
    assert (joined.key, joined.measurement) == (JoinKey.UUID, Measurement(activity=0.4, memory_bytes=MIB))


def test_claim_labels_without_a_device_join_the_only_device_of_the_claim():
    """Some scrapes keep `dra_claim_*` alone."""
    found = measurements([series(ACTIVITY, 0.4, dra_claim_namespace="vision", dra_claim_name="sam2")])
    mine = held(uuid="")
    assert [joined.key for joined in join([mine], found)] == [JoinKey.CLAIM]
    shares = [mine, replace(mine, claim_id=mine.claim_id)]  # two shares of one device
    assert [joined.key for joined in join(shares, found)] == [JoinKey.CLAIM, JoinKey.CLAIM]
    second = held(uuid="", device="gpu-3")
    assert [joined.reason for joined in join([mine, second], found)] == [NotJoined.NO_UUID] * 2


def test_keys_are_tried_from_the_most_exact_on():
    by_device = series(ACTIVITY, 0.1, **LABELS)
    by_claim = series(ACTIVITY, 0.2, dra_claim_namespace="vision", dra_claim_name="sam2")
    by_uuid = series(ACTIVITY, 0.3, UUID="GPU-a")
    instance = series(ACTIVITY, 0.4, UUID="GPU-b", GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")
    mine = held(parent_uuid="GPU-b", partition="1g.10gb")
    samples = [by_device, by_claim, by_uuid, instance]
    tried = []
    while samples:
        (joined,) = join([mine], measurements(samples))
        tried.append((joined.key, joined.measurement.activity))
        samples.pop(0)
    assert tried == [
        (JoinKey.DEVICE, 0.1),
        (JoinKey.CLAIM, 0.2),
        (JoinKey.UUID, 0.3),
        (JoinKey.INSTANCE, 0.4),
    ]


def test_mig_row_with_the_uuid_of_its_gpu_and_of_its_mig_device_is_joined_by_the_latter():
    """As dcgm-exporter 4.6 writes static MIG; here without the labels of claim and device."""
    labels = {"UUID": "GPU-a", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb", "dra_mig_device_uuid": "MIG-1"}
    mine = held(uuid="MIG-1", parent_uuid="GPU-a", partition="1g.10gb")
    twin = held(uuid="MIG-2", parent_uuid="GPU-a", partition="1g.10gb", device="gpu-2-mig-2")
    first, second = join([mine, twin], measurements([series(ACTIVITY, 0.4, **labels)]))
    assert (first.key, second.measurement) == (JoinKey.UUID, None)


def test_twins_and_missing_names_have_their_reason():
    def instance(number: str) -> Series:
        return series(ACTIVITY, 0.3, UUID="GPU-a", GPU_I_ID=number, GPU_I_PROFILE="1g.10gb")

    twins = [
        held(uuid="", parent_uuid="GPU-a", partition="1g.10gb", device=f"gpu-0-mig-{number}")
        for number in range(2)
    ]
    alone, nameless = held(uuid="GPU-z", device="gpu-8"), held(uuid="", device="gpu-9")
    joined = join([*twins, alone, nameless], measurements([instance("7"), instance("8")]))
    assert [one.reason for one in joined] == [
        *(NotJoined.TWINS, NotJoined.TWINS),
        *(NotJoined.NO_SERIES, NotJoined.NO_UUID),
    ]


BOARD = 'gpu_id="2",gpu_partition_id="0",hostname="fra2-mi300x-01",serial_number="692251001124"'


def amd(*pods, device="gpu-1-129", **fields):
    return held(driver="gpu.amd.com", uuid="", device=device, pods=pods, **fields)


def amd_text(pod="train-0", namespace="vision", more=""):
    labels = f'{BOARD},pod="{pod}",namespace="{namespace}",container="main"{more}'
    values = {"gpu_gfx_activity": 40, "amd_gpu_used_vram": 512, "gpu_power_usage": 310, "gpu_clock": 2100}
    lines = [f"{name}{{{labels}}} {value}" for name, value in values.items()]
    return measurements(sources.parse_exposition(lines).series)


def test_amd_device_is_joined_by_the_only_pod_that_uses_it():
    (joined,) = join([amd("train-0")], amd_text())
    assert joined.key == JoinKey.POD
    assert joined.measurement == Measurement(activity=0.4, memory_bytes=512 * MIB, power_watts=310.0)


def test_amd_memory_temperature_and_energy_are_read_in_the_units_of_dcgm():
    labels = f'{BOARD},pod="train-0",namespace="vision"'
    values = {
        "gpu_used_vram": 512,
        "gpu_total_vram": 196592,
        "gpu_junction_temperature": 61,
        "gpu_energy_consumed": 8_123_456_789_000,
    }
    text = [f"amd_{name}{{{labels}}} {value}" for name, value in values.items()]
    (joined,) = join([amd("train-0")], measurements(sources.parse_exposition(text).series))
    assert joined.measurement == Measurement(
        memory_bytes=512 * MIB,
        memory_total=196592 * MIB,
        temperature=61.0,
        counters={ENERGY: 8_123_456_789},  # mJ
    )


def test_amd_labels_that_a_scrape_renames_count_before_those_of_the_exporter():
    renamed = ',exported_pod="train-0",exported_namespace="vision"'
    found = amd_text(pod="metrics-exporter-x", namespace="kube-amd-gpu", more=renamed)
    assert [joined.key for joined in join([amd("train-0")], found)] == [JoinKey.POD]


def test_amd_devices_that_cannot_be_told_apart_have_no_telemetry_and_a_reason():
    two = [amd("train-0"), amd("train-0", device="gpu-2-130")]
    assert [joined.reason for joined in join(two, amd_text())] == [NotJoined.SEVERAL] * 2
    assert [joined.reason for joined in join([amd()], amd_text())] == [NotJoined.NO_POD]
    assert [joined.reason for joined in join([amd("other")], amd_text())] == [NotJoined.NO_SERIES]
    elsewhere = amd("train-0", namespace="nlp")
    assert [joined.reason for joined in join([elsewhere], amd_text())] == [NotJoined.NO_SERIES]


def test_amd_pod_with_series_of_two_gpus_and_one_held_device_is_not_joined():
    found = amd_text()
    found |= {key._replace(board="fra2-mi300x-01/3/0"): measured for key, measured in found.items()}
    assert [joined.reason for joined in join([amd("train-0")], found)] == [NotJoined.SEVERAL]


def test_device_reported_twice_has_its_largest_value():
    found = measurements(
        [
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-a", **LABELS),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.7, UUID="GPU-old", **LABELS),
            series("DCGM_FI_DEV_FB_USED", 5, UUID="GPU-a", **LABELS),
        ]
    )
    mine = held(uuid="")
    assert attribute([mine], found) == [(mine, Measurement(activity=0.7, memory_bytes=5 * MIB))]


def test_mig_uuid_identifies_a_partition():
    mine = held(uuid="MIG-1", parent_uuid="GPU-a", partition="1g.10gb")
    told = {"UUID": "GPU-a", "dra_mig_device_uuid": "MIG-1"}
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, **told)])
    assert attribute([mine], found) == [(mine, Measurement(activity=0.4))]


@pytest.mark.parametrize(
    ("uuid", "profile"), [("GPU-b", "1g.10gb"), ("GPU-a", "2g.20gb")], ids=["board", "profile"]
)
def test_partition_of_another_gpu_or_profile_does_not_match(uuid, profile):
    mine = held(uuid="MIG-1", parent_uuid="GPU-a", partition="1g.10gb")
    labels = {"UUID": uuid, "GPU_I_ID": "7", "GPU_I_PROFILE": profile}
    assert attribute([mine], measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.3, **labels)])) == []


def test_sample_without_uuid_and_labels_matches_nothing():
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4)])
    assert attribute([held(uuid=""), held()], found) == []


def test_sample_without_uuid_is_no_physical_gpu():
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, GPU_I_PROFILE="1g.10gb")])
    assert attribute([held(uuid="", parent_uuid="GPU-a", partition="1g.10gb")], found) == []
