"""Platform admins are warned before the credentials of a cluster expire."""

from datetime import UTC, datetime, timedelta

import pytest

from claims import tasks
from claims.delivery.credential_expiry import warn_of_expiry
from inventory.models import Cluster
from notify.models import Notice
from tests.factories import make_cluster, make_user

pytestmark = pytest.mark.django_db

END = datetime(2026, 12, 1, 12, tzinfo=UTC)


def notices():
    return list(Notice.objects.order_by("created_at").values_list("user__username", "title", "url"))


def test_admins_are_notified_14_days_before_and_after_once_each():
    make_user("root", admin=True)
    make_user("mira")
    Cluster.objects.filter(pk=make_cluster("fra-1").pk).update(credentials_expire_at=END)
    make_cluster("lab-2")  # does not say when
    warn_of_expiry(END - timedelta(days=14, seconds=1))
    assert notices() == []
    for days in (-14, -3, 0, 1):
        warn_of_expiry(END + timedelta(days=days))
    page = "/clusters/fra-1/credentials/"
    assert notices() == [
        ("root", "The credentials of fra-1 expire on Tue 1 Dec 2026, 12:00 UTC", page),
        ("root", "The credentials of fra-1 have expired", page),
    ]


def test_new_credentials_are_warned_of_again_and_paused_clusters_never():
    make_user("root", admin=True)
    cluster = Cluster.objects.filter(pk=make_cluster("fra-1").pk)
    for end in (END, END + timedelta(days=30)):
        cluster.update(credentials_expire_at=end)
        warn_of_expiry(end - timedelta(days=1))
    assert len(notices()) == 2
    cluster.update(credentials_expire_at=END + timedelta(days=60), enabled=False)
    warn_of_expiry(END + timedelta(days=60))
    assert len(notices()) == 2


def test_the_task_warns_as_of_now():
    make_user("root", admin=True)
    Cluster.objects.filter(pk=make_cluster("fra-1").pk).update(credentials_expire_at=datetime.now(UTC))
    tasks.warn_of_expiring_credentials()
    assert [title for _user, title, _url in notices()] == ["The credentials of fra-1 have expired"]
