"""
kubectl for tests that do what documents say: the one on PATH, or a stand-in with the Python client.

`python -m tests.kubectl apply -f FILE`: reads KUBECONFIG, as kubectl does, and knows apply, delete and get.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import yaml

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import POD, ClusterConflict

STAND_IN = f'#!/bin/sh\nPYTHONPATH={Path(__file__).parents[1]} exec {sys.executable} -m tests.kubectl "$@"\n'


def on_path(folder: Path) -> str:
    """Return PATH on which there is a kubectl: the real one, otherwise a stand-in, which `folder` gets."""
    if shutil.which("kubectl"):
        return os.environ["PATH"]
    program = folder / "kubectl"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def main(verb: str, *arguments: str) -> None:
    gateway = connect(seal(from_kubeconfig(Path(os.environ["KUBECONFIG"]).read_text())))
    if verb == "get":
        namespace = arguments[arguments.index("-n") + 1]
        for page in gateway.list(POD, namespace=namespace):
            sys.stdout.write("".join(f"pod/{pod['metadata']['name']}\n" for pod in page.items))
        return
    file = arguments[arguments.index("-f") + 1]
    pod = yaml.safe_load(sys.stdin.read() if file == "-" else Path(file).read_text())
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if verb == "delete":
        gateway.delete(POD, name, namespace=namespace)
        sys.stdout.write(f'pod "{name}" deleted\n')
        return
    try:
        gateway.create(POD, pod)
        sys.stdout.write(f"pod/{name} created\n")
    except ClusterConflict:
        sys.stdout.write(f"pod/{name} unchanged\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
