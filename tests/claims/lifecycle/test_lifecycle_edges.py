"""The other ways to the services of a claim's life: pages, the API, faults, and who is sent away."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
import time_machine
from django.db import IntegrityError
from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.delivery import tasks
from claims.lifecycle import services
from claims.lifecycle.services import (
    approve_extension,
    deny_extension,
    label_again,
    shorten,
    transfer,
    withdraw_extension,
)
from claims.models import Claim, Extension, Quota
from claims.requests import services as requests_services
from claims.requests.services import resize
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, QuotaExceeded
from inventory.models import Pod
from notify.models import Notice
from tests.claims.columns import columns
from tests.claims.mirror import Mirror
from tests.factories import (
    make_allocation,
    make_claim,
    make_extension,
    make_profile,
    make_spec,
    make_user,
    make_violation,
)

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
END = NOON + 18 * HOUR
PART = "mig.nvidia.com"


@pytest.fixture
def noon():
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


@pytest.fixture
def claim(noon, vision, fra, alice):
    profile = make_profile("steady", extension=DAY, max_duration=14 * DAY)
    return make_claim(
        vision, by=alice, cluster=fra, profile=profile, name="sam", devices=2,
        state=ClaimState.PROVISIONED, decided_at=END - DAY, duration=DAY, expires_at=END,
    )  # fmt: skip


@pytest.fixture
def mona(vision):
    mona = make_user("mona")
    vision.memberships.create(user=mona, role="member")
    return mona


@pytest.fixture
def queued(monkeypatch):
    queued = []
    for name in ("label", "remove", "reconcile_objects"):
        task = getattr(tasks, name)
        monkeypatch.setattr(task, "delay", lambda *args, name=name: queued.append((name, *args)))
    return queued


def address(name, claim):
    return reverse(f"claims:{name}", args=[claim.pk])


# Who decides.


@pytest.mark.parametrize("act", ["approve", "deny"])
def test_an_outsider_hears_of_no_wish_and_a_viewer_that_they_do_not_decide(claim, bob, eve, act):
    requested = make_extension(claim)

    def do(by):
        if act == "approve":
            approve_extension(extension=requested, by=by)
        else:
            deny_extension(extension=requested, by=by, reason="No.")

    with pytest.raises(Http404):
        do(eve)
    with pytest.raises(Forbidden):
        do(bob)
    assert Extension.objects.get().status == "waiting"


def test_another_member_does_not_take_back_a_wish_and_an_outsider_hears_of_none(claim, eve, mona):
    requested = make_extension(claim)
    with pytest.raises(Forbidden, match="belongs to alice"):
        withdraw_extension(extension=requested, by=mona)
    with pytest.raises(Http404):
        withdraw_extension(extension=requested, by=eve)
    assert Extension.objects.get().status == "waiting"


def test_an_approval_sent_twice_is_one_though_the_claim_is_being_replaced_or_over_by_then(
    claim, lena, vision, fra, alice
):
    requested = make_extension(claim)
    approve_extension(extension=requested, by=lena)
    make_claim(vision, by=alice, cluster=fra, name="new", replaces=claim)
    assert approve_extension(extension=requested, by=lena).status == "approved"
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASED)
    assert approve_extension(extension=requested, by=lena).status == "approved"


def test_what_came_to_nothing_or_is_over_does_not_keep_a_claim_from_being_extended(
    claim, vision, fra, alice, lena
):
    make_claim(vision, by=alice, cluster=fra, name="denied", replaces=claim, state=ClaimState.DENIED)
    requested = make_extension(claim)
    assert approve_extension(extension=requested, by=lena).status == "approved"


def test_a_step_of_the_same_person_since_is_no_gift_to_take_back(claim, alice, mona):
    transfer(claim=claim, by=alice, to=mona)
    claim.refresh_from_db()
    claim.advance(ClaimState.ALLOCATED, why="A pod came.", by=alice)
    with pytest.raises(Forbidden):
        transfer(claim=claim, by=alice, to=alice)


def test_each_hand_over_is_told_anew(claim, alice, lena, mona):
    transfer(claim=claim, by=lena, to=mona)
    transfer(claim=claim, by=lena, to=alice)
    transfer(claim=claim, by=lena, to=mona)
    titles = Notice.objects.filter(user=mona).values_list("title", flat=True)
    assert sorted(titles) == ["sam is alice's now", "sam is yours now", "sam is yours now"]


def test_shortened_twice_is_told_twice_and_to_the_same_end_once(claim, lena):
    for until in (END - HOUR, END - 2 * HOUR, END - 2 * HOUR):
        shorten(claim=claim, by=lena, until=until)
    assert Notice.objects.filter(title="sam ends earlier").count() == 2


# Repairs.


@pytest.mark.parametrize("by", ["alice", "lena"])
def test_the_label_is_asked_for_once_committed(
    request, claim, by, queued, vision, fra, django_capture_on_commit_callbacks
):
    make_claim(vision, cluster=fra, name="other")
    Mirror(fra).claim("sam", claim, uid=claim.object_uid)
    queued.clear()
    before = columns(Claim.objects.get(pk=claim.pk))
    with django_capture_on_commit_callbacks() as callbacks:
        label_again(claim=claim, by=request.getfixturevalue(by))
    assert queued == []
    for callback in callbacks:
        callback()
    assert queued == [("label", str(claim.pk))]
    assert columns(claim) == before


def test_a_label_needs_an_object_and_somebody_who_may(claim, alice, bob, eve, mona, queued):
    with pytest.raises(Conflict) as refusal:
        label_again(claim=claim, by=alice)
    assert refusal.value.message == "sam has no object in fra-1."
    with pytest.raises(Forbidden):
        label_again(claim=claim, by=mona)
    with pytest.raises(Http404):
        label_again(claim=claim, by=eve)
    assert queued == []


def test_an_accepted_object_is_written_told_and_looked_at_again(
    claim, root, queued, fra, django_capture_on_commit_callbacks
):
    mirror = Mirror(fra)
    mirror.claim("sam", claim, uid=claim.object_uid)
    mirror.gone(claim.object_uid, timezone.now())
    mirror.claim("sam", claim, uid="uid-2")
    Claim.objects.filter(pk=claim.pk).update(observation_hash="s", problem="Somebody made it again.")
    before = columns(claim)
    queued.clear()
    with django_capture_on_commit_callbacks(execute=True):
        services.accept_object(claim=claim, by=root, reason="  ")
    changed = {"object_uid": "uid-2", "observation_hash": "", "problem": "", "version": before["version"] + 1}
    assert columns(claim) == before | changed
    line = claim.history.last()
    assert (line.reason, line.by) == ("Accepted the object that somebody else recreated.", root)
    assert queued == [("reconcile_objects", str(fra.pk), ["vision/sam"])]


# What replaces what.


def quota(team, devices, device_class="gpu.nvidia.com"):
    return Quota.objects.create(team=team, device_class=device_class, devices=devices)


@pytest.mark.parametrize("further", [False, True])
def test_nothing_is_carried_from_a_claim_that_moves_its_own_count(vision, fra, alice, gateway, further):
    """One of its requests takes the first that fits, whether another one asks for an exact number or not."""
    first = {
        "name": "gpu",
        "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu.nvidia.com", "count": 2},
            {"name": "small", "deviceClassName": PART, "count": 1},
        ],
    }
    more = [{"name": "nic", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}] if further else []
    moving = make_profile("moving", spec={"devices": {"requests": [first, *more]}})
    old = make_claim(vision, by=alice, cluster=fra, profile=moving, state=ClaimState.PROVISIONED)
    quota(vision, 3)
    quota(vision, 9, PART)
    plain = make_profile("plain", spec=make_spec())
    requested = {"by": alice, "team": vision, "cluster": fra, "profile": plain, "replaces": old}
    with pytest.raises(QuotaExceeded):
        requests_services.request_claim(**requested, devices=2, key="a")
    if not further:
        new = requests_services.request_claim(**requested, devices=1, key="b")
        assert (new.carried, new.charges.get().carried) == (0, 0)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (ClaimState.REQUESTED, "sam is “Waiting for approval”; only a running claim can be replaced."),
        (ClaimState.RELEASING, "sam is “Releasing”; only a running claim can be replaced."),
        (ClaimState.RELEASED, "sam is “Released”; only a running claim can be replaced."),
    ],
)
def test_only_what_runs_is_replaced(claim, alice, state, sentence, gateway):
    Claim.objects.filter(pk=claim.pk).update(state=state)
    with pytest.raises(Conflict) as refusal:
        resize(claim=claim, by=alice, key="k")
    assert refusal.value.message == sentence


@pytest.mark.parametrize("state", [ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED])
def test_whatever_runs_is_replaced(claim, alice, state, vision, gateway):
    quota(vision, 8)
    Claim.objects.filter(pk=claim.pk).update(state=state)
    assert resize(claim=claim, by=alice, key="k").replaces_id == claim.pk


def test_a_successor_is_replaced_once_what_it_replaced_is_over(claim, alice, vision, fra, gateway):
    quota(vision, 8)
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASING)
    new = make_claim(
        vision, by=alice, cluster=fra, profile=claim.profile_version.profile, name="new",
        state=ClaimState.PROVISIONED, replaces=claim,
    )  # fmt: skip
    with pytest.raises(Conflict) as refusal:
        resize(claim=new, by=alice, key="k")
    assert refusal.value.message == "new itself replaces sam; wait until sam is released."
    claim.refresh_from_db()
    claim.advance(ClaimState.RELEASED, why="Gone.")
    assert resize(claim=Claim.objects.get(pk=new.pk), by=alice, key="k").replaces_id == new.pk


# Faults of the database.


def test_violation_of_another_constraint_is_raised(ask, monkeypatch):
    def fail(*_args, **_fields):
        raise make_violation("something_else")

    monkeypatch.setattr(requests_services, "_reserve", fail)
    with pytest.raises(IntegrityError, match="something_else"):
        ask()


def test_claim_name_used_in_the_same_moment_is_a_conflict(ask, monkeypatch):
    def fail(*_args, **_fields):
        raise make_violation("claim_name_free")

    monkeypatch.setattr(requests_services, "_reserve", fail)
    with pytest.raises(Conflict) as refusal:
        ask(name="mine")
    assert refusal.value.message == "The name mine is already used in vision of fra-1."


def test_the_same_key_at_this_moment_is_its_claim(ask, monkeypatch):
    first, earlier, looks = ask(key="same"), requests_services._earlier_claim, []

    def late(by, key):
        looks.append(key)
        return None if len(looks) == 1 else earlier(by, key)

    def fail(*_args, **_fields):
        raise make_violation("claim_once_per_key")

    monkeypatch.setattr(requests_services, "_earlier_claim", late)
    monkeypatch.setattr(requests_services, "_reserve", fail)
    assert ask(key="same") == first


# Pages.


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("withdraw", ClaimState.REQUESTED),
        ("release", ClaimState.PROVISIONED),
        ("release", ClaimState.APPROVED),
    ],
)
def test_a_reason_typed_on_the_page_is_in_the_history(client, alice, vision, fra, queued, name, state, noon):
    claim = make_claim(vision, by=alice, cluster=fra, name="sam", state=state)
    client.force_login(alice)
    assert client.get(address(name, claim)).context.get("refusal") is None
    assert client.post(address(name, claim), {"reason": "Done."}).url == address("detail", claim)
    assert claim.history.latest("pk").reason == "Done."


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("withdraw", set(ClaimState) - {ClaimState.REQUESTED}),
        ("release", set(ClaimState) - {ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED}),
    ],
)
def test_the_page_says_when_there_is_nothing_left_to_end(client, alice, vision, fra, name, states):
    client.force_login(alice)
    for state in ClaimState:
        claim = make_claim(vision, by=alice, cluster=fra, name="sam", state=state)
        refusal = client.get(address(name, claim)).context.get("refusal")
        said = f"sam is “{state.label}”; there is nothing left to end."
        assert (refusal and refusal.message) == (said if state in states else None), state
        Claim.objects.filter(pk=claim.pk).update(name=f"was-{state}")


@pytest.mark.parametrize(
    ("devices", "pods", "effects", "button"),
    [
        (0, 0, ["No pod uses it now."], "Release the claim"),
        (1, 0, ["No pod uses it now."], "Release 1 device"),
        (
            2,
            1,
            [
                "1 pod keeps running with its devices until it ends: p-0.",
                "Billing goes on until the last of these pods has ended.",
            ],
            "Release 2 devices",
        ),
        (
            2,
            3,
            [
                "3 pods keep running with their devices until they end: p-0, p-1, p-2.",
                "Billing goes on until the last of these pods has ended.",
            ],
            "Release 2 devices",
        ),
        (
            2,
            4,
            [
                "4 pods keep running with their devices until they end: p-0, p-1, p-2 ….",
                "Billing goes on until the last of these pods has ended.",
            ],
            "Release 2 devices",
        ),
        (0, 1, ["1 pod keeps running with its devices until it ends: p-0."], "Release the claim"),
    ],
)
def test_the_page_says_what_a_release_does(client, alice, vision, fra, devices, pods, effects, button):
    claim = make_claim(
        vision, by=alice, cluster=fra, name="sam", devices=2, parallel=2, state=ClaimState.PROVISIONED,
        delivery="claim",
    )  # fmt: skip
    for _device in range(devices):
        make_allocation(claim, timezone.now())
    for number in range(pods):
        where = {"cluster": fra, "namespace": "vision", "name": f"p-{number}"}
        Pod.objects.create(**where, uid=f"p-{number}", phase="Running", claims=["sam"])
    client.force_login(alice)
    ending = client.get(address("release", claim)).context["ending"]
    assert [said for _icon, said in ending.effects] == [
        "The claim object sam in fra-1 is deleted.",
        *effects,
        "4 devices go back to the quota of vision.",
    ]
    assert (ending.question, ending.button) == ("Release sam?", button)


def test_an_extension_sent_by_the_page_carries_its_reason_and_key(client, alice, claim):
    client.force_login(alice)
    sent = {"span": "3d", "reason": "More.", "key": "k-1"}
    for _again in range(2):
        assert client.post(address("extend", claim), sent).status_code == 302
    requested = Extension.objects.get()
    assert (requested.until, requested.reason, requested.key, requested.requested_by) == (
        END + 3 * DAY,
        "More.",
        "k-1",
        alice,
    )


@pytest.mark.parametrize(("extension", "span"), [(DAY, "4h"), (timedelta(0), "24h"), (2 * HOUR, "2h")])
def test_the_page_proposes_the_shortest_step_that_needs_nobody(client, alice, claim, extension, span):
    version = claim.profile_version
    type(version).objects.filter(pk=version.pk).update(extension=extension)
    client.force_login(alice)
    assert client.get(address("extend", claim)).context["form"].initial["span"] == span


@pytest.mark.parametrize(
    ("typed", "at_once"),
    [("2026-11-02T06:00", None), ("2026-11-02T06:01", True), ("2026-11-03T06:01", False), ("soon", None)],
)
def test_a_typed_end_is_judged_to_the_minute(client, alice, claim, typed, at_once):
    client.force_login(alice)
    way = client.get(f"{address('extend', claim)}?until={typed}").context.get("option")
    assert (way and way.at_once) is at_once


def test_an_end_is_put_back_once_and_to_the_instant(client, alice, claim):
    client.force_login(alice)
    shorten(claim=claim, by=alice, until=END - HOUR)
    back = f"{address('extend_undo', claim)}?until={quote(END.isoformat())}"
    for _twice in range(2):
        assert client.post(back).url == address("detail", claim)
    assert Claim.objects.get().expires_at == END
    assert Extension.objects.count() == 1
    for wrong in ("", "?until=soon", "?until=2026-11-02T06:00"):
        assert client.post(address("extend_undo", claim) + wrong).status_code == 422


def test_the_new_owner_is_chosen_among_those_who_could_have_it(client, alice, claim, mona):
    client.force_login(alice)
    form = client.get(address("transfer", claim)).context["form"]
    assert [person.username for person in form.fields["to"].queryset] == ["lars", "lena", "mona"]


def test_what_was_handed_over_is_taken_back_by_the_button_for_a_member_alone(client, alice, claim, mona, eve):
    client.force_login(alice)
    page = client.post(address("transfer", claim), {"to": "mona"}, follow=True)
    assert f"{address('transfer_undo', claim)}?to=alice" in page.text
    assert client.post(address("transfer_undo", claim) + "?to=eve").status_code == 404
    assert client.post(address("transfer_undo", claim) + "?to=alice").status_code == 302
    assert Claim.objects.get().requested_by == alice


def test_a_wish_is_taken_back_by_its_page_and_not_by_outsiders(client, alice, claim, eve, bob):
    requested = make_extension(claim)
    url = reverse("claims:extension_withdraw", args=[requested.pk])
    for person, status in ((eve, 404), (bob, 403), (alice, 302), (alice, 302)):
        client.force_login(person)
        assert client.post(url).status_code == status, person
    assert Extension.objects.get().status == "withdrawn"


# The API.


def api(user):
    made = APIClient()
    made.force_authenticate(user)
    return made


def test_a_wish_by_api_says_all_of_itself(claim, alice, lena):
    url = f"/api/v1/claims/{claim.pk}/extend/"
    until = (END + 3 * DAY).isoformat().replace("+00:00", "Z")
    said = api(alice).post(
        url, {"until": until, "reason": "More."}, format="json", headers={"Idempotency-Key": "k-1"}
    )
    requested = Extension.objects.get()
    expected = {
        "id": str(requested.pk),
        "claim": str(claim.pk),
        "previous_end": "2026-11-02T06:00:00Z",
        "until": until,
        "reason": "More.",
        "requested_by": "alice",
        "requested_at": "2026-11-01T12:00:00Z",
        "status": "waiting",
        "decide_by": "2026-11-02T06:00:00Z",
        "decided_by": None,
        "decided_at": None,
        "decision_note": "",
    }
    assert (said.status_code, said.json(), requested.key) == (201, expected, "k-1")
    decided = api(lena).post(f"/api/v1/extensions/{requested.pk}/approve/", {"note": "Fine."}, format="json")
    expected |= {
        "status": "approved",
        "decided_by": "lena",
        "decided_at": "2026-11-01T12:00:00Z",
        "decision_note": "Fine.",
    }
    assert (decided.status_code, decided.json()) == (200, expected)
    assert api(alice).get(f"/api/v1/extensions/{requested.pk}/").json() == expected
    assert api(alice).get(f"/api/v1/claims/{claim.pk}/extensions/").json()["results"] == [expected]


def test_wishes_that_wait_are_listed_oldest_first(claim, alice, vision, fra, noon):
    wishes = [make_extension(claim, status="denied")]
    for name in ("b", "a", "c"):
        noon.shift(MINUTE)
        other = make_claim(
            vision, by=alice, cluster=fra, name=name, state=ClaimState.APPROVED, expires_at=END
        )
        wishes.append(make_extension(other))
    listed = api(alice).get("/api/v1/extensions/").json()["results"]
    assert [row["id"] for row in listed] == [str(requested.pk) for requested in wishes[1:]]


def test_a_claim_is_replaced_by_api_with_all_that_is_said(claim, alice, vision, gateway):
    quota(vision, 8)
    other = make_profile("fast", max_devices=4)
    body = {"profile": "fast", "devices": 3, "duration": "2h", "name": "new", "reason": "More."}
    said = api(alice).post(f"/api/v1/claims/{claim.pk}/resize/", body, format="json")
    assert said.status_code == 201, said.json()
    new = Claim.objects.get(pk=said.json()["id"])
    assert (new.profile_version, new.devices, new.duration, new.name, new.reason, new.replaces_id) == (
        other.current,
        3,
        2 * HOUR,
        "new",
        "More.",
        claim.pk,
    )


def test_handing_over_by_api_names_the_team_that_lacks_the_person(claim, alice, eve):
    said = api(alice).post(f"/api/v1/claims/{claim.pk}/transfer/", {"to": "eve"}, format="json")
    assert (said.status_code, said.json()["detail"]) == (422, "vision has no member eve.")


# Names.


def test_people_are_called_by_their_names_in_all_that_is_told_of_a_claim(claim, alice, lena, lars, mona):
    for person in (alice, lena, lars, mona):
        person.first_name, person.last_name = person.username.title(), "Ott"
        person.save(update_fields=["first_name", "last_name"])
    requested = make_extension(claim)
    with pytest.raises(Forbidden, match="sam belongs to Alice Ott; only the owner or a lead of vision"):
        withdraw_extension(extension=requested, by=mona)
    approve_extension(extension=requested, by=lena)
    with pytest.raises(Conflict, match="This request was already approved by Lena Ott"):
        deny_extension(extension=requested, by=lars, reason="No.")
    shorten(claim=claim, by=lena, until=END - HOUR)
    transfer(claim=claim, by=lena, to=mona)
    told = dict(Notice.objects.filter(user=alice).values_list("title", "body"))
    assert told == {
        "sam is extended": "Lena Ott approved: it ends on Tue 3 Nov 2026, 06:00 UTC.",
        "sam ends earlier": "Lena Ott has moved its end to Mon 2 Nov 2026, 05:00 UTC.",
        "sam is Mona Ott's now": "Lena Ott transferred sam from Alice Ott to Mona Ott.",
    }
