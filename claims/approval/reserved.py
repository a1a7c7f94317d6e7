"""The quotas in which a request that waits counts as reserved."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from claims.models import Claim
from claims.quota.quotas import Standing, rows_for, standing_of


@dataclass(frozen=True)
class Reserved:
    """A quota in which a request already counts as reserved: `this` of it is the request."""

    standing: Standing
    this: int

    @property
    def others(self) -> Standing:
        return replace(self.standing, reserved=self.standing.reserved - self.this)

    @property
    def sentence(self) -> str:
        """Say it as "gpu.nvidia.com: 3 → 5 of 8 taken"."""
        return _("%(label)s: %(before)d → %(after)d of %(limit)d taken") % {
            "label": self.standing.label,
            "before": self.others.used,
            "after": self.standing.used,
            "limit": self.standing.limit,
        }


def reserved_in(claim: Claim) -> list[Reserved]:
    charge = {row.device_class: row.devices for row in claim.charges.all()}
    named = claim.alternatives.select_related("profile_version__profile")
    profiles = {one.profile_version.profile: one.devices for one in named}
    profiles = profiles or {claim.profile_version.profile: claim.devices * claim.parallel}
    rows = rows_for(team=claim.team, charge=charge, profiles=profiles)
    by_profile = {profile.pk: devices for profile, devices in profiles.items()}
    return [
        Reserved(
            each,
            by_profile[each.quota.profile_id]
            if each.quota.profile_id
            else charge.get(each.quota.device_class, 0)
            if each.quota.device_class
            else claim.parallel,
        )
        for each in standing_of(rows)
    ]
