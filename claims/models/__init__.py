"""Models of requests, claims, approvals, quotas and profiles."""

from claims.models.approval import (
    ApprovalRule,
    ApprovalStep,
    Comment,
    Delegation,
    PendingDecision,
    ReasonTemplate,
)
from claims.models.availability import ClusterAvailability, ProfileAvailability
from claims.models.claim import (
    Allocation,
    Alternative,
    Claim,
    ClaimCharge,
    ClaimQuerySet,
    Draft,
    Extension,
    PendingRequest,
    ReconciledCluster,
    RequestStatus,
    SweepRound,
    Transition,
    join_profiles,
    names_profile,
)
from claims.models.limits import LIMITS, Approval, Delivery, Limit, ProfileLimits
from claims.models.profile import Profile, ProfileQuerySet, ProfileVersion
from claims.models.quota import Quota, QuotaIncrease, QuotaRequest, TeamNamespace, WrittenQuota

__all__ = [
    "LIMITS",
    "Allocation",
    "Alternative",
    "Approval",
    "ApprovalRule",
    "ApprovalStep",
    "Claim",
    "ClaimCharge",
    "ClaimQuerySet",
    "ClusterAvailability",
    "Comment",
    "Delegation",
    "Delivery",
    "Draft",
    "Extension",
    "Limit",
    "PendingDecision",
    "PendingRequest",
    "Profile",
    "ProfileAvailability",
    "ProfileLimits",
    "ProfileQuerySet",
    "ProfileVersion",
    "Quota",
    "QuotaIncrease",
    "QuotaRequest",
    "ReasonTemplate",
    "ReconciledCluster",
    "RequestStatus",
    "SweepRound",
    "TeamNamespace",
    "Transition",
    "WrittenQuota",
    "join_profiles",
    "names_profile",
]
