"""Which programs make a control plane, of which version, and where they lie."""

import os
import re
import shutil
from pathlib import Path

MODULES = Path(__file__).parent / "go"
# program → (folder of the Go module, package to build)
PROGRAMS = {
    "etcd": ("etcd", "."),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}


def version() -> str:
    """Return the version of Kubernetes that go.mod names, "v1.37.1": the one place where it stands."""
    found = re.search(
        r"^require k8s\.io/kubernetes (v\S+)$", (MODULES / "kubernetes/go.mod").read_text(), re.M
    )
    if found is None:
        raise RuntimeError("demo/controlplane/go/kubernetes/go.mod requires no k8s.io/kubernetes.")
    return found[1]


def named_folder() -> Path | None:
    """Return the folder of ready programs that DRAGOMAN_CONTROLPLANE_DIR names."""
    named = os.environ.get("DRAGOMAN_CONTROLPLANE_DIR")
    return Path(named).expanduser() if named else None


def folder() -> Path:
    """Return where the programs lie, or will: outside the checkout, so that every checkout shares them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return named_folder() or cache / "dragoman/controlplane" / version()


def missing() -> list[str]:
    return [name for name in PROGRAMS if not os.access(folder() / name, os.X_OK)]


def why_unusable() -> str:
    """Return why there is no control plane here and none can be built; empty if all is well."""
    absent = missing()
    if not absent:
        return ""
    lacking = f"The control plane lacks {', '.join(absent)} in {folder()}"
    if named_folder():
        return f"{lacking}, which DRAGOMAN_CONTROLPLANE_DIR names."
    if shutil.which("go") is None:
        return f"{lacking}, and Go, which would build them, is not installed (https://go.dev/dl)."
    return ""
