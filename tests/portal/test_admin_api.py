"""Members, teams, people, invitations, clusters, settings and more over the API, as on their pages."""

from __future__ import annotations

from functools import cached_property

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from claims.approvals import pending
from claims.models import Comment, PendingDecision, Profile, Quota, TeamNamespace
from claims.states import ClaimState
from core.models import Installation, SavedFilter
from inventory import clusters
from inventory.models import Cluster
from notify.models import Notice
from teams.models import Invitation, Membership, Role, Team, User
from tests.factories import (
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_quota_request,
    make_team,
    make_user,
)
from tests.fakes import FakeGateway
from usage.models import IdlePolicy, Rate, TrackingServer

pytestmark = pytest.mark.django_db(transaction=True)  # what is added and removed is committed at once

SECRET = "the-very-secret-token"
CREDENTIALS = {"server": "https://fra.example:6443", "token": SECRET}


class Caller:
    """Somebody who calls the API and signs in first; it checks the status and returns the content."""

    def __init__(self, person: User | None = None) -> None:
        self.person = person

    @cached_property
    def api(self) -> APIClient:
        api = APIClient()
        if self.person is not None:
            api.force_login(self.person)
        return api

    def __call__(self, method: str, path: str, body: object = None, status: int = 200) -> object:
        answer = getattr(self.api, method)(f"/api/v1/{path}", body, format="json")
        assert answer.status_code == status, answer.content
        return answer.json() if answer.content else None


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def people(root):
    found = {name: make_user(name) for name in ("olga", "lea", "alice", "bob", "eve")}
    make_team(
        "vision",
        owners=(found["olga"],), leads=(found["lea"],), members=(found["alice"],), viewers=(found["bob"],),
    )  # fmt: skip
    return {**found, "root": root}


@pytest.fixture
def by(people):
    return {name: Caller(person) for name, person in people.items()}


@pytest.fixture
def gateway(monkeypatch):
    fake = FakeGateway(name="fra")
    monkeypatch.setattr(clusters, "KubeGateway", lambda credentials: fake)
    return fake


def role_of(name: str) -> str | None:
    return Membership.objects.filter(user__username=name).values_list("role", flat=True).first()


# Members.

MEMBERS = "teams/vision/members/"


def test_an_owner_adds_changes_and_removes_a_member(by):
    added = by["olga"]("post", MEMBERS, {"username": "eve", "role": "member"}, 201)
    assert added == {"username": "eve", "name": "eve", "role": "member"}
    assert by["olga"]("put", f"{MEMBERS}eve/", {"role": "lead"})["role"] == role_of("eve") == Role.LEAD
    by["olga"]("delete", f"{MEMBERS}eve/", status=204)
    assert role_of("eve") is None


def test_members_see_one_another_and_outsiders_see_nobody(by):
    names = [row["username"] for row in by["bob"]("get", MEMBERS)["results"]]
    assert names == ["alice", "bob", "lea", "olga"]
    for method, body in (("get", None), ("post", {"username": "eve", "role": "member"})):
        by["eve"](method, MEMBERS, body, 404)
    by["eve"]("put", f"{MEMBERS}alice/", {"role": "viewer"}, 404)
    by["eve"]("delete", f"{MEMBERS}alice/", status=404)


@pytest.mark.parametrize("who", ["lea", "alice", "bob"])
def test_only_owners_change_members(by, who):
    by[who]("post", MEMBERS, {"username": "eve", "role": "member"}, 403)
    by[who]("put", f"{MEMBERS}olga/", {"role": "viewer"}, 403)
    by[who]("delete", f"{MEMBERS}olga/", status=403)


def test_everybody_may_leave_but_the_only_owner(by):
    by["bob"]("delete", f"{MEMBERS}bob/", status=204)
    assert "only owner" in by["olga"]("delete", f"{MEMBERS}olga/", status=409)["detail"]


