"""Alerts open, are told once, and are resolved; a run that comes twice changes nothing."""

from datetime import timedelta

import pytest

from claims.budgets.notices import notify_of_use
from claims.models import ProfileVersion
from inventory.models import Pod
from notify.models import Notice, NoticeKind
from tests.usage.alerts.conftest import MINUTE
from tests.usage.conftest import NOON
from usage.alerts import services
from usage.alerts.services import follow
from usage.models import Alert, IdlePeriod

DAY = timedelta(days=1)


def open_alerts():
    return list(Alert.objects.open())


def told():
    return sorted(Notice.objects.values_list("user__username", "kind", "title"))


def test_an_alert_opens_once_and_its_owner_and_leads_are_told_once(waiting, alice, lena):
    for minutes in range(3):
        follow(NOON + minutes * MINUTE)
    (alert,) = open_alerts()
    assert (alert.claim, alert.team, alert.cluster) == (waiting, waiting.team, waiting.cluster)
    assert (alert.since, alert.opened_at) == (NOON - 10 * MINUTE, NOON)
    title = f"Claim is pending: {waiting}"
    assert told() == [("alice", "alert", title), ("lena", "alert", title)]
    notice = Notice.objects.first()
    assert (notice.body, notice.url, notice.important) == (alert.text, f"/claims/{waiting.pk}/", True)


def test_an_alert_is_resolved_when_its_condition_ends_and_may_open_again(waiting):
    follow(NOON)
    Pod.objects.update(node_name="node-1")
    follow(NOON + MINUTE)
    assert open_alerts() == []
    (alert,) = Alert.objects.all()
    assert alert.resolved_at == NOON + MINUTE
    Pod.objects.update(node_name="")
    follow(NOON + 2 * MINUTE)
    assert len(open_alerts()) == 1
    assert Alert.objects.count() == 2
    assert Notice.objects.count() == 2  # nobody is told of the same thing twice a day
    Alert.objects.update(resolved_at=NOON)
    follow(NOON + DAY)
    assert Notice.objects.count() == 4


def test_numbers_are_kept_up_to_date_and_the_time_is_not(full, alice):
    follow(NOON)
    full.devices = 9
    full.save(update_fields=["devices"])
    follow(NOON + MINUTE)
    (alert,) = open_alerts()
    assert "holds 9 of 9 gpu.nvidia.com devices: 100 % of the quota" in alert.text
    assert alert.since == NOON
    assert {user for user, _kind, _title in told()} == {"lena"}  # of a team: who leads it


def test_a_cluster_is_for_platform_admins(stale, root, lena):
    follow(NOON)
    assert told() == [("root", "platform", "Mirror is stale: fra-1")]


def test_idle_claims_are_alerts_and_told_by_the_policy_for_idle_claims_alone(idle):
    ProfileVersion.objects.update(idle_percent=25)
    follow(NOON)
    (alert,) = open_alerts()
    assert alert.text == (
        f"Its 2 devices have been below 25 % since Tue 17 Nov 2026, 09:00 UTC. "
        f"Release or shorten {idle.claim}."
    )
    assert told() == []
    IdlePeriod.objects.update(ended_at=NOON)
    follow(NOON + MINUTE)
    assert open_alerts() == []


def test_leads_who_have_the_notice_of_a_budget_get_no_second_one(short, lena):
    use = short.use
    use.share = 0.85
    use.save(update_fields=["share"])
    notify_of_use([use], now=NOON)
    follow(NOON)
    assert [alert.condition for alert in open_alerts()] == ["budget-runs-out"]
    assert [kind for _user, kind, _title in told()] == [NoticeKind.QUOTA]


def test_leads_of_a_budget_that_runs_out_before_80_percent_are_told(short, lena):
    follow(NOON)
    assert told() == [("lena", "alert", "Budget runs out: vision")]


def test_two_runs_at_once_open_one_alert_and_tell_once(waiting, monkeypatch):
    """The other run opens and tells between the reading and the writing of this one."""
    read = services.findings

    def read_and_be_late(now):
        found = read(now)
        monkeypatch.setattr(services, "findings", read)
        follow(now)
        return found

    monkeypatch.setattr(services, "findings", read_and_be_late)
    follow(NOON)
    assert len(open_alerts()) == 1
    assert Notice.objects.count() == 2


def test_a_run_that_died_before_it_told_anybody_is_finished_by_the_next(waiting, monkeypatch):
    def die(*_people, **_text):
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(services, "notify", die)
        with pytest.raises(OSError):  # noqa: PT011 - any
            follow(NOON)
    assert Notice.objects.count() == 0
    follow(NOON + MINUTE)
    assert Notice.objects.count() == 2


def test_resolved_alerts_are_kept_for_30_days(waiting):
    follow(NOON)
    Pod.objects.update(node_name="node-1")
    follow(NOON + MINUTE)
    follow(NOON + 30 * DAY)
    assert Alert.objects.count() == 1
    follow(NOON + 31 * DAY)
    assert not Alert.objects.exists()
