"""The migration that makes approval rules of what quotas said about one's own requests."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from claims.models import ApprovalRule

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = [("claims", "0003_requests_in_full")]
GPU = "gpu.nvidia.com"


@pytest.fixture
def before() -> Iterator[MigrationExecutor]:
    """The database as it was before; it is brought up to date again whatever happens."""
    executor = MigrationExecutor(connection)
    executor.migrate(BEFORE)
    yield executor
    forward()


def forward() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_rules_are_made_of_what_quotas_said(before):
    old = MigrationExecutor(connection).loader.project_state(BEFORE).apps
    quotas, rules = old.get_model("claims", "Quota"), old.get_model("claims", "ApprovalRule")
    teams = {
        name: old.get_model("teams", "Team").objects.create(slug=name, title=name)
        for name in ("vision", "nlp", "robots", "strict")
    }
    train = old.get_model("claims", "Profile").objects.create(slug="train-80", title="Train")
    for name in ("gpu.nvidia.com", "mig.nvidia.com"):  # two classes of one team make one rule
        quotas.objects.create(team=teams["vision"], device_class=name, devices=8, self_approval=True)
    quotas.objects.create(team=teams["nlp"], profile=train, devices=8, self_approval=True)
    quotas.objects.create(team=teams["robots"], device_class=GPU, devices=8, self_approval=False)
    rules.objects.create(team=teams["strict"], approval="admin", automatic_devices=1)
    quotas.objects.create(team=teams["strict"], device_class=GPU, devices=8, self_approval=True)

    forward()

    made = {
        (rule.team.slug, rule.profile and rule.profile.slug): (
            rule.approval,
            rule.automatic_devices,
            rule.self_approval,
        )
        for rule in ApprovalRule.objects.select_related("team", "profile")
    }
    assert made == {
        ("vision", None): ("", 0, True),
        ("nlp", "train-80"): ("", 0, True),
        ("strict", None): ("admin", 1, True),  # whom the rule asks stays as it was
    }


def test_without_such_a_quota_nothing_is_made(before):
    forward()
    assert not ApprovalRule.objects.exists()
