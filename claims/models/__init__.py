"""Who may ask for what, who asked, and who has what."""

from claims.models.allocation import Allocation
from claims.models.claim import Alternative, Claim, ClaimCharge, ClaimQuerySet, Transition
from claims.models.profile import Approval, Delivery, Profile, ProfileVersion
from claims.models.quota import Quota, TeamNamespace

__all__ = [
    "Allocation",
    "Alternative",
    "Approval",
    "Claim",
    "ClaimCharge",
    "ClaimQuerySet",
    "Delivery",
    "Profile",
    "ProfileVersion",
    "Quota",
    "TeamNamespace",
    "Transition",
]
