from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import Http404
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.catalogue.services import retire_profile
from claims.models import Approval, Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from tests.factories import make_claim, make_cluster, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db


def test_a_request_waits_for_a_lead_and_reserves_quota(ask):
    claim = ask(devices=2, reason="Fine-tune")
    assert claim.state == ClaimState.REQUESTED
    assert (claim.devices, claim.parallel, claim.namespace) == (2, 1, "vision")
    assert claim.spec["devices"]["requests"][0]["exactly"]["count"] == 2
    assert [(charge.device_class, charge.devices) for charge in claim.charges.all()] == [
        ("gpu.nvidia.com", 2)
    ]
    assert [(step.new, step.reason) for step in claim.history.all()] == [("requested", "Fine-tune")]
    assert claim.decide_by > timezone.now() + timedelta(days=6)


def test_asking_twice_with_one_key_is_asking_once(ask):
    assert ask(key="same") == ask(key="same")
    assert Claim.objects.count() == 1


@pytest.mark.parametrize("what", ["profile", "cluster", "team"])
def test_a_key_cannot_be_used_to_ask_for_something_else(ask, vision, alice, what):
    others = {
        "profile": make_profile("slice-40"),
        "cluster": make_cluster("lab-2", teams=(vision,)),
        "team": make_team("nlp", members=(alice,)),
    }
    claim = ask(key="same")
    with pytest.raises(Invalid) as refusal:
        ask(key="same", **{what: others[what]})
    assert refusal.value.message.startswith(f"This Idempotency-Key was used for the request {claim}, which")
    assert refusal.value.status == 422
    assert Claim.objects.count() == 1


def test_a_request_needs_a_key(ask):
    with pytest.raises(Invalid, match="needs a key"):
        ask(key="")


def test_over_quota_is_refused_with_the_numbers(ask, vision, fra, train):
    make_claim(vision, cluster=fra, profile=train, devices=6, state=ClaimState.ALLOCATED)
    make_claim(vision, cluster=fra, profile=train, devices=1)
    with pytest.raises(QuotaExceeded) as refusal:
        ask(devices=4)
    assert refusal.value.message == (
        "Quota of Vision exceeded by 3: 7 of 8 gpu.nvidia.com devices in use or reserved; "
        "this request needs 4. "
        "Release a claim of the team, request fewer devices, or ask for more quota."
    )
    assert refusal.value.status == 409


def test_the_last_free_device_is_granted(ask, vision, fra, train):
    make_claim(vision, cluster=fra, profile=train, devices=7, state=ClaimState.RELEASING)
    assert ask(devices=1).state == ClaimState.REQUESTED


def test_claims_that_are_over_count_no_more(ask, vision, fra, train):
    for state in (ClaimState.RELEASED, ClaimState.DENIED, ClaimState.FAILED, ClaimState.EXPIRED):
        make_claim(vision, cluster=fra, profile=train, devices=8, state=state)
    assert ask(devices=8)


def test_a_class_without_quota_may_not_be_held_at_all(ask, quota):
    quota.delete()
    with pytest.raises(
        QuotaExceeded, match=r"vision has no quota for gpu.nvidia.com devices; this request needs 1"
    ):
        ask()


def test_a_quota_of_the_profile_limits_further(ask, vision, train):
    make_quota(vision, 2, profile=train)
    with pytest.raises(
        QuotaExceeded,
        match="Quota of Vision exceeded by 1: 0 of 2 devices of profile train-80 in use or reserved; "
        "this request needs 3",
    ):
        ask(devices=3)
    assert ask(devices=2)


def test_a_template_is_charged_for_all_claims_at_once(ask):
    claim = ask(devices=2, parallel=4, delivery="template")
    assert claim.charges.get().devices == 8
    with pytest.raises(QuotaExceeded):
        ask(devices=1)


def test_a_named_claim_is_one_claim(ask):
    with pytest.raises(Invalid, match="apply to a template only"):
        ask(parallel=2)


