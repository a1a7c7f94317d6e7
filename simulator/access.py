"""
Who may do what. Three bearer tokens, the same in every simulated cluster: this server listens on the loopback
address and guards nothing but pretence, so they are no secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator import errors
from simulator.errors import ApiError
from simulator.resources import DRA, Resource

READ = ("get", "list", "watch")
WRITE = ("create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class AccessRule:
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def allows(self, verb: str, group: str, resource: str) -> bool:
        return (
            self.group in {"*", group}
            and ("*" in self.resources or resource in self.resources)
            and ("*" in self.verbs or verb in self.verbs)
        )


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    rules: tuple[AccessRule, ...]

    def may(self, verb: str, group: str, resource: str) -> bool:
        return any(rule.allows(verb, group, resource) for rule in self.rules)


CORE_READ = AccessRule("", ("pods", "namespaces", "nodes", "events", "resourcequotas"), READ)
DRA_KINDS = (
    "deviceclasses",
    "resourceslices",
    "resourceclaims",
    "resourceclaimtemplates",
    "devicetaintrules",
)
DRA_READ = AccessRule(DRA, DRA_KINDS, READ)

IDENTITIES: Mapping[str, Identity] = {
    "simulator-admin": Identity("admin", (AccessRule("*", ("*",), ("*",)),)),
    "simulator-portal": Identity(
        "system:serviceaccount:dragoman:dragoman",
        (
            CORE_READ,
            DRA_READ,
            AccessRule(DRA, ("resourceclaims", "resourceclaimtemplates"), WRITE),
            AccessRule("", ("resourcequotas",), WRITE),
        ),
    ),
    "simulator-viewer": Identity("viewer", (CORE_READ, DRA_READ)),
}
TOKENS = {"admin": "simulator-admin", "portal": "simulator-portal", "viewer": "simulator-viewer"}


def identify(authorization: str) -> Identity:
    """Raise ApiError 401 without a known bearer token."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or token not in IDENTITIES:
        raise errors.unauthorized()
    return IDENTITIES[token]


def refusal(who: Identity, verb: str, resource: Resource, namespace: str, name: str, part: str) -> ApiError:
    """Return the 403 that names the missing verb and resource."""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    what = f"{resource.plural}/{part}" if part else resource.plural
    why = f'User "{who.name}" cannot {verb} resource "{what}" in API group "{resource.group}" {where}'
    return errors.forbidden(resource, name, why)
