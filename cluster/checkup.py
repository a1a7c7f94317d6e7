"""
Permissions of the portal in a cluster, and the check of a connection.

The rules below are the single list: the printed manifest grants them, `manage.py cluster check` asks for
them, and the tests use only the portal's identity. Never granted: `resourceclaims/status`, `/binding` and
`/driver`, which belong to the scheduler and the drivers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

import yaml

from cluster.credentials import Credentials
from cluster.protocol import (
    DRA,
    ClusterError,
    ClusterInvalid,
    Discovery,
    Gateway,
    Permission,
    Refused,
    Unreachable,
)
from core.times import relative

READ = ("get", "list", "watch")
WRITE = ("create", "patch", "delete")

CLAIMS = (DRA, ("resourceclaims", "resourceclaimtemplates"))
QUOTAS = ("", ("resourcequotas",))
EVICTIONS = ("", ("pods/eviction",))
TOKEN_REVIEWS = ("authentication.k8s.io", ("tokenreviews",))
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
# Before the token expires, give the portal a new one: on the settings page of the cluster, or with
#   manage.py cluster add NAME --renew --kubeconfig FILE
"""


class RbacRule(NamedTuple):
    """A rule of a role; without `names` for all objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def permissions(
    *,
    read_only: bool = False,
    write_quotas: bool = False,
    evict_pods: bool = False,
    review_tokens: bool = False,
) -> list[Permission]:
    """Return the permissions that `manifest` grants, in every namespace."""
    return [
        Permission(verb, resource, rule.group, subresource=subresource, name=name)
        for rule in _rules(
            read_only=read_only,
            write_quotas=write_quotas,
            evict_pods=evict_pods,
            review_tokens=review_tokens,
        )
        for resource, _slash, subresource in (path.partition("/") for path in rule.resources)
        for verb in rule.verbs
        for name in rule.names or ("",)
    ]


def manifest(
    *,
    read_only: bool = False,
    write_quotas: bool = False,
    evict_pods: bool = False,
    review_tokens: bool = False,
    name: str = "dragoman",
    namespace: str = "dragoman",
) -> str:
    """Return the YAML that a cluster admin applies: namespace, service account, role and binding."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    scope = "read-only: inventory" if read_only else "full: also creates and deletes claims"
    scope += " and writes quotas" if write_quotas and not read_only else ""
    scope += " and evicts pods" if evict_pods and not read_only else ""
    scope += " and reviews tokens of pods" if review_tokens else ""
    rules = _rules(
        read_only=read_only,
        write_quotas=write_quotas,
        evict_pods=evict_pods,
        review_tokens=review_tokens,
    )
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


def _rules(*, read_only: bool, write_quotas: bool, evict_pods: bool, review_tokens: bool) -> list[RbacRule]:
    """Return the rules. Kubernetes cannot limit "create" to names: they are not known yet."""
    rules = [
        RbacRule(*resources, READ + WRITE if resources == CLAIMS and not read_only else READ)
        for resources in READS
    ]
    if write_quotas and not read_only:
        rules += [
            RbacRule(*QUOTAS, ("create",)),
            RbacRule(*QUOTAS, ("patch", "delete"), (QUOTA_NAME,)),
        ]
    if evict_pods and not read_only:
        rules.append(RbacRule(*EVICTIONS, ("create",)))
    if review_tokens:
        rules.append(RbacRule(*TOKEN_REVIEWS, ("create",)))
    return rules


def _written(rule: RbacRule) -> dict[str, list[str]]:
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
    """What was checked, with what result; `remedy` is a sentence on what to do, empty if nothing."""

    verdict: CheckupVerdict
    subject: str
    detail: str
    remedy: str = ""


def by_verdict(findings: Sequence[CheckupFinding], problem: str = "") -> dict[str, Any]:
    """Return findings as a page shows them: those to look at, failed ones first, and those that passed."""
    failed, notes, passed = (
        [finding for finding in findings if finding.verdict == verdict]
        for verdict in (CheckupVerdict.BAD, CheckupVerdict.NOTE, CheckupVerdict.GOOD)
    )
    return {
        "problem": problem,
        "failed": len(failed) + bool(problem),
        "open": [*failed, *notes],
        "passed": passed,
    }


RENEWAL = timedelta(days=14)  # before credentials expire, the check says so
APPLY_AGAIN = (
    "Apply the permissions again: they are on the settings page of the cluster, and "
    "“manage.py cluster rbac{option}” prints them."
)
REMEDIES: dict[type[ClusterError], str] = {
    Unreachable: "Compare the address with that of the API server, and check that this portal reaches it.",
    Refused: "Apply the permissions again. If the token has expired, replace the credentials.",
    ClusterInvalid: "The oldest Kubernetes that works is 1.34.",
}


