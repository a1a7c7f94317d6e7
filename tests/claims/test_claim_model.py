"""What `Claim` writes: steps, remarks and what they carry along; and what its querysets find."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import FieldFetchBlocked
from django.db import IntegrityError, transaction

from claims.models import (
    Allocation,
    Alternative,
    Approval,
    ApprovalStep,
    Claim,
    ClaimCharge,
    Extension,
    Profile,
    Quota,
    QuotaRequest,
    RequestStatus,
    TeamNamespace,
    Transition,
    WrittenQuota,
    names_profile,
)
from claims.states import FINAL, NEXT, ClaimState
from core.errors import IllegalTransition
from tests.claims.rows import changes, last_step, row_of
from tests.factories import (
    make_allocation,
    make_claim,
    make_cluster,
    make_extension,
    make_profile,
    make_quota,
    make_quota_request,
    make_spec,
    make_team,
    make_user,
)

pytestmark = pytest.mark.django_db
S = ClaimState
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def claim(vision, fra, train, alice, quota):
    return make_claim(vision, by=alice, cluster=fra, profile=train, state=S.PROVISIONED, name="sam")


# Steps.


def test_a_step_writes_state_time_version_and_the_named_columns(claim, lena):
    before, step = row_of(claim), {"problem": "It is full.", "expires_at": NOON}
    assert claim.advance(S.FAILED, why="It is full.", by=lena, **step) is True
    assert changes(before) == {"state": S.FAILED, "state_since": "now", "version": 1, **step}
    assert last_step(claim) == (S.PROVISIONED, S.FAILED, "It is full.", lena)
    assert {name: getattr(claim, name) for name in ("state", "version", "problem", "expires_at")} == {
        "state": S.FAILED, "version": before.version + 1, **step,
    }  # fmt: skip
    assert claim.state_since == row_of(claim).state_since > before.state_since - timedelta(minutes=1)


def test_a_step_without_a_person_is_the_portals(claim):
    assert claim.advance(S.RELEASING, why="It ended.")
    assert last_step(claim) == (S.PROVISIONED, S.RELEASING, "It ended.", None)


def test_who_comes_late_writes_nothing_at_all_and_keeps_what_they_read(claim):
    late, before = row_of(claim), row_of(claim)
    assert claim.advance(S.RELEASING, why="First.")
    first, steps = row_of(claim), claim.history.count()
    assert late.advance(S.FAILED, why="Late.", problem="Late.") is False
    assert changes(first) == {}
    assert claim.history.count() == steps
    assert (late.state, late.problem) == (before.state, before.problem)


@pytest.mark.parametrize("state", S)
def test_a_step_that_the_table_does_not_know_is_refused_and_not_written(claim, state):
    Claim.objects.filter(pk=claim.pk).update(state=state)
    claim = row_of(claim)
    for to in set(S) - NEXT[state]:
        with pytest.raises(IllegalTransition, match=f"sam is {state} and cannot become {to}"):
            claim.advance(to, why="tried")
    assert changes(claim) == {}


def test_a_step_moves_one_claim_alone(claim, vision, fra):
    other = make_claim(vision, cluster=fra, state=S.PROVISIONED)
    claim.advance(S.RELEASING, why="Given back.")
    assert changes(other) == {}
    assert other.history.filter(new=S.RELEASING).count() == 0


def test_consents_are_void_where_a_claim_goes_back_to_people_and_stay_otherwise(vision, fra, lena):
    claim, other = (make_claim(vision, cluster=fra, state=S.APPROVED) for _ in range(2))
    for each in (claim, other):
        ApprovalStep.objects.create(claim=each, role=Approval.LEAD, by=lena, spec_hash=each.spec_hash)
    assert other.advance(S.PROVISIONED, why="Written.")
    assert claim.advance(S.REQUESTED, why="It is full.")
    assert not claim.steps.exists()
    assert other.steps.count() == 1


@pytest.mark.parametrize("fails", ["history", "successors"])
def test_a_step_is_written_whole_or_not_at_all(claim, monkeypatch, fails):
    before, steps = row_of(claim), claim.history.count()

    def fail(*_args, **_more):
        raise RuntimeError("A fault of ours.")

    if fails == "history":
        monkeypatch.setattr(Transition, "save", fail)
    else:
        monkeypatch.setattr(Claim, "_end_carrying", fail)
    with pytest.raises(RuntimeError):
        claim.advance(S.FAILED, why="It is full.")
    monkeypatch.undo()
    assert changes(before) == {}
    assert claim.history.count() == steps


@pytest.mark.parametrize("to", [S.FAILED, S.RELEASING])
def test_what_replaces_a_claim_counts_whole_once_that_is_over(vision, fra, train, alice, quota, to):
    """Two of its three successors live; one is over and stays as it was, and so does that of another."""
    old, another = (
        make_claim(vision, by=alice, cluster=fra, profile=train, devices=3, state=S.PROVISIONED)
        for _ in range(2)
    )
    fields = {"by": alice, "cluster": fra, "profile": train, "devices": 2}
    first, second, over = (make_claim(vision, replaces=old, **fields) for _ in range(3))
    Claim.objects.filter(pk=over.pk).update(state=S.DENIED)
    theirs, over = make_claim(vision, replaces=another, **fields), row_of(over)
    ClaimCharge.objects.create(claim=first, device_class="mig.nvidia.com", devices=2, carried=1)

    def carried(claim):
        return sorted(claim.charges.values_list("device_class", "carried"))

    whole, two = [("gpu.nvidia.com", 0)], [("gpu.nvidia.com", 2)]
    assert carried(second) == carried(over) == carried(theirs) == two
    assert row_of(old).advance(to, why="It ends.")
    if to in FINAL:
        assert changes(first) == changes(second) == {"carried": 0, "version": 1}
        assert carried(first) == [*whole, ("mig.nvidia.com", 0)]
        assert carried(second) == whole
    else:
        assert changes(first) == changes(second) == {}
        assert carried(second) == two
    assert changes(over) == changes(theirs) == {}
    assert carried(over) == carried(theirs) == two


# Remarks.


def test_a_remark_is_a_line_without_a_step(claim, lena, vision, fra):
    other, before = make_claim(vision, cluster=fra, state=S.PROVISIONED), row_of(claim)
    claim.remark("Kept a day longer.", by=lena, expires_at=NOON)
    assert changes(before) == {"version": 1, "expires_at": NOON}
    assert last_step(claim) == (S.PROVISIONED, S.PROVISIONED, "Kept a day longer.", lena)
    assert (claim.version, claim.expires_at) == (before.version + 1, NOON)
    assert changes(other) == {}
    claim.remark("Looked at.")
    assert changes(before) == {"version": 2, "expires_at": NOON}
    assert last_step(claim)[3] is None


def test_the_history_is_in_order_of_time_and_then_of_writing(claim):
    Transition.objects.filter(claim=claim).delete()
    for why, at in (("b", NOON), ("c", NOON), ("a", NOON - timedelta(seconds=1))):
        Transition.objects.create(claim=claim, new=S.REQUESTED, reason=why, at=at)
    assert [step.reason for step in claim.history.all()] == ["a", "b", "c"]


# Wishes.


@pytest.mark.parametrize(
    "answer", [RequestStatus.APPROVED, RequestStatus.DENIED, RequestStatus.WITHDRAWN, RequestStatus.EXPIRED]
)
def test_of_two_answers_the_first_counts(claim, lena, lars, answer):
    asked = make_extension(claim)
    other = make_quota_request(claim.team, by=lena)
    late = Extension.objects.get(pk=asked.pk)
    with time_machine.travel(NOON, tick=False):
        assert asked.decide(answer, by=lena, note="Fine.") is True
    with time_machine.travel(NOON + timedelta(hours=1), tick=False):
        assert late.decide(RequestStatus.DENIED, by=lars, note="Late.") is False
        assert asked.decide(answer, by=lars) is False
    for each in (asked, late, Extension.objects.get(pk=asked.pk)):
        said = (each.status, each.decided_by, each.decided_at, each.decision_note)
        assert said == (answer, lena, NOON, "Fine.")
    assert QuotaRequest.objects.get(pk=other.pk).status == RequestStatus.WAITING


def test_an_answer_is_to_one_wish_alone(claim, lena):
    first, second = (make_quota_request(claim.team, by=lena) for _ in range(2))
    assert first.decide(RequestStatus.DENIED, by=None)
    second.refresh_from_db()
    assert (second.status, second.decided_at) == (RequestStatus.WAITING, None)
    assert (first.decided_by, first.decision_note) == (None, "")


@pytest.mark.parametrize(("hours", "beyond"), [(0, False), (1, True)])
def test_an_extension_is_measured_from_the_approval_on(claim, train, hours, beyond):
    ends = claim.decided_at + train.current.max_duration + timedelta(hours=hours)
    asked = make_extension(claim, until=ends)
    assert asked.added == ends - claim.expires_at
    assert asked.total_duration == train.current.max_duration + timedelta(hours=hours)
    assert asked.exceeds_max_duration is beyond
    claim.decided_at, claim.created_at = None, claim.decided_at - timedelta(hours=2)
    asked.claim = claim
    assert asked.total_duration == train.current.max_duration + timedelta(hours=hours + 2)


# What it says of its profiles.


def alternatives(claim, *slugs, together=False, devices=4):
    for position, slug in enumerate(slugs):
        profile = Profile.objects.filter(slug=slug).first() or make_profile(slug)
        Alternative.objects.create(
            claim=claim, position=position, name=f"gpu/{slug}", profile_version=profile.current,
            devices=devices * (position + 1), together=together,
        )  # fmt: skip


def test_a_claim_names_its_profile_alone_or_all_in_their_order(vision, fra, train, alice):
    fields = {"by": alice, "cluster": fra, "profile": train, "delivery": "template", "parallel": 2}
    alone, either, both = (make_claim(vision, **fields, devices=3) for _ in range(3))
    alternatives(either, "train-80", "slice-10")
    alternatives(both, "train-80", "nic", together=True)
    said = [(one.titles, one.slugs, one.sizes, one.together) for one in (alone, either, both)]
    assert said == [
        ("Train 80", "train-80", "3 × Train 80", False),
        (
            "Train 80 or else Slice 10",
            "train-80 or else slice-10",
            "2 × Train 80 or else 4 × Slice 10",
            False,
        ),
        ("Train 80 + Nic", "train-80 + nic", "2 × Train 80 + 4 × Nic", True),
    ]
    assert [version.profile.slug for version in both.versions] == ["train-80", "nic"]
    assert alone.versions == [train.current]


def test_claims_are_found_by_any_of_their_profiles_and_each_once(vision, fra, train, alice):
    fields = {"by": alice, "cluster": fra, "profile": train}
    alone, several = make_claim(vision, **fields), make_claim(vision, **fields)
    alternatives(several, "train-80", "slice-10", "slice-20")
    assert set(Claim.objects.with_profile("train-80")) == {alone, several}
    assert list(Claim.objects.with_profile("slice-20")) == [several]
    assert list(Claim.objects.with_profile("slice")) == []
    assert list(Claim.objects.filter(names_profile(slug__startswith="slice"))) == [several]


# Querysets.


@pytest.mark.parametrize("state", S)
def test_live_is_what_is_not_over(claim, state):
    Claim.objects.filter(pk=claim.pk).update(state=state)
    assert Claim.objects.live().filter(pk=claim.pk).exists() is (state not in FINAL)
    assert row_of(claim).is_final is (state in FINAL)


def test_what_is_of_a_team_is_visible_to_its_people_and_to_admins(claim, bob, eve, root, fra, quota, lena):
    audio = make_team("audio", members=(eve,))
    TeamNamespace.objects.create(team=audio, cluster=fra, namespace="audio")
    theirs = make_claim(audio, by=eve, cluster=fra, state=S.PROVISIONED)
    of_audio = {Claim: theirs, Extension: make_extension(theirs), Quota: make_quota(audio, 2)}
    of_audio[QuotaRequest] = make_quota_request(audio, by=eve)
    of_audio[WrittenQuota] = WrittenQuota.objects.create(team_namespace=audio.namespaces.get())
    of_vision = {Claim: claim, Extension: make_extension(claim), Quota: quota}
    of_vision[QuotaRequest] = make_quota_request(claim.team, by=lena)
    of_vision[WrittenQuota] = WrittenQuota.objects.create(team_namespace=claim.team.namespaces.get())
    for model, mine in of_vision.items():
        assert set(model.objects.visible_to(bob)) == {mine}
        assert set(model.objects.visible_to(eve)) == {of_audio[model]}
        assert set(model.objects.visible_to(root)) == {mine, of_audio[model]}
        assert set(model.objects.visible_to(make_user("mallory"))) == set()
        assert set(model.objects.visible_to(AnonymousUser())) == set()


def test_a_profile_is_open_to_everybody_or_to_its_teams_until_it_is_retired(vision, alice, eve, root):
    audio = make_team("audio", members=(eve,), viewers=(alice,))
    for slug, teams in (("all", ()), ("ours", (vision,)), ("theirs", (audio,)), ("both", (vision, audio))):
        make_profile(slug, teams=teams)
        retired = make_profile(f"old-{slug}", teams=teams)
        Profile.objects.filter(pk=retired.pk).update(retired_at=NOON)

    def slugs(rows):
        return sorted(profile.slug for profile in rows)

    old = ["old-all", "old-both", "old-ours", "old-theirs"]
    assert slugs(Profile.objects.open_to(vision)) == ["all", "both", "ours"]
    assert slugs(Profile.objects.open_to(audio)) == ["all", "both", "theirs"]
    assert slugs(Profile.objects.visible_to(eve)) == ["all", "both", "theirs"]
    assert slugs(Profile.objects.visible_to(alice)) == ["all", "both", "ours", "theirs"]
    assert slugs(Profile.objects.visible_to(make_user("mallory"))) == ["all"]
    assert slugs(Profile.objects.visible_to(root)) == ["all", "both", *old, "ours", "theirs"]
    assert slugs(Profile.objects.visible_to(AnonymousUser())) == []


def test_a_quota_is_charged_for_class_profile_and_number_of_claims_of_one_team(vision, train):
    nic = make_profile("nic", spec=make_spec(device_class="nic.example.com"))
    audio = make_team("audio")
    rows = {}
    for team in (vision, audio):
        rows[team] = [
            make_quota(team, 8),
            make_quota(team, 4, profile=train),
            Quota.objects.create(team=team, counts="claims", devices=3),
        ]
        make_quota(team, 2, device_class="nic.example.com")
        make_quota(team, 1, profile=nic)
    charged = Quota.objects.charged(team=vision, classes=["gpu.nvidia.com"], profiles=[train])
    assert set(charged) == set(rows[vision])
    assert set(Quota.objects.charged(team=audio, classes=[], profiles=[])) == {rows[audio][2]}


def test_a_list_loads_all_that_a_row_shows_and_refuses_the_rest(claim, django_assert_num_queries):
    alternatives(claim, "train-80", "slice-10")
    with django_assert_num_queries(2):
        (row,) = Claim.objects.for_list()
        shown = (row.team.slug, row.cluster.name, row.requested_by.username, row.titles)
    assert shown == ("vision", "fra-1", "alice", "Train 80 or else Slice 10")
    with pytest.raises(FieldFetchBlocked):
        _ = row.decided_by
    with pytest.raises(FieldFetchBlocked):
        _ = Claim.objects.for_list().defer("reason").get().reason


def test_claims_come_newest_first_and_of_one_instant_the_last_written(vision, fra, alice):
    made = [make_claim(vision, by=alice, cluster=fra) for _ in range(3)]
    Claim.objects.update(created_at=NOON)
    Claim.objects.filter(pk=made[0].pk).update(created_at=NOON + timedelta(seconds=1))
    assert list(Claim.objects.all()) == [made[0], made[2], made[1]]


# What the database refuses.


@pytest.mark.parametrize("state", S)
def test_a_name_is_free_again_once_its_claim_is_over(claim, vision, fra, train, alice, state):
    Claim.objects.filter(pk=claim.pk).update(state=state)
    fields = {"by": alice, "profile": train, "name": "sam"}
    make_claim(vision, cluster=make_cluster("osl-1"), **fields)
    make_claim(vision, cluster=fra, namespace="audio", **fields)
    if state in FINAL:
        assert make_claim(vision, cluster=fra, **fields)
    else:
        with pytest.raises(IntegrityError, match="claim_name_free"), transaction.atomic():
            make_claim(vision, cluster=fra, **fields)


def test_a_device_is_open_once_for_an_object_and_ends_after_its_start(claim):
    where: dict[str, Any] = {"object_uid": "u", "driver": "d", "pool": "p", "device": "gpu-0"}
    first = make_allocation(claim, NOON, **where)
    make_allocation(claim, NOON - timedelta(hours=1), NOON, **where)
    make_allocation(claim, NOON, **where | {"object_uid": "v"})
    make_allocation(claim, NOON, **where, share_id="s")
    with pytest.raises(IntegrityError, match="allocation_open_once"), transaction.atomic():
        make_allocation(claim, NOON, **where)
    Allocation.objects.filter(pk=first.pk).update(ended_at=NOON)
    with pytest.raises(IntegrityError, match="allocation_ends_after_start"), transaction.atomic():
        Allocation.objects.filter(pk=first.pk).update(ended_at=NOON - timedelta(seconds=1))
    for fraction in (0, 2):
        with pytest.raises(IntegrityError, match="allocation_fraction"), transaction.atomic():
            Allocation.objects.filter(pk=first.pk).update(fraction=fraction)
