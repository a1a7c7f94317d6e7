"""What stands beside a server: its Service, and a NetworkPolicy that closes all but what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dra.objects import Manifest
from dra.workloads.pods import labels, metadata
from dra.workloads.use import Options, Use

DNS = 53


def service(name: str, use: Use, ports: Sequence[tuple[str, int]], *, headless: bool = False) -> Manifest:
    spec: Manifest = {"clusterIP": "None"} if headless else {}
    spec["selector"] = labels(name)
    if ports:
        spec["ports"] = [{"name": name, "port": number, "targetPort": number} for name, number in ports]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(name, use), "spec": spec}


def policies(
    name: str,
    use: Use,
    options: Options,
    *,
    ports: Sequence[tuple[str, int]] = (),
    between: Sequence[int] = (),
    pods: Mapping[str, str] | None = None,
) -> list[Manifest]:
    """
    Return the policy if the options ask for it.

    Pods of the namespace reach `ports`; the pods themselves reach each other on `between`, and DNS. `pods`
    are their labels where an operator gives them others than `labels`.
    """
    if not options.isolated:
        return []
    chosen = {"matchLabels": dict(pods or labels(name))}
    resolver = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    ingress: list[Manifest] = []
    if ports:
        ingress.append({"from": [{"podSelector": {}}], "ports": _tcp(number for _name, number in ports)})
    egress: list[Manifest] = [
        {
            "to": [resolver],
            "ports": [{"protocol": "UDP", "port": DNS}, {"protocol": "TCP", "port": DNS}],
        }
    ]
    if between:
        ingress.append({"from": [{"podSelector": chosen}], "ports": _tcp(between)})
        egress.append({"to": [{"podSelector": chosen}], "ports": _tcp(between)})
    spec = {
        "podSelector": chosen,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return [{**kind, "metadata": metadata(name, use), "spec": spec}]


def _tcp(numbers: Iterable[int]) -> list[Manifest]:
    return [{"protocol": "TCP", "port": number} for number in numbers]
