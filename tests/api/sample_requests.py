"""For every operation of the API a request that somebody in the demo's story makes with success."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib.auth.hashers import make_password
from django.utils import timezone

from claims.catalogue.yaml_export import catalogue_file, exported
from claims.models import Budget, Claim, Delegation, ProfileVersion
from claims.states import ClaimState
from inventory.models import Cluster
from inventory.states import EndPolicy
from teams.models import Membership, User
from tests.api.story import LATER, QUIET, SOON, allowed_login, pod_login
from usage.models import IdlePeriod

ANY: dict[str, Any] = {}
BY_NUMBER = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  template:
    spec:
      containers: [{name: main, image: train:1, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


@dataclass(frozen=True)
class Wish:
    """Who asks, and with what, which may depend on the object; several bodies are tried one after another."""

    by: str | Callable[[str], str]
    body: Any = None
    query: dict[str, Any] = field(default_factory=dict)

    def bodies(self, of: str) -> list[Any]:
        found = self.body(of) if callable(self.body) else self.body
        return found if isinstance(found, list) else [found]

    def user_of(self, of: str) -> str:
        return self.by(of) if callable(self.by) else self.by


def minutes(count: int) -> str:
    return (timezone.now() + timedelta(minutes=count)).isoformat()


def hash_of(claim: str) -> dict[str, str]:
    return {"spec_hash": Claim.objects.get(pk=claim).spec_hash}


def later(claim: str) -> dict[str, str]:
    end = Claim.objects.get(pk=claim).expires_at
    return {"until": (max(end or timezone.now(), timezone.now()) + timedelta(minutes=5)).isoformat()}


def overstaying(claim: str) -> dict[str, Any]:
    """No claim of the story has ended with pods: let this one have, where the policy is to ask."""
    Cluster.objects.update(end_policy=EndPolicy.ASK)
    Claim.objects.filter(pk=claim, state=ClaimState.ALLOCATED).update(state=ClaimState.RELEASING)
    return ANY


def in_place_of(_claim: str) -> list[dict[str, Any]]:
    return [
        {"name": "in-its-place", **change} for change in ({"duration": "2h"}, {"devices": 1}, {"devices": 2})
    ]


def adoption(_uid: str) -> list[dict[str, Any]]:
    how = {"duration": "4h", "over_quota": True, "owner": "jonas"}
    slugs = ProfileVersion.objects.values_list("profile__slug", flat=True).distinct()
    return [{**how, "profile": slug} for slug in slugs]


def profile(slug: str) -> dict[str, Any]:
    known = ProfileVersion.objects.filter(profile__slug=slug or "train-80g").latest("number")
    return {"title": "As by a test", "spec": known.spec, "scalable": known.scalable}


def more_budget(_new: str) -> dict[str, Any]:
    budget = Budget.objects.open().get(team__slug="vision", title="")
    return {"budget": str(budget.pk), "amount": "20.00", "reason": "More work"}


def recreated(claim: str) -> dict[str, Any]:
    """Nobody in the story has recreated an object under the name of a claim: let the portal know another."""
    Claim.objects.filter(pk=claim).update(object_uid="the-one-before")
    return ANY


def idle(claim: str) -> dict[str, Any]:
    """Whether a claim of the story is idle depends on the time: let this one be."""
    found, now = Claim.objects.get(pk=claim), timezone.now()
    IdlePeriod.objects.filter(claim=found, ended_at=None).delete()
    IdlePeriod.objects.create(claim=found, team=found.team, since=now, noticed_at=now, devices=1)
    return ANY


def newcomer(team: str) -> dict[str, str]:
    inside = Membership.objects.filter(team__slug=team).values("user")
    return {"username": User.objects.exclude(pk__in=inside).latest("username").username, "role": "viewer"}


KUBERNETES = {"server": "https://fra.example:6443", "token": "for-a-test"}
HOOK = {"url": "https://hooks.example.org/gpus", "kinds": ["claim.approved", "claim.allocated"]}
MLFLOW = {"url": "http://mlflow.example:5000"}
PROVIDER = {
    "title": "Partners",
    "issuer": "http://127.0.0.1:9/partners",
    "client_id": "dragoman",
    "secret": "x",
}
RULE = {"provider": "company", "group": "gpu-vision", "team": "vision", "role": "member"}
NEVER = {"notify_owner_after": None, "notify_leads_after": None, "release_after": None}
NEW_PROFILE = {"slug": "made-by-a-test"}
WISHED = {"team": "vision", "cluster": "fra-1", "profile": "small-16g"}
RATE = {"title": "Sample", "per_hour": "2.5", "valid_from": SOON}
LAST_MONTH = f"{timezone.now().replace(day=1) - timedelta(days=1):%Y-%m}"
DECIDED = {"decision": "approve", "requests": [], "preview": True}
DENIED = {"reason": "Request again on Monday."}

# Whoever reads: everything that is not here is asked for by the admin, without a query.
READS = {
    "/api/v1/": Wish("outsider"),
    "/api/v1/activity/": Wish("engineer", query={"team": "vision"}),
    "/api/v1/audit/": Wish("admin", query={"limit": "5"}),
    "/api/v1/match/": Wish("engineer", query=WISHED),
    "/api/v1/costs/": Wish("engineer", query={"team": "vision"}),
    "/api/v1/delegations/{id}/": Wish(lambda row: Delegation.objects.get(pk=row).lead.username),
    "/api/v1/budgets/past/": Wish("admin", query={"month": LAST_MONTH}),
    "/api/v1/costs/reconciliation/": Wish("admin"),
    "/api/v1/costs/focus/": Wish("admin"),
    "/api/v1/costs/allocation/": Wish("admin", query={"window": "7d"}),
}
WRITES = {
    "POST /api/v1/approval-reasons/": Wish("lead", {"title": "Later", "text": "Later.", "team": "vision"}),
    "PUT /api/v1/approval-reasons/{id}/": Wish(
        "lead", {"title": "Later", "text": "Later.", "team": "vision"}
    ),
    "DELETE /api/v1/approval-reasons/{id}/": Wish("lead"),
    "POST /api/v1/approval-rules/": Wish("admin", {"team": "nlp", "self_approval": True}),
    "DELETE /api/v1/approval-rules/{id}/": Wish("admin"),
    "POST /api/v1/approvals/decide/": Wish("lead", DECIDED),
    "POST /api/v1/claims/": Wish("engineer", WISHED),
    "POST /api/v1/claims/{id}/comments/": Wish("engineer", {"text": "Why?"}),
    "POST /api/v1/claims/{id}/approve/": Wish("lead", hash_of),
    "POST /api/v1/claims/{id}/deny/": Wish("lead", DENIED),
    "POST /api/v1/claims/{id}/evict/": Wish("engineer", overstaying),
    "POST /api/v1/claims/{id}/extend/": Wish("engineer", later),
    "PUT /api/v1/claims/{id}/keep-alive/": Wish("engineer"),
    "DELETE /api/v1/claims/{id}/keep-alive/": Wish("engineer"),
    "POST /api/v1/claims/{id}/release/": Wish("engineer", ANY),
    "POST /api/v1/claims/{id}/resize/": Wish("engineer", in_place_of),
    "POST /api/v1/claims/{id}/shorten/": Wish("engineer", lambda _claim: {"until": minutes(2)}),
    "POST /api/v1/claims/{id}/transfer/": Wish("engineer", {"to": "jonas"}),
    "POST /api/v1/claims/{id}/withdraw/": Wish("engineer", ANY),
    "POST /api/v1/claims/bulk/": Wish("engineer", {"action": "release", "claims": []}),
    "POST /api/v1/claims/unmanaged/{uid}/adopt/": Wish("admin", adoption),
    "POST /api/v1/delegations/": Wish(
        "lead", {"team": "vision", "to": "jonas", "starts_at": SOON, "ends_at": LATER}
    ),
    "DELETE /api/v1/delegations/{id}/": Wish(lambda row: Delegation.objects.get(pk=row).lead.username),
    "POST /api/v1/extensions/{id}/approve/": Wish("lead", ANY),
    "POST /api/v1/extensions/{id}/deny/": Wish("lead", DENIED),
    "POST /api/v1/extensions/{id}/withdraw/": Wish("engineer"),
    "POST /api/v1/match/": Wish("engineer", WISHED),
    "POST /api/v1/claims/import/": Wish("engineer", {"text": BY_NUMBER, "name": "train.yaml"}),
    "POST /api/v1/notices/preferences/": Wish("engineer", {"kind": "end", "in_portal": True, "mail": "all"}),
    "POST /api/v1/notices/read/": Wish("engineer", {"ids": None}),
    "POST /api/v1/profiles/": Wish("admin", lambda _new: {**profile(""), **NEW_PROFILE}),
    "PUT /api/v1/profiles/{slug}/": Wish("admin", profile),
    "POST /api/v1/profiles/{slug}/restore/": Wish("admin"),
    "POST /api/v1/profiles/{slug}/retire/": Wish("admin"),
    "POST /api/v1/budgets/": Wish("admin", {"team": "speech", "amount": "2000.00"}),
    "POST /api/v1/budgets/requests/": Wish("lead", more_budget),
    "POST /api/v1/budgets/requests/{id}/approve/": Wish("admin", ANY),
    "POST /api/v1/budgets/requests/{id}/deny/": Wish("admin", DENIED),
    "POST /api/v1/budgets/requests/{id}/withdraw/": Wish("ines"),
    "PUT /api/v1/budgets/{id}/": Wish("admin", {"amount": "2000.00"}),
    "DELETE /api/v1/budgets/{id}/": Wish("admin"),
    "POST /api/v1/quotas/": Wish(
        "admin", {"team": "vision", "device_class": "gpu.nvidia.com", "devices": 20}
    ),
    "POST /api/v1/quotas/requests/": Wish(
        "lead", {"team": "vision", "device_class": "mig.nvidia.com", "devices": 20, "reason": "More work"}
    ),
    "POST /api/v1/quotas/requests/{id}/approve/": Wish("admin", ANY),
    "POST /api/v1/quotas/requests/{id}/deny/": Wish("admin", DENIED),
    "POST /api/v1/quotas/requests/{id}/withdraw/": Wish("lead"),
    "POST /api/v1/costs/closed-months/": Wish("admin", lambda _new: {"month": LAST_MONTH}),
    "POST /api/v1/costs/saved-reports/": Wish("admin", {"name": "By person", "query": "by=person"}),
    "PATCH /api/v1/costs/saved-reports/{id}/": Wish("admin", {"monthly": True}),
    "DELETE /api/v1/costs/saved-reports/{id}/": Wish("admin"),
    "PATCH /api/v1/clusters/{name}/telemetry/": Wish("admin", {"timeout_seconds": 12}),
    "POST /api/v1/clusters/{name}/telemetry/test/": Wish("admin", ANY),
    "POST /api/v1/rates/": Wish("admin", RATE),
    "POST /api/v1/rates/preview/": Wish("admin", RATE),
    "PUT /api/v1/rates/{id}/": Wish("admin", RATE),
    "POST /api/v1/rates/{id}/retire/": Wish("admin", {"until": SOON}),
    "DELETE /api/v1/rates/{id}/": Wish("admin"),
    "PATCH /api/v1/me/": Wish("engineer", {"timezone": "Europe/Berlin"}),
    "POST /api/v1/me/filters/": Wish(
        "engineer", {"list": "/claims/", "name": "Held", "query": "state=allocated"}
    ),
    "PATCH /api/v1/me/filters/{id}/": Wish("admin", {"name": "Other"}),
    "DELETE /api/v1/me/filters/{id}/": Wish("admin"),
    "POST /api/v1/teams/": Wish("admin", {"slug": "made-by-a-test", "title": "Made by a test"}),
    "PATCH /api/v1/teams/{slug}/": Wish("admin", {"efficiency_goal": 60}),
    "POST /api/v1/teams/{slug}/archive/": Wish("admin"),
    "POST /api/v1/teams/{slug}/restore/": Wish("admin"),
    "POST /api/v1/teams/{slug}/members/": Wish("admin", newcomer),
    "POST /api/v1/teams/{slug}/member-requests/": Wish("lead", {"person": "zoe@example.org"}),
    "PUT /api/v1/teams/{slug}/members/{username}/": Wish("admin", {"role": "lead"}),
    "DELETE /api/v1/teams/{slug}/members/{username}/": Wish("admin"),
    "PUT /api/v1/teams/{slug}/namespaces/{cluster}/": Wish(
        "admin", {"namespace": QUIET, "allow_unknown": True}
    ),
    "DELETE /api/v1/teams/{slug}/namespaces/{cluster}/": Wish("admin"),
    "PATCH /api/v1/people/{id}/": Wish("admin", {"active": True}),
    "POST /api/v1/invitations/": Wish("admin", {"email": "ana@example.org"}),
    "POST /api/v1/invitations/{id}/resend/": Wish("admin"),
    "DELETE /api/v1/invitations/{id}/": Wish("admin"),
    "PATCH /api/v1/settings/": Wish("admin", {"name": "Compute"}),
    "POST /api/v1/clusters/": Wish("admin", {"name": "made-by-a-test", **KUBERNETES}),
    "POST /api/v1/clusters/check/": Wish("admin", KUBERNETES),
    "PATCH /api/v1/clusters/{name}/": Wish("admin", {"title": "Hall 2"}),
    "DELETE /api/v1/clusters/{name}/": Wish("admin"),
    "PUT /api/v1/clusters/{name}/credentials/": Wish("admin", KUBERNETES),
    "POST /api/v1/clusters/{name}/pause/": Wish("admin"),
    "POST /api/v1/clusters/{name}/resume/": Wish("admin"),
    "PUT /api/v1/clusters/{name}/quotas/": Wish("admin", {"enforced": True}),
    "POST /api/v1/profiles/import/": Wish(
        "admin", lambda _new: {"text": catalogue_file(exported()), "dry_run": True}
    ),
    "POST /api/v1/profiles/presets/": Wish("admin", {"slugs": ["any-large"]}),
    "POST /api/v1/claims/{id}/snooze/": Wish("admin", idle),
    "POST /api/v1/claims/{id}/remind/": Wish("admin"),
    "POST /api/v1/claims/{id}/accept/": Wish("admin", recreated),
    "POST /api/v1/claims/{id}/label/": Wish("admin"),
    "POST /api/v1/approvals/{id}/remind/": Wish("admin"),
    "POST /api/v1/quotas/requests/{id}/comments/": Wish("lead", {"text": "Why?"}),
    "DELETE /api/v1/quotas/{id}/": Wish("admin"),
    "PUT /api/v1/waste/policy/": Wish("admin", {"snoozes": 1, "snooze_for": "24h", **NEVER}),
    "POST /api/v1/tracking-servers/": Wish("admin", {"team": "nlp", **MLFLOW}),
    "PATCH /api/v1/tracking-servers/{id}/": Wish("admin", MLFLOW),
    "DELETE /api/v1/tracking-servers/{id}/": Wish("admin"),
    "PUT /api/v1/tracking-servers/runs-links/": Wish(
        "admin", {"team": "nlp", "url": "https://wandb.ai/acme"}
    ),
    "POST /api/v1/identity-providers/": Wish("admin", {"slug": "partners", **PROVIDER}),
    "PATCH /api/v1/identity-providers/{slug}/": Wish("admin", {"title": "Company account"}),
    "DELETE /api/v1/identity-providers/{slug}/": Wish("admin"),
    "POST /api/v1/identity-providers/{slug}/secret/": Wish("admin", {"secret": "of-the-client"}),
    "POST /api/v1/identity-providers/{slug}/test/": Wish("admin"),
    "POST /api/v1/group-rules/": Wish("admin", RULE | {"group": "gpu-leads", "role": "lead"}),
    "PUT /api/v1/group-rules/{id}/": Wish("admin", RULE | {"role": "lead"}),
    "DELETE /api/v1/group-rules/{id}/": Wish("admin"),
    "POST /api/v1/group-rules/preview/": Wish("admin", RULE | {"group": "gpu-*"}),
    "POST /api/v1/rates/examples/": Wish("admin"),
    "POST /api/v1/webhooks/": Wish("lead", {"team": "vision", **HOOK}),
    "PATCH /api/v1/webhooks/{id}/": Wish("admin", {"title": "Builds"}),
    "DELETE /api/v1/webhooks/{id}/": Wish("admin"),
    "POST /api/v1/webhooks/{id}/rotate/": Wish("admin"),
    "POST /api/v1/webhooks/{id}/test/": Wish("admin"),
    "POST /api/v1/webhooks/{id}/replay-failed/": Wish("admin"),
    "POST /api/v1/webhooks/{id}/deliveries/{delivery}/replay/": Wish("admin"),
    "DELETE /api/v1/me/sessions/{id}/": Wish("admin"),
    "POST /api/v1/me/sessions/end-others/": Wish("lead"),
    "POST /api/v1/people/{id}/sign-out/": Wish("admin"),
    "POST /api/v1/identity-providers/{slug}/scim/": Wish("admin", {"overlap": "1h"}),
    "DELETE /api/v1/identity-providers/{slug}/scim/": Wish("admin"),
    "POST /api/v1/tokens/": Wish("engineer", {"title": "For a notebook"}),
    "POST /api/v1/tokens/{id}/rotate/": Wish("admin", {"overlap": "1h"}),
    "POST /api/v1/login/device/": Wish("engineer", {"client": "CLI on mira-01"}),
    "POST /api/v1/login/device/token/": Wish("engineer", lambda _new: allowed_login()),
    "POST /api/v1/login/kubernetes/": Wish("engineer", lambda _new: pod_login()),
    "POST /api/v1/teams/{slug}/service-accounts/": Wish("lead", {"name": "made-by-a-test"}),
    "PATCH /api/v1/teams/{slug}/service-accounts/{name}/": Wish("lead", {"enabled": False}),
    "DELETE /api/v1/teams/{slug}/service-accounts/{name}/": Wish("lead"),
    "POST /api/v1/teams/{slug}/service-accounts/{name}/tokens/": Wish("lead", {"title": "Nightly"}),
    "POST /api/v1/teams/{slug}/service-accounts/{name}/tokens/{id}/rotate/": Wish("lead", ANY),
    "DELETE /api/v1/teams/{slug}/service-accounts/{name}/tokens/{id}/": Wish("lead"),
    "POST /api/v1/teams/{slug}/service-accounts/{name}/workloads/": Wish(
        "admin", {"cluster": "fra-1", "service_account": "other"}
    ),
    "DELETE /api/v1/teams/{slug}/service-accounts/{name}/workloads/{id}/": Wish("admin"),
    "DELETE /api/v1/tokens/{id}/": Wish("admin"),
}


def nobody_knows_a_password(person: str) -> dict[str, bool]:
    User.objects.filter(pk=person).update(password=make_password(None), is_superuser=False)
    return {"active": True, "platform_admin": True, "break_glass": True}


# Changes of several fields, of which the last is refused: nothing is changed then.
REFUSED = {
    "PATCH /api/v1/people/{id}/": Wish("admin", nobody_knows_a_password),
    "POST /api/v1/identity-providers/": Wish(
        "admin", {"slug": "partners", **PROVIDER, "secret": "", "enabled": True}
    ),
    "PATCH /api/v1/identity-providers/{slug}/": Wish(
        "admin", {"title": "Other", "issuer": "https://other.example", "enabled": True}
    ),
    "PATCH /api/v1/teams/{slug}/": Wish("admin", {"title": "Other", "efficiency_goal": 101}),
    "PATCH /api/v1/webhooks/{id}/": Wish("admin", {"title": "Other", "enabled": False, "kinds": ["none"]}),
    "PATCH /api/v1/settings/": Wish("admin", {"name": "Other", "password_sign_in": False}),
}


def sample_request(operation: Any) -> Wish | None:
    if operation.method.upper() == "GET":
        return READS.get(operation.path, Wish("admin"))
    return WRITES.get(operation.label)
