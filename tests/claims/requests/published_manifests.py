"""The manifests of manifests.yaml, and the pods in them, also of kinds that only operators know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FILES: dict[str, str] = yaml.safe_load(Path(__file__).with_name("manifests.yaml").read_text())
OWN_OF_KSERVE = ("minReplicas", "maxReplicas", "model")


def pods_in(part: Any) -> Iterator[dict[str, Any]]:
    """Yield what an operator would make of each part that has containers, as the spec of a pod."""
    if isinstance(part, list):
        for entry in part:
            yield from pods_in(entry)
    if not isinstance(part, dict):
        return
    own = next(
        (part[key] for key in ("container", "script", "model") if isinstance(part.get(key), dict)), None
    )
    if isinstance(part.get("containers"), list):
        yield {key: value for key, value in part.items() if key not in OWN_OF_KSERVE}
    elif own is not None and "resources" in own:
        patch = yaml.safe_load(part.get("podSpecPatch") or "{}")
        known = {key: own[key] for key in ("image", "env", "resources") if key in own}
        claims = {"resourceClaims": part["resourceClaims"]} if "resourceClaims" in part else {}
        yield {"containers": [{"name": "main", "image": "x"} | known], **claims, **patch}
    else:
        for entry in part.values():
            yield from pods_in(entry)