def test_pages_of_members_follow_one_another(by):
    page = by["bob"]("get", f"{MEMBERS}?limit=3&order=-username")
    following = by["bob"].api.get(page["next"]).json()
    names = [row["username"] for row in page["results"] + following["results"]]
    assert names == ["olga", "lea", "bob", "alice"]
    assert by["olga"].api.options(f"/api/v1/{MEMBERS}bob/").status_code == 200


def test_malformed_members_are_refused(by):
    by["olga"]("post", MEMBERS, {"username": "nobody-there", "role": "member"}, 422)
    by["olga"]("post", MEMBERS, {"username": "alice", "role": "member"}, 409)
    by["olga"]("post", MEMBERS, {"username": "eve", "role": "king"}, 422)
    by["olga"]("put", f"{MEMBERS}nobody/", {"role": "lead"}, 404)


# Teams.


def test_an_admin_creates_a_team_with_its_owner_and_changes_it(by):
    made = by["root"]("post", "teams/", {"slug": "nlp", "title": "Language", "owner": "eve"}, 201)
    assert [row["username"] for row in made["people"]] == ["eve"]
    changed = by["root"]("patch", "teams/nlp/", {"title": "Words", "efficiency_goal": 60})
    assert (changed["title"], changed["efficiency_goal"]) == ("Words", 60)
    assert by["root"]("patch", "teams/nlp/", {"efficiency_goal": None})["efficiency_goal"] is None
    by["root"]("post", "teams/", {"slug": "nlp", "title": "Again"}, 409)
    by["root"]("post", "teams/", {"slug": "No Slug", "title": "x"}, 422)
    by["root"]("post", "teams/", {"slug": "new", "title": "x", "owner": "nobody"}, 422)


def test_a_team_is_archived_and_restored(by):
    make_quota(Team.objects.get())
    assert by["root"]("post", "teams/vision/archive/")["archived_at"]
    assert (Quota.objects.count(), role_of("olga")) == (0, None)
    assert by["root"]("post", "teams/vision/restore/")["archived_at"] is None


def test_a_team_with_claims_is_not_archived(by, people):
    make_claim(Team.objects.get(), by=people["alice"])
    assert "1 claim" in by["root"]("post", "teams/vision/archive/", status=409)["detail"]


def test_an_admin_sets_the_namespace_of_a_team(by):
    make_cluster("fra-1")
    path = "teams/vision/namespaces/fra-1/"
    assert by["root"]("put", path, {"namespace": "vision"}) == {"cluster": "fra-1", "namespace": "vision"}
    assert by["bob"]("get", "teams/vision/namespaces/")["results"] == [
        {"cluster": "fra-1", "namespace": "vision"}
    ]
    by["root"]("put", path, {"namespace": "No Name"}, 422)
    by["root"]("put", "teams/vision/namespaces/nowhere/", {"namespace": "vision"}, 404)
    by["root"]("delete", path, status=204)
    assert not TeamNamespace.objects.exists()
    by["eve"]("get", "teams/vision/namespaces/", status=404)


ONLY_ADMINS = [
    ("post", "teams/", {"slug": "x", "title": "X"}),
    ("patch", "teams/vision/", {"title": "X"}),
    ("post", "teams/vision/archive/", None),
    ("post", "teams/vision/restore/", None),
    ("put", "teams/vision/namespaces/fra-1/", {"namespace": "x"}),
    ("delete", "teams/vision/namespaces/fra-1/", None),
    ("get", "people/", None),
    ("get", "invitations/", None),
    ("post", "invitations/", {"email": "ana@example.org"}),
    ("get", "settings/", None),
    ("patch", "settings/", {"name": "X"}),
    ("post", "clusters/", {"name": "x", **CREDENTIALS}),
    ("post", "clusters/check/", CREDENTIALS),
    ("patch", "clusters/fra-1/", {"title": "X"}),
    ("delete", "clusters/fra-1/", None),
    ("get", "clusters/fra-1/checks/", None),
    ("put", "clusters/fra-1/credentials/", CREDENTIALS),
    ("post", "clusters/fra-1/pause/", None),
    ("post", "clusters/fra-1/resume/", None),
    ("get", "clusters/fra-1/quotas/", None),
    ("put", "clusters/fra-1/quotas/", {"enforced": True}),
    ("post", "profiles/import/", {"text": "x"}),
    ("get", "profiles/export/", None),
    ("get", "profiles/presets/", None),
    ("post", "profiles/presets/", {"slugs": ["x"]}),
    ("get", "tracking-servers/", None),
    ("post", "tracking-servers/", {"url": "http://mlflow.example"}),
    ("get", "tracking-servers/runs-links/", None),
    ("put", "tracking-servers/runs-links/", {"url": "https://wandb.ai/acme"}),
    ("post", "rates/examples/", None),
    ("put", "waste/policy/", {}),
]


