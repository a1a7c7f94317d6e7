"""Devices that a pod asks for by number, as extended resources, instead of by claims."""

from typing import Any

IMPLICIT = "deviceclass.resource.kubernetes.io/"  # the name that a device class has by itself, KEP 5004


def is_extended(name: str) -> bool:
    """Tell by the rule of Kubernetes: a name with a domain that is not one of Kubernetes' own."""
    domain, slash, _rest = name.partition("/")
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests.")
    return name.startswith(IMPLICIT) or bool(slash and not own)


def asked_by(spec: dict[str, Any]) -> dict[str, int]:
    """
    Return how many of each extended resource the spec of a pod takes while it runs.

    The containers' add up; an init container runs before them, so only the largest counts beside them. A
    quantity that is no whole number is refused by the API server and left out here.
    """
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, count in _of(container).items():
            total[name] = total.get(name, 0) + count
    for container in spec.get("initContainers") or ():
        for name, count in _of(container).items():
            total[name] = max(total.get(name, 0), count)
    return total


def _of(container: dict[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {
        name: int(str(value)) for name, value in wanted.items() if is_extended(name) and str(value).isdigit()
    }
