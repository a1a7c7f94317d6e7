"""
Admission policies that refuse unmanaged claims. A cluster admin reads and applies them.

They act only in namespaces with the label `MODE`, so that they can be introduced namespace by namespace. The
portal's own account cannot create policies.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

import yaml

from core.errors import Invalid

ACCOUNT = "system:serviceaccount:dragoman:dragoman"
MODE = ("gpu.dragoman.dev/gpu-mode", "dra-only")
ADMISSION = "admissionregistration.k8s.io/v1"
DRA = "resource.k8s.io"
# Kubernetes creates claims from templates, adds finalizers, and deletes claims.
SYSTEM = (
    "system:kube-scheduler",
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:resource-claim-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)
# Names by which device plugins hand GPUs out, and the implicit one of every class (Kubernetes 1.35).
GPU_NAMES = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/", "deviceclass.resource.kubernetes.io/")
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"

USER_NAME = re.compile(r"[A-Za-z0-9:._@/-]{1,253}")  # nothing that could end the text in an expression

type Manifest = dict[str, Any]


class PolicyAction(StrEnum):
    """What happens to what a policy does not allow; WARN lets it pass and tells whoever sent it."""

    DENY = "Deny"
    WARN = "Warn"


def claims_only() -> Manifest:
    """Pods get GPUs only through ResourceClaims, not as extended resources."""
    requests_devices = " || ".join(f"k.startsWith('{name}')" for name in GPU_NAMES)
    containers = (
        f"c.?resources.?limits.orValue({{}}).exists(k, {requests_devices}) || "
        f"c.?resources.?requests.orValue({{}}).exists(k, {requests_devices})"
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _on("", ["v1"], ["CREATE"], ["pods"]),
        "variables": [
            {
                "name": "containers",
                "expression": "object.spec.containers + object.spec.?initContainers.orValue([])",
            },
            {"name": "extended", "expression": f"variables.containers.exists(c, {containers})"},
        ],
        "validations": [
            {
                "expression": "!variables.extended",
                "message": "This namespace takes GPUs through ResourceClaims only: remove the GPU from the "
                "resources of the container and ask the GPU portal for a claim.",
                "reason": "Forbidden",
            }
        ],
    }


def from_portal(account: str) -> Manifest:
    """Only the portal creates ResourceClaims and templates, and Kubernetes from the portal's templates."""
    made_by_controller = (
        "!(request.resource.resource == 'resourceclaims' && request.userInfo.username in "
        "['system:serviceaccount:kube-system:resource-claim-controller', 'system:kube-controller-manager'])"
    )
    made_by_scheduler = (
        "!(request.resource.resource == 'resourceclaims' && "
        "request.userInfo.username == 'system:kube-scheduler' && "
        f"object.metadata.?annotations[?'{EXTENDED_CLAIM}'].orValue('') == 'true')"
    )
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _on(DRA, ["*"], ["CREATE"], ["resourceclaims", "resourceclaimtemplates"]),
        "matchConditions": [
            {"name": "not-the-portal", "expression": f"request.userInfo.username != '{account}'"},
            {"name": "not-the-claim-controller", "expression": made_by_controller},
            {"name": "not-the-scheduler", "expression": made_by_scheduler},
        ],
        "validations": [
            {
                "expression": "false",
                "messageExpression": "'ResourceClaims and templates are made by the GPU portal, not by ' + "
                "request.userInfo.username",
                "reason": "Forbidden",
            }
        ],
    }


def portal_labels(account: str) -> Manifest:
    """Only the portal changes or deletes objects with its labels, or adds its labels."""
    has_labels = ", ".join(f"'{name}'" for name in (account, *SYSTEM))
    labels = "{}.metadata.?labels.orValue({{}}).exists(k, k.startsWith('gpu.dragoman.dev/'))"
    before = labels.format("oldObject")
    after = labels.format("object")
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _on(
            DRA,
            ["*"],
            ["CREATE", "UPDATE", "DELETE"],
            ["resourceclaims", "resourceclaimtemplates"],
        ),
        "matchConditions": [
            {
                "name": "not-the-portal-or-kubernetes",
                "expression": f"!(request.userInfo.username in [{has_labels}])",
            }
        ],
        "variables": [
            {"name": "before", "expression": f"request.operation != 'CREATE' && {before}"},
            {"name": "after", "expression": f"request.operation != 'DELETE' && {after}"},
        ],
        "validations": [
            {
                "expression": "!variables.before && !variables.after",
                "messageExpression": "'What carries labels of gpu.dragoman.dev/ belongs to the GPU portal; '"
                " + request.userInfo.username + ' may not change it. Release the claim in the portal.'",
                "reason": "Forbidden",
            }
        ],
    }


POLICIES: dict[str, Callable[[str], Manifest]] = {
    "gpu-claims-only": lambda _account: claims_only(),
    "gpu-claims-from-portal": from_portal,
    "gpu-portal-labels": portal_labels,
}


def manifests(
    names: Iterable[str] = tuple(POLICIES),
    *,
    account: str = ACCOUNT,
    action: PolicyAction = PolicyAction.DENY,
) -> list[Manifest]:
    """Return a policy and its binding for each of `names`. Raise `Invalid` for an invalid user name."""
    if not USER_NAME.fullmatch(account):
        raise Invalid(f"“{account}” is not the name of a user or service account.")
    unknown = []
    for name in names:
        unknown += [
            {**_head("ValidatingAdmissionPolicy", name), "spec": POLICIES[name](account)},
            {**_head("ValidatingAdmissionPolicyBinding", name), "spec": _binding(name, action)},
        ]
    return unknown


def to_yaml(names: Iterable[str], *, account: str = ACCOUNT, action: PolicyAction = PolicyAction.DENY) -> str:
    """Return the manifests as a file for the cluster admin."""
    head = (
        f"# Acts in namespaces with the label {MODE[0]}={MODE[1]}:\n"
        f"#   kubectl label namespace NAME {MODE[0]}={MODE[1]}\n"
    )
    return head + yaml.safe_dump_all(
        manifests(names, account=account, action=action), sort_keys=False, width=110
    )


def _on(group: str, versions: list[str], operations: list[str], resources: list[str]) -> Manifest:
    rule = {
        "apiGroups": [group],
        "apiVersions": versions,
        "operations": operations,
        "resources": resources,
    }
    return {"resourceRules": [rule]}


def _binding(name: str, action: PolicyAction) -> Manifest:
    selector = {"matchLabels": dict([MODE])}
    return {
        "policyName": name,
        "validationActions": [str(action)],
        "matchResources": {"namespaceSelector": selector},
    }


def _head(kind: str, name: str) -> Manifest:
    return {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}}
