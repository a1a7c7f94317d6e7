"""
What the portal may do in a cluster, and not a verb more.

The rules below are the one list: the printed manifest grants it, `manage.py cluster check` asks for it, and
the tests work through the portal's identity alone. Never granted: `resourceclaims/status`, `/binding` and
`/driver`, which belong to the scheduler and the drivers.
"""

from typing import Any

import yaml

from cluster.kinds import DRA
from cluster.protocol import Permission

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
# What Dragoman needs in this cluster ({what}).
# Apply it as a cluster admin, then make a token for the portal's kubeconfig:
#   kubectl apply -f this-file.yaml
#   kubectl create token {name} --namespace {namespace} --duration 8760h
"""


def permissions(*, read_only: bool = False) -> list[Permission]:
    """Return what `manifest` grants, one (verb, resource) each, in every namespace."""
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
    what = (
        "read-only: it shows what there is"
        if read_only
        else "full: it also makes and deletes claims, and keeps quotas"
    )
    return HEAD.format(what=what, name=name, namespace=namespace) + yaml.safe_dump_all(
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
