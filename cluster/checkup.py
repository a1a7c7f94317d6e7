"""Does a connection work, and what do its credentials lack: one finding after another, for a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from cluster.credentials import Credentials
from cluster.errors import ClusterError
from cluster.protocol import Discovery, Gateway, Permission
from cluster.rbac import READ, permissions


class Verdict(StrEnum):
    GOOD = "good"
    NOTE = "note"  # works, and somebody should know
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    what: str
    detail: str


def checkup(
    credentials: Credentials,
    gateway: Gateway,
    *,
    uid: str = "",
    read_only: bool = False,
    write_quotas: bool = True,
) -> Iterator[Finding]:
    """
    Yield findings, the way there first. Ends early where nothing more can be known. Raises nothing.

    Without `write_quotas` it is only noted that the portal may not write quotas.
    """
    yield from _way(credentials)
    try:
        found = gateway.discover()
        yield Finding(Verdict.GOOD, "Kubernetes", found.version)
        yield _identity(gateway.identity(), uid)
        yield _taint_rules(found)
        for permission in wanted(found, read_only=read_only):
            yield _permission(gateway, permission, needed=write_quotas or not _writes_quotas(permission))
    except ClusterError as problem:
        yield Finding(Verdict.BAD, str(problem.title), problem.message)


def wanted(found: Discovery, *, read_only: bool) -> list[Permission]:
    """Return what the portal needs of this cluster: not what it does not serve."""
    return [
        permission
        for permission in permissions(read_only=read_only)
        if permission.resource != "devicetaintrules" or found.taint_rules is not None
    ]


def _way(credentials: Credentials) -> Iterator[Finding]:
    what = "Address"
    if credentials.server.startswith("http:"):
        yield Finding(Verdict.NOTE, what, f"{credentials.address}: without TLS; others can read along")
    elif credentials.insecure:
        yield Finding(
            Verdict.NOTE,
            what,
            f"{credentials.address}: its certificate is not checked; anybody can pretend to be it",
        )
    else:
        yield Finding(Verdict.GOOD, what, credentials.address)


def _identity(uid: str, known_as: str) -> Finding:
    what = "Identity"
    if known_as and uid != known_as:
        return Finding(
            Verdict.BAD,
            what,
            f"kube-system has uid {uid}, and the mirror is of {known_as}: this is another cluster",
        )
    return Finding(Verdict.GOOD, what, uid)


def _taint_rules(found: Discovery) -> Finding:
    what = "DeviceTaintRules"
    if found.taint_rules is None:
        return Finding(Verdict.NOTE, what, "not served; devices cannot be tainted by rule")
    return Finding(Verdict.GOOD, what, found.taint_rules.api_version)


def _writes_quotas(permission: Permission) -> bool:
    return permission.resource == "resourcequotas" and permission.verb not in READ


def _permission(gateway: Gateway, permission: Permission, *, needed: bool) -> Finding:
    resource = ".".join(filter(None, (permission.resource, permission.group)))
    what = f"{permission.verb} {resource}"
    if gateway.allowed(permission):
        return Finding(Verdict.GOOD, what, "allowed")
    if not needed:
        return Finding(Verdict.NOTE, what, "missing; needed where quotas are written to the cluster")
    return Finding(Verdict.BAD, what, "missing; “manage.py cluster rbac” prints the role that grants it")
