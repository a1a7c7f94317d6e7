"""The whole life of a claim as data. Who acts next is part of the state, and so is its colour."""

from django.db import models


class ClaimState(models.TextChoices):
    REQUESTED = "requested", "Waiting for approval"
    APPROVED = "approved", "Approved"
    PROVISIONED = "provisioned", "Waiting for a pod"
    ALLOCATED = "allocated", "Allocated"
    RELEASING = "releasing", "Releasing"
    RELEASED = "released", "Released"
    DENIED = "denied", "Denied"
    WITHDRAWN = "withdrawn", "Withdrawn"
    EXPIRED = "expired", "Expired"
    FAILED = "failed", "Failed"


S = ClaimState

# A state missing on the right cannot be reached. `approved → requested` is a delivery that the cluster
# refused for a reason that a person can mend; `provisioned ⇄ allocated` follows the cluster, which takes
# devices back when the last pod is gone.
NEXT: dict[str, frozenset[ClaimState]] = {
    S.REQUESTED: frozenset({S.APPROVED, S.DENIED, S.WITHDRAWN, S.EXPIRED}),
    S.APPROVED: frozenset({S.REQUESTED, S.PROVISIONED, S.ALLOCATED, S.RELEASING, S.FAILED}),
    S.PROVISIONED: frozenset({S.ALLOCATED, S.RELEASING, S.FAILED}),
    S.ALLOCATED: frozenset({S.PROVISIONED, S.RELEASING, S.FAILED}),
    S.RELEASING: frozenset({S.RELEASED}),
    S.RELEASED: frozenset(),
    S.DENIED: frozenset(),
    S.WITHDRAWN: frozenset(),
    S.EXPIRED: frozenset(),
    S.FAILED: frozenset(),
}
FINAL = tuple(state for state, following in NEXT.items() if not following)
HOLDING = tuple(state for state in NEXT if state not in FINAL)  # counts against quota
RUNNING = (S.APPROVED, S.PROVISIONED, S.ALLOCATED)  # its time runs: it can be extended, replaced, released
WRITTEN = (S.PROVISIONED, S.ALLOCATED)  # its object is in the cluster and is to stay
DELIVERED = (S.PROVISIONED, S.ALLOCATED, S.RELEASING)  # an object of the claim may exist in the cluster

# state → (colour family, icon): the family says who acts next.
LOOK: dict[str, tuple[str, str]] = {
    S.REQUESTED: ("wait", "hourglass-high"),
    S.APPROVED: ("work", "circle-check"),
    S.PROVISIONED: ("you", "cube-plus"),
    S.ALLOCATED: ("held", "cpu"),
    S.RELEASING: ("work", "progress-down"),
    S.RELEASED: ("over", "circle-minus"),
    S.DENIED: ("bad", "circle-x"),
    S.WITHDRAWN: ("over", "arrow-back-up"),
    S.EXPIRED: ("over", "calendar-off"),
    S.FAILED: ("bad", "alert-triangle"),
}
