"""`manage.py recompute`: every kind of stored rows, or those that are named."""

import pytest
from django.core.management import CommandError, call_command

from claims.models import ClaimCharge, PendingDecision
from claims.states import ClaimState
from portal.management.commands.recompute import SUBJECTS
from tests.factories import make_claim, make_cluster, make_profile, make_team
from tests.recomputed import failed_check, recompute

pytestmark = pytest.mark.django_db


@pytest.fixture
def broken():
    """Break the charges and the decision of one claim."""
    cluster, profile = make_cluster(), make_profile()
    claim = make_claim(make_team(), cluster=cluster, profile=profile, state=ClaimState.REQUESTED)
    recompute()
    ClaimCharge.objects.filter(claim=claim).update(live=False)
    PendingDecision.objects.filter(pk=claim.pk).delete()
    return claim


def subjects(output: str) -> list[str]:
    return [line.partition(":")[0] for line in output.splitlines()]


def test_without_names_every_subject_is_compared_and_repaired(broken):
    output = failed_check()
    assert subjects(output) == list(SUBJECTS)
    assert "charges: 1 charge, 1 row to repair.\n" in output
    assert "decisions: 0 undecided requests, 1 row to repair: 1 missing.\n" in output
    assert subjects(recompute()) == list(SUBJECTS)
    assert output.count(", 0 rows to repair") == len(SUBJECTS) - 2
    assert recompute("--check").count(", 0 rows to repair.\n") == len(SUBJECTS)


def test_only_the_subjects_that_are_named_are_repaired(broken):
    assert subjects(recompute("decisions", "fleet")) == ["decisions", "fleet"]
    assert PendingDecision.objects.filter(pk=broken.pk).exists()
    with pytest.raises(CommandError, match=r"differ\. Repair them: manage\.py recompute charges$"):
        call_command("recompute", "--check")


def test_an_unknown_subject_is_refused_before_anything_is_changed(broken):
    with pytest.raises(CommandError, match=r"Unknown: quotas\. Subjects are fleet, search, "):
        call_command("recompute", "charges", "quotas")
    assert ClaimCharge.objects.filter(claim=broken, live=False).exists()
