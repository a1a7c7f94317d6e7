"""
The lifecycle of a claim as data, and every set of states that has a meaning.

The color of a state says who acts next.
"""

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

# state → states that may follow. `approved → requested`: the cluster refused the object for a reason that a
# person can fix. `provisioned ⇄ allocated`: the cluster takes the devices back when the last pod is gone.
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
LIVE = tuple(state for state in NEXT if state not in FINAL)  # counts against the portal's quota
UNDELIVERED = (S.REQUESTED, S.APPROVED)  # its object is not in the cluster yet
USABLE = (S.PROVISIONED, S.ALLOCATED)  # its object is in the cluster; pods may use it
RUNNING = (S.APPROVED, *USABLE)  # its time runs; it can be extended, replaced and released
RENEWABLE = (S.REQUESTED, *RUNNING)  # a program may keep it alive
DELIVERED = (*USABLE, S.RELEASING)  # its object may exist in the cluster
GRANTED = (*RUNNING, S.RELEASING)  # counts against Kubernetes' ResourceQuota; reconciliation follows it
MAY_HOLD_DEVICES = (S.ALLOCATED, S.RELEASING)  # pods that run keep their devices while it is released
RELEASE_STARTED = (S.RELEASING, S.RELEASED)  # another release changes nothing
REMOVABLE = (S.RELEASING, *FINAL)  # the portal deletes its object
QUEUED = (S.REQUESTED, S.PROVISIONED)  # waits for approval or for devices
NEVER_APPROVED = (S.DENIED, S.WITHDRAWN, S.EXPIRED)
OUTCOMES = (S.ALLOCATED, S.RELEASED, S.DENIED, S.FAILED)  # a day is summed up by how many claims reached them
UNAPPROVED = (S.REQUESTED, *NEVER_APPROVED)  # it has never had an object, devices or usage

# state → (color family, icon); the family says who acts next
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
