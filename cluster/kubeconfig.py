"""The shape of a kubeconfig, and the parts of it that the portal refuses to follow."""

from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import yaml
from django.views.decorators.debug import sensitive_variables

from core.errors import Invalid

FLATTEN = "kubectl config view --raw --flatten --minify"
FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
PROGRAMS = ("exec", "auth-provider")
BORROWED = ("as", "as-uid", "as-groups", "as-user-extra", "impersonate")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one context of a kubeconfig says of its cluster and its user."""

    cluster: dict[str, Any]
    user: dict[str, Any] = field(repr=False)


@sensitive_variables()
def entry_of(text: str, context: str = "") -> Entry:
    """Return the entry of `context`, or of the current one. Raise `Invalid` for what is refused."""
    document = _document(text)
    wanted = context or document.get("current-context") or ""
    names = [item["name"] for item in _named(document, "contexts")]
    if not wanted and len(names) == 1:
        wanted = names[0]
    if not wanted:
        raise Invalid(f"The kubeconfig has no current context; name one of: {', '.join(names) or '–'}.")
    chosen = _section(document, "contexts", "context", wanted)
    entry = Entry(
        _section(document, "clusters", "cluster", str(chosen.get("cluster", ""))),
        _section(document, "users", "user", str(chosen.get("user", ""))),
    )
    _refuse_plugins(entry)
    _check_server(entry.cluster.get("server"))
    _check_user(entry.user)
    return entry


@sensitive_variables()
def _document(text: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = None  # the parser's message quotes the text, and with it the token
    if not isinstance(found, dict) or found.get("kind") != "Config":
        raise Invalid("This is not a kubeconfig: a YAML document of kind Config is expected.")
    return found


def _named(document: dict[str, Any], plural: str) -> list[dict[str, Any]]:
    items = document.get(plural) or []
    well_formed = isinstance(items, list) and all(isinstance(item, dict) and "name" in item for item in items)
    if not well_formed:
        raise Invalid(f"“{plural}” of the kubeconfig is not a list of named entries.")
    return cast(list[dict[str, Any]], items)


def _section(document: dict[str, Any], plural: str, singular: str, name: str) -> dict[str, Any]:
    for item in _named(document, plural):
        if item["name"] == name:
            return item.get(singular) or {}
    raise Invalid(
        f"The kubeconfig has no {singular} “{name}”.",
    )


def _refuse_plugins(entry: Entry) -> None:
    for key in PROGRAMS:
        if key in entry.user:
            raise Invalid(
                f"The kubeconfig gets its token from a program (“{key}”), which the portal does not "
                "run. Make a token of a service account instead; “manage.py cluster rbac” says how."
            )
    for key in FILES:
        if key in entry.user or key in entry.cluster:
            raise Invalid(
                f"The kubeconfig refers to a file (“{key}”), which the portal does not read. Put its "
                f"contents in with “{FLATTEN}”."
            )
    for key in BORROWED:
        if key in entry.user:
            raise Invalid(f"The kubeconfig acts as somebody else (“{key}”); the portal acts as itself only.")


def _check_server(server: object) -> None:
    parts = urlsplit(server) if isinstance(server, str) else None
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Invalid("The kubeconfig names no server address that starts with https:// or http://.")
    if parts.username or parts.password:
        raise Invalid("The server address of the kubeconfig contains a password; use a token instead.")


def _check_user(user: dict[str, Any]) -> None:
    if "username" in user or "password" in user:
        raise Invalid("The kubeconfig holds a password, which Kubernetes has not taken since 1.19.")
    if bool(user.get("client-certificate-data")) != bool(user.get("client-key-data")):
        raise Invalid("The kubeconfig holds a client certificate without its key, or a key without it.")
