"""Which conditions hold, of what, since when; and the next best thing, which is no alert."""

from datetime import timedelta

import pytest

from claims.states import ClaimState
from inventory.models import Cluster, Device, DeviceUtilization, DraHealth, Freshness, Pod
from tests.factories import make_budget, make_claim, make_cluster, make_quota, make_team
from tests.usage.alerts.conftest import HOUR, MINUTE, pod_of
from tests.usage.conftest import NOON
from usage.alerts import conditions


def found(condition):
    return list(condition(NOON))


def test_a_claim_whose_pod_waits_for_five_minutes_is_pending(waiting):
    (finding,) = found(conditions.pending_claims)
    assert (finding.claim_id, finding.team_id) == (waiting.pk, waiting.team_id)
    assert finding.since == NOON - 10 * MINUTE
    assert finding.text == (
        f"A pod of {waiting} has no node in fra-1, the first since Tue 17 Nov 2026, 11:50 UTC. "
        "Its page says what is missing."
    )
    assert finding.url == f"/claims/{waiting.pk}/"


def test_a_pod_waits_for_five_minutes_before_its_claim_is_pending(waiting):
    Pod.objects.update(created_at=NOON - 5 * MINUTE)
    assert len(found(conditions.pending_claims)) == 1
    Pod.objects.update(created_at=NOON - 5 * MINUTE + timedelta(seconds=1))
    assert found(conditions.pending_claims) == []


def test_claims_of_templates_are_pending_too_and_pods_are_counted(vision, alice, fra):
    batch = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, parallel=4, name="batch")
    for number in range(2):
        pod_of(batch, f"b-{number}", since=NOON - HOUR, claims=[], templates=["batch"])
    (finding,) = found(conditions.pending_claims)
    assert finding.text.startswith(f"2 pods of {batch} have no node in fra-1")


@pytest.mark.parametrize(
    "pod",
    [
        {"since": NOON - 4 * MINUTE},
        {"since": NOON - HOUR, "node": "node-1", "phase": "Running"},
        {"since": NOON - HOUR, "node": "node-1"},  # it has its devices, and pulls its image
        {"since": NOON - HOUR, "gone_at": NOON},
        {"since": NOON - HOUR, "claims": ["other"]},
    ],
    ids=["young", "running", "placed", "gone", "other"],
)
def test_other_pods_leave_a_claim_alone(vision, alice, fra, pod):
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    pod_of(claim, "pod", **pod)
    assert found(conditions.pending_claims) == []


def test_a_pod_of_the_same_claim_name_in_another_cluster_or_namespace_does_not_count(waiting, vision):
    other = make_cluster("lab-2", teams=(vision,))
    waiting.cluster = other
    waiting.save(update_fields=["cluster"])
    assert found(conditions.pending_claims) == []


def test_a_claim_that_holds_a_tainted_device_is_found(tainted):
    (finding,) = found(conditions.tainted_devices)
    assert (finding.claim_id, finding.since) == (tainted.pk, NOON - HOUR)
    assert f"{tainted} holds fra1-h100-03/gpu-7, which has a taint" in finding.text


def test_a_tainted_device_that_nobody_holds_and_a_good_one_are_no_alert(tainted):
    Device.objects.update(condition=Device.Condition.GOOD)
    assert found(conditions.tainted_devices) == []
    Device.objects.update(condition=Device.Condition.UNHEALTHY, held_by=None)
    assert found(conditions.tainted_devices) == []


def test_a_quota_is_nearly_used_from_90_percent_on(full, vision, alice, fra):
    (finding,) = found(conditions.full_quotas)
    assert finding.team_id == vision.pk
    assert finding.text.startswith("vision holds 9 of 10 gpu.nvidia.com devices: 90 % of the quota.")
    full.devices = 11
    full.save(update_fields=["devices"])
    assert found(conditions.full_quotas) == []


def test_a_quota_of_nothing_is_no_alert(vision):
    make_quota(vision, 0)
    assert found(conditions.full_quotas) == []


