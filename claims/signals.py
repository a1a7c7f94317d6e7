"""What `claims` tells to whoever wants to know, so that a subject need not know those above it."""

from django.dispatch import Signal

request_returned = Signal()  # claim: the cluster refused it for a reason that somebody can mend; decide anew
