"""How the mirror notifies the packages above it of changes, without importing them."""

from django.dispatch import Signal

# Sent after commit with cluster_id: UUID, kind: str ("ResourceClaim") and names: frozenset[str], which are
# "namespace/name", and of a device "driver/pool/name". A lost signal costs seconds: receivers also sweep.
mirror_changed = Signal()

# Sent when secrets are encrypted with the newest key; receivers do so with theirs and return their number.
secrets_resealed = Signal()

# Sent with bases: list[UUID], in the transaction that adds these rows of `PriceBasis`.
price_bases_added = Signal()
