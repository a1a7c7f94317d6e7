"""What stands in a namespace as ResourceQuota, and what becomes of what others make of it."""

from contextlib import contextmanager
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.approvals.decide import approve
from claims.models import Quota, TeamNamespace, WrittenQuota
from claims.quotas import resource_quota, resource_quota_rounds
from claims.quotas.services import set_quota
from claims.states import ClaimState
from claims.tasks import maintain_quotas
from cluster.protocol import NAMESPACE, RESOURCE_QUOTA, Unreachable
from inventory.models import Cluster, DeviceClass
from notify.models import Notice
from tests.factories import (
    GPU_CLASS,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_raise,
    make_spec,
    make_team,
)

pytestmark = pytest.mark.django_db
DEVICES = f"{GPU_CLASS}.deviceclass.resource.k8s.io/devices"
IMPLICIT = f"requests.deviceclass.resource.kubernetes.io/{GPU_CLASS}"
CLAIMS = "count/resourceclaims.resource.k8s.io"
PAGE = reverse("claims:cluster_quotas", args=["fra-1"])
STOP = reverse("claims:cluster_quotas_stop", args=["fra-1"])


@pytest.fixture
def written(gateway, fra, monkeypatch):
    """`fra` keeps quotas; returns how to read what stands in a namespace."""
    Cluster.objects.filter(pk=fra.pk).update(write_quotas=True)
    fra.refresh_from_db()

    @contextmanager
    def connected(cluster):
        yield gateway

    monkeypatch.setattr("claims.quotas.resource_quota_rounds.gateway_for", connected)

    def read(namespace="vision"):
        found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)
        return found and found["spec"]["hard"]

    return read


def place_of(team):
    return TeamNamespace.objects.select_related("team", "cluster").get(team=team)


def rewrite(gateway, **hard):
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace="vision")
    found["spec"]["hard"] |= hard
    gateway.put(RESOURCE_QUOTA, found)


def test_the_limit_is_written_with_raises_and_nothing_for_other_classes(vision, fra, quota):
    for name, extended in ((GPU_CLASS, "nvidia.com/gpu"), ("mig.nvidia.com", "")):
        DeviceClass.objects.create(cluster=fra, uid=name, name=name, extended_resource=extended)
    ends = timezone.now() + timedelta(days=1)
    make_raise(quota, 2, ends_at=ends)
    Quota.objects.create(team=vision, counts="claims", devices=5)
    assert resource_quota.hard_limits(place_of(vision)) == {
        DEVICES: "10",
        IMPLICIT: "10",
        "requests.nvidia.com/gpu": "10",
        "mig.nvidia.com.deviceclass.resource.k8s.io/devices": "0",
        "requests.deviceclass.resource.kubernetes.io/mig.nvidia.com": "0",
        CLAIMS: "5",
        "count/resourceclaimtemplates.resource.k8s.io": "5",
    }


@pytest.mark.django_db(transaction=True)
def test_a_change_of_the_quota_is_written_at_once(root, vision, quota, written):
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=6)
    assert written()[DEVICES] == "6"
    row = WrittenQuota.objects.get()
    assert (row.problem, row.drift, row.observed_hard[DEVICES]) == ("", "", "6")
    set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=7)
    assert written()[DEVICES] == "7"
    assert WrittenQuota.objects.get().drift == ""


def test_what_somebody_changed_is_told_and_put_right(root, gateway, quota, written):
    maintain_quotas()
    rewrite(gateway, **{DEVICES: "100"})
    maintain_quotas()
    assert written()[DEVICES] == "8"
    row = WrittenQuota.objects.get()
    assert row.drift == f"Somebody changed {DEVICES} from 8 to 100."
    assert row.repaired_at is not None
    maintain_quotas()
    (notice,) = Notice.objects.filter(user=root)
    assert notice.title == "The quota of vision in fra-1 was changed outside the portal"


def test_what_somebody_changes_another_day_is_told_again(root, gateway, quota, written):
    day = timezone.now()
    for moment, devices in ((day, "100"), (day + timedelta(days=2), "200")):
        with time_machine.travel(moment, tick=False):
            maintain_quotas()
            rewrite(gateway, **{DEVICES: devices})
            maintain_quotas()
            assert WrittenQuota.objects.get().repaired_at == moment
    assert Notice.objects.filter(user=root).count() == 2


def test_a_deleted_one_is_made_again_and_told(root, gateway, quota, written):
    maintain_quotas()
    gateway.remove(RESOURCE_QUOTA, "dragoman", namespace="vision")
    maintain_quotas()
    assert written()[DEVICES] == "8"
    assert WrittenQuota.objects.get().drift == "Somebody deleted the ResourceQuota."
    assert Notice.objects.filter(user=root).count() == 1


def test_an_amount_in_other_words_is_no_change(gateway, quota, written):
    Quota.objects.update(devices=1000)
    maintain_quotas()
    rewrite(gateway, **{DEVICES: "1k"})
    maintain_quotas()
    assert WrittenQuota.objects.get().drift == ""


