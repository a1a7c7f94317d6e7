"""How active the devices of some claims were, for those below who decide on more."""

from datetime import datetime

from django.db.models import Avg

from claims.models import Claim
from usage.models import Rollup


def activity_of(claims: list[Claim], since: datetime) -> float | None:
    """Return the mean activity, 0 to 1, over every five minutes that were measured; None if none was."""
    rows = Rollup.objects.filter(claim__in=claims, bucket__gte=since, activity__isnull=False)
    mean: float | None = rows.aggregate(mean=Avg("activity"))["mean"]
    return mean
