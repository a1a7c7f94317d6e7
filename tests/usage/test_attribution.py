from uuid import uuid4

import pytest

from tests.usage.test_samples import series
from tests.usage.test_sources import SHARED
from usage import sources
from usage.attribution import OpenAllocation, attribute
from usage.samples import MIB, Measurement, Sample, measurements


def held(**fields: str) -> OpenAllocation:
    values = {
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
    return OpenAllocation(claim_id=uuid4(), **values)


def test_pods_on_one_device_count_as_the_largest_value():
    found = measurements(sources.parse_exposition(SHARED.splitlines()))
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
    found = measurements(sources.parse_exposition(SHARED.splitlines()))
    assert attribute([held(namespace="vision", uuid="")], found) != []
    assert attribute([held(namespace="nlp", uuid="")], found) == []


def test_partition_is_identified_by_gpu_and_profile_only_if_unique():
    def instance(number: str) -> Sample:
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


@pytest.mark.parametrize("label", LABELS)
def test_all_dra_labels_must_match_the_allocation(label):
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, **LABELS | {label: "other"})])
    assert attribute([held(uuid="")], found) == []
    found = measurements([series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, **LABELS)])
    assert [reading.activity for _, reading in attribute([held(uuid="")], found)] == [0.4]


def test_labels_of_dra_count_before_the_uuid():
    mine = held()
    found = measurements(
        [
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.9, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-b", **LABELS),
        ]
    )
    assert attribute([mine], found) == [(mine, Measurement(activity=0.4))]


def test_claim_without_labels_gets_the_largest_value_of_its_gpu():
    """Another claim on the board has labels; its series says what the board does."""
    mine = held(object_name="mine")
    found = measurements(
        [
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.6, UUID="GPU-a", **LABELS),
            series("DCGM_FI_DEV_FB_USED", 1, UUID="GPU-a"),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1, UUID="GPU-a", GPU_I_ID="3", GPU_I_PROFILE="1g.10gb"),
        ]
    )
    assert attribute([mine], found) == [(mine, Measurement(activity=0.6, memory_bytes=MIB))]


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
