"""Adopting: every column of the claim that is made, every refusal with its sentence, every bound."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import IntegrityError
from django.urls import reverse

from claims.models import Claim, ClaimCharge, Profile, Quota, TeamNamespace
from claims.observation import ownership
from claims.states import FINAL, ClaimState
from claims.unmanaged import services
from claims.unmanaged.services import adopt, adoption_lines, fitting_profiles, namespace_team
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from dra.manifests import spec_hash
from inventory.models import ResourceClaim
from notify.models import Notice
from teams.models import Membership, Role, User
from tests.claims.rows import row_of
from tests.factories import (
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_spec,
    make_team,
    make_user,
    make_violation,
)

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(hours=24)
UNMANAGED = "/api/v1/claims/unmanaged/"


@pytest.fixture
def queued(monkeypatch):
    calls = []
    for name in ("label", "reconcile_objects"):
        monkeypatch.setattr(
            f"claims.delivery.tasks.{name}.delay", lambda *args, name=name: calls.append((name, *args))
        )
    return calls


def make_unmanaged(cluster, name="by-hand", *, devices=2, spec=None, **columns):
    raw = {"metadata": {"name": name}, "spec": spec or make_spec(devices)}
    values = {"uid": f"uid-{name}", "namespace": "vision", "raw": raw, "origin": "foreign", **columns}
    return ResourceClaim.objects.create(cluster=cluster, name=name, **values)


def with_nics(spec, count):
    """Return `spec` with a second request, for network cards."""
    (nics,) = make_spec(count, device_class="nic.example.com")["devices"]["requests"]
    return {"devices": {"requests": [*spec["devices"]["requests"], nics | {"name": "nic"}]}}


@pytest.fixture
def row(fra, gateway, quota, train, queued):
    return make_unmanaged(fra)


@pytest.fixture
def adoption(row, root, alice, train):
    return {"row": row, "by": root, "owner": alice, "profile": train, "duration": DAY}


def columns_of(claim):
    found = {field.attname: getattr(row_of(claim), field.attname) for field in Claim._meta.concrete_fields}
    del found["id"]
    del found["reconcile_at"]  # of the sweep
    return found


# What is written.


def test_every_column_of_an_adopted_claim(
    adoption, row, root, alice, vision, fra, train, queued, django_capture_on_commit_callbacks
):
    with time_machine.travel(NOON, tick=False), django_capture_on_commit_callbacks(execute=True):
        claim = adopt(**adoption, reason="  From before.\n")
    assert columns_of(claim) == {
        "name": "by-hand",
        "key": "adopt:uid-by-hand",
        "key_digest": "",
        "team_id": vision.pk,
        "cluster_id": fra.pk,
        "namespace": "vision",
        "profile_version_id": train.current_id,
        "requested_by_id": alice.pk,
        "delivery": "claim",
        "devices": 2,
        "parallel": 1,
        "duration": DAY,
        "reason": "From before.",
        "origin": "adopted",
        "spec": make_spec(2),
        "spec_hash": spec_hash(make_spec(2)),
        "state": ClaimState.PROVISIONED,
        "state_since": NOON,
        "version": 1,
        "created_at": NOON,
        "decide_by": None,
        "escalated_at": None,
        "decided_by_id": root.pk,
        "decided_at": NOON,
        "decision_note": "",
        "approved_hash": spec_hash(make_spec(2)),
        "original_request": None,
        "expires_at": NOON + DAY,
        "object_uid": "uid-by-hand",
        "problem": "",
        "observation_hash": "",
        "replaces_id": None,
        "carried": 0,
        "evict_at": None,
        **dict.fromkeys(("keep_alive", "ends_unless_renewed_at", "silence_noticed_at")),
    }
    charges = list(claim.charges.values_list("device_class", "devices", "settled", "carried"))
    assert charges == [("gpu.nvidia.com", 2, None, 0)]
    lines = list(claim.history.values_list("old", "new", "reason", "by"))
    assert lines == [("", ClaimState.PROVISIONED, "From before.", root.pk)]
    assert queued == [
        ("label", str(claim.pk)),
        ("reconcile_objects", str(fra.pk), ["vision/by-hand"]),
    ]
    assert list(Notice.objects.values_list("user__username", "title", "body", "url", "important")) == [
        (
            "alice",
            "by-hand is now your claim",
            "root adopted ResourceClaim by-hand of vision in fra-1 for you.",
            f"/claims/{claim.pk}/",
            False,
        )
    ]


def test_nothing_is_queued_before_the_adoption_is_committed(adoption, queued):
    adopt(**adoption)
    assert queued == []


def test_an_adoption_is_written_whole_or_not_at_all(adoption, monkeypatch):
    def fail(*_args):
        raise RuntimeError("A fault of ours.")

    monkeypatch.setattr(services, "_notify_owner", fail)
    with pytest.raises(RuntimeError):
        adopt(**adoption)
    assert not Claim.objects.exists()
    assert not ClaimCharge.objects.exists()


def test_an_admin_who_adopts_for_themselves_is_not_told(adoption, root):
    claim = adopt(**adoption | {"owner": root})
    assert claim.requested_by == root
    assert not Notice.objects.exists()


@pytest.mark.parametrize(
    ("reason", "why"), [("", "Adopted."), ("  ", "Adopted."), (" It is ours. ", "It is ours.")]
)
def test_the_history_says_why(adoption, reason, why):
    assert adopt(**adoption, reason=reason).history.get().reason == why


def test_every_class_that_is_asked_for_is_charged(adoption, fra, vision, train):
    spec = with_nics(make_spec(2), 3)
    make_quota(vision, 3, device_class="nic.example.com")
    both = make_profile("both", spec=spec)
    claim = adopt(**adoption | {"row": make_unmanaged(fra, "both", spec=spec), "profile": both})
    assert claim.devices == 5
    assert set(claim.charges.values_list("device_class", "devices")) == {
        ("gpu.nvidia.com", 2), ("nic.example.com", 3),
    }  # fmt: skip


# Once.


@pytest.mark.parametrize("state", [ClaimState.RELEASING, *FINAL])
def test_what_was_adopted_before_is_adopted_anew_only_once_that_is_over(adoption, state, lena):
    first = adopt(**adoption)
    Claim.objects.filter(pk=first.pk).update(state=state, key="another")
    if state in FINAL:
        second = adopt(**adoption | {"owner": lena})
        assert second != first
        assert second.requested_by == lena
    else:
        assert adopt(**adoption | {"owner": lena}) == first
        assert row_of(first).requested_by != lena


def test_adopting_an_ended_claim_again_for_its_owner_is_a_conflict(adoption, alice):
    first = adopt(**adoption)
    Claim.objects.filter(pk=first.pk).update(state=ClaimState.RELEASED)
    with pytest.raises(Conflict) as refused:
        adopt(**adoption)
    assert refused.value.message == (
        "by-hand was adopted for alice before, and that claim has ended. Choose another owner."
    )


def test_violation_of_another_constraint_is_raised(adoption, monkeypatch):
    def fail(*_args, **_fields):
        raise make_violation("something_else")

    monkeypatch.setattr(services, "_adopt", fail)
    with pytest.raises(IntegrityError, match="something_else"):
        adopt(**adoption)


def test_a_uid_of_another_cluster_is_another_object(adoption, vision, alice):
    abroad = make_cluster("osl-1", teams=(vision,))
    make_claim(vision, by=alice, cluster=abroad, state=ClaimState.PROVISIONED, object_uid="uid-by-hand")
    assert adopt(**adoption).cluster.name == "fra-1"


def test_a_name_that_a_claim_of_the_portal_has_is_a_conflict(adoption, vision, fra, alice):
    make_claim(vision, by=alice, cluster=fra, name="by-hand")
    said = "A claim of the portal has the name by-hand in vision of fra-1 already."
    with pytest.raises(Conflict) as refused:
        adopt(**adoption)
    assert refused.value.message == said
    assert Claim.objects.count() == 1


# Who and what.


@pytest.mark.parametrize("person", ["alice", "bob", "lena", "eve"])
def test_only_a_platform_admin_adopts(adoption, person, eve, lena, bob):
    with pytest.raises(Forbidden, match=r"Only a platform admin may adopt a claim."):
        adopt(**adoption | {"by": User.objects.get(username=person)})
    assert not Claim.objects.exists()


@pytest.mark.parametrize("state", ["adopted", "new"])
def test_that_somebody_may_not_adopt_is_said_even_of_what_is_adopted(adoption, alice, state):
    if state == "adopted":
        adopt(**adoption)
    with pytest.raises(Forbidden):
        adopt(**adoption | {"by": alice})


@pytest.mark.parametrize(
    ("role", "may"),
    [(Role.VIEWER, False), (Role.MEMBER, True), (Role.LEAD, True), (Role.OWNER, True), (None, False)],
)
def test_an_owner_is_at_least_a_member(adoption, vision, role, may):
    person = make_user("paul")
    if role:
        Membership.objects.create(user=person, team=vision, role=role)
    if may:
        assert adopt(**adoption | {"owner": person}).requested_by == person
    else:
        with pytest.raises(Invalid, match=r"^paul is no member of vision.$"):
            adopt(**adoption | {"owner": person})


def test_an_owner_who_cannot_sign_in_is_refused(adoption, alice):
    alice.is_active = False
    alice.save(update_fields=["is_active"])
    with pytest.raises(Invalid, match=r"^alice is no member of vision.$"):
        adopt(**adoption)


def test_a_member_of_another_team_is_none_of_this(adoption):
    nora = make_user("nora")
    make_team("audio", members=(nora,))
    with pytest.raises(Invalid, match=r"^nora is no member of vision.$"):
        adopt(**adoption | {"owner": nora})


@pytest.mark.parametrize(
    ("columns", "may"),
    [
        ({}, True),
        ({"origin": "portal"}, True),
        ({"origin": "template"}, False),
        ({"origin": "extended-resource"}, False),
        ({"gone_at": NOON}, False),
        ({"deleting_since": NOON}, False),
    ],
)
def test_only_what_stays_is_adopted(adoption, row, columns, may):
    ResourceClaim.objects.filter(pk=row.pk).update(**columns)
    row.refresh_from_db()
    if may:
        assert adopt(**adoption).name == "by-hand"
    else:
        said = "by-hand cannot be adopted: it is gone, or comes and goes with its pod."
        with pytest.raises(Conflict, match=f"^{said}$"):
            adopt(**adoption)


@pytest.mark.parametrize(
    ("name", "may"), [("a" * 63, True), ("a" * 64, False), ("a.b", False), ("a-", False), ("0", True)]
)
def test_a_name_is_a_dns_label(adoption, fra, name, may):
    adoption = adoption | {"row": make_unmanaged(fra, name, uid="another")}
    if may:
        assert adopt(**adoption).name == name
    else:
        said = "cannot be adopted: names of the portal have up to 63 letters, digits and hyphens."
        with pytest.raises(Invalid, match=said):
            adopt(**adoption)


@pytest.mark.parametrize(
    ("hours", "said"),
    [(-1, "1 h"), (0, "0 s"), (1, None), (14 * 24, None), (14 * 24 + 1, "14 d 1 h")],
)
def test_a_duration_is_within_that_of_the_profile(adoption, hours, said):
    adoption = adoption | {"duration": timedelta(hours=hours)}
    if said is None:
        assert adopt(**adoption).duration == timedelta(hours=hours)
    else:
        with pytest.raises(Invalid) as refused:
            adopt(**adoption)
        assert refused.value.message == f"train-80 allows at most 14 d; this is for {said}."


@pytest.mark.parametrize("place", [{"cluster": "osl-1"}, {"namespace": "other"}])
def test_a_namespace_of_no_team_is_refused(adoption, row, place, vision):
    place = {"cluster": make_cluster("osl-1")} if "cluster" in place else place
    TeamNamespace.objects.update(**place)
    with pytest.raises(Invalid, match=r"^vision is not the namespace of a team.$"):
        namespace_team(row)
    with pytest.raises(Invalid):
        adopt(**adoption)


def test_the_team_is_that_of_the_namespace(row, fra):
    audio = make_team("audio")
    TeamNamespace.objects.create(team=audio, cluster=fra, namespace="audio")
    TeamNamespace.objects.create(team=audio, cluster=make_cluster("osl-1"), namespace="vision")
    assert namespace_team(row).slug == "vision"


def test_profiles_fit_that_are_open_to_the_team_and_ask_for_every_class(row, fra, vision):
    audio, both = make_team("audio"), with_nics(make_spec(), 1)
    made = {
        "more": make_profile("more", spec=both),
        "ours": make_profile("ours", teams=(vision,)),
        "theirs": make_profile("theirs", teams=(audio,)),
        "other": make_profile("other", spec=make_spec(device_class="nic.example.com")),
        "retired": make_profile("retired"),
        "empty": make_profile("empty"),
    }
    Profile.objects.filter(slug="retired").update(retired_at=NOON)
    Profile.objects.filter(slug="empty").update(current=None)
    fitting = [profile.slug for profile in fitting_profiles(row, vision)]
    assert fitting == ["more", "ours", "train-80"]  # by title
    wider = make_unmanaged(fra, "wider", spec=both)
    assert fitting_profiles(wider, vision) == [made["more"]]


@pytest.mark.parametrize("why", ["closed", "retired", "other class"])
def test_a_profile_that_does_not_fit_is_refused(adoption, train, vision, why):
    profile = train
    if why == "closed":
        train.teams.set([make_team("audio")])
    elif why == "retired":
        Profile.objects.update(retired_at=NOON)
    else:
        profile = make_profile("mig", spec=make_spec(device_class="mig.nvidia.com"))
    said = f"The profile {profile} is not open to vision, or requests other classes than by-hand."
    with pytest.raises(Invalid, match=f"^{said}$"):
        adopt(**adoption | {"profile": profile})


# Quota.


@pytest.mark.parametrize(("limit", "fits"), [(1, False), (2, True)])
def test_unmanaged_use_that_counts_already_fits_up_to_the_limit(adoption, quota, limit, fits):
    Quota.objects.filter(pk=quota.pk).update(devices=limit)
    if fits:
        adopt(**adoption)
    else:
        said = "vision holds 0 of 1 gpu.nvidia.com device, plus 2 unmanaged."
        with pytest.raises(QuotaExceeded, match=f"^{said}$"):
            adopt(**adoption)
        assert not Claim.objects.exists()
        claim = adopt(**adoption, over_quota=True, reason="Known.")
        assert claim.history.get().reason == f"Known. {said}"


@pytest.mark.parametrize(("limit", "fits"), [(4, False), (5, True)])
def test_the_quota_of_the_profile_counts_it_anew(adoption, vision, train, alice, fra, limit, fits):
    make_claim(vision, by=alice, cluster=fra, profile=train, devices=3, state=ClaimState.PROVISIONED)
    make_quota(vision, limit, profile=train)
    if fits:
        assert adopt(**adoption)
    else:
        said = (
            "Quota of Vision exceeded by 1: 3 of 4 devices of profile train-80 in use or reserved; "
            "this claim needs 2."
        )
        with pytest.raises(QuotaExceeded) as refused:
            adopt(**adoption)
        assert refused.value.message == said


def test_a_class_without_a_quota_is_refused_and_two_reasons_are_both_said(adoption, vision, train, quota):
    quota.delete()
    make_quota(vision, 1, profile=train)
    with pytest.raises(QuotaExceeded) as refused:
        adopt(**adoption)
    assert refused.value.message == (
        "Quota of Vision exceeded by 1: 0 of 1 device of profile train-80 in use or reserved; "
        "this claim needs 2. "
        "vision has no quota for gpu.nvidia.com devices."
    )


def test_the_lines_that_are_shown_say_what_adopting_does(row, vision, train, quota):
    make_quota(vision, 2, profile=train)
    make_quota(vision, 9, device_class="mig.nvidia.com")
    Quota.objects.create(team=vision, counts="claims", devices=4)
    shown = [
        (line.label, line.needs, line.fits, line.sentence) for line in adoption_lines(row, vision, train)
    ]
    assert sorted(shown) == [
        ("claims", 0, True, "vision has 0 of 4 claims in use, plus 1 unmanaged."),
        ("gpu.nvidia.com", 0, True, "vision holds 0 of 8 gpu.nvidia.com devices, plus 2 unmanaged."),
        ("train-80", 2, True, "vision holds 0 of 2 devices of profile train-80; this claim needs 2."),
    ]
    Quota.objects.filter(device_class="gpu.nvidia.com").delete()
    lines = {line.label: line for line in adoption_lines(row, vision, train)}
    missing = lines["gpu.nvidia.com"]
    assert (missing.usage, missing.needs, missing.fits) == (None, 2, False)
    assert missing.sentence == "vision has no quota for gpu.nvidia.com devices."


# The page.


def test_the_page_offers_what_fits_who_may_own_it_and_what_it_does(client, row, root, vision, train, quota):
    same = make_profile("same", spec=make_spec(2), default_duration=timedelta(hours=36))
    client.force_login(root)
    shown = client.get(reverse("claims:adopt", args=[row.uid])).context
    assert (shown["team"], shown["fitting"]) == (vision, [same, train])
    assert (shown["same"], shown["alike"]) == ([same], [train])
    assert {person.username for person in shown["people"]} == {"alice", "lena", "lars"}
    assert shown["form"].initial == {"profile": "same", "duration": timedelta(hours=36)}
    assert [line.label for line in shown["lines"]] == ["gpu.nvidia.com"]
    assert list(shown["form"].fields["profile"].queryset) == [same, train]
    assert {person.username for person in shown["form"].fields["owner"].queryset} == {"alice", "lena", "lars"}


def test_without_a_profile_that_fits_the_page_says_so(client, row, root):
    Profile.objects.update(retired_at=NOON)
    client.force_login(root)
    page = client.get(reverse("claims:adopt", args=[row.uid]))
    assert (page.status_code, page.context["lines"]) == (200, [])
    assert page.context["form"].initial == {"profile": None}
    assert "No profile fits" in page.text


@pytest.mark.parametrize("columns", [{"origin": "template"}, {"deleting_since": NOON}, {"gone_at": NOON}])
def test_the_page_of_what_cannot_be_adopted_is_not_there(client, row, root, columns):
    ResourceClaim.objects.filter(pk=row.pk).update(**columns)
    client.force_login(root)
    address = reverse("claims:adopt", args=[row.uid])
    assert client.get(address).status_code == client.post(address, {}).status_code == 404
    if "gone_at" not in columns:
        assert address not in client.get(reverse("claims:unmanaged_claim", args=[row.uid])).text


def test_the_page_hands_all_that_was_typed_to_the_service(client, row, root, alice, train, monkeypatch):
    asked = {}
    monkeypatch.setattr(services, "adopt", lambda **adoption: asked.update(adoption) or make_claim(by=alice))
    client.force_login(root)
    sent = {"owner": "alice", "profile": "train-80", "duration": "36h", "reason": "Mine.", "over_quota": "on"}
    answer = client.post(reverse("claims:adopt", args=[row.uid]), sent)
    assert (answer.status_code, answer.url) == (302, f"/claims/{Claim.objects.get().pk}/")
    assert asked == {
        "row": row, "by": root, "owner": alice, "profile": train, "duration": timedelta(hours=36),
        "reason": "Mine.", "over_quota": True,
    }  # fmt: skip


# The API.


def post(client, person, uid, **body):
    client.force_login(person)
    return client.post(f"{UNMANAGED}{uid}/adopt/", json.dumps(body), content_type="application/json")


def test_the_api_hands_all_that_was_sent_to_the_service(client, row, root, alice, train, monkeypatch):
    asked, known = [], make_claim(by=alice, state=ClaimState.PROVISIONED)
    monkeypatch.setattr(services, "adopt", lambda **adoption: asked.append(adoption) or known)
    body = {"owner": "alice", "profile": "train-80", "duration": "36h"}
    assert post(client, root, row.uid, **body).status_code == 201
    full = post(client, root, row.uid, **body, reason="Mine.", over_quota=True)
    assert full.json()["id"] == str(known.pk)
    common = {"row": row, "by": root, "owner": alice, "profile": train, "duration": timedelta(hours=36)}
    assert asked == [
        common | {"reason": "", "over_quota": False},
        common | {"reason": "Mine.", "over_quota": True},
    ]


@pytest.mark.parametrize(
    "columns", [{"origin": "portal"}, {"object_uid": "another"}, {"cluster": "osl-1"}, {"team": "audio"}]
)
def test_only_what_is_adopted_and_visible_is_answered_again(client, adoption, row, root, vision, columns):
    claim = adopt(**adoption)
    body = {"owner": "alice", "profile": "train-80", "duration": "1d"}
    assert post(client, root, row.uid, **body).json()["id"] == str(claim.pk)
    columns = dict(columns)
    if "cluster" in columns:
        columns |= {"cluster": make_cluster("osl-1"), "key": "another"}
    if "team" in columns:  # and who asks may not see it
        columns["team"] = make_team("audio")
        root.is_superuser = False
        root.save(update_fields=["is_superuser"])
    ResourceClaim.objects.filter(pk=row.pk).update(owner=str(claim.pk))
    Claim.objects.filter(pk=claim.pk).update(**columns)
    ownership.refresh()
    answer = post(client, root, row.uid, **body)
    if "object_uid" in columns or "origin" in columns or "team" in columns:
        assert answer.status_code == 404
    else:  # the object is nobody's in its own cluster, and adopted anew
        assert answer.status_code == 201
        assert answer.json()["id"] != str(claim.pk)
