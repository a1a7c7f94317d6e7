"""The list of oversized claims: what each has used, and a cheaper profile that would have been enough."""

from __future__ import annotations

from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from core.listing import Column, Listing
from core.text import percent
from teams.access import is_platform_admin, reader_roles, user_of
from teams.models import Role
from usage.idle.views import UNREAD, IdleFilter
from usage.models import IdlePeriod, SizeCheck, SizeCheckQuerySet
from usage.oversized import evidence_text
from usage.overstay import overstaying
from usage.right_size import ENOUGH, successor_url
from usage.waste import waste_of

COLUMNS: list[Column[Any]] = [
    Column("claim", "Claim", lambda row: row.claim.name, sort="claim__name", fixed=True),
    Column(
        "owner", "Owner", lambda row: row.claim.requested_by.username, sort="claim__requested_by__username"
    ),
    Column("team", "Team", lambda row: row.claim.team.slug, sort="claim__team__slug", shown=False),
    Column("held", "Holds", lambda row: row.claim.profile_version.profile.slug),
    Column("devices", "Devices", lambda row: row.devices, sort="devices", numeric=True, shown=False),
    Column("memory", "Memory, p95", lambda row: row.memory_bytes, sort="memory_bytes", shown=False),
    Column("compute", "Compute, p95", lambda row: row.activity, sort="activity", shown=False),
    Column("enough", "Smallest sufficient profile", lambda row: row.profile.slug, fixed=True),
    Column("caveat", "Not compared", lambda row: row.caveat, shown=False),
    Column("price", "Per hour", lambda row: row.per_hour, sort="per_hour", numeric=True),
    Column("saves", "Saves per hour", lambda row: row.saves, sort="saves", numeric=True),
    Column("currency", "Currency", lambda row: row.currency, shown=False),
    Column("checked", "Checked", lambda row: row.checked_at, sort="checked_at", shown=False),
]


def verdicts(checks: SizeCheckQuerySet) -> dict[str, int]:
    """Return how many claims have each verdict; one query."""
    return dict(checks.order_by().values_list("verdict").annotate(Count("pk")))


@require_safe
def oversized(request: HttpRequest) -> HttpResponseBase:
    user = user_of(request)
    checks = SizeCheck.objects.visible_to(user)
    found, roles = checks.oversized(), reader_roles(request)

    def prepare(rows: list[Any]) -> None:
        for row in rows:
            role = Role.OWNER if user.is_superuser else roles.get(row.claim.team)
            row.may_request = role is not None and role.rank >= Role.MEMBER.rank
            row.evidence = evidence_text(row)
            row.share = percent(float(row.saves / row.per_hour))
            row.successor = successor_url(row.claim_id, row.profile.slug, row.devices)

    listing = Listing(
        request,
        found.select_related(
            "claim__team", "claim__requested_by", "claim__profile_version__profile", "profile"
        ).defer(*(f"claim__{name}" for name in UNREAD)),
        columns=COLUMNS,
        title="Oversized claims",
        filters=IdleFilter,
        search=("claim__name", "claim__requested_by__username"),
        sort="-saves",
        prepare=prepare,
    )
    context = {
        "verdicts": lambda: verdicts(checks),
        "waste": lambda: waste_of(found, "saves", by="saves"),
        "idle": IdlePeriod.objects.visible_to(user).lasting().count,
        "overstays": overstaying(user, timezone.now()).count,
        "enough": ENOUGH,
        "is_admin": is_platform_admin(user),
        "empty_icon": "bulb",
        "empty_title": "No claim is oversized",
        "empty_text": "A claim is listed here when a cheaper profile would have been enough.",
    }
    return listing.respond("usage/oversized.html", context)