def checkup(
    credentials: Credentials,
    gateway: Gateway,
    *,
    uid: str = "",
    read_only: bool = False,
    write_quotas: bool = True,
    evict_pods: bool = True,
    review_tokens: bool = False,
) -> Iterator[CheckupFinding]:
    """
    Yield findings, the way there first. Ends early where nothing more can be known. Raises nothing.

    Without `write_quotas` it is only noted that the portal may not write quotas; with `evict_pods` and
    `review_tokens` alike.
    """
    opted_in = {"write_quotas": write_quotas, "evict_pods": evict_pods, "review_tokens": review_tokens}
    yield from _way(credentials)
    yield from _validity(credentials)
    try:
        discovery = gateway.discover()
        yield CheckupFinding(CheckupVerdict.GOOD, "Kubernetes", discovery.version)
        yield _identity(gateway.identity(), uid)
        yield _taint_rules(discovery)
        for permission in needed_permissions(discovery, read_only=read_only):
            option = _option_of(permission)
            yield _permission(gateway, permission, option, needed=option is None or opted_in[option.name])
    except ClusterError as problem:
        remedy = REMEDIES.get(type(problem), "")
        yield CheckupFinding(CheckupVerdict.BAD, str(problem.title), problem.message, remedy)


def needed_permissions(discovery: Discovery, *, read_only: bool) -> list[Permission]:
    """Return the permissions that the portal needs, without kinds that the cluster does not serve."""
    return [
        permission
        for permission in permissions(
            read_only=read_only, write_quotas=True, evict_pods=True, review_tokens=True
        )
        if permission.resource != "devicetaintrules" or discovery.taint_rules is not None
    ]


def _way(credentials: Credentials) -> Iterator[CheckupFinding]:
    description = "Address"
    if credentials.server.startswith("http:"):
        yield CheckupFinding(
            CheckupVerdict.NOTE,
            description,
            f"{credentials.address}: no TLS: traffic is not encrypted",
            "Use an address that starts with https://.",
        )
    elif credentials.insecure:
        yield CheckupFinding(
            CheckupVerdict.NOTE,
            description,
            f"{credentials.address}: its certificate is not checked; anybody can pretend to be it",
            "Put the certificate of its CA into the credentials.",
        )
    else:
        yield CheckupFinding(CheckupVerdict.GOOD, description, credentials.address)


def _validity(credentials: Credentials) -> Iterator[CheckupFinding]:
    """Yield how long the credentials are valid, if they say it."""
    expires_at, now = credentials.expires_at, datetime.now(UTC)
    if expires_at is None:
        return
    detail = f"expire {relative(expires_at, now=now)}"
    remedy = "Replace the credentials on the settings page of the cluster."
    if expires_at <= now:
        yield CheckupFinding(CheckupVerdict.BAD, "Credentials", detail.replace("expire ", "expired "), remedy)
    elif expires_at <= now + RENEWAL:
        yield CheckupFinding(CheckupVerdict.NOTE, "Credentials", detail, remedy)
    else:
        yield CheckupFinding(CheckupVerdict.GOOD, "Credentials", detail)


def _identity(uid: str, known_as: str) -> CheckupFinding:
    description = "Identity"
    if known_as and uid != known_as:
        return CheckupFinding(
            CheckupVerdict.BAD,
            description,
            f"kube-system has uid {uid}, and the mirror is of {known_as}: this is another cluster",
            "Upload credentials of the cluster that was added, or add this one under its own name.",
        )
    return CheckupFinding(CheckupVerdict.GOOD, description, uid)


def _taint_rules(discovery: Discovery) -> CheckupFinding:
    subject = "DeviceTaintRules"
    if discovery.taint_rules is None:
        return CheckupFinding(CheckupVerdict.NOTE, subject, "not served; devices cannot be tainted by rule")
    return CheckupFinding(CheckupVerdict.GOOD, subject, discovery.taint_rules.api_version)


class RbacOption(NamedTuple):
    """A permission that is granted on request only: the option of the command, and where it is needed."""

    name: str
    needed_where: str

    @property
    def flag(self) -> str:
        return f" --{self.name.replace('_', '-')}"


WRITE_QUOTAS = RbacOption("write_quotas", "quotas are written to the cluster")
EVICT_PODS = RbacOption("evict_pods", "the end policy is to evict pods, or to ask before")
REVIEW_TOKENS = RbacOption("review_tokens", "pods get API tokens with their service account")


def _option_of(permission: Permission) -> RbacOption | None:
    if permission.subresource == "eviction":
        return EVICT_PODS
    if permission.resource == "tokenreviews":
        return REVIEW_TOKENS
    writes_quotas = permission.resource == "resourcequotas" and permission.verb not in READ
    return WRITE_QUOTAS if writes_quotas else None


def _permission(
    gateway: Gateway, permission: Permission, option: RbacOption | None, *, needed: bool
) -> CheckupFinding:
    path = "/".join(filter(None, (permission.resource, permission.subresource)))
    resource = ".".join(filter(None, (path, permission.group)))
    description = f"{permission.verb} {resource}" + (f" “{permission.name}”" if permission.name else "")
    if gateway.allowed(permission):
        return CheckupFinding(CheckupVerdict.GOOD, description, "allowed")
    if option is not None and not needed:
        return CheckupFinding(
            CheckupVerdict.NOTE, description, f"missing; needed where {option.needed_where}"
        )
    remedy = APPLY_AGAIN.format(option=option.flag if option else "")
    return CheckupFinding(CheckupVerdict.BAD, description, "missing", remedy)
