"""Home: the page, and the part of it that polls."""

import hashlib
import json
import re
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Extract
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from claims.approvals.pending import Backlog
from claims.catalogue.listing import counted_at
from claims.models import ClusterAvailability, Profile
from claims.quotas.quota_usage import team_usage
from core.prepared import Prepared, Statement
from inventory.fleet import totals
from inventory.freshness import OF_DEVICES, keep_ages
from inventory.models import Freshness
from portal.context import Counts, Shell, counts_statement
from portal.home.admin import Platform, cluster_rows, last_day, month_so_far, waiting_requests
from portal.home.needs import LONG_WAIT, expires_soon, needs
from portal.home.parts import (
    SHOWN_AFTER_END,
    MyClaims,
    claims_with_menus,
    free_profiles,
    my_claims,
    shown_claims,
)
from portal.setup.installation import setup_of
from teams.access import user_of
from teams.models import Role, User
from usage.models import Collection, Rate
from usage.month_spend import month_spend
from usage.rates import RateCard
from usage.samples import bucket_start


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show Home for the current team; a platform admin sees the fleet and the clusters too."""
    shell = Shell.of(request)
    user, now = user_of(request), timezone.now()
    stamp, card = home_stamp(shell, now), RateCard.load()
    claims = my_claims(user, card, now=now)
    platform = Platform.read(card, now) if shell.is_admin else None
    page: dict[str, Any] = live_context(request, shell, claims, platform, stamp) | {
        "team": shell.team,
        "rates": card,
        "ages": [age for age in shell.freshness if age.is_stale],
    }
    if shell.team:
        page["quotas"] = team_usage([shell.team])
        page["spend"] = month_spend(shell.team, user, card, now=now)
    if platform is not None:
        page |= {
            "totals": totals(platform.counts.values(), with_uses=True),
            "clusters": cluster_rows(shell.freshness, platform),
            "waiting": waiting_requests(user, card, now=now, late_after=LONG_WAIT),
            "last_day": last_day(now=now),
            "month_so_far": month_so_far(now),
        }
        if not user.hides_setup:
            setup = setup_of(user)
            page["setup"] = None if setup.is_done else setup
    else:
        free = free_profiles(user, (row.claim for row in claims.rows))
        page |= {"free": free, "counted_at": counted_at(free.rows)}
    return render(request, "home.html", page)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """
    Render the part that polls: 304 until it changes. The browser keeps relative times current.

    A tag with the current stamp needs no look at the claims, as on the page of a claim.
    """
    shell, now = Shell.of(request), timezone.now()
    stamp, tag = home_stamp(shell, now), request.headers.get("If-None-Match", "")
    if re.fullmatch(rf'"\w+-{stamp}"', tag):
        return polled(HttpResponseNotModified(), tag)
    card = RateCard.load()
    platform = Platform.read(card, now) if shell.is_admin else None
    page = live_context(request, shell, my_claims(user_of(request), card, now=now), platform, stamp)
    if tag.startswith(f"{page['etag'].partition('-')[0]}-"):
        return polled(HttpResponseNotModified(), page["etag"])
    return polled(render(request, "home.html#live", page), page["etag"])


def polled(response: HttpResponse, etag: str) -> HttpResponse:
    response["ETag"] = etag
    patch_cache_control(response, private=True, no_cache=True)
    return response


def live_context(
    request: HttpRequest, shell: Shell, claims: MyClaims, platform: Platform | None, stamp: str
) -> dict[str, Any]:
    """Return the context of the part that polls; `stamp` was read before the rest."""
    shown = needs(shell, claims, platform, now=claims.now)
    etag = f'"{claims.digest([need.key for need in shown])}-{stamp}"'
    return {
        "needs": shown,
        "mine": claims,
        "my_rows": claims_with_menus(shell, claims),
        "now": claims.now,
        "etag": etag,
        "platform": platform,
        "may_request": shell.has_role(Role.MEMBER),
    }


def home_stamp(shell: Shell, now: datetime) -> str:
    """
    Return a text that changes whenever the part that polls may change; one query, which reads the counts and
    the ages too.

    Beside claims, rates and checks it has the last collection of telemetry, and the time in buckets.
    """
    user = user_of(shell.request)
    times = (now - SHOWN_AFTER_END, now, now - settings.STALE_AFTER)
    stamps = _stamps(is_admin=user.is_superuser).rows(user.pk, *times)
    ((live, unread, seen, undecided, oldest, own, *shared),) = stamps
    keep_ages(shell.request, seen)
    shell.counts = Counts(live, Backlog(undecided, oldest), unread)
    claims = []
    for pk, state, expires_at, created_at, seconds, *values in map(dict.values, json.loads(own or "[]")):
        ends_at = expires_at and datetime.fromisoformat(expires_at)
        soon = now + expires_soon(timedelta(seconds=seconds))
        ends = ends_at and (expires_at, ends_at <= now, ends_at <= soon)
        waits = datetime.fromisoformat(created_at) <= now - LONG_WAIT
        claims.append((pk, state, ends, waits, values))
    parts = (bucket_start(now), shell.undecided, sorted(claims), shared)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


@cache
def _stamps(*, is_admin: bool) -> Prepared:
    """
    Return the query of the counts of a person, of their claims on Home, with those that ended after a time,
    and of what all readers of Home share: telemetry, rates, the catalogue and its checks.
    """
    digest = "(SELECT sha256(convert_to(string_agg(({})::text, ' ' ORDER BY {}), 'UTF8')) FROM {})"
    shared = (
        digest.format("sampled_at", "cluster_id", Collection._meta.db_table),
        digest.format("rate", "id", f"{Rate._meta.db_table} rate"),
        digest.format("computed_at", "cluster_id", ClusterAvailability._meta.db_table),
        digest.format("profile", "id", f"{Profile._meta.db_table} profile"),
    )
    stale = Freshness.objects.filter(resource__in=OF_DEVICES).order_by()

    def statement(person: UUID, since: datetime, now: datetime, stale_before: datetime) -> Statement:
        claims = shown_claims(User(pk=person, is_superuser=is_admin), since).order_by()
        times = ("expires_at", "created_at", Extract("duration", "epoch"))
        others = ("version", "problem", "observation_hash")
        own, values = claims.values_list("pk", "state", *times, *others).query.sql_with_params()
        old, old_values = stale.filter(seen_at__lt=stale_before).values("pk").query.sql_with_params()
        counts, more = counts_statement(person, now, is_admin=is_admin)
        sql = """SELECT counts.*, (SELECT json_agg(own)::text FROM ({}) own),
                 (SELECT COUNT(*) FROM ({}) stale), {} FROM ({}) counts"""
        return sql.format(own, old, ", ".join(shared), counts), (*values, *old_values, *more)

    return Prepared(statement, UUID, datetime, datetime, datetime)
