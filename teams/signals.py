"""Signals of `teams`, for the packages above it."""

from django.dispatch import Signal

# team_id: the role of a member changed; sent inside the transaction. Added and removed members send the
# signals of Django's models.
role_changed = Signal()
