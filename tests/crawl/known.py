"""What the crawl lets pass, each with its reason."""

from __future__ import annotations

import re

from django.urls import ResolverMatch

NOT_CRAWLED = ("/static/", "/api/")  # files; test_crawl_api goes through the API

# Who asks for what (a pattern of path and query): the status, and why that is right.
EXPECTED = [
    ("engineer lead emil outsider", r"/api/v1/approval-rules/(\?.*)?", 403, "platform admins keep the rules"),
    ("engineer lead emil outsider", r"/api/v1/profiles/lint/", 403, "platform admins check the catalogue"),
    ("emil", r"/api/v1/match/\?.*", 403, "it is the request that a viewer may not make"),
]

# A route that no link leads to: why.
UNREACHED: dict[str, str] = {}


def expected(who: str, path: str) -> int | None:
    """Return the status, no success, with which an address rightly answers; None where it should succeed."""
    for people, pattern, status, _why in EXPECTED:
        if who in people.split() and re.fullmatch(pattern, path):
            return status
    return None


# A path of the API that nobody reads: why.
UNREAD = {"/api/v1/approval-reasons/{id}/": "nobody in the demo has saved a reason"}
# What the API has of one team, below these.
OF_A_TEAM_API = (
    "/api/v1/claims/{",
    "/api/v1/quotas/{",
    "/api/v1/quotas/requests/{",
    "/api/v1/extensions/{",
    "/api/v1/teams/{",
)
NOT_BY_LINKS = ("api/", "admin/")
OF_A_TEAM = {"claim_id", "quota_id", "request_id", "extension_id", "draft_id", "notice_id", "token_id", "uid"}


def is_of_a_team(match: ResolverMatch) -> bool:
    """Tell whether the address leads to something of a team, or of a person in it."""
    return bool(OF_A_TEAM & set(match.kwargs)) or match.route.startswith("teams/<slug:slug>/")
