"""
Links from claims to their runs of Weights & Biases, set by platform admins.

Manifests of the portal tag runs `dragoman.claim=<id>` (WANDB_TAGS). Weights & Biases has no address of a
filtered list of runs (https://docs.wandb.ai/models/runs/filter-runs), so the page of a claim has the filter
to paste beside the link. The portal calls no API of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from django.core.exceptions import ValidationError
from django.db.models import F, Q

from claims.models import Claim
from core.errors import Invalid
from core.transactions import service
from dra.workload_parts import CLAIM_TAG
from inventory.models.cluster import validate_http_url
from teams.access import require_admin
from teams.models import Team, User, record_change
from usage.models import RunsLink

PLACES = ("{tag}", "{claim}", "{team}")  # in the address: the tag of the claim, its id, the slug of its team
MAX_URL = 300


@dataclass(frozen=True, slots=True)
class ClaimRunsLink:
    """Where the runs of a claim are looked at, and the filter of the table of runs that finds them."""

    url: str
    filter: str


def tag_of(claim: Claim) -> str:
    return f"{CLAIM_TAG}={claim.pk}"


def runs_link_of(claim: Claim) -> ClaimRunsLink | None:
    """Return the link of a claim: that of its team, else that of the installation; one query."""
    links = RunsLink.objects.filter(Q(team=claim.team_id) | Q(team=None))
    template = links.order_by(F("team").asc(nulls_last=True)).values_list("url", flat=True).first()
    if template is None:
        return None
    values = (tag_of(claim), str(claim.pk), claim.team.slug)
    for place, value in zip(PLACES, values, strict=True):
        template = template.replace(place, quote(value, safe=""))
    return ClaimRunsLink(template, f'tags is "{tag_of(claim)}"')


@service
def set_runs_link(*, by: User, url: str, team: Team | None = None) -> RunsLink | None:
    """
    Set the address of a team, or of the installation; "" removes it, and returns None. Setting it again
    changes nothing. Raises Forbidden, and Invalid for what is no address.
    """
    require_admin(by)
    url = url.strip()
    current = RunsLink.objects.select_related("team").filter(team=team).first()
    if not url:
        if current is not None:
            record_change(by=by, of=current, change="removed")
            current.delete()
        return None
    require_address(url)
    if current is None:
        saved, is_new = RunsLink.objects.get_or_create(team=team, defaults={"url": url})
        if is_new:
            record_change(by=by, of=saved, change=f"added: {url}")
            return saved
        current = saved  # somebody has added one at this moment
    if current.url != url:
        record_change(by=by, of=current, change=f"address {current.url} → {url}")
        current.url = url
        current.save(update_fields=["url"])
    return current


def require_address(url: str) -> None:
    """Raise Invalid unless it is a web address, in which nothing but PLACES is in braces."""
    plain = url
    for place in PLACES:
        plain = plain.replace(place, "x")
    if "{" in plain or "}" in plain:
        raise Invalid(f"Only {', '.join(PLACES)} may stand in braces.", field="url")
    if len(url) > MAX_URL:
        raise Invalid(f"An address has at most {MAX_URL} characters.", field="url")
    try:
        validate_http_url(plain)
    except ValidationError as error:
        words = "Enter a web address such as https://wandb.ai/acme/vision/table."
        raise Invalid(words, field="url") from error
