"""How each of the five programs is started. Flags tried on 1.37.1."""

from pathlib import Path

import yaml

ETCD, APISERVER, CONTROLLERS = "etcd", "kube-apiserver", "kube-controller-manager"
SCHEDULER, KWOK = "kube-scheduler", "kwok"
STAGES = Path(__file__).parent / "kwok"


def etcd(binary: Path, folder: Path, port: int, peer_port: int) -> list[str]:
    return [
        str(binary),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
        "--unsafe-no-fsync",  # the data lives as long as the tests
        "--log-level=warn",
    ]


def apiserver(binary: Path, folder: Path, port: int, etcd_port: int) -> list[str]:
    return [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--cert-dir={folder / 'certificates'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--service-account-key-file={folder / 'service-account.pub'}",
        f"--service-account-signing-key-file={folder / 'service-account.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        # No kubelet mounts tokens here, and no node lifecycle controller would take the not-ready taint away.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--endpoint-reconciler-type=none",
        # Watches end and time out within the patience of a test.
        "--min-request-timeout=300",
    ]


def controllers(binary: Path, folder: Path) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={folder / 'controller-manager.kubeconfig'}",
        f"--service-account-private-key-file={folder / 'service-account.key'}",
        "--leader-elect=false",
        "--secure-port=0",
        "--controllers=*,-nodeipam,-nodelifecycle",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(binary: Path, folder: Path) -> list[str]:
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(folder / "scheduler.kubeconfig"), "qps": 200, "burst": 400},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,  # a test does not wait 10 s for the next try
    }
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(settings))
    return [str(binary), f"--config={folder / 'scheduler.yaml'}", "--secure-port=0"]


def kwok(binary: Path, folder: Path) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={folder / 'kwok.kubeconfig'}",
        "--manage-all-nodes=true",
        f"--config={STAGES / 'node.yaml'}",
        f"--config={STAGES / 'pod.yaml'}",
        "--node-ip=127.0.0.1",
        # A kwok that is started again takes the nodes over when the leases of the one before have run out.
        "--node-lease-duration-seconds=4",
    ]