def test_a_budget_that_runs_out_within_seven_days_is_found(short):
    (finding,) = found(conditions.short_budgets)
    assert finding.team_id == short.team_id
    assert "vision has used 60 % of its monthly budget" in finding.text
    assert "it runs out on 22 November 2026" in finding.text


def test_a_budget_that_lasts_or_is_used_up_is_no_alert(short):
    use = short.use
    use.runs_out_at = NOON + timedelta(days=8)
    use.save(update_fields=["runs_out_at"])
    assert found(conditions.short_budgets) == []
    use.share, use.runs_out_at = 1.2, NOON
    use.save(update_fields=["runs_out_at", "share"])
    assert found(conditions.short_budgets) == []  # its leads were told at 100 %


def test_a_source_that_says_nothing_of_held_devices_is_found(unmeasured):
    (finding,) = found(conditions.unmeasured_clusters)
    assert (finding.cluster_id, finding.team_id, finding.since) == (unmeasured.pk, None, NOON - HOUR)
    assert finding.text.startswith("1 held device of fra-1 is not measured. Check that dcgm-exporter runs")


def test_a_cluster_without_a_source_and_a_short_gap_are_no_alert(unmeasured):
    DeviceUtilization.objects.update(since=NOON - 29 * MINUTE)
    assert found(conditions.unmeasured_clusters) == []
    DeviceUtilization.objects.update(since=NOON - HOUR)
    Cluster.objects.update(metrics_url="")
    assert found(conditions.unmeasured_clusters) == []


def test_a_mirror_that_is_silent_for_three_minutes_is_stale(stale):
    (finding,) = found(conditions.stale_mirrors)
    assert finding.since == NOON - 10 * MINUTE
    assert finding.text == "fra-1 has said nothing since Tue 17 Nov 2026, 11:50 UTC. It does not respond."
    Freshness.objects.update(seen_at=NOON - 2 * MINUTE)
    assert found(conditions.stale_mirrors) == []


def test_a_halted_cluster_is_an_alert_and_a_new_or_paused_one_is_not(fra):
    assert found(conditions.stale_mirrors) == []  # never read, and nothing failed
    Cluster.objects.update(halt_reason="Another cluster answers.")
    (finding,) = found(conditions.stale_mirrors)
    assert finding.text == "The sync of fra-1 is halted. Another cluster answers."
    Cluster.objects.update(enabled=False)
    assert found(conditions.stale_mirrors) == []


def test_errors_of_the_controller_and_of_kubelets_are_one_alert_each(failing):
    texts = {finding.condition: finding.text for finding in found(conditions.failing_components)}
    assert texts == {
        "dra-controller": "In fra-1 3 ResourceClaims could not be created in the 15 min before "
        "Tue 17 Nov 2026, 11:59 UTC. Its page has the figures.",
        "dra-kubelet": "In fra-1 3 operations of kubelets and DRA drivers failed in the 15 min before "
        "Tue 17 Nov 2026, 11:59 UTC. Its page has the figures.",
    }


def test_figures_that_prometheus_does_not_have_are_no_errors(failing):
    DraHealth.objects.update(figures={"create_errors": None, "prepare_errors": 0.0})
    assert found(conditions.failing_components) == []


@pytest.mark.usefixtures("tainted", "waiting", "full", "short", "unmeasured", "stale", "failing", "idle")
def test_the_number_of_queries_does_not_grow_with_claims_and_teams(django_assert_max_num_queries):
    for number in range(5):
        team = make_team(f"team-{number}")
        cluster = make_cluster(f"cluster-{number}", teams=(team,))
        claim = make_claim(team, cluster=cluster, state=ClaimState.PROVISIONED)
        pod_of(claim, f"p-{number}", since=NOON - HOUR)
        make_quota(team, 1)
        make_budget(team)
    with django_assert_max_num_queries(20):
        keys = conditions.findings(NOON)
    assert len(keys) > 10
