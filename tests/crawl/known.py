"""What the crawl lets pass, each with its reason."""

from __future__ import annotations

import re

from django.urls import ResolverMatch

from tests.crawl.tree import Element

NOT_CRAWLED = ("/static/", "/api/", "/admin/")  # files; what other tests go through

# Who asks for what (a pattern of path and query): the status, and why that is right.
EXPECTED = [
    ("engineer lead emil outsider", r"/api/v1/approval-rules/(\?.*)?", 403, "platform admins keep the rules"),
    ("engineer lead emil outsider", r"/api/v1/audit/(\?.*)?", 403, "platform admins read the audit log"),
    (
        "engineer lead emil outsider",
        r"/api/v1/profiles/lint/(\?.*)?",
        403,
        "platform admins check the catalogue",
    ),
    (
        "engineer lead emil outsider",
        r"/api/v1/(people|invitations|settings|identity-providers|group-rules|tracking-servers|tracking-servers/runs-links|profiles/(export|presets))/(\?.*)?",
        403,
        "platform admins keep them",
    ),
    (
        "engineer lead emil outsider",
        r"/api/v1/clusters/[\w-]+/(checks|quotas)/(\?.*)?",
        403,
        "platform admins manage clusters",
    ),
    (
        "engineer lead emil outsider",
        r"/api/v1/costs/(focus|allocation|reconciliation|closed-months)/(\?.*)?",
        403,
        "the fleet's money",
    ),
    (
        "engineer lead emil outsider",
        r"/api/v1/clusters/[\w-]+/telemetry/(\?.*)?",
        403,
        "platform admins set where telemetry is read",
    ),
    ("engineer emil outsider", r"/api/v1/costs/report/(\?.*)?", 403, "it is for leads and platform admins"),
    ("lead", r"/api/v1/costs/report/\?.*", 422, "a lead chooses among what their teams have used"),
    ("engineer lead emil outsider", r"/api/v1/activity/(\?.*)?", 422, "they name a team"),
    ("emil", r"/claims/request/\?.*", 403, "a viewer may not request, and nothing leads them there"),
    ("emil", r"/api/v1/match/\?.*", 403, "it is the request that a viewer may not make"),
]

# Pages with several fields filled in at once, as links of others' mails and notes lead to them.
STARTS = ("/", "/claims/request/?profile=train-80g&cluster=fra-1&devices=8")

