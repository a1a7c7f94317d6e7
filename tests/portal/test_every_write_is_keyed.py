"""Every POST of the API honours the Idempotency-Key; a new one is found by its address."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

import pytest
from django.apps import apps
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from rest_framework.response import Response
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate

from claims.requests import services
from claims.states import ClaimState
from core.idempotency import IdempotentWrites
from core.models import StoredResponse
from tests.claims.mirror import Mirror
from tests.factories import (
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_team,
    make_user,
)

# These keep the key with what they make, in their service.
BY_SERVICE = {
    ("ClaimViewSet", "create"),
    ("ClaimViewSet", "extend"),
    ("ClaimViewSet", "resize"),
    ("QuotaRequestViewSet", "create"),
    ("BudgetRequestViewSet", "create"),
    ("CommentsView", "post"),
    ("QuotaCommentsView", "post"),
    ("BulkActionView", "post"),
}
MAKES_NOTHING = {("MatchView", "post"), ("ManifestImportView", "post")}
# Without a login there is nobody to keep a key for; of a login that was begun twice one is used.
LOGINS = {("DeviceLoginView", "post"), ("DeviceTokenView", "post"), ("KubernetesLoginView", "post")}
ANY = "01a1fd0e-cd81-741b-ad1f-8943d5325f9e"


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for one in resolver.url_patterns:
        path = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from patterns(one, path)
        else:
            yield path, one


def writes() -> dict[tuple[str, str], Any]:
    """Return the class of the view of every POST of the API by its name and action."""
    found = {}
    for path, pattern in patterns(get_resolver()):
        view = getattr(pattern.callback, "cls", None)
        if view is None or not path.startswith("api/v1/"):
            continue
        actions = getattr(pattern.callback, "actions", None)
        name = actions.get("post") if actions else ("post" if hasattr(view, "post") else None)
        if name:
            found[view.__name__, name] = (view, bool(actions))
    return found


WRITES = writes()


def test_there_are_writes_and_the_exceptions_are_among_them():
    assert len(WRITES) > 20
    assert set(WRITES) >= (BY_SERVICE | MAKES_NOTHING | LOGINS)


@pytest.mark.parametrize("name", sorted(set(WRITES) - BY_SERVICE - MAKES_NOTHING - LOGINS), ids="-".join)
def test_the_same_key_does_it_once(name, db, monkeypatch):
    view, is_set = WRITES[name]
    assert issubclass(view, IdempotentWrites)
    done = count(1)

    def act(self: object, request: object, *args: object, **kwargs: object) -> Response:
        return Response({"done": next(done)}, status=201)

    monkeypatch.setattr(view, name[1], act)
    monkeypatch.setattr(view, "shown_once", frozenset())  # tests/core/test_idempotent_writes.py
    handler = view.as_view({"post": name[1]}) if is_set else view.as_view()
    root = make_user("root", admin=True)

    def send(key: str) -> Any:
        request = APIRequestFactory().post("/", {}, format="json", headers={"Idempotency-Key": key})
        force_authenticate(request, root)
        return handler(request, pk=ANY).data["done"]

    assert [send("one"), send("one"), send("two"), send("one")] == [1, 1, 2, 1]


def test_the_description_says_so(client, db):
    paths = client.get("/api/v1/schema/", headers={"Accept": "application/vnd.oai.openapi+json"}).json()[
        "paths"
    ]
    silent = [
        path
        for path, methods in paths.items()
        if "post" in methods
        and "Idempotency-Key" not in {one["name"] for one in methods["post"].get("parameters", [])}
    ]
    logins = [f"/api/v1/login/{name}/" for name in ("device", "device/token", "kubernetes")]
    assert silent == ["/api/v1/claims/import/", *logins, "/api/v1/match/"]


class Write(NamedTuple):
    """A POST as somebody sends it; `{claim}` is a request of alice, and `{held}` a claim that she holds."""

    by: str
    address: str
    body: dict[str, Any]
    status: int


# What leaves no entry in the audit log.
UNRECORDED = {"claims/{claim}/comments/": "a comment stands on the claim, with its author"}
NOW = timezone.now().replace(microsecond=0)
SENT = {
    "ask": Write("alice", "claims/", {"team": "vision", "cluster": "fra-1", "profile": "train-80"}, 201),
    "approve": Write("lena", "claims/{claim}/approve/", {"spec_hash": "{spec_hash}"}, 200),
    "deny": Write("lena", "claims/{claim}/deny/", {"reason": "No."}, 200),
    "withdraw": Write("alice", "claims/{claim}/withdraw/", {}, 200),
    "comment": Write("alice", "claims/{claim}/comments/", {"text": "For the review."}, 201),
    "decide": Write(
        "lena",
        "approvals/decide/",
        {"decision": "deny", "note": "No.", "requests": [{"kind": "claim", "id": "{claim}"}]},
        200,
    ),
    "extend": Write("alice", "claims/{held}/extend/", {"until": NOW + timedelta(days=3)}, 201),
    "shorten": Write("alice", "claims/{held}/shorten/", {"until": NOW + timedelta(hours=9)}, 200),
    "hand over": Write("alice", "claims/{held}/transfer/", {"to": "mona"}, 200),
    "release": Write("alice", "claims/{held}/release/", {}, 200),
    "evict": Write("alice", "claims/{ended}/evict/", {}, 200),
    "quota": Write(
        "root", "quotas/", {"team": "vision", "device_class": "mig.nvidia.com", "devices": 4}, 201
    ),
    "more quota": Write(
        "alice",
        "quotas/requests/",
        {"team": "vision", "device_class": "gpu.nvidia.com", "devices": 12, "reason": "More."},
        201,
    ),
    "rule": Write("root", "approval-rules/", {"team": "vision", "approval": "lead"}, 201),
    "stand-in": Write(
        "lena",
        "delegations/",
        {
            "team": "vision",
            "to": "mona",
            "starts_at": NOW + timedelta(hours=1),
            "ends_at": NOW + timedelta(days=1),
        },
        201,
    ),
    "rate": Write(
        "root", "rates/", {"title": "H100", "per_hour": "2.5", "currency": "EUR", "valid_from": NOW}, 201
    ),
}


@pytest.fixture
def places(db: None) -> dict[str, str]:
    """What addresses and bodies name: a request of alice, and a claim that she holds."""
    alice, lena, mona = (make_user(name) for name in ("alice", "lena", "mona"))
    make_user("root", admin=True)
    vision = make_team("vision", members=(alice, mona), leads=(lena,))
    fra = make_cluster("fra-1", teams=(vision,))
    train = make_profile("train-80")
    make_quota(vision, 8)
    claim = services.request_claim(by=alice, team=vision, cluster=fra, profile=train, key="of the test")
    held = make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=train,
        state=ClaimState.PROVISIONED,
        decided_at=NOW,
        expires_at=NOW + timedelta(days=1),
    )
    asking = make_profile("asking", end_policy="ask")
    ended = make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=asking,
        name="late",
        state=ClaimState.RELEASING,
        object_uid="uid-late",
    )
    mirror = Mirror(fra)
    row = mirror.claim("late", ended, uid="uid-late")
    row.raw["status"]["reservedFor"] = [{"resource": "pods", "name": "pod", "uid": "uid-pod"}]
    row.save(update_fields=["raw"])
    mirror.pod("pod", claims=["late"])
    names = {"{claim}": claim, "{held}": held, "{ended}": ended}
    return {"{spec_hash}": claim.spec_hash} | {name: str(row.pk) for name, row in names.items()}


def filled(value: Any, places: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: filled(each, places) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, places) for each in value]
    return places.get(value, value) if isinstance(value, str) else value


def everything() -> dict[str, list[dict[str, Any]]]:
    """Return every row of the portal, but for the answers that are kept."""
    return {
        model.__name__: list(model._default_manager.order_by("pk").values())
        for app in ("claims", "teams", "usage")
        for model in apps.get_app_config(app).get_models()
        if model is not StoredResponse
    }


@pytest.mark.parametrize("write", SENT.values(), ids=SENT)
def test_what_is_really_sent_twice_is_done_once_and_answered_alike(write, places):
    api = APIClient()
    api.force_login(make_user(write.by))
    address = f"/api/v1/{write.address}"
    for name, value in places.items():
        address = address.replace(name, value)

    def send() -> Any:
        body = filled(write.body, places)
        return api.post(address, body, format="json", headers={"Idempotency-Key": "k"})

    before, first = everything(), send()
    assert first.status_code == write.status, first.content
    after = everything()
    is_recorded = len(after["AuditEntry"]) > len(before["AuditEntry"])
    assert is_recorded or write.address in UNRECORDED
    assert after != before
    second = send()
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    assert everything() == after
