"""How long the mirror remembers what is gone."""

from datetime import timedelta

from django.db.models import Exists, OuterRef
from django.utils import timezone

from inventory.models import Device, ObjectEvent, ResourceSlice
from inventory.sync.resources import MODELS

REMEMBER = timedelta(days=90)
SHORTLY = timedelta(
    days=7
)  # pods and claims come and go by the thousand; the portal's own history is elsewhere


def prune_history() -> int:
    """Delete rows that have been gone for so long, and return how many."""
    now = timezone.now()
    old = now - REMEMBER
    count = ObjectEvent.objects.filter(at__lt=old).delete()[0]
    count += Device.objects.filter(gone_at__lt=old).delete()[0]
    for plural, model in MODELS.items():
        limit = now - SHORTLY if plural in ("pods", "resourceclaims", "resourceslices") else old
        rows = model._default_manager.filter(gone_at__lt=limit)
        if model is ResourceSlice:  # the devices of an incomplete pool still stand on the slices of before
            rows = rows.exclude(Exists(Device.objects.filter(slice=OuterRef("pk"))))
        count += rows.delete()[0]
    return count
