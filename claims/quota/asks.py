"""What a request for more quota would change: the team's limit, and what all teams together may hold."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext as _

from claims.models import Quota, QuotaRequest
from claims.quota.counts import raises_of
from claims.quota.guarantees import capacity_of
from claims.quota.quotas import Standing, label_of, standing_of
from core.templatetags.ui import moment
from teams.models import Team


@dataclass(frozen=True, slots=True)
class QuotaImpact:
    """
    `before` and `after` are limits of the team now and if approved. Of a device class, `granted` is what all
    teams may hold together after it, and `capacity` what the clusters publish (None: unknown).
    """

    label: str
    standing: Standing | None
    before: int
    after: int
    granted: int | None = None
    capacity: int | None = None

    @property
    def more(self) -> int:
        return self.after - self.before

    @property
    def overcommitted(self) -> int:
        """How many devices more are promised than there are."""
        if self.capacity is None or self.granted is None:
            return 0
        return max(self.granted - self.capacity, 0)


def named_quota(team: Team, *, device_class: str, profile_id: UUID | None, counts: str) -> Quota | None:
    """Return the team's row for this thing, if there is one."""
    rows = Quota.objects.select_related("team", "profile").filter(
        team=team, device_class=device_class, profile=profile_id, counts=counts
    )
    return rows.first()


def quota_of(asked: QuotaRequest) -> Quota | None:
    return named_quota(
        asked.team, device_class=asked.device_class, profile_id=asked.profile_id, counts=asked.counts
    )


def what_of(asked: QuotaRequest) -> str:
    """Return what is asked for, as a quota is labelled: "gpu.nvidia.com", "train-80", "claims"."""
    row = Quota(team=asked.team, device_class=asked.device_class, profile=asked.profile, counts=asked.counts)
    return label_of(row)


def impact_of(asked: QuotaRequest) -> QuotaImpact:
    row = quota_of(asked)
    stands = standing_of([row])[0] if row else None
    before = stands.limit if stands else 0
    label = what_of(asked)
    if not asked.device_class:
        return QuotaImpact(label, stands, before, asked.devices)
    rows = list(Quota.objects.filter(device_class=asked.device_class))
    granted = sum(one.devices for one in rows) + sum(raises_of(rows).values())
    return QuotaImpact(
        label,
        stands,
        before,
        asked.devices,
        granted=granted + asked.devices - before,
        capacity=capacity_of([asked.device_class]).get(asked.device_class),
    )


def until_words(until: datetime | None, say: Callable[[datetime], str] = moment) -> str:
    return _("until %(when)s") % {"when": say(until)} if until else _("for good")
