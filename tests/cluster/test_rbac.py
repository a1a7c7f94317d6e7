"""The role of the portal: what it says, and that nothing more stands in it."""

from pathlib import Path

import pytest
import yaml

from cluster.checkup import manifest, permissions
from cluster.protocol import Permission

DEPLOY = Path(__file__).parents[2] / "deploy/kubernetes"


def granted(text: str) -> set[Permission]:
    (role,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "ClusterRole")
    return {
        Permission(verb, resource, group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("read_only", [True, False])
def test_the_manifest_grants_exactly_what_is_checked(read_only):
    assert granted(manifest(read_only=read_only)) == set(permissions(read_only=read_only))


def test_reading_is_get_list_and_watch():
    assert {permission.verb for permission in permissions(read_only=True)} == {"get", "list", "watch"}


def test_only_claims_templates_and_quotas_are_written():
    written = set(permissions()) - set(permissions(read_only=True))
    resources = {"resourceclaims", "resourceclaimtemplates", "resourcequotas"}
    assert {permission.resource for permission in written} == resources
    assert {permission.verb for permission in written} == {"create", "patch", "delete"}


@pytest.mark.parametrize("text", [manifest(), manifest(read_only=True)])
def test_nothing_is_granted_that_would_be_too_much(text):
    permissions_of_text = list(granted(text))
    assert permissions_of_text
    for permission in permissions_of_text:
        assert "*" not in (permission.verb, permission.resource, permission.group)
        assert "/" not in permission.resource  # status, binding and driver belong to others
        assert permission.resource not in {"secrets", "serviceaccounts", "clusterroles"}


@pytest.mark.parametrize(("file", "read_only"), [("rbac.yaml", False), ("rbac-read-only.yaml", True)])
def test_the_files_to_apply_are_what_the_command_prints(file, read_only):
    assert (DEPLOY / file).read_text() == manifest(read_only=read_only)
