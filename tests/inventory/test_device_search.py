"""The texts of slices that a search of devices reads first: always those of the devices."""

import random

import pytest

from cluster.protocol import RESOURCE_SLICE
from inventory import device_search
from inventory.device_search import device_has_text
from inventory.models import Device, SliceText
from inventory.sync.list_watch import apply_events, list_all, sync_once
from inventory.sync.session import take
from tests.inventory.conftest import gpu, slice_of

pytestmark = pytest.mark.django_db


def found(word):
    return set(Device.objects.present().filter(device_has_text(word)).values_list("pool", "name"))


def compared(word):
    """Return what comparing every device finds."""
    columns = ("pool", "name", "node_name", "product", "uuid", "parent_uuid", "partition")
    rows = Device.objects.present().values_list(*columns)
    return {row[:2] for row in rows if any(word.lower() in text.lower() for text in row)}


@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_a_search_finds_what_comparing_all_devices_finds(mirrored, fake, seed):
    chance = random.Random(seed)
    nodes, lease, words = ["node-a", "node-b", "node-c"], take(mirrored.pk, "resourceslices"), 0
    for step in range(30):
        start, name = str(fake._now()), chance.choice(nodes)
        if fake.get(RESOURCE_SLICE, f"{name}-slice") and chance.random() < 0.2:
            fake.remove(RESOURCE_SLICE, f"{name}-slice")
        else:
            product = chance.choice(["NVIDIA H100 80GB HBM3", "NVIDIA L40S"])
            devices = [gpu(index, product=product) for index in range(chance.randint(0, 3))]
            # A slice of more than its pool has so far leaves the devices that are known.
            told = slice_of(name, devices, generation=step + 1, count=chance.choice([1, 1, 2]))
            fake.put(RESOURCE_SLICE, told)
        events = [e for e in fake.watch(RESOURCE_SLICE, resource_version=start) if e.type != "BOOKMARK"]
        if chance.random() < 0.8:
            apply_events(lease, RESOURCE_SLICE, events, version=str(fake._now()))
        else:
            list_all(lease, fake, RESOURCE_SLICE)
        assert device_search.find_differences().total == 0
        for word in ("gpu-1", "node-b", "L40s", "hbm3", "GPU-0", "nothing"):
            assert found(word) == compared(word)
            words += len(found(word))
    assert words


def test_a_slice_without_devices_has_no_text(mirrored, fake):
    assert SliceText.objects.count() == 2
    fake.remove(RESOURCE_SLICE, "node-b-slice")
    sync_once(mirrored, fake)
    assert list(SliceText.objects.values_list("slice__name", flat=True)) == ["node-a-slice"]


def test_no_slices_are_chosen_for_a_word_that_many_have(mirrored, monkeypatch):
    monkeypatch.setattr(device_search, "MOST_SLICES", 1)
    assert "slice" not in str(device_has_text("gpu-0"))
    assert "slice" in str(device_has_text("node-b"))
    assert found("gpu-0") == {("node-a", "gpu-0"), ("node-b", "gpu-0")}


def test_texts_that_differ_are_found_and_stored_again(mirrored):
    assert device_search.find_differences().total == 0
    first, second = SliceText.objects.order_by("pk")
    first.delete()
    SliceText.objects.filter(pk=second.pk).update(text="wrong")
    differences = device_search.find_differences()
    assert (differences.missing, differences.altered, differences.obsolete) == (1, 1, 0)
    Device.objects.filter(slice=second.pk).update(gone_at=second.slice.seen_at)
    differences = device_search.refresh()
    assert (differences.missing, differences.altered, differences.obsolete) == (1, 0, 1)
    assert device_search.find_differences().total == 0