def test_a_rule_approves_at_once_and_is_named_in_the_history(
    ask, gateway, django_capture_on_commit_callbacks
):
    profile = make_profile("notebook", approval=Approval.AUTOMATIC)
    claim = ask(profile=profile)
    assert claim.state == ClaimState.APPROVED
    step = claim.history.last()
    assert (step.by, step.reason) == (None, "Approved automatically (Notebook v1).")
    assert claim.expires_at == claim.decided_at + claim.duration


@pytest.mark.parametrize(
    ("devices", "hours", "state"),
    [(1, 4, ClaimState.APPROVED), (2, 4, ClaimState.REQUESTED), (1, 5, ClaimState.REQUESTED)],
)
def test_a_rule_reaches_as_far_as_its_limits(ask, devices, hours, state):
    profile = make_profile("short", automatic_devices=1, automatic_duration=timedelta(hours=4))
    assert ask(profile=profile, devices=devices, duration=timedelta(hours=hours)).state == state


def test_an_outsider_hears_nothing_of_the_team(ask, eve):
    with pytest.raises(Http404):
        ask(by=eve)


def test_a_viewer_may_not_ask(ask, bob):
    with pytest.raises(PermissionDenied):
        ask(by=bob)


def test_a_profile_of_other_teams_is_refused(ask):
    with pytest.raises(Forbidden, match="not open to vision"):
        ask(profile=make_profile("theirs", teams=(make_team("nlp"),)))


def test_a_retired_profile_is_refused(ask, train, root):
    retire_profile(by=root, profile=train)
    with pytest.raises(Conflict, match="retired"):
        ask()


@pytest.mark.parametrize(
    ("request_fields", "sentence"),
    [
        ({"devices": 0}, "at least 1 device"),
        ({"devices": 9}, "train-80 allows 8 devices per claim; this request needs 9"),
        ({"duration": timedelta(days=15)}, "train-80 allows at most 14 d; this request is for 15 d"),
        ({"duration": timedelta(0)}, "longer than 0"),
        ({"name": "Upper"}, "not a valid Kubernetes name"),
        ({"name": "a" * 64}, "not a valid Kubernetes name"),
        ({"parallel": 0, "delivery": "template"}, "from 1 to 1000"),
        ({"delivery": "pigeon"}, "not available as a pigeon"),
    ],
)
def test_what_is_malformed_is_refused_in_a_sentence(ask, request_fields, sentence):
    with pytest.raises(Invalid, match=sentence):
        ask(**request_fields)


def test_a_name_is_taken_once_per_namespace(ask):
    ask(name="mine")
    with pytest.raises(Invalid, match="The name mine is already used in vision of fra-1"):
        ask(name="mine")


def test_a_cluster_where_the_team_has_no_namespace_is_refused(ask):
    with pytest.raises(Invalid, match="vision has no namespace in lab-2"):
        ask(cluster=make_cluster("lab-2"))


@pytest.mark.parametrize("fields", [{"read_only": True}, {"enabled": False}])
def test_a_cluster_that_cannot_be_written_is_refused(ask, fra, fields):
    for name, value in fields.items():
        setattr(fra, name, value)
    with pytest.raises(Invalid, match="fra-1"):
        ask(cluster=fra)


def test_a_profile_of_fixed_size_has_that_size(ask):
    pair = make_profile(
        "pair", spec={"devices": {"requests": [{"name": "both", **_exactly(2)}]}}, max_devices=2
    )
    assert ask(profile=pair).devices == 2
    with pytest.raises(Invalid, match="always has 2 devices"):
        ask(profile=pair, devices=3)


def test_a_request_costs_the_same_queries_however_much_is_held(
    ask, vision, fra, train, django_assert_num_queries
):
    with CaptureQueriesContext(connection) as one:
        ask()
    for _ in range(5):
        make_claim(vision, cluster=fra, profile=train, devices=1)
    with django_assert_num_queries(len(one)):
        ask()


def _exactly(count: int) -> dict[str, object]:
    request = make_spec(count)["devices"]["requests"][0]
    return {"exactly": request["exactly"]}