_SECOND = "only for people with a second factor, and nobody in the demo has one"
_BY_MAIL = "a mail leads there"
_AFTER = "follows a form that was sent"
_UNUSED = "allauth serves it, the portal leads nobody there"
_PROGRAMS = "for programs"
# A route that nobody is led to: why. Of those for ten minutes, it depends on when the story was told.
UNREACHED = {
    "claims/<uuid:claim_id>/start/": "offered in a running demo: tests/claims/claim_page/test_start_pod.py",
    "claims/request/blockers/": "offered where the end of claims would make room: tests/claims/requests",
    "accounts/2fa/authenticate/": _SECOND,
    "accounts/2fa/reauthenticate/": _SECOND,
    "accounts/2fa/recovery-codes/": _SECOND,
    "accounts/2fa/recovery-codes/download/": _SECOND,
    "accounts/2fa/recovery-codes/generate/": _SECOND,
    "accounts/2fa/totp/deactivate/": _SECOND,
    r"accounts/^confirm-email/(?P<key>[-:\w]+)/$": _BY_MAIL,
    r"accounts/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$": _BY_MAIL,
    "accounts/confirm-email/": _AFTER,
    "accounts/email/": "of allauth; it leads to the profile",
    "accounts/inactive/": _UNUSED,
    "accounts/login/code/confirm/": _AFTER,
    "accounts/password/reset/done/": _AFTER,
    "accounts/password/reset/key/done/": _AFTER,
    "accounts/password/set/": _UNUSED,
    "accounts/signup/": _UNUSED,
    "approvals/reasons/<int:reason_id>/": "nobody in the demo has saved a reason",
    "approvals/reasons/<int:reason_id>/remove/": "nobody in the demo has saved a reason",
    "claims/<uuid:claim_id>/accept/": "nobody has changed a claim in its cluster",
    "claims/<uuid:claim_id>/evict/": "no claim of the demo has ended with pods that may be evicted",
    "claims/<uuid:claim_id>/keep/": "no program keeps a claim of the demo alive",
    "claims/<uuid:claim_id>/extend/undo/": "for ten minutes after an extension",
    "claims/<uuid:claim_id>/transfer/undo/": "for ten minutes after a transfer",
    "claims/drafts/restore/": "for ten minutes after a draft was deleted",
    "claims/unmanaged/templates/<str:uid>/": "no team of the demo has an unmanaged template",
    "clusters/<slug:name>/resume": "no cluster of the demo is paused",
    "join/<str:token>/": _BY_MAIL,
    "logo.png": "the demo has the logo of Dragoman",
    "me/tokens/<uuid:token_id>/revoke": "nobody in the demo has a token",
    "me/tokens/<uuid:token_id>/rotate": "nobody in the demo has a token",
    "device/": "a program leads there",
    **{
        f"teams/<slug:slug>/service-accounts/<uuid:account_id>/{rest}": "no team of the demo has an account"
        for rest in (
            *("", "switch", "delete/", "pods/", "pods/<uuid:identity_id>/remove"),
            *("tokens/<uuid:token_id>/rotate", "tokens/<uuid:token_id>/revoke"),
        )
    },
    "me/filters/": "nobody in the demo has saved filters",
    "me/filters/<uuid:saved_id>": "nobody in the demo has saved filters",
    "people/<uuid:person_id>/reactivate": "nobody in the demo is deactivated",
    "people/invitations/<uuid:invitation_id>/resend": "nobody in the demo is invited",
    "people/invitations/<uuid:invitation_id>/revoke": "nobody in the demo is invited",
    "rates/examples/": "the empty list of rates leads there, and the demo has rates",
    "report/saved/<uuid:saved_id>/": "nobody in the demo has saved a report",
    "report/unsubscribe/<str:token>/": _BY_MAIL,
    "settings/tracking/<uuid:server_id>/": "the demo has no MLflow",
    **{
        f"settings/sign-in/{rest}": "the demo has no identity provider"
        for rest in (
            *(f"providers/<slug:slug>/{page}" for page in ("", "test/", "secret", "switch", "remove/")),
            *("rules/new/", "rules/<uuid:rule_id>/", "rules/<uuid:rule_id>/remove/"),
        )
    },
    "me/providers/<slug:slug>/unlink": "the demo has no identity provider",
    "me/sessions/<uuid:session_id>/end": "whoever crawls is signed in once",
    "me/sessions/others/": "whoever crawls is signed in once",
    **{
        f"settings/sign-in/providers/<slug:slug>/{page}": "the demo has no identity provider"
        for page in ("scim/", "scim/remove")
    },
    **{
        f"accounts/oidc/<slug:provider_id>/{page}": "the demo has no identity provider"
        for page in ("login/", "login/callback/", "logout/")
    },
    **{
        f"accounts/2fa/webauthn/{page}": "nobody in the demo has a passkey"
        for page in ("", "add/", "reauthenticate/", "login/", "keys/<int:pk>/edit/", "keys/<int:pk>/remove/")
    },
    **{
        f"accounts/{page}": "of allauth; it leads to the profile"
        for page in (
            *(
                "3rdparty/login/cancelled/",
                "3rdparty/login/error/",
                "3rdparty/signup/",
                "social/connections/",
            ),
            *("social/login/cancelled/", "social/login/error/", "social/signup/"),
        )
    },
    "accounts/3rdparty/": "of allauth; it leads to the profile",
    "accounts/3rdparty/<path:rest>": "of allauth; it leads to the profile",
    "accounts/social/<path:rest>": "of allauth; it leads to the profile",
    "webhooks/<uuid:webhook_id>/": "the demo has no webhook",
    "webhooks/<uuid:webhook_id>/act": "the demo has no webhook",
    "webhooks/<uuid:webhook_id>/deliveries/<uuid:delivery_id>/replay": "the demo has no webhook",
    "settings/tracking/<uuid:server_id>/remove": "the demo has no MLflow",
    "claims/<uuid:claim_id>/runs.csv": "the demo has no MLflow, so no claim has runs",
    "setup/hide": "everything of the demo is set up, so Home has no steps to hide",
    "setup/skip": "everything of the demo is set up, so no step can be skipped",
    "claims/<uuid:claim_id>/remind/": "on pages of devices that others hold, of which the crawl opens few",
    "teams/<slug:slug>/restore": "no team of the demo is archived",
    "rates/<uuid:rate_id>/remove/": "only rates that do not apply yet are removed, and all of the demo do",
}


