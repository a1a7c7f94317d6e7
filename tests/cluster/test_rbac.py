"""The role of the portal: what it says, and that nothing more stands in it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from claims.quotas.resource_quota import NAME
from cluster.checkup import manifest, permissions
from cluster.protocol import Permission

DEPLOY = Path(__file__).parents[2] / "deploy/kubernetes"


def granted(text: str) -> set[Permission]:
    (role,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "ClusterRole")
    return {
        Permission(verb, resource, group, subresource=subresource, name=name)
        for rule in role["rules"]
        for name in rule.get("resourceNames", [""])
        for group in rule["apiGroups"]
        for resource, _slash, subresource in (path.partition("/") for path in rule["resources"])
        for verb in rule["verbs"]
    }


ROLES: list[dict[str, Any]] = [
    {"read_only": True},
    {"read_only": False},
    {"write_quotas": True},
    {"evict_pods": True},
    {"review_tokens": True},
]
FILES = (
    *("rbac-read-only.yaml", "rbac.yaml", "rbac-write-quotas.yaml", "rbac-evict-pods.yaml"),
    "rbac-review-tokens.yaml",
)


@pytest.mark.parametrize("role", [*ROLES, {"read_only": True, "write_quotas": True, "evict_pods": True}])
def test_the_manifest_grants_exactly_what_is_checked(role):
    assert granted(manifest(**role)) == set(permissions(**role))


def test_reading_is_get_list_and_watch():
    assert {permission.verb for permission in permissions(read_only=True)} == {"get", "list", "watch"}


def test_only_claims_and_templates_are_written():
    written = set(permissions()) - set(permissions(read_only=True))
    assert {permission.resource for permission in written} == {"resourceclaims", "resourceclaimtemplates"}
    assert {permission.verb for permission in written} == {"create", "patch", "delete"}


def test_quotas_are_written_on_request_only_and_only_those_of_the_portal():
    more = set(permissions(write_quotas=True)) - set(permissions())
    assert {(permission.verb, permission.resource, permission.name) for permission in more} == {
        ("create", "resourcequotas", ""),
        ("patch", "resourcequotas", NAME),
        ("delete", "resourcequotas", NAME),
    }
    assert permissions(read_only=True, write_quotas=True) == permissions(read_only=True)


def test_pods_are_evicted_on_request_only_and_never_deleted():
    more = set(permissions(evict_pods=True)) - set(permissions())
    assert more == {Permission("create", "pods", subresource="eviction")}
    assert permissions(read_only=True, evict_pods=True) == permissions(read_only=True)
    both = set(permissions(write_quotas=True, evict_pods=True))
    assert both == set(permissions(write_quotas=True)) | more
    deleted = {permission.resource for permission in both if permission.verb == "delete"}
    assert "pods" not in deleted


def test_tokens_are_reviewed_on_request_only():
    more = set(permissions(review_tokens=True)) - set(permissions())
    assert more == {Permission("create", "tokenreviews", "authentication.k8s.io")}


def test_the_suggested_token_lasts_90_days_and_is_renewed_with_a_command():
    head = manifest().partition("apiVersion")[0]
    assert "--duration 2160h" in head
    assert "manage.py cluster add NAME --renew --kubeconfig FILE" in head


@pytest.mark.parametrize("text", [manifest(**role) for role in ROLES])
def test_nothing_is_granted_that_would_be_too_much(text):
    permissions_of_text = list(granted(text))
    assert permissions_of_text
    for permission in permissions_of_text:
        assert "*" not in (permission.verb, permission.resource, permission.group)
        # status, binding and driver belong to others
        assert permission.subresource in {"", "eviction"}
        assert permission.resource not in {"secrets", "serviceaccounts", "clusterroles"}


@pytest.mark.parametrize(
    ("file", "role"),
    list(zip(FILES, ROLES, strict=True)),
)
def test_the_files_to_apply_are_what_the_command_prints(file, role):
    assert (DEPLOY / file).read_text() == manifest(**role)