def test_operations_of_platform_admins_refuse_everybody_else(by):
    make_cluster("fra-1")
    wrong = []
    for method, path, body in ONLY_ADMINS:
        for who in ("olga", "lea", "alice", "bob", "eve"):
            answer = getattr(by[who].api, method)(f"/api/v1/{path}", body, format="json")
            hidden = who == "eve" and path.startswith("teams/vision/")
            if answer.status_code != (404 if hidden else 403):
                wrong.append((who, method, path, answer.status_code))
        if (status := Caller().api.get(f"/api/v1/{path}").status_code) not in (401, 405):
            wrong.append(("nobody", "get", path, status))
    assert wrong == []


# People and invitations.


def test_an_admin_makes_admins_and_deactivates_people(by, people):
    path = f"people/{people['eve'].pk}/"
    assert by["root"]("get", "people/?q=EVE")["results"] == [by["root"]("get", path)]
    assert by["root"]("patch", path, {"platform_admin": True})["platform_admin"]
    assert not by["root"]("patch", path, {"active": False})["active"]
    assert by["root"]("patch", path, {"active": True})["active"]
    assert by["root"]("patch", path, {"platform_admin": False})["platform_admin"] is False
    own = f"people/{people['root'].pk}/"
    assert "only platform admin" in by["root"]("patch", own, {"active": False}, 409)["detail"]


def test_an_invitation_is_sent_renewed_and_withdrawn(by):
    sent = by["root"](
        "post", "invitations/", {"email": "Ana@example.org", "team": "vision", "role": "lead"}, 201
    )
    assert (sent["email"], sent["team"], sent["mailed"]) == ("ana@example.org", "vision", False)
    assert "/join/" in sent["link"]
    path = f"invitations/{sent['id']}/"
    assert "link" not in by["root"]("get", path)
    again = by["root"]("post", f"{path}resend/", status=201)
    assert again["link"] != sent["link"]
    by["root"]("delete", path, status=204)
    assert Invitation.objects.open().count() == 0
    by["root"]("post", "invitations/", {"email": "no address"}, 422)
    by["root"]("post", "invitations/", {"email": "b@example.org", "team": "nowhere"}, 422)


def test_the_link_of_an_invitation_is_not_kept_with_the_key(by):
    headers = {"Idempotency-Key": "invite-1"}
    body = {"email": "ana@example.org"}
    first = by["root"].api.post("/api/v1/invitations/", body, format="json", headers=headers)
    again = by["root"].api.post("/api/v1/invitations/", body, format="json", headers=headers)
    assert (first.status_code, again.status_code) == (201, 409)
    assert "link" not in again.json()["answered"]


# Settings, profile, saved filters.


def test_an_admin_changes_the_settings(by):
    changed = by["root"]("patch", "settings/", {"name": "Compute", "timezone": "Europe/Berlin"})
    unchanged = Installation()
    assert changed == {
        "name": "Compute",
        "currency": unchanged.currency,
        "timezone": "Europe/Berlin",
        "password_sign_in": unchanged.password_sign_in,
        "second_factor": unchanged.second_factor,
    }
    assert by["root"]("get", "settings/") == changed
    for wrong in ({"currency": "euro"}, {"timezone": "Mars/North"}, {"name": 5}):
        by["root"]("patch", "settings/", wrong, 422)


