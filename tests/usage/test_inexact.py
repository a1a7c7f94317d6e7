"""What is approximate in the telemetry of partitions: noted where series are joined, said of their claims."""

import pytest
import time_machine
from django.urls import reverse

from inventory.models import Cluster, Device
from tests.usage.conftest import NOON, hold, measure
from tests.usage.test_collect import mirrored
from usage.collect import collect
from usage.inexact import approximations, named
from usage.models import InexactTelemetry, Rollup

ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def partition(fra, claim):
    """Return a function that lets the claim hold a partition of GPU-a, of dynamic MIG: without a UUID."""

    def make(name):
        hold(claim, NOON, device=name, partition="1g.10gb", uuid="", fraction="0.142857")
        mirrored(fra, name, "")
        Device.objects.filter(name=name).update(parent_uuid="GPU-a")

    return make


@pytest.fixture
def exporter(fra, serve):
    lines: list[str] = []
    address = serve(lambda path, body: (200, "".join(lines)))
    Cluster.objects.filter(pk=fra.pk).update(metrics_url=f"{address}/metrics")
    return lines


def instance(number, value=0.5):
    return f'{ACTIVITY}{{UUID="GPU-a",GPU_I_ID="{number}",GPU_I_PROFILE="1g.10gb"}} {value}\n'


def noted():
    return set(InexactTelemetry.objects.values_list("device", "why"))


def test_a_partition_that_is_joined_by_its_profile_is_approximate(claim, partition, exporter, clock):
    partition("mig-1")
    exporter[:] = [instance("7")]
    assert collect(claim.cluster_id) == 1
    assert noted() == {("mig-1", "instance")}
    clock.shift(30)
    collect(claim.cluster_id)  # again: nothing is stored twice
    assert InexactTelemetry.objects.count() == 1


def test_equal_partitions_of_one_gpu_are_noted_as_not_told_apart(claim, partition, exporter):
    partition("mig-1")
    partition("mig-2")
    exporter[:] = [instance("7"), instance("8")]
    assert collect(claim.cluster_id) == 0
    assert noted() == {("mig-1", "twins"), ("mig-2", "twins")}


def test_whole_gpus_ask_for_nothing(claim, exporter, django_assert_num_queries):
    held = hold(claim, NOON, device="gpu-2")
    exporter[:] = [f'{ACTIVITY}{{UUID="{held.uuid}"}} 0.5\n']
    collect(claim.cluster_id)
    assert noted() == set()
    with django_assert_num_queries(0):
        assert approximations(claim, [held], has_power=True) == []


def test_the_page_and_the_api_say_what_is_approximate(client, alice, claim, partition, exporter, clock):
    partition("mig-1")
    exporter[:] = [instance("7")]
    collect(claim.cluster_id)
    client.force_login(alice)
    page, path = reverse("usage:claim_fragment", args=[claim.pk]), f"/api/v1/claims/{claim.pk}/usage/"
    text = " ".join(client.get(page).text.split())
    assert "Approximate.</b> Series of mig-1 were found by the GPU and the MIG profile" in text
    assert "Power of a partition" not in text  # none was measured
    Rollup.objects.update(power_watts=300)
    text = " ".join(client.get(page).text.split())
    assert "Power of a partition is that of its whole GPU" in text
    clock.shift(600)  # the five minutes are over
    assert len(client.get(path).json()["approximations"]) == 2


def test_a_claim_with_whole_gpus_has_nothing_approximate(client, alice, claim):
    measure(hold(claim, NOON), NOON, [0.5])
    client.force_login(alice)
    assert "Approximate" not in client.get(reverse("usage:claim_fragment", args=[claim.pk])).text
    assert client.get(f"/api/v1/claims/{claim.pk}/usage/").json()["approximations"] == []


def test_many_devices_are_counted():
    assert named(["a", "b"]) == "a, b"
    assert named(list("abcde")) == "a, b, c and 2 more devices"
