"""A POST or PUT that changes what there is leaves what its body does not name."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from teams.identity.models import IdentityProvider
from tests.factories import GPU_CLASS, make_cluster, make_team, make_user
from tests.portal.test_token_scopes import OPERATIONS

pytestmark = pytest.mark.django_db
WHOLE = {
    "ClaimViewSet.renew": "no body",
    "ClusterAdminViewSet.credentials": "an account is replaced as a whole",
    "EnforcementView.put": "one field",
    "IdlePolicyView.put": "every field is required",
    "MemberViewSet.update": "one field",
    "NamespaceView.put": "one field",
    "ProfileViewSet.update": "a version is a complete profile, as its file is",
    "RunsLinksView.put": "one address of each team",
}
LATER = (timezone.now() + timedelta(days=9)).replace(microsecond=0)
RATE = {"title": "Spot", "per_hour": "2.0000", "valid_from": LATER.isoformat()}
RULE = {"team": "vision", "approval": "lead", "automatic_devices": 2, "automatic_duration": "8h"}
QUOTA, FILTER = {"team": "vision", "device_class": GPU_CLASS}, {"list": "/claims/", "name": "Ours"}
# Operation: the list, what is made, and what is sent to change it.
CHANGES = {
    "ApprovalRuleViewSet.create": (
        "approval-rules",
        {**RULE, "self_approval": True, "escalate_after": "2d"},
        {"team": "vision", "automatic_devices": 3},
    ),
    "BudgetViewSet.update": (
        "budgets",
        {"team": "vision", "amount": "100", "at_limit": "block"},
        {"amount": "200"},
    ),
    "GroupRuleViewSet.update": (
        "group-rules",
        {"provider": "okta", "group": "ml", "team": "vision", "role": "lead"},
        {"provider": "okta", "group": "ml-*"},
    ),
    "InvitationViewSet.create": (
        "invitations",
        {"email": "new@corp.example", "team": "vision", "role": "owner"},
        {"email": "New@corp.example", "team": "vision"},
    ),
    "QuotaViewSet.create": ("quotas", {**QUOTA, "devices": 8, "guaranteed": 4}, {**QUOTA, "devices": 9}),
    "RateViewSet.update": (
        "rates",
        {**RATE, "product": "H100", "driver": GPU_CLASS, "cluster": "fra-1", "currency": "USD"}
        | {
            "expression": 'device.capacityType == "spot"',
            "valid_until": (LATER + timedelta(days=9)).isoformat(),
        },
        {**RATE, "per_hour": "3.0000"},
    ),
    "ReasonViewSet.update": (
        "approval-reasons",
        {"title": "Later", "text": "Later.", "team": "vision"},
        {"title": "Later", "text": "Next week."},
    ),
    "SavedFilterViewSet.create": (
        "me/filters",
        {**FILTER, "query": "state=allocated", "title": "Claims", "is_default": True},
        {**FILTER, "query": "state=requested"},
    ),
    "SavedReportViewSet.create": (
        "costs/saved-reports",
        {"name": "Ours", "query": "by=claim", "monthly": True},
        {"name": "Ours"},
    ),
}
FOLLOWS = {"sent_at", "expires_at", "set_at", "limit", "free", "use", "changes", "url", "link", "email"}


@pytest.fixture
def root():
    client, user = Client(), make_user("root", admin=True)
    client.force_login(user)
    make_team("vision", owners=(user,))
    make_cluster("fra-1")
    IdentityProvider.objects.create(slug="okta", title="Okta", issuer="https://okta.example")
    return client


def test_every_put_is_tried_or_says_why_it_is_whole():
    assert {name for name, method, _view in OPERATIONS if method == "PUT"} - {*CHANGES} == {*WHOLE}


@pytest.mark.parametrize("operation", CHANGES)
def test_change_leaves_what_it_does_not_name(root, operation):
    name, made, changed = CHANGES[operation]
    address = f"/api/v1/{name}/"
    first = root.post(address, made, content_type="application/json")
    assert first.status_code in (200, 201), first.json()
    (before,) = listed(root, address)
    if operation.endswith("create"):
        answer = root.post(address, changed, content_type="application/json")
    else:
        answer = root.put(f"{address}{before['id']}/", changed, content_type="application/json")
    assert answer.status_code in (200, 201), answer.json()
    (after,) = listed(root, address)
    differs = {key for key in before if before[key] != after[key]} - FOLLOWS
    assert differs <= changed.keys()


def listed(client, address):
    found = client.get(address).json()
    return found if isinstance(found, list) else found["results"]