def test_everybody_changes_their_own_profile_but_the_mail_address(by, people):
    by["eve"]("patch", "me/", {"first_name": "Eve", "email": "x@example.org"}, 422)
    me = by["eve"]("patch", "me/", {"first_name": "Eve", "timezone": "Europe/Berlin"})
    assert (me["name"], me["timezone"], me["email"]) == ("Eve", "Europe/Berlin", people["eve"].email)
    by["eve"]("patch", "me/", {"timezone": "Mars/North"}, 422)


def test_saved_filters_are_of_one_person(by):
    body = {"list": "/claims/", "name": "Held", "query": "state=allocated&page=3", "is_default": True}
    saved = by["eve"]("post", "me/filters/", body, 201)
    assert (saved["url"], bool(saved["default_since"])) == ("/claims/?state=allocated", True)
    path = f"me/filters/{saved['id']}/"
    for method, status in (("get", 404), ("patch", 404), ("delete", 404)):
        by["alice"](method, path, {}, status)
    changed = by["eve"]("patch", path, {"name": "Mine", "is_default": False})
    assert (changed["name"], changed["default_since"]) == ("Mine", None)
    by["eve"]("post", "me/filters/", {**body, "list": "/api/v1/"}, 422)
    by["eve"]("delete", path, status=204)
    assert not SavedFilter.objects.exists()


# Clusters.


def test_a_cluster_is_checked_and_added_and_its_token_never_returned(by, gateway):
    checked = by["root"]("post", "clusters/check/", {**CREDENTIALS, "read_only": True})
    assert (checked["failed"], Cluster.objects.count()) == (0, 0)
    body = {"name": "fra-1", "title": "Frankfurt", "read_only": True, **CREDENTIALS}
    added = by["root"]("post", "clusters/", body, 201)
    assert (added["name"], added["read_only"]) == ("fra-1", True)
    assert SECRET not in str(checked) + str(added)
    by["root"]("post", "clusters/", body, 409)


def test_a_cluster_whose_checks_fail_is_not_added(by, gateway, monkeypatch):
    from cluster.checkup import CheckupFinding, CheckupVerdict

    failed = [CheckupFinding(CheckupVerdict.BAD, "list nodes", "missing", "Apply the permissions.")]
    monkeypatch.setattr(clusters, "checkup", lambda *_args, **_modes: failed)
    refused = by["root"]("post", "clusters/", {"name": "fra-1", **CREDENTIALS}, 409)
    assert refused["detail"] == "1 check failed: list nodes: missing"
    assert refused["checks"][0]["remedy"] == "Apply the permissions."
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    "body", [{}, {**CREDENTIALS, "kubeconfig": "x"}, {"kubeconfig": "nonsense"}, {"token": "x"}]
)
def test_credentials_are_a_kubeconfig_or_a_token(by, gateway, body):
    by["root"]("post", "clusters/check/", body, 422)


def test_a_cluster_is_changed_paused_resumed_and_removed(by, gateway):
    make_cluster("fra-1", uid=gateway.uid)
    assert (
        by["root"]("patch", "clusters/fra-1/", {"title": "Hall 2", "grams_per_kwh": 380})["title"] == "Hall 2"
    )
    assert by["root"]("post", "clusters/fra-1/pause/")["enabled"] is False
    assert by["root"]("post", "clusters/fra-1/resume/")["enabled"] is True
    assert by["root"]("put", "clusters/fra-1/credentials/", CREDENTIALS)["name"] == "fra-1"
    assert by["root"]("get", "clusters/fra-1/checks/")["failed"] == 0
    by["root"]("delete", "clusters/fra-1/", status=204)
    by["root"]("delete", "clusters/fra-1/", status=404)


