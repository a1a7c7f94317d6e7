"""Signals of `claims`, so that a subject need not import those above it. `claims.receivers` connects them."""

from django.dispatch import Signal

claim_state_changed = Signal()  # claim: created or moved to another state; sent inside the transaction
request_returned = Signal()  # claim: the cluster refused it for a reason that a person can fix; decide again
