"""Who may speak to the control plane: tokens, the roles behind them, and kubeconfigs."""

import base64
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

import yaml

from cluster.checkup import manifest

ADMIN, PORTAL, READER, ALICE, EVE = "admin", "portal", "reader", "alice", "eve"
SCHEDULER, CONTROLLERS, KWOK = "scheduler", "controller-manager", "kwok"
OF_ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:dragoman")


@dataclass(frozen=True, slots=True)
class Identity:
    """`user` and `groups` are what the API server takes the bearer of `token` for."""

    name: str
    user: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def everybody() -> dict[str, Identity]:
    people = (
        Identity(ADMIN, "admin", ("system:masters",)),
        Identity(PORTAL, "system:serviceaccount:dragoman:dragoman", OF_ACCOUNTS),
        Identity(READER, "system:serviceaccount:dragoman:dragoman-reader", OF_ACCOUNTS),
        Identity(ALICE, "alice"),  # may edit in her namespaces
        Identity(EVE, "eve"),  # may nothing
        Identity(SCHEDULER, "system:kube-scheduler"),
        Identity(CONTROLLERS, "system:kube-controller-manager", ("system:masters",)),
        Identity(KWOK, "kwok", ("system:masters",)),
    )
    return {person.name: person for person in people}


def tokens_csv(people: Iterable[Identity]) -> str:
    return "".join(f'{who.token},{who.user},{who.name},"{",".join(who.groups)}"\n' for who in people)


def kubeconfig(who: Identity, server: str, authority: str, *, name: str = "dragoman-test") -> str:
    """Return a kubeconfig with everything in it: no file, no plugin."""
    encoded = base64.b64encode(authority.encode()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": encoded}}],
        "users": [{"name": who.name, "user": {"token": who.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": who.name}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def rights(namespaces: Iterable[str]) -> list[dict[str, object]]:
    """Return what gives the portal's accounts exactly the printed roles, and alice hers."""
    portal = yaml.safe_load_all(manifest())
    reader = yaml.safe_load_all(manifest(read_only=True, name="dragoman-reader"))
    return [*portal, *reader, *(may_edit(ALICE, namespace) for namespace in namespaces)]


def may_edit(user: str, namespace: str) -> dict[str, object]:
    api = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-edits", "namespace": namespace},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }
