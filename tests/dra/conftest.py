"""Manifests of the examples folder."""

from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parent / "examples"


@pytest.fixture(scope="session")
def manifests() -> dict[str, dict[str, Any]]:
    """Every example by "Kind/name"."""
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))]
    found = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


@pytest.fixture(scope="session")
def specs(manifests: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The claim specs of the examples, by name."""
    templates = {
        name: one["spec"]["spec"] for name, one in manifests.items() if one["kind"] == "ResourceClaimTemplate"
    }
    claims = {name: one["spec"] for name, one in manifests.items() if one["kind"] == "ResourceClaim"}
    return {name.partition("/")[2]: spec for name, spec in (templates | claims).items()}