def test_lines_of_others_stay_and_those_without_effect_are_named(client, root, gateway, quota, written):
    maintain_quotas()
    rewrite(gateway, **{"pods": "10", "limits.nvidia.com/gpu": "2"})
    maintain_quotas()
    assert written()["pods"] == "10"
    assert WrittenQuota.objects.get().drift == ""
    client.force_login(root)
    assert "limits.nvidia.com/gpu counts nothing" in client.get(PAGE).text


def test_an_object_of_that_name_that_is_not_ours_is_left_alone(gateway, quota, written):
    other = {"metadata": {"name": "dragoman", "namespace": "vision"}, "spec": {"hard": {"pods": "3"}}}
    gateway.put(RESOURCE_QUOTA, other)
    maintain_quotas()
    assert written() == {"pods": "3"}
    assert "that is not the portal's" in WrittenQuota.objects.get().problem


def test_what_the_cluster_refuses_is_a_sentence(gateway, quota, written):
    gateway.denied.add(("patch", "resourcequotas"))
    maintain_quotas()
    assert "may not apply resourcequotas" in WrittenQuota.objects.get().problem
    gateway.denied.clear()
    maintain_quotas()
    assert WrittenQuota.objects.get().problem == ""
    gateway.fail(Unreachable("no answer"), times=9)
    maintain_quotas()
    assert "no answer" in WrittenQuota.objects.get().problem


def test_a_cluster_that_does_not_answer_is_asked_once_and_all_its_rows_say_so(gateway, fra, quota, written):
    gateway.put(NAMESPACE, {"metadata": {"name": "more"}})
    TeamNamespace.objects.create(team=make_team("more"), cluster=fra, namespace="more")
    maintain_quotas()
    gateway.calls.clear()
    gateway.fail(Unreachable("no answer"), times=9)
    maintain_quotas()
    assert len(gateway.calls) == 1
    assert ["no answer" in row.problem for row in WrittenQuota.objects.all()] == [True, True]


def test_switched_off_it_is_deleted_and_nothing_else(gateway, fra, quota, written):
    maintain_quotas()
    other = {"metadata": {"name": "own", "namespace": "vision"}, "spec": {"hard": {"pods": "3"}}}
    gateway.put(RESOURCE_QUOTA, other)
    Cluster.objects.filter(pk=fra.pk).update(write_quotas=False)
    maintain_quotas()
    assert written() is None
    assert gateway.get(RESOURCE_QUOTA, "own", namespace="vision")
    assert not WrittenQuota.objects.exists()


def test_that_of_a_namespace_that_a_team_left_is_deleted(gateway, vision, fra, quota, written):
    maintain_quotas()
    gateway.put(NAMESPACE, {"metadata": {"name": "new"}})
    TeamNamespace.objects.filter(team=vision).delete()
    TeamNamespace.objects.create(team=vision, cluster=fra, namespace="new")
    maintain_quotas()
    assert written() is None
    assert written("new")[DEVICES] == "8"


def test_nothing_is_written_to_a_cluster_that_is_read_only_or_not_in_use(gateway, fra, quota, written):
    for state in ({"read_only": True}, {"enabled": False}, {"halt_reason": "another cluster"}):
        Cluster.objects.filter(pk=fra.pk).update(**{"read_only": False, "enabled": True} | state)
        maintain_quotas()
        assert written() is None
    Cluster.objects.filter(pk=fra.pk).update(halt_reason="")
    maintain_quotas()
    assert written()[DEVICES] == "8"


@pytest.mark.django_db(transaction=True)
def test_a_delivery_writes_the_limit_first(ask, lena, vision, quota, written):
    Quota.objects.update(devices=8)
    maintain_quotas()
    Quota.objects.update(devices=9)
    claim = ask(devices=8)
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert written()[DEVICES] == "9"


def test_a_delivery_looks_at_what_is_written_for_its_own_team(vision, fra, gateway, quota, written):
    """In both orders, whichever row the database returns first."""
    teams = {"vision": vision, "nlp": make_team("nlp")}
    make_cluster("fra-1", teams=(teams["nlp"],))
    make_quota(teams["nlp"], 8)
    gateway.put(NAMESPACE, {"metadata": {"name": "nlp"}})
    maintain_quotas()
    for slug, limit in (("vision", 9), ("nlp", 9), ("nlp", 10), ("vision", 10)):
        Quota.objects.filter(team=teams[slug]).update(devices=limit)  # and the message is lost
        claim = make_claim(teams[slug], cluster=fra, state=ClaimState.APPROVED)
        resource_quota_rounds.before_delivery(claim, gateway)
        assert written(slug)[DEVICES] == str(limit)


