"""Who may ask for what, who asked, who decides, and who has what."""

from claims.models.allocation import Allocation
from claims.models.ask import Answer, Ask
from claims.models.claim import (
    Alternative,
    Claim,
    ClaimCharge,
    ClaimQuerySet,
    Transition,
    names_profile,
)
from claims.models.comment import Comment
from claims.models.decision import ApprovalRule, ApprovalStep, Delegation, ReasonTemplate
from claims.models.draft import Draft
from claims.models.extension import Extension
from claims.models.profile import Approval, Delivery, Profile, ProfileQuerySet, ProfileVersion
from claims.models.quota import Quota, TeamNamespace
from claims.models.quota_request import QuotaRaise, QuotaRequest
from claims.models.written_quota import WrittenQuota

__all__ = [
    "Allocation",
    "Alternative",
    "Answer",
    "Approval",
    "ApprovalRule",
    "ApprovalStep",
    "Ask",
    "Claim",
    "ClaimCharge",
    "ClaimQuerySet",
    "Comment",
    "Delegation",
    "Delivery",
    "Draft",
    "Extension",
    "Profile",
    "ProfileQuerySet",
    "ProfileVersion",
    "Quota",
    "QuotaRaise",
    "QuotaRequest",
    "ReasonTemplate",
    "TeamNamespace",
    "Transition",
    "WrittenQuota",
    "names_profile",
]