def test_quotas_are_enforced_in_a_cluster(by, monkeypatch):
    written: list[str] = []
    monkeypatch.setattr("claims.quotas.api.write_cluster.delay", written.append)
    cluster = make_cluster("fra-1")
    shown = by["root"]("put", "clusters/fra-1/quotas/", {"enforced": True}, 202)
    assert (shown["enforced"], written) == (True, [str(cluster.pk)])
    assert by["root"]("get", "clusters/fra-1/quotas/") == {"enforced": True, "written": 0, "problems": {}}


# Claims, approvals, quotas.


def test_owners_are_asked_for_a_member_by_a_lead(by, people):
    path, body = "teams/vision/member-requests/", {"person": "noah", "role": "lead", "reason": "A paper."}
    by["eve"]("post", path, body, status=404)
    by["alice"]("post", path, body, status=403)
    by["lea"]("post", path, {"person": "noah", "role": "king"}, status=422)
    assert by["lea"]("post", path, body) == {"asked": ["olga"]}
    by["lea"]("post", path, body, status=409)


def test_the_owner_of_a_claim_is_reminded_by_a_lead(by, people):
    claim = make_claim(Team.objects.get(), by=people["alice"], state=ClaimState.ALLOCATED)
    path = f"claims/{claim.pk}/remind/"
    by["eve"]("post", path, status=404)
    by["bob"]("post", path, status=403)
    assert by["lea"]("post", path) == {"reminded": ["alice"]}
    by["lea"]("post", path, status=409)
    assert Notice.objects.filter(user=people["alice"]).count() == 1


def test_a_claim_that_is_not_idle_is_not_snoozed(by, people):
    claim = make_claim(Team.objects.get(), by=people["alice"], state=ClaimState.ALLOCATED)
    by["eve"]("post", f"claims/{claim.pk}/snooze/", status=404)
    by["bob"]("post", f"claims/{claim.pk}/snooze/", status=403)
    assert "not idle" in by["alice"]("post", f"claims/{claim.pk}/snooze/", status=409)["detail"]


def test_objects_are_accepted_and_labelled_by_who_may(by, people):
    claim = make_claim(Team.objects.get(), by=people["alice"], state=ClaimState.PROVISIONED)
    by["eve"]("post", f"claims/{claim.pk}/accept/", {}, 404)
    by["alice"]("post", f"claims/{claim.pk}/accept/", {}, 403)
    by["root"]("post", f"claims/{claim.pk}/accept/", {}, 409)
    by["eve"]("post", f"claims/{claim.pk}/label/", status=404)
    by["bob"]("post", f"claims/{claim.pk}/label/", status=403)
    by["alice"]("post", f"claims/{claim.pk}/label/", status=409)


def test_deciders_are_reminded_by_an_admin(by, people):
    claim = make_claim(Team.objects.get(), by=people["alice"])
    pending.refresh(claims=[claim.pk])
    request = PendingDecision.objects.get().pk
    by["eve"]("post", f"approvals/{request}/remind/", status=404)
    by["alice"]("post", f"approvals/{request}/remind/", status=403)
    assert "lea" in by["root"]("post", f"approvals/{request}/remind/")["reminded"]
    by["root"]("post", f"approvals/{request}/remind/", status=409)


def test_quota_requests_have_comments(by, people):
    asked = make_quota_request(Team.objects.get(), by=people["lea"])
    path = f"quotas/requests/{asked.pk}/comments/"
    by["eve"]("get", path, status=404)
    by["eve"]("post", path, {"text": "Why?"}, 404)
    by["bob"]("post", path, {"text": "Why?"}, 403)
    assert by["root"]("post", path, {"text": "Why?"}, 201)["question"]
    assert [row["text"] for row in by["bob"]("get", path)["results"]] == ["Why?"]
    assert Comment.objects.count() == 1


def test_an_admin_removes_a_quota(by):
    quota = make_quota(Team.objects.get())
    by["eve"]("delete", f"quotas/{quota.pk}/", status=404)
    by["olga"]("delete", f"quotas/{quota.pk}/", status=403)
    by["root"]("delete", f"quotas/{quota.pk}/", status=204)
    assert not Quota.objects.exists()