def test_an_admin_switches_it_on_and_off_and_repairs(client, root, gateway, fra, quota, written):
    Cluster.objects.filter(pk=fra.pk).update(write_quotas=False)
    client.force_login(root)
    assert "Not written" in client.get(PAGE).text
    write, repair = (reverse(f"claims:cluster_quotas_{name}", args=["fra-1"]) for name in ("write", "repair"))
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert "are now written to fra-1" in client.post(write, {"write": "on"}, follow=True).text
    assert written()[DEVICES] == "8"
    rewrite(gateway, **{DEVICES: "100"})
    with TestCase.captureOnCommitCallbacks(execute=True):
        client.post(repair)
    assert written()[DEVICES] == "8"
    assert "Repaired" in client.get(PAGE).text
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert "are being removed from fra-1" in client.post(STOP, follow=True).text
    assert written() is None
    Cluster.objects.filter(pk=fra.pk).update(read_only=True)
    assert "is read-only" in client.post(write, {"write": "on"}, follow=True).text


def test_before_it_is_switched_off_a_page_says_what_goes_and_what_stays(client, root, gateway, fra, written):
    nlp, other = make_team("nlp"), make_team("speech")
    for team in (nlp, other):
        TeamNamespace.objects.create(team=team, cluster=fra, namespace=team.slug)
        gateway.put(NAMESPACE, {"metadata": {"name": team.slug}})
    own = {"metadata": {"name": "dragoman", "namespace": "speech"}, "spec": {"hard": {"pods": "3"}}}
    gateway.put(RESOURCE_QUOTA, own)
    make_quota(TeamNamespace.objects.get(namespace="vision").team, 8)
    make_quota(nlp, 4)
    maintain_quotas()
    rewrite(gateway, pods="10")
    maintain_quotas()
    client.force_login(root)
    page = client.get(STOP).text
    assert "is deleted in 2 namespaces" in page
    assert '<code class="dg-break">vision/dragoman</code>' in page
    assert "with lines that are not the portal's: pods: 10" in page
    assert "speech/dragoman" not in page
    assert "It is left alone" in page
    assert "may not write" not in page
    assert written()[DEVICES] == "8"  # a look changes nothing
    with TestCase.captureOnCommitCallbacks(execute=True):
        client.post(STOP)
    assert (written(), written("nlp"), written("speech")) == (None, None, {"pods": "3"})


def test_the_page_before_it_is_switched_off_tells_if_nothing_can_be_deleted_now(client, root, fra, written):
    Cluster.objects.filter(pk=fra.pk).update(read_only=True)
    client.force_login(root)
    assert "The portal may not write to fra-1 now." in client.get(STOP).text


def test_only_platform_admins_see_the_page(client, lena, fra, quota):
    client.force_login(lena)
    assert client.get(PAGE).status_code == 403
    assert client.get(STOP).status_code == client.post(STOP).status_code == 403
    assert client.post(reverse("claims:cluster_quotas_write", args=["fra-1"])).status_code == 403
    assert client.get(reverse("claims:cluster_quotas", args=["nowhere"])).status_code == 404


def test_the_page_shows_ten_teams_and_first_those_whose_quota_could_not_be_written(client, root, fra):
    for number in range(12):
        team = make_team(f"team-{number:02}")
        make_quota(team, number + 1)
        TeamNamespace.objects.create(team=team, cluster=fra, namespace=team.slug)
    failing = TeamNamespace.objects.get(namespace="team-11")
    WrittenQuota.objects.create(team_namespace=failing, problem="fra-1: forbidden")
    client.force_login(root)
    first, second = client.get(PAGE), client.get(f"{PAGE}?page=2")
    shown = [[row.team_namespace.namespace for row in page.context["rows"]] for page in (first, second)]
    names = [*(f"team-{number:02}" for number in range(11)), "vision"]
    assert shown == [["team-11", *names[:9]], names[9:]]
    assert "1 quota could not be written. It is listed first." in first.text
    assert "1 quota could not be written. It is listed first." in second.text
    assert [line.free for line in second.context["rows"][1].lines] == [11]


def test_profile_query_count_is_constant(client, root, fra, quota, written):
    maintain_quotas()
    client.force_login(root)
    client.get(PAGE)
    with CaptureQueriesContext(connection) as one:
        client.get(PAGE)
    for number in range(8):
        team = make_team(f"team-{number}")
        make_quota(team, 3)
        place = TeamNamespace.objects.create(team=team, cluster=fra, namespace=team.slug)
        WrittenQuota.objects.create(team_namespace=place, hard={DEVICES: "3"}, observed_hard={DEVICES: "3"})
    with CaptureQueriesContext(connection) as many:
        page = client.get(PAGE).text
    assert len(many) == len(one)
    assert "team-7" in page


def test_profiles_are_no_matter_of_the_cluster(vision, fra):
    make_quota(vision, 2, profile=make_profile("other", spec=make_spec()))
    assert resource_quota.hard_limits(place_of(vision)) == {}
