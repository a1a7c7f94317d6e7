"""Lists say that what is missing comes last only where something may be: an index has it at one end alone."""

import pytest

from claims.models import Claim
from core.listing import may_be_null
from inventory.models import Device


@pytest.mark.parametrize(
    "path", ["pk", "created_at", "name", "team__slug", "profile_version__profile__title"]
)
def test_not_null_field_may_not_be_null(path):
    assert not may_be_null(Claim, path)


@pytest.mark.parametrize(
    ("model", "path"),
    [(Claim, "expires_at"), (Claim, "decided_by__username"), (Device, "state"), (Device, "node__name")],
)
def test_nullable_path_and_annotation_may_be_null(model, path):
    assert may_be_null(model, path)
