"""Errors of the database that mean a refusal."""

import pytest
from django.db import IntegrityError, transaction

from core.errors import violated_constraint
from teams.models import Team
from tests.factories import make_violation


def test_violated_constraint_has_the_name_of_the_database(db):
    Team.objects.create(slug="vision", title="Vision")
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        Team.objects.create(slug="vision", title="Vision")
    assert violated_constraint(error.value) == "teams_team_slug_key"
    assert violated_constraint(make_violation("teams_team_slug_key")) == "teams_team_slug_key"


def test_error_without_a_cause_names_no_constraint():
    assert violated_constraint(IntegrityError("claim_name_free")) == ""
