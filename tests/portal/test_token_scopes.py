"""Every operation of the API declares the scope of the token that it needs."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver
from rest_framework.permissions import SAFE_METHODS
from rest_framework.test import APIClient
from rest_framework.views import APIView

from core.scopes import Scope, WithinScopes, declared_scope
from portal.api_urls import urlpatterns
from teams.login_api import LoginView
from tests.factories import make_token, make_user

ANY = "01a1fd0e-cd81-741b-ad1f-8943d5325f9e"


def operations() -> Iterator[tuple[str, str, Any]]:
    """Yield name, method and view of every operation, the view with its action."""
    for pattern in urlpatterns:
        assert not isinstance(pattern, URLResolver)
        yield from of_pattern(pattern)


def of_pattern(pattern: URLPattern) -> Iterator[tuple[str, str, Any]]:
    callback: Any = pattern.callback
    actions = getattr(callback, "actions", None) or {
        name: name for name in callback.cls.http_method_names if hasattr(callback.cls, name)
    }
    for method, action in list(actions.items()):
        if method not in ("options", "head"):
            view = callback.cls(**callback.initkwargs)
            view.action = action
            yield f"{callback.cls.__name__}.{action}", method.upper(), view


OPERATIONS = [entry for entry in operations() if not isinstance(entry[2], LoginView)]


def test_there_are_operations():
    assert len(OPERATIONS) > 100


@pytest.mark.security("scopes", "an operation that writes and declares no scope")
def test_every_operation_that_writes_declares_its_scope():
    silent = [
        name
        for name, method, view in OPERATIONS
        if method not in SAFE_METHODS and declared_scope(view, method) is None
    ]
    assert silent == []


def test_an_operation_that_declares_nothing_is_refused_to_all_but_administrators():
    class Forgotten(APIView):
        def post(self, request):
            raise AssertionError

    assert declared_scope(Forgotten(), "POST") is None


def test_every_view_asks_for_the_scope():
    assert [name for name, _method, view in OPERATIONS if WithinScopes not in view.permission_classes] == []


@pytest.mark.security("scopes", "a view of the API that anybody may use")
def test_only_logins_need_no_token():
    views = {type(view).__name__ for _name, _method, view in operations() if isinstance(view, LoginView)}
    assert views == {"DeviceLoginView", "DeviceTokenView", "KubernetesLoginView"}


@pytest.mark.security("scopes", "every operation of the API with a token that lacks its scope")
@pytest.mark.parametrize("scope", [Scope.READ, Scope.REQUEST, Scope.APPROVE])
def test_without_its_scope_every_operation_is_refused_before_anything_is_looked_up(db, scope):
    """A platform admin asks, whom nothing else would stop."""
    root = make_user("root", admin=True)
    _row, text = make_token(root, scopes=[scope])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    wrong = []
    for pattern in urlpatterns:
        assert not isinstance(pattern, URLResolver)
        for name, method, view in of_pattern(pattern):
            if isinstance(view, LoginView):
                continue
            needed = declared_scope(view, method)
            address = "/api/v1/" + address_of(str(pattern.pattern))
            answer = getattr(client, method.lower())(address, {}, format="json")
            refused = answer.status_code == 403 and answer.json().get("code") == "scope_missing"
            if refused != (needed not in (Scope.READ, scope)):
                wrong.append((name, method, needed, answer.status_code))
    assert wrong == []


def address_of(pattern: str) -> str:
    """Return an address of a pattern, with an id wherever it has a place."""
    text = re.sub(r"\(\?P<\w+>[^)]*\)", ANY, pattern)
    return re.sub(r"<[^>]*>", ANY, text).strip("^").removesuffix("\\Z").removesuffix("$")
