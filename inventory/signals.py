"""How the mirror tells whoever stands above it that something moved, without knowing them."""

from django.dispatch import Signal

# Sent after commit with cluster_id: UUID, kind: str ("ResourceClaim") and names: frozenset[str], which are
# "namespace/name", and of a device "driver/pool/name". A lost signal costs seconds: receivers also sweep.
mirror_changed = Signal()
