"""The allocator's picture is as new as the mirror, and costs a query while nothing moves."""

import pytest

from cluster.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from inventory import picture
from tests.inventory.conftest import gpu, resource_claim, slice_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _as_after_a_restart():
    picture.forget()


def names(devices):
    return sorted(str(device) for device in devices)


def test_it_shows_what_is_free(mirrored, fake, take_turn):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    take_turn("resourceclaims")
    found = picture.picture_of(mirrored)
    assert names(found.free) == ["gpu.nvidia.com/node-a/gpu-1", "gpu.nvidia.com/node-b/gpu-0"]
    assert [found.holder_of(device) for device in found.devices] == ["default/mine", "", ""]


def test_it_is_the_same_object_for_one_query_while_nothing_moves(mirrored, django_assert_num_queries):
    first = picture.picture_of(mirrored)
    with django_assert_num_queries(1):
        assert picture.picture_of(mirrored) is first


def test_it_follows_every_kind_of_change(mirrored, fake, take_turn):
    before = picture.picture_of(mirrored)
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    fake.put(RESOURCE_SLICE, slice_of("node-b", [gpu(0), gpu(1)], generation=2))
    take_turn("resourceclaims")
    take_turn("resourceslices")
    after = picture.picture_of(mirrored)
    assert (len(before.devices), len(after.devices), len(after.claims)) == (3, 4, 1)

    fake.remove(RESOURCE_CLAIM, "mine", namespace="default")
    take_turn("resourceclaims")
    assert picture.picture_of(mirrored).claims == []


def test_what_does_not_concern_devices_leaves_it_alone(mirrored, fake, take_turn):
    first = picture.picture_of(mirrored)
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"resourceClaims": [{"name": "g"}]}}
    fake.put(POD, pod)
    take_turn("pods")
    assert picture.picture_of(mirrored) is first