# Catalogue, idle policy, tracking, rates.


def test_the_catalogue_is_exported_and_imported_as_a_file(by):
    make_profile("train-80")
    text = by["root"].api.get("/api/v1/profiles/export/").content.decode()
    changed = text.replace("title: ", "title: New ", 1)
    plan = by["root"]("post", "profiles/import/", {"text": changed, "dry_run": True})
    assert [(row["kind"], row["differences"][0]["key"]) for row in plan["changes"]] == [("changed", "title")]
    by["root"]("post", "profiles/import/", {"text": changed, "seen": "0" * 8}, 409)
    by["root"]("post", "profiles/import/", {"text": changed, "seen": plan["digest"]})
    assert Profile.objects.get().title.startswith("New ")
    assert by["root"]("post", "profiles/import/", {"text": "kind: Nonsense"}, 422)["problems"]


def test_presets_are_added(by):
    slug = by["root"]("get", "profiles/presets/")["results"][0]["slug"]
    assert [row["slug"] for row in by["root"]("post", "profiles/presets/", {"slugs": [slug]})["changes"]] == [
        slug
    ]
    assert Profile.objects.filter(slug=slug).exists()
    by["root"]("post", "profiles/presets/", {"slugs": ["nonsense"]}, 422)


def test_everybody_reads_the_idle_policy_and_admins_change_it(by):
    policy = {"notify_owner_after": "2h", "snoozes": 2, "snooze_for": "24h", "notify_leads_after": "24h"}
    shown = by["root"]("put", "waste/policy/", {**policy, "release_after": None})
    assert (shown["notify_owner_after"], shown["release_after"]) == (7200, None)
    assert by["bob"]("get", "waste/policy/") == shown
    assert IdlePolicy.load().snoozes == 2
    by["root"]("put", "waste/policy/", {**policy, "release_after": "1h"}, 422)


def test_tracking_servers_are_set_and_their_secrets_never_returned(by):
    body = {"url": "http://mlflow.example:5000", "secret": {"token": SECRET}}
    server = by["root"]("post", "tracking-servers/", body, 201)
    assert (server["team"], server["kind"]) == (None, "token")
    path = f"tracking-servers/{server['id']}/"
    by["root"]("post", "tracking-servers/", body, 409)
    changed = by["root"]("patch", path, {"page_url": "https://mlflow.example"})
    assert SECRET not in str([server, changed, by["root"]("get", path)])
    by["root"]("patch", path, {"url": "http://elsewhere.example"}, 422)  # the secret is for the other one
    by["root"]("delete", path, status=204)
    assert not TrackingServer.objects.exists()


def test_examples_of_rates_are_added_once(by):
    assert len(by["root"]("post", "rates/examples/", status=201)) == Rate.objects.count() > 5
    assert by["root"]("post", "rates/examples/", status=201) == []


@pytest.mark.parametrize("path", ["people/", "invitations/", MEMBERS, "me/filters/", "tracking-servers/"])
def test_lists_cost_the_same_for_one_row_and_for_many(by, root, path):
    vision = Team.objects.get()

    def grow(*numbers: int) -> None:
        for number in numbers:
            person = make_user(f"person-{number}")
            team = make_team(f"team-{number}", members=(person,))
            Membership.objects.create(user=person, team=vision)
            TrackingServer.objects.create(team=team, url="http://mlflow.example")
            SavedFilter.objects.create(user=root, path="/claims/", title="x", name=str(number), query="q=1")
            by["root"]("post", "invitations/", {"email": f"{number}@example.org", "team": team.slug}, 201)

    grow(0)
    with CaptureQueriesContext(connection) as few:
        by["root"]("get", path)
    grow(*range(1, 12))
    with CaptureQueriesContext(connection) as many:
        assert len(by["root"]("get", path)["results"]) > 10
    assert len(many) == len(few) <= 15
