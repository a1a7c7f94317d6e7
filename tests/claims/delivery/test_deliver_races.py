"""What another worker or an admin does while a claim is being delivered."""

import pytest

from claims.approvals.decide import approve
from claims.delivery import tasks
from claims.models import Claim, TeamNamespace
from claims.states import ClaimState
from cluster.protocol import RESOURCE_CLAIM, Refused
from tests.factories import make_cluster, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def approved(ask, lena):
    claim = ask(name="sam")
    return approve(claim=claim, by=lena, spec_hash=claim.spec_hash)


def test_a_quota_that_is_full_of_the_claim_itself_refuses_nothing(approved, gateway, monkeypatch):
    """Two workers deliver it: the cluster counts the object of the first when the second comes."""
    create = gateway.create

    def create_after_another(kind, manifest):
        create(kind, manifest)
        raise Refused("exceeded quota: gpus, requested: 1, used: 8, limited: 8", quota=True)

    monkeypatch.setattr(gateway, "create", create_after_another)
    tasks.deliver(str(approved.pk))
    approved.refresh_from_db()
    assert (approved.state, approved.problem) == (ClaimState.PROVISIONED, "")


def test_what_went_back_to_people_while_it_was_written_does_not_stand_there(approved, gateway, monkeypatch):
    create = gateway.create

    def create_late(kind, manifest):
        made = create(kind, manifest)
        Claim.objects.get(pk=approved.pk).advance(ClaimState.REQUESTED, why="The other worker was refused.")
        return made

    monkeypatch.setattr(gateway, "create", create_late)
    tasks.deliver(str(approved.pk))
    assert gateway.get(RESOURCE_CLAIM, "sam", namespace="vision") is None


def test_nothing_is_written_into_a_namespace_that_is_the_teams_in_another_cluster_alone(approved, gateway):
    TeamNamespace.objects.update(cluster=make_cluster("osl-1"))
    tasks.deliver(str(approved.pk))
    approved.refresh_from_db()
    assert approved.state == ClaimState.REQUESTED
    assert gateway.calls == []


@pytest.mark.parametrize("is_given_to_others", [True, False])
def test_nothing_is_written_into_a_namespace_that_is_the_teams_no_more(
    approved, gateway, fra, is_given_to_others
):
    if is_given_to_others:
        TeamNamespace.objects.update(team=make_team("audio"))
    else:
        TeamNamespace.objects.all().delete()
    tasks.deliver(str(approved.pk))
    approved.refresh_from_db()
    assert approved.state == ClaimState.REQUESTED
    assert approved.problem == "Namespace vision of fra-1 no longer belongs to vision. Request it again."
    assert gateway.calls == []