# Forms of the list of idle claims. A gap in the telemetry of the demo, as on a very busy machine, ends
# what is idle: then there are none.
OF_IDLE_CLAIMS = {"claims/<uuid:claim_id>/snooze/", "waste/bulk/"}


# A number of the frame is of a part of the list that it stands beside: which part.
OF_FRAME = {"/claims/": "?state=live&who=me"}


def counted(link: Element, who: str) -> str:
    """Return the address of what the number of a link counts."""
    in_frame = "dg-nav" in link.classes or link["id"] == "bell"
    part = OF_FRAME.get(link["href"], "") if in_frame else ""
    return link["href"] + (part.removesuffix("&who=me") if who == "admin" else part)


def expected(who: str, path: str) -> int | None:
    """Return the status, no success, with which an address rightly answers; None where it should succeed."""
    for people, pattern, status, _why in EXPECTED:
        if who in people.split() and re.fullmatch(pattern, path):
            return status
    return None


# A path of the API that nobody reads: why.
UNREAD = {
    **{
        f"/api/v1/teams/{{slug}}/service-accounts/{{name}}/{rest}": "no team of the demo has an account"
        for rest in ("", "tokens/", "tokens/{id}/", "workloads/", "workloads/{id}/")
    },
    **{
        f"/api/v1/teams/{{slug}}/{part}/": "a row of its list without an id; tests/api reads it"
        for part in ("members/{username}", "namespaces/{cluster}")
    },
    "/api/v1/tokens/{id}/": "nobody in the demo has a token",
    "/api/v1/approval-reasons/{id}/": "nobody in the demo has saved a reason",
    "/api/v1/costs/saved-reports/{id}/": "nobody in the demo has saved a report",
    "/api/v1/invitations/{id}/": "nobody in the demo is invited",
    "/api/v1/me/filters/{id}/": "nobody in the demo has saved filters",
    "/api/v1/tracking-servers/{id}/": "the demo has no MLflow",
    "/api/v1/identity-providers/{slug}/": "the demo has no identity provider",
    "/api/v1/identity-providers/{slug}/scim/": "the demo has no identity provider",
    "/api/v1/group-rules/{id}/": "the demo has no identity provider",
    "/api/v1/webhooks/{id}/": "the demo has no webhook",
    "/api/v1/webhooks/{id}/deliveries/": "the demo has no webhook",
    "/api/v1/webhooks/{id}/deliveries/{delivery}/": "the demo has no webhook",
}
# What the API has of one team, below these.
OF_A_TEAM_API = (
    "/api/v1/claims/{",
    "/api/v1/quotas/{",
    "/api/v1/quotas/requests/{",
    "/api/v1/extensions/{",
    "/api/v1/teams/{",
)
# test_crawl_api reads the first, a test beside the crawl the second; the third is for programs (teams/scim).
NOT_BY_LINKS = ("api/", "admin/", "scim/")
OF_A_TEAM = {"claim_id", "quota_id", "request_id", "extension_id", "draft_id", "notice_id", "token_id", "uid"}


def is_of_a_team(match: ResolverMatch) -> bool:
    """Tell whether the address leads to something of a team, or of a person in it."""
    return bool(OF_A_TEAM & set(match.kwargs)) or match.route.startswith("teams/<slug:slug>/")
