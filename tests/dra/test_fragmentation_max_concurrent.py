"""How many devices can be held at once of those that exclude one another."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as some

from dra.fragmentation import max_concurrent
from dra.pools import amounts
from tests.dra.test_fragmentation import SIZES, STARTS, partition, whole

ONE = 10**9  # billionths


def takes(*devices):
    return [amounts(device.get("consumesCounters", ()), "counterSet") for device in devices]


def slots(board, count=8):
    return {(f"gpu-{board}", f"memory-slice-{at}"): ONE for at in range(count)}


def places(board, *profiles):
    return [partition(board, profile, start) for profile in profiles for start in STARTS[profile]]


def test_places_of_one_size_fit_beside_each_other_and_a_whole_gpu_once():
    assert max_concurrent(takes(*places(0, "1g.10gb")), slots(0)) == 7
    assert max_concurrent(takes(*places(0, "3g.40gb")), slots(0)) == 2
    assert max_concurrent(takes(whole(0), *places(0, "7g.80gb")), slots(0)) == 1


def test_all_places_of_a_gpu_together_are_as_many_as_its_smallest():
    """Thirteen partitions are published, seven can be held."""
    devices = places(0, *SIZES)
    assert len(devices) == 13
    assert max_concurrent(takes(*devices), slots(0)) == 7


def test_each_gpu_counts_for_itself_and_devices_without_counters_all_count():
    devices = [*places(0, "2g.20gb"), *places(1, "2g.20gb"), {"name": "whole"}, {"name": "other"}]
    assert max_concurrent(takes(*devices), slots(0) | slots(1)) == 3 + 3 + 2


def test_a_counter_that_the_pool_lacks_gives_nothing():
    assert max_concurrent(takes(*places(0, "1g.10gb")), slots(0, 3)) == 3
    assert max_concurrent(takes(*places(0, "1g.10gb")), {}) == 0


def test_a_device_of_two_gpus_excludes_the_partitions_of_both():
    both = {
        "name": "pair",
        "consumesCounters": [whole(0)["consumesCounters"][0], whole(1)["consumesCounters"][0]],
    }
    assert max_concurrent(takes(both), slots(0) | slots(1)) == 1
    assert max_concurrent(takes(both, whole(0), whole(1)), slots(0) | slots(1)) == 2
    assert max_concurrent(takes(both, whole(0)), slots(0) | slots(1)) == 1


@given(
    some.lists(some.dictionaries(some.sampled_from("abc"), some.integers(1, 4), min_size=1), max_size=6),
    some.dictionaries(some.sampled_from("abc"), some.integers(0, 6)),
)
def test_it_is_the_largest_set_that_fits(wants, has):
    """Tried against every set there is."""
    devices = [
        {
            "consumesCounters": [
                {"counterSet": "gpu", "counters": {name: {"value": str(n)} for name, n in want.items()}}
            ]
        }
        for want in wants
    ]
    fitting = [
        len(chosen)
        for size in range(len(wants) + 1)
        for chosen in combinations(wants, size)
        if all(sum(one.get(name, 0) for one in chosen) <= has.get(name, 0) for name in "abc")
    ]
    counters = {("gpu", name): n * ONE for name, n in has.items()}
    assert max_concurrent(takes(*devices), counters) == max(fitting)
