"""Every POST of the API honours the Idempotency-Key; a new one is found by its address."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate

from teams.keyed import KeyedWrites
from tests.factories import make_user

# These keep the key with what they make, in their service.
BY_SERVICE = {
    ("ClaimViewSet", "create"),
    ("ClaimViewSet", "extend"),
    ("ClaimViewSet", "resize"),
    ("QuotaRequestViewSet", "create"),
    ("CommentsView", "post"),
    ("ManyView", "post"),
}
MAKES_NOTHING = {("MatchView", "post")}
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
    assert set(WRITES) >= (BY_SERVICE | MAKES_NOTHING)


@pytest.mark.parametrize("name", sorted(set(WRITES) - BY_SERVICE - MAKES_NOTHING), ids="-".join)
def test_the_same_key_does_it_once(name, db, monkeypatch):
    view, is_set = WRITES[name]
    assert issubclass(view, KeyedWrites)
    done = count(1)

    def act(self: object, request: object, *args: object, **kwargs: object) -> Response:
        return Response({"done": next(done)}, status=201)

    monkeypatch.setattr(view, name[1], act)
    monkeypatch.setattr(view, "shown_once", frozenset())  # tests/teams/test_keyed.py
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
    assert silent == ["/api/v1/match/"]
