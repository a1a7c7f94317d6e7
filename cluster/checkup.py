"""
Permissions of the portal in a cluster, and the check of a connection.

The rules below are the single list: the printed manifest grants them, `manage.py cluster check` asks for
them, and the tests use only the portal's identity. Never granted: `resourceclaims/status`, `/binding` and
`/driver`, which belong to the scheduler and the drivers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import yaml

from cluster.credentials import Credentials
from cluster.protocol import DRA, ClusterError, Discovery, Gateway, Permission

READ = ("get", "list", "watch")
WRITE = ("create", "patch", "delete")

CLAIMS = (DRA, ("resourceclaims", "resourceclaimtemplates"))
QUOTAS = ("", ("resourcequotas",))
QUOTA_NAME = "dragoman"  # of the ResourceQuota in each namespace of a team

# (group, resources) that every portal reads.
READS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (DRA, ("deviceclasses", "resourceslices", "devicetaintrules")),
    CLAIMS,
    ("", ("namespaces", "nodes", "pods", "events")),
    QUOTAS,
)

HEAD = """\
# Permissions that Dragoman needs in this cluster ({what}).
# Apply it as a cluster admin, then create a token of 90 days for its kubeconfig:
#   kubectl apply -f this-file.yaml
#   kubectl create token {name} --namespace {namespace} --duration 2160h
# Before the token expires, put a new one into the kubeconfig and give it to the portal:
#   manage.py cluster add NAME --renew --kubeconfig FILE
"""


class Rule(NamedTuple):
    """A rule of a role; without `names` for all objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def permissions(*, read_only: bool = False, write_quotas: bool = False) -> list[Permission]:
    """Return the permissions that `manifest` grants, in every namespace."""
    return [
        Permission(verb, resource, rule.group, name=name)
        for rule in _rules(read_only=read_only, write_quotas=write_quotas)
        for resource in rule.resources
        for verb in rule.verbs
        for name in rule.names or ("",)
    ]


def manifest(
    *,
    read_only: bool = False,
    write_quotas: bool = False,
    name: str = "dragoman",
    namespace: str = "dragoman",
) -> str:
    """Return the YAML that a cluster admin applies: namespace, service account, role and binding."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    scope = "read-only: inventory" if read_only else "full: also creates and deletes claims"
    scope += " and writes quotas" if write_quotas and not read_only else ""
    rules = _rules(read_only=read_only, write_quotas=write_quotas)
    head = HEAD.format(what=scope, name=name, namespace=namespace)
    return head + yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": namespace},
            },
            {**_rbac("ClusterRole", name), "rules": list(map(_written, rules))},
            {**_rbac("ClusterRoleBinding", name), "roleRef": role, "subjects": [subject]},
        ],
        sort_keys=False,
    )


def _rules(*, read_only: bool, write_quotas: bool) -> list[Rule]:
    """Return the rules. Kubernetes cannot limit "create" to names: they are not known yet."""
    rules = [
        Rule(*resources, READ + WRITE if resources == CLAIMS and not read_only else READ)
        for resources in READS
    ]
    if write_quotas and not read_only:
        rules += [Rule(*QUOTAS, ("create",)), Rule(*QUOTAS, ("patch", "delete"), (QUOTA_NAME,))]
    return rules


def _written(rule: Rule) -> dict[str, list[str]]:
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": [rule.group], "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}


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
        for permission in permissions(read_only=read_only, write_quotas=True)
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
    description = f"{permission.verb} {resource}" + (f" “{permission.name}”" if permission.name else "")
    if gateway.allowed(permission):
        return CheckupFinding(CheckupVerdict.GOOD, description, "allowed")
    if not needed:
        return CheckupFinding(
            CheckupVerdict.NOTE, description, "missing; needed where quotas are written to the cluster"
        )
    option = " --write-quotas" if _writes_quotas(permission) else ""
    return CheckupFinding(
        CheckupVerdict.BAD,
        description,
        f"missing; “manage.py cluster rbac{option}” prints the role that grants it",
    )
