"""JupyterHub: what KubeSpawner is told, as its Python configuration and as values of the Helm chart."""

from __future__ import annotations

from pprint import pformat
from textwrap import indent

from dra.objects import Manifest
from dra.workloads.pods import (
    claim_source,
    claim_wanted,
    container_security,
    mounts,
    placement,
    pod_security,
    tolerations,
    unlabelled,
    volumes,
)
from dra.workloads.servers import jupyter_program
from dra.workloads.use import ASSUMED, Options, Use

WIDTH = 96


def config(use: Use, options: Options) -> str:
    """Return lines for jupyterhub_config.py; what other lines set is added to, not replaced."""
    program = jupyter_program(use)
    lines = [_assigned("image", options.image or program.image), *_settings(use, options)]
    if found := volumes(options, program):
        lines.append(_added("volumes", "extend", found))
        lines.append(_added("volume_mounts", "extend", mounts(options, program)))
    return "\n".join(lines) + "\n"


def values(use: Use, options: Options) -> Manifest:
    """Return values of the chart zero-to-jupyterhub: what it has no value for is Python in extraConfig."""
    program = jupyter_program(use)
    name, tag = _split(options.image or program.image)
    user: Manifest = {"image": {"name": name, "tag": tag}}
    if found := volumes(options, program):
        user["storage"] = {"extraVolumes": found, "extraVolumeMounts": mounts(options, program)}
    python = "\n".join(_settings(use, options))
    return {"singleuser": user, "hub": {"extraConfig": {"gpu-claim": python}}}


def _settings(use: Use, options: Options) -> list[str]:
    wanted = {"resources": {"claims": [claim_wanted(options)]}}
    lines = [
        _added("extra_pod_config", "update", {"resourceClaims": [claim_source(use)]}),
        _added("extra_container_config", "update", wanted),
    ]
    if options.priority:
        lines.append(_assigned("priority_class_name", options.priority))
    if selector := placement(options).get("nodeSelector"):
        lines.append(_added("node_selector", "update", selector))
    if options.capacity == ASSUMED:
        lines.append(_added("node_affinity_required", "extend", [unlabelled()]))
    if options.tolerate:
        lines.append(_added("tolerations", "extend", tolerations(options)))
    if options.restricted:
        lines.append(_assigned("pod_security_context", pod_security(jupyter_program(use))))
        lines.append(_assigned("container_security_context", container_security()))
    return lines


def _assigned(trait: str, value: object) -> str:
    return f"c.KubeSpawner.{trait} = {pformat(value, width=WIDTH, sort_dicts=False)}"


def _added(trait: str, how: str, value: object) -> str:
    written = indent(pformat(value, width=WIDTH, sort_dicts=False), "    ")
    return f"c.KubeSpawner.{trait}.{how}(\n{written}\n)"


def _split(image: str) -> tuple[str, str]:
    """Split "registry:5000/name:tag". The chart joins them with a colon, so "@sha256" stays with the name."""
    name, at, digest = image.partition("@")
    if at:
        kind, _colon, value = digest.partition(":")
        return f"{name}@{kind}", value
    head, slash, last = image.rpartition("/")
    last, _colon, tag = last.partition(":")
    return f"{head}{slash}{last}", tag or "latest"
