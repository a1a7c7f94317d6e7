"""Platform admins are warned before the credentials expire with which the portal delivers claims."""

from __future__ import annotations

from datetime import datetime

from django.urls import reverse

from cluster.checkup import RENEWAL
from core.times import utc_moment
from inventory.models import Cluster
from notify.models import NoticeKind
from notify.services import notify, resolve_others
from teams.models import User


def warn_of_expiry(now: datetime) -> None:
    """Notify platform admins when credentials are about to expire, and once they have; never twice."""
    expiring = Cluster.objects.filter(enabled=True, credentials_expire_at__lte=now + RENEWAL)
    keys = []
    for cluster in expiring.only("name", "credentials_expire_at"):
        expires_at = cluster.credentials_expire_at
        if expires_at is None:
            continue
        keys.append(f"credentials-{cluster.pk}-{expires_at:%Y-%m-%dT%H:%M}-{expires_at <= now}")
        title = f"The credentials of {cluster.name} expire on {utc_moment(expires_at)}"
        if expires_at <= now:
            title = f"The credentials of {cluster.name} have expired"
        notify(
            User.objects.filter(is_superuser=True),
            kind=NoticeKind.PLATFORM,
            key=keys[-1],
            title=title,
            body="Without new ones its devices and claims are shown as of then, and no request reaches it.",
            url=reverse("setup:cluster_credentials", args=[cluster.name]),
            important=True,
        )
    resolve_others("credentials-", keys)
