"""What a request leaves behind: every column of every row, whom it tells, and what it queues."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from claims.approvals.decide import approve, approve_with_changes, deny
from claims.delivery import tasks
from claims.models import Approval, Claim, ClaimCharge, Draft, Profile, Quota
from claims.plans.changes import WantedChange
from claims.quotas import quota_usage
from claims.requests.services import delete_draft, forget_drafts, open_drafts, resize, save_draft
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from dra.manifests import spec_hash
from notify.models import Notice
from tests.claims.columns import columns
from tests.factories import make_claim, make_cluster, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PART = "mig.nvidia.com"


@pytest.fixture
def noon():
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture
def slice_10(vision):
    make_quota(vision, 40, device_class=PART)
    return make_profile("slice-10", spec=make_spec(device_class=PART))


@pytest.fixture
def sent(monkeypatch):
    """The messages that are queued, in their order."""
    sent = []
    for name in ("deliver", "remove"):
        monkeypatch.setattr(
            getattr(tasks, name), "delay", lambda *args, name=name: sent.append((name, *args))
        )
    return sent


def test_a_request_writes_every_column_of_its_row(ask, alice, vision, fra, train, noon):
    claim = ask(
        devices=2, parallel=3, delivery="template", duration=5 * HOUR, reason=" Tune. ", name="sam", key="k"
    )
    expected = {
        "id": claim.pk,
        "name": "sam",
        "key": "k",
        "key_digest": claim.key_digest,
        "team_id": vision.pk,
        "cluster_id": fra.pk,
        "namespace": "vision",
        "profile_version_id": train.current.pk,
        "requested_by_id": alice.pk,
        "delivery": "template",
        "devices": 2,
        "parallel": 3,
        "duration": 5 * HOUR,
        "reason": "Tune.",
        "origin": "portal",
        "spec": make_spec(2),
        "spec_hash": spec_hash(make_spec(2)),
        "state": "requested",
        "state_since": NOON,
        "version": 1,
        "created_at": NOON,
        "decide_by": NOON + 7 * DAY,
        **dict.fromkeys(("keep_alive", "ends_unless_renewed_at", "silence_noticed_at")),
        "escalated_at": None,
        "decided_by_id": None,
        "decided_at": None,
        "decision_note": "",
        "approved_hash": "",
        "original_request": None,
        "expires_at": None,
        "evict_at": None,
        "object_uid": "",
        "problem": "",
        "observation_hash": "",
        "replaces_id": None,
        "carried": 0,
    }
    assert columns(claim) == expected
    lines = claim.history.values_list("old", "new", "reason", "by", "at")
    assert list(lines) == [("", "requested", "Tune.", alice.pk, NOON)]
    charges = claim.charges.values_list("device_class", "devices", "settled", "carried")
    assert list(charges) == [("gpu.nvidia.com", 6, None, 0)]
    assert not claim.alternatives.exists()


def test_a_request_without_a_reason_is_said_to_be_one(ask):
    claim = ask(reason="  ")
    assert (claim.reason, claim.history.get().reason) == ("", "Requested.")


def test_a_request_without_a_duration_gets_that_of_its_profile(ask):
    profile = make_profile("long", default_duration=3 * DAY, max_duration=9 * DAY)
    assert ask(profile=profile).duration == 3 * DAY
    assert ask(profile=profile, duration=HOUR).duration == HOUR


def test_who_decides_is_told_of_a_request_and_nothing_is_queued(
    ask, alice, lena, lars, root, noon, sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        claim = ask(devices=2, reason="Tune.", name="sam")
    told = Notice.objects.order_by("user__username").values_list(
        "user__username", "key", "title", "body", "url", "important"
    )
    key = f"ask:{claim.pk}:lead:{NOON.timestamp():.0f}:{claim.spec_hash[:8]}"
    said = (
        "sam waits for your decision",
        "alice requests 2 × Train 80, 1 d for vision. Tune. Train 80 v1 requires approval by a team lead.",
        f"/approvals/{claim.pk}/",
        True,
    )
    assert list(told) == [("lars", key, *said), ("lena", key, *said)]
    assert sent == []


def test_a_rule_approves_at_once_writes_its_decision_and_tells_nobody(
    ask, sent, noon, django_capture_on_commit_callbacks
):
    profile = make_profile("notebook", approval=Approval.AUTOMATIC)
    with django_capture_on_commit_callbacks() as callbacks:
        claim = ask(profile=profile, devices=2, duration=5 * HOUR, reason="Tune.")
    rule = "Approved automatically (Notebook v1)."
    decision = ("state", "version", "decided_by_id", "decided_at", "decision_note", "approved_hash")
    row = columns(claim)
    assert [row[name] for name in (*decision, "expires_at")] == [
        *("approved", 2, None, NOON, rule, spec_hash(make_spec(2))),
        NOON + 5 * HOUR,
    ]
    lines = claim.history.order_by("pk").values_list("old", "new", "reason", "by__username")
    assert list(lines) == [("", "requested", "Tune.", "alice"), ("requested", "approved", rule, None)]
    assert not Notice.objects.exists()
    assert sent == []  # nothing is delivered that might be rolled back
    for callback in callbacks:
        callback()
    assert sent == [("deliver", str(claim.pk))]


def test_alternatives_are_kept_in_their_order_with_what_all_claims_take_of_each(ask, train, slice_10):
    third = make_profile("slice-20", spec=make_spec(device_class=PART))
    claim = ask(devices=2, parallel=2, delivery="template", alternatives=[slice_10, third])
    names = ("position", "name", "profile_version__profile__slug", "devices", "settled", "together")
    assert list(claim.alternatives.values_list(*names)) == [
        (0, "gpu/train-80", "train-80", 4, None, False),
        (1, "gpu/slice-10", "slice-10", 4, None, False),
        (2, "gpu/slice-20", "slice-20", 4, None, False),
    ]
    assert claim.profile_version == train.current
    assert list(claim.charges.order_by("device_class").values_list("device_class", "devices")) == [
        ("gpu.nvidia.com", 4),
        (PART, 4),
    ]


def test_profiles_together_are_kept_each_with_its_own_number_for_all_claims(ask, slice_10):
    claim = ask(devices=2, parallel=2, delivery="template", together=[(slice_10, 3)])
    names = ("position", "name", "profile_version__profile__slug", "devices", "settled", "together")
    assert list(claim.alternatives.values_list(*names)) == [
        (0, "train-80", "train-80", 4, None, True),
        (1, "slice-10", "slice-10", 6, None, True),
    ]
    assert list(claim.charges.order_by("device_class").values_list("device_class", "devices")) == [
        ("gpu.nvidia.com", 4),
        (PART, 6),
    ]


@pytest.mark.parametrize("which", ["profile", "alternatives", "together"])
def test_a_profile_of_other_teams_is_refused_wherever_it_stands(ask, slice_10, which):
    theirs = make_profile("theirs", spec=make_spec(device_class=PART), teams=(make_team("nlp"),))
    request_fields = {
        "profile": theirs,
        "alternatives": [slice_10, theirs],
        "together": [(slice_10, 1), (theirs, 1)],
    }
    with pytest.raises(Forbidden) as refusal:
        ask(**{which: request_fields[which]})
    assert refusal.value.message == "The profile theirs is not open to vision."
    assert not Claim.objects.exists()


def test_all_quotas_that_are_exceeded_are_named_and_nothing_is_written(ask, vision, train, quota):
    make_quota(vision, 2, profile=train)
    Draft.objects.create(by=ask(devices=6, profile=make_profile("else")).requested_by, key="k", fields={})
    Claim.objects.update(state=ClaimState.ALLOCATED)
    with pytest.raises(QuotaExceeded) as refusal:
        ask(devices=3, key="k")
    assert refusal.value.message == (
        "Quota of Vision exceeded by 1: 6 of 8 gpu.nvidia.com devices in use or reserved; "
        "this request needs 3. "
        "Quota of Vision exceeded by 1: 0 of 2 devices of profile train-80 in use or reserved; "
        "this request needs 3. "
        "Release a claim of the team, request fewer devices, or ask for more quota."
    )
    assert (Claim.objects.count(), ClaimCharge.objects.count(), Draft.objects.count()) == (1, 1, 1)


@pytest.mark.parametrize("length", [1, 80])
def test_a_key_may_have_up_to_80_characters(ask, length):
    assert ask(key="k" * length).key == "k" * length
    with pytest.raises(Invalid) as refusal:
        ask(key="k" * 81)
    assert refusal.value.message == (
        "A request needs a key of 1 to 80 characters, so that sending it twice asks once."
    )


def test_the_same_key_of_two_people_asks_twice(ask, lena):
    assert ask(key="same", devices=1) != ask(key="same", devices=1, by=lena)


def test_a_request_that_was_sent_is_the_answer_though_it_could_not_be_asked_for_any_more(ask, fra, train):
    first = ask(key="same", devices=8)
    fra.enabled = False
    fra.save(update_fields=["enabled"])
    assert ask(key="same", devices=8) == first
    Profile.objects.filter(pk=train.pk).update(retired_at=NOON)
    assert ask(key="same", devices=8) == first


def test_a_key_of_a_request_that_an_approver_changed_is_still_its_key(ask, lena):
    """The profile may be another one by then, the team and the cluster not."""
    small = make_profile("small", spec=make_spec())
    claim = ask(key="same", devices=2)
    wanted = WantedChange(profile=small)
    approve_with_changes(claim=claim, by=lena, spec_hash=claim.spec_hash, wanted=wanted, note="")
    claim.refresh_from_db()
    assert (claim.profile_version, claim.original_request is None) == (small.current, False)
    assert ask(key="same", devices=2) == claim
    with pytest.raises(Invalid, match="was used for"):
        ask(key="same", devices=2, cluster=make_cluster("lab-2"))


def test_sending_takes_away_the_draft_of_this_key_of_this_person_alone(ask, alice, lena):
    for person, key in ((alice, "sent"), (alice, "other"), (lena, "sent")):
        Draft.objects.create(by=person, key=key, fields={})
    ask(key="sent")
    assert set(Draft.objects.values_list("by__username", "key")) == {("alice", "other"), ("lena", "sent")}


# What replaces a claim.


@pytest.fixture
def old(ask, lena):
    """Two claims of two devices each of a template, approved."""
    claim = ask(
        devices=2, parallel=2, delivery="template", duration=3 * HOUR, reason="Tune.", name="old", key="old"
    )
    return approve(claim=claim, by=lena, spec_hash=claim.spec_hash)


def replacement_of(old, **changed):
    return resize(claim=old, by=old.requested_by, key="new", **changed)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {}),
        ({"devices": 3}, {"devices": 3}),
        ({"parallel": 1}, {"parallel": 1}),
        ({"duration": DAY}, {"duration": DAY}),
        ({"reason": ""}, {"reason": ""}),
        ({"reason": "More."}, {"reason": "More."}),
        ({"name": "new"}, {"name": "new"}),
    ],
)
def test_what_replaces_a_claim_keeps_whatever_is_not_said(old, changed, expected):
    names = (
        "devices",
        "parallel",
        "duration",
        "reason",
        "delivery",
        "team_id",
        "cluster_id",
        "profile_version_id",
    )
    before = columns(old)
    new = columns(replacement_of(old, **changed))
    kept = {name: before[name] for name in names}
    assert {name: new[name] for name in (*names, *expected)} == kept | expected
    assert (new["replaces_id"], new["key"], new["state"]) == (old.pk, "new", "requested")
    assert new["name"] != "old"


def test_another_profile_replaces_all_that_a_claim_names_with_as_many_as_of_the_first(ask, lena, slice_10):
    claim = ask(devices=2, together=[(slice_10, 3)], name="old")
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    other = make_profile("fast", spec=make_spec())
    new = replacement_of(claim, profile=other)
    assert (new.profile_version, new.alternatives.count(), new.devices) == (other.current, 0, 2)


@pytest.mark.parametrize(
    ("devices", "parallel", "carried", "used"),
    [(2, 3, 4, 6), (1, 2, 2, 4), (1, 3, 3, 4), (2, 1, 2, 4)],
)
def test_of_a_template_that_replaces_another_what_exceeds_all_of_its_claims_counts(
    old, vision, train, quota, devices, parallel, carried, used
):
    profile_quota = make_quota(vision, 8, profile=train)
    new = replacement_of(old, devices=devices, parallel=parallel)
    assert (new.carried, new.charges.get().carried) == (carried, carried)
    assert [one.used for one in quota_usage.quota_usage([quota, profile_quota])] == [used, used]


def test_a_limit_on_the_number_of_claims_counts_those_that_both_have_once(old, vision):
    Quota.objects.create(team=vision, counts=Quota.Counts.CLAIMS, devices=3)
    with pytest.raises(QuotaExceeded):
        resize(claim=old, by=old.requested_by, key="more", parallel=4, devices=1)
    with pytest.raises(QuotaExceeded):
        resize(claim=old, by=old.requested_by, key="else", profile=make_profile("fast"))
    assert replacement_of(old, parallel=3, devices=1).parallel == 3


def test_the_old_claim_says_by_whom_its_replacement_was_asked_for(old, lena):
    before = columns(old)
    new = resize(claim=old, by=lena, key="new", name="new")
    line = old.history.last()
    assert (line.old, line.new, line.reason, line.by) == (
        "approved",
        "approved",
        "new was requested as a replacement.",
        lena,
    )
    assert columns(old) == before | {"version": before["version"] + 1}
    assert new.requested_by == lena


def test_a_replacement_that_is_denied_leaves_the_claim_free_to_be_replaced_again(old, lena, alice):
    first = replacement_of(old)
    deny(claim=first, by=lena, reason="No.")
    assert resize(claim=old, by=alice, key="again").replaces == old


def test_the_same_key_replaces_a_claim_once(old):
    assert replacement_of(old, devices=1) == replacement_of(old, devices=1)
    assert Claim.objects.count() == 2


# Drafts.


def test_a_draft_is_written_whole_and_written_over(alice):
    first = save_draft(by=alice, key="k", fields={"name": ["a"], "devices": ["1"]}, now=NOON)
    second = save_draft(by=alice, key="k", fields={"name": ["b"]}, now=NOON + HOUR)
    assert first.pk == second.pk
    row = columns(second, "created_at", "begun_at")
    assert {name: row[name] for name in ("by_id", "key", "fields", "updated_at")} == {
        "by_id": alice.pk,
        "key": "k",
        "fields": {"name": ["b"]},
        "updated_at": NOON + HOUR,
    }


def test_a_draft_is_saved_now_unless_a_time_is_said(alice, noon):
    assert save_draft(by=alice, key="k", fields={}).updated_at == NOON


def test_a_draft_has_room_for_8000_characters_and_a_key_of_80(alice):
    empty = len('{"reason": [""]}')
    assert save_draft(by=alice, key="k" * 80, fields={"reason": ["x" * (8000 - empty)]}) is not None
    for key, fields in (("k" * 81, {}), ("", {}), ("k", {"reason": ["x" * (8001 - empty)]})):
        with pytest.raises(Invalid) as refusal:
            save_draft(by=alice, key=key, fields=fields)
        assert refusal.value.message == "This is not a draft of a request."


def test_a_person_has_50_drafts_beside_those_that_were_sent_and_those_of_others(ask, alice, lena):
    ask(key="sent")
    Draft.objects.create(by=alice, key="sent", fields={})
    Draft.objects.create(by=lena, key="hers", fields={})
    Draft.objects.bulk_create(Draft(by=alice, key=f"d{number}", fields={}) for number in range(49))
    assert save_draft(by=alice, key="fiftieth", fields={}) is not None
    assert save_draft(by=alice, key="fiftieth", fields={"name": ["a"]}) is not None
    with pytest.raises(Conflict) as refusal:
        save_draft(by=alice, key="one-more", fields={})
    assert refusal.value.message == "You have 50 drafts; delete one before you save another."


def test_a_request_of_somebody_else_with_the_same_key_does_not_take_the_draft_away(ask, lena):
    ask(key="same")
    assert save_draft(by=lena, key="same", fields={}) is not None
    assert [draft.by for draft in open_drafts(lena)] == [lena]


def test_drafts_are_listed_newest_first(alice):
    for hours, key in ((1, "b"), (3, "a"), (2, "c")):
        save_draft(by=alice, key=key, fields={}, now=NOON + hours * HOUR)
    assert [draft.key for draft in open_drafts(alice)] == ["a", "c", "b"]


def test_a_draft_is_forgotten_after_thirty_days_and_not_at_that_instant(alice):
    save_draft(by=alice, key="edge", fields={}, now=NOON - 30 * DAY)
    save_draft(by=alice, key="late", fields={}, now=NOON - 30 * DAY - timedelta(microseconds=1))
    assert forget_drafts(NOON) == 1
    assert [draft.key for draft in Draft.objects.all()] == ["edge"]


def test_a_draft_is_deleted_by_who_wrote_it_alone_and_twice_is_no_error(alice, lena):
    kept, gone = (save_draft(by=alice, key=key, fields={}) for key in ("kept", "gone"))
    delete_draft(by=lena, draft=gone)
    assert Draft.objects.count() == 2
    delete_draft(by=alice, draft=gone)
    delete_draft(by=alice, draft=gone)
    assert list(Draft.objects.all()) == [kept]


def test_claims_of_other_teams_and_clusters_hold_no_name(ask, alice, vision, fra, train):
    lab, nlp = make_cluster("lab-2", teams=(vision,)), make_team("nlp")
    make_claim(vision, by=alice, cluster=lab, profile=train, name="sam")
    make_claim(nlp, by=alice, cluster=fra, profile=train, name="sam")
    make_claim(vision, by=alice, cluster=fra, profile=train, name="sam", state=ClaimState.RELEASED)
    assert ask(name="sam").name == "sam"
