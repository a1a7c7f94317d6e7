"""
Permissions of the portal in a cluster, and the check of a connection.

The rules below are the single list: the printed manifest grants them, `manage.py cluster check` asks for
them, and the tests use only the portal's identity. Never granted: `resourceclaims/status`, `/binding` and
`/driver`, which belong to the scheduler and the drivers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from cluster.credentials import Credentials
from cluster.protocol import DRA, ClusterError, Discovery, Gateway, Permission

READ = ("get", "list", "watch")
WRITE = ("create", "patch", "delete")

# (group, resources) that every portal reads, and that one which delivers claims also writes.
READS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (DRA, ("deviceclasses", "resourceslices", "devicetaintrules")),
    (DRA, ("resourceclaims", "resourceclaimtemplates")),
    ("", ("namespaces", "nodes", "pods", "events")),
    ("", ("resourcequotas",)),
)
WRITES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (DRA, ("resourceclaims", "resourceclaimtemplates")),
    ("", ("resourcequotas",)),
)

HEAD = """\
# Permissions that Dragoman needs in this cluster ({scope}).
# Apply it as a cluster admin, then create a token for its kubeconfig:
#   kubectl apply -f this-file.yaml
#   kubectl create token {name} --namespace {namespace} --duration 8760h
"""


def permissions(*, read_only: bool = False) -> list[Permission]:
    """Return the permissions that `manifest` grants, in every namespace."""
    return [
        Permission(verb, resource, group)
        for group, resources, verbs in _rules(read_only=read_only)
        for resource in resources
        for verb in verbs
    ]


def manifest(*, read_only: bool = False, name: str = "dragoman", namespace: str = "dragoman") -> str:
    """Return the YAML that a cluster admin applies: namespace, service account, role and binding."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    scope = "read-only: inventory" if read_only else "full: also creates and deletes claims and writes quotas"
    return HEAD.format(scope=scope, name=name, namespace=namespace) + yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": namespace},
            },
            {**_rbac("ClusterRole", name), "rules": [_rule(*rule) for rule in _rules(read_only=read_only)]},
            {**_rbac("ClusterRoleBinding", name), "roleRef": role, "subjects": [subject]},
        ],
        sort_keys=False,
    )


def _rules(*, read_only: bool) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [
        (group, resources, READ if read_only or (group, resources) not in WRITES else READ + WRITE)
        for group, resources in READS
    ]


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _rbac(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}}


class CheckupVerdict(StrEnum):
    GOOD = "good"
    NOTE = "note"  # works, and somebody should know
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class CheckupFinding:
    verdict: CheckupVerdict
    subject: str
    detail: str


def checkup(
    credentials: Credentials,
    gateway: Gateway,
    *,
    uid: str = "",
    read_only: bool = False,
    write_quotas: bool = True,
) -> Iterator[CheckupFinding]:
    """
    Yield findings, the way there first. Ends early where nothing more can be known. Raises nothing.

    Without `write_quotas` it is only noted that the portal may not write quotas.
    """
    yield from _way(credentials)
    try:
        discovery = gateway.discover()
        yield CheckupFinding(CheckupVerdict.GOOD, "Kubernetes", discovery.version)
        yield _identity(gateway.identity(), uid)
        yield _taint_rules(discovery)
        for permission in needed_permissions(discovery, read_only=read_only):
            yield _permission(gateway, permission, needed=write_quotas or not _writes_quotas(permission))
    except ClusterError as problem:
        yield CheckupFinding(CheckupVerdict.BAD, str(problem.title), problem.message)


def needed_permissions(discovery: Discovery, *, read_only: bool) -> list[Permission]:
    """Return the permissions that the portal needs, without kinds that the cluster does not serve."""
    return [
        permission
        for permission in permissions(read_only=read_only)
        if permission.resource != "devicetaintrules" or discovery.taint_rules is not None
    ]


def _way(credentials: Credentials) -> Iterator[CheckupFinding]:
    description = "Address"
    if credentials.server.startswith("http:"):
        yield CheckupFinding(
            CheckupVerdict.NOTE, description, f"{credentials.address}: without TLS; others can read along"
        )
    elif credentials.insecure:
        yield CheckupFinding(
            CheckupVerdict.NOTE,
            description,
            f"{credentials.address}: its certificate is not checked; anybody can pretend to be it",
        )
    else:
        yield CheckupFinding(CheckupVerdict.GOOD, description, credentials.address)


def _identity(uid: str, known_as: str) -> CheckupFinding:
    description = "Identity"
    if known_as and uid != known_as:
        return CheckupFinding(
            CheckupVerdict.BAD,
            description,
            f"kube-system has uid {uid}, and the mirror is of {known_as}: this is another cluster",
        )
    return CheckupFinding(CheckupVerdict.GOOD, description, uid)


def _taint_rules(discovery: Discovery) -> CheckupFinding:
    subject = "DeviceTaintRules"
    if discovery.taint_rules is None:
        return CheckupFinding(CheckupVerdict.NOTE, subject, "not served; devices cannot be tainted by rule")
    return CheckupFinding(CheckupVerdict.GOOD, subject, discovery.taint_rules.api_version)


def _writes_quotas(permission: Permission) -> bool:
    return permission.resource == "resourcequotas" and permission.verb not in READ


def _permission(gateway: Gateway, permission: Permission, *, needed: bool) -> CheckupFinding:
    resource = ".".join(filter(None, (permission.resource, permission.group)))
    description = f"{permission.verb} {resource}"
    if gateway.allowed(permission):
        return CheckupFinding(CheckupVerdict.GOOD, description, "allowed")
    if not needed:
        return CheckupFinding(
            CheckupVerdict.NOTE, description, "missing; needed where quotas are written to the cluster"
        )
    return CheckupFinding(
        CheckupVerdict.BAD, description, "missing; “manage.py cluster rbac” prints the role that grants it"
    )
