"""Signals of `claims`, so that a subject need not import those above it. `claims.receivers` connects them."""

from django.dispatch import Signal

# Sent inside the transaction, with the claim and its old and new state; old is "" for a new claim.
claim_state_changed = Signal()
pending_request_decided = Signal()  # request: an extension or quota request; sent inside the transaction
# Sent inside the transaction, with the earliest time from which allocations of a claim have changed.
allocations_changed = Signal()
request_returned = Signal()  # claim: the cluster refused it for a reason that a person can fix; decide again
