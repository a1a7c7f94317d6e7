"""/version, /api, /apis and below: what a client may ask this server for."""

from typing import Any

from simulator.resources import RESOURCES, VERBS, Resource

GIT_VERSION = "v1.37.1+simulated"


def version() -> dict[str, Any]:
    return {
        "major": "1",
        "minor": "37",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def core_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups() -> dict[str, Any]:
    names = sorted({resource.group for resource in RESOURCES if resource.group} | {"authorization.k8s.io"})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def group(name: str) -> dict[str, Any] | None:
    found = next((entry for entry in groups()["groups"] if entry["name"] == name), None)
    return {"kind": "APIGroup", "apiVersion": "v1"} | found if found else None


def resources(group_name: str, api_version: str) -> dict[str, Any] | None:
    """Return the kinds of one group version, or None if it is not served."""
    if (group_name, api_version) == ("authorization.k8s.io", "v1"):
        found = [_review()]
    else:
        served = [r for r in RESOURCES if (r.group, r.version) == (group_name, api_version)]
        found = [entry for resource in sorted(served, key=lambda r: r.plural) for entry in _entries(resource)]
    if not found:
        return None
    together = f"{group_name}/{api_version}" if group_name else api_version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": together, "resources": found}


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _entries(resource: Resource) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    if not resource.status:
        return [entry]
    status = {key: entry[key] for key in ("namespaced", "kind")}
    name = {"name": f"{resource.plural}/status", "singularName": ""}
    return [entry, name | status | {"verbs": ["get", "patch", "update"]}]


def _review() -> dict[str, Any]:
    return {
        "name": "selfsubjectaccessreviews",
        "singularName": "selfsubjectaccessreview",
        "namespaced": False,
        "kind": "SelfSubjectAccessReview",
        "verbs": ["create"],
    }
