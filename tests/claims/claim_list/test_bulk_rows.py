"""One action on several claims: each line of the preview and of the outcome, on the page and by API."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import time_machine
from rest_framework.test import APIClient

from claims.claim_list import bulk
from claims.claim_list.bulk import (
    BulkAction,
    BulkPreview,
    BulkRequest,
    BulkResult,
    preview,
    run,
    selected_claims,
    team_roles,
)
from claims.delivery import tasks
from claims.models import Claim, Extension
from claims.states import ClaimState
from core.errors import Invalid
from inventory.models import Pod
from teams.models import Role
from tests.factories import make_allocation, make_claim, make_cluster, make_profile, make_team, make_user

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
END = NOON + timedelta(hours=4)
HOUR = timedelta(hours=1)
API = "/api/v1/claims/bulk/"


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


@pytest.fixture(autouse=True)
def removals(monkeypatch):
    removals: list[str] = []
    monkeypatch.setattr(tasks.remove, "delay", removals.append)
    return removals


@pytest.fixture
def make(vision, fra, alice):
    """Return a function that makes a claim of alice that ends at 16:00 and holds nothing."""

    def make(name, state=ClaimState.PROVISIONED, *, by=alice, held=(), pods=(), **fields):
        if state in (ClaimState.PROVISIONED, ClaimState.APPROVED, ClaimState.ALLOCATED):
            fields = {"expires_at": END, "decided_at": NOON - 20 * HOUR, **fields}
        claim = make_claim(vision, by=by, cluster=fra, name=name, state=state, held=False, **fields)
        for _device in held:
            make_allocation(claim, NOON - HOUR)
        for pod in pods:
            where = {"cluster": fra, "namespace": "vision", "name": pod}
            Pod.objects.create(**where, uid=pod, phase="Running", claims=[name])
        return claim

    return make


def lines(user, claims, order):
    return [(line.effect, line.obstacle, line.devices, line.pods) for line in preview(user, claims, order)]


@pytest.mark.parametrize(
    ("held", "pods", "will"),
    [
        ((), (), "Released: it holds no device now."),
        ((1,), (), "Released: 1 device is freed."),
        ((1, 2), (), "Released: 2 devices are freed."),
        ((1, 2), ("a",), "Released: 1 pod keeps its devices until it ends."),
        ((1,), ("a", "b"), "Released: 2 pods keep their devices until they end."),
    ],
)
def test_release_preview_shows_freed_devices(make, alice, held, pods, will):
    claim = make("sam", ClaimState.ALLOCATED, held=held, pods=pods)
    assert preview(alice, [claim], BulkRequest(BulkAction.RELEASE)) == [
        BulkPreview(claim, will, "", len(held), len(pods))
    ]


@pytest.mark.parametrize(
    ("order", "state", "will"),
    [
        (
            BulkRequest(BulkAction.WITHDRAW),
            ClaimState.REQUESTED,
            "Withdrawn: 6 devices are returned to the quota of vision.",
        ),
        (
            BulkRequest(BulkAction.EXTEND, by=2 * HOUR),
            ClaimState.PROVISIONED,
            "Extended from Sun 1 Nov 2026, 16:00 to Sun 1 Nov 2026, 18:00: at once if a rule allows it, "
            "otherwise after approval.",
        ),
    ],
)
def test_preview_counts_all_claims_of_template(make, alice, order, state, will):
    claim = make("sam", state, devices=2, parallel=3)
    assert lines(alice, [claim], order) == [(will, "", 0, 0)]


def test_withdraw_preview_of_one_device_is_singular(make, alice):
    claim = make("sam", ClaimState.REQUESTED)
    will = "Withdrawn: 1 device is returned to the quota of vision."
    assert lines(alice, [claim], BulkRequest(BulkAction.WITHDRAW)) == [(will, "", 0, 0)]


ALL = tuple(ClaimState)
RUN = (ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED)


@pytest.mark.parametrize(
    ("action", "possible", "sentence"),
    [
        (BulkAction.WITHDRAW, (ClaimState.REQUESTED,), "Only pending requests can be withdrawn."),
        (BulkAction.RELEASE, RUN, "There is nothing to release."),
        (BulkAction.EXTEND, RUN, "Only running claims can be changed this way."),
        (BulkAction.TRANSFER, RUN, "Only running claims can be changed this way."),
    ],
)
def test_each_action_needs_its_states(make, alice, lena, action, possible, sentence):
    claims = [make(state, state) for state in ALL]
    order = BulkRequest(action, by=HOUR, to=lena)
    said = {line.claim.state: line.obstacle for line in preview(alice, claims, order)}
    assert said == {state: "" if state in possible else f"It is “{state.label}”. {sentence}" for state in ALL}


def test_preview_explains_impossible_transfer(make, alice, lena, lars, bob, eve, root):
    claim, hers = make("sam"), make("hers", by=lena)
    carol = make_user("carol")
    make_team("vision").memberships.create(user=carol, role="member")
    cases = [
        (alice, claim, lena, ""),
        (alice, claim, bob, "bob is not a member of vision."),
        (alice, claim, eve, "eve is not a member of vision."),
        (alice, claim, alice, "They already own it."),
        (alice, hers, lars, "hers belongs to lena; only the owner or a lead of vision may do this."),
        (lars, hers, lars, ""),
        (root, hers, lars, ""),
        (bob, claim, lena, "Only members of vision may do this."),
        (eve, claim, lena, "Only members of vision may do this."),
        (carol, claim, lena, "sam belongs to alice; only the owner or a lead of vision may do this."),
    ]
    for person, one, to, reason in cases:
        (line,) = preview(person, [one], BulkRequest(BulkAction.TRANSFER, to=to))
        assert (person.username, line.obstacle) == (person.username, reason)


def test_inactive_user_cannot_become_owner(make, alice, lena):
    claim, order = make("a"), BulkRequest(BulkAction.TRANSFER, to=lena)
    (before,) = preview(alice, [claim], order)
    lena.is_active = False
    lena.save()
    (after,) = preview(alice, [claim], order)
    assert (bool(before.effect), before.obstacle) == (True, "")
    assert (after.effect, bool(after.obstacle)) == ("", True)


def test_team_roles_are_read_per_team(alice, bob, lena, root, vision):
    nlp = make_team("nlp", members=(bob,), owners=(lena,))
    make_team("audio", members=(alice, bob, lena))
    teams = [vision, nlp]
    assert team_roles(alice, teams) == {vision.pk: Role.MEMBER}
    assert team_roles(bob, teams) == {vision.pk: Role.VIEWER, nlp.pk: Role.MEMBER}
    assert team_roles(lena, teams) == {vision.pk: Role.LEAD, nlp.pk: Role.OWNER}
    assert team_roles(root, teams) == {vision.pk: Role.OWNER, nlp.pk: Role.OWNER}


def test_selected_claims_are_visible_ones_by_name(make, alice, eve, fra):
    claims = [make(name) for name in "bca"]
    theirs = make_claim(make_team("nlp"), by=eve, cluster=fra)
    ids = [claim.pk for claim in (*claims, theirs)]
    assert [claim.name for claim in selected_claims(alice, [*ids, uuid4()])] == ["a", "b", "c"]
    assert selected_claims(eve, ids) == []


def test_at_most_200_claims_can_be_selected(alice):
    assert selected_claims(alice, [uuid4() for _ in range(200)]) == []
    with pytest.raises(Invalid) as refusal:
        selected_claims(alice, [uuid4() for _ in range(201)])
    assert refusal.value.message == "201 claims are selected. At most 200 can be changed at once."


def test_refused_claim_does_not_stop_others(
    make, vision, alice, lena, removals, django_capture_on_commit_callbacks
):
    one, two, three = make("one"), make("two", by=lena), make("three")
    with django_capture_on_commit_callbacks(execute=True):
        outcomes = run(alice, [one, two, three], BulkRequest(BulkAction.RELEASE, reason="Done."))
    refusal = "two belongs to lena; only the owner or a lead of vision may do this."
    assert outcomes == [
        BulkResult(one, "Release started."),
        BulkResult(two, "", refusal, "forbidden"),
        BulkResult(three, "Release started."),
    ]
    assert removals == [str(one.pk), str(three.pk)]
    assert [claim.history.last().reason for claim in (one, three)] == ["Done.", "Done."]


def test_viewer_and_outsider_change_nothing(make, bob, eve):
    claim = make("sam")
    (of_bob,) = run(bob, [claim], BulkRequest(BulkAction.RELEASE))
    (of_eve,) = run(eve, [claim], BulkRequest(BulkAction.RELEASE))
    assert (of_bob.done, of_bob.code, bool(of_bob.refusal)) == ("", "forbidden", True)
    assert of_eve == BulkResult(claim, "", "It no longer exists.", "not-found")
    assert Claim.objects.get().state == ClaimState.PROVISIONED


def test_action_returns_outcome_and_stores_reason(make, alice, lena):
    waits, runs, given = make("waits", ClaimState.REQUESTED), make("runs"), make("given")
    assert run(alice, [waits], BulkRequest(BulkAction.WITHDRAW, reason="Later.")) == [
        BulkResult(waits, "Withdrawn.")
    ]
    assert waits.history.last().reason == "Later."
    assert run(alice, [given], BulkRequest(BulkAction.TRANSFER, to=lena)) == [
        BulkResult(given, "Transferred to lena.")
    ]
    order = BulkRequest(BulkAction.EXTEND, by=2 * HOUR, reason="More.", key="k")
    assert run(alice, [runs], order) == [BulkResult(runs, "Extension by 2 h requested.")]
    requested = Extension.objects.get()
    assert (requested.until, requested.reason) == (END + 2 * HOUR, "More.")


def test_one_key_extends_each_claim_once(make, alice):
    quick = make_profile("quick", extension=2 * HOUR)
    claims = [make(name, profile=quick) for name in ("a", "b")]
    for number, key in enumerate((f"{'x' * 79}1", f"{'x' * 79}2"), 1):
        order = BulkRequest(BulkAction.EXTEND, by=2 * HOUR, key=key)
        for _again in range(2):
            claims = selected_claims(alice, [claim.pk for claim in claims])
            assert [one.done for one in run(alice, claims, order)] == ["Extended by 2 h."] * 2
        assert list(Claim.objects.values_list("expires_at", flat=True)) == [END + number * 2 * HOUR] * 2


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        (BulkRequest(BulkAction.TRANSFER), "Choose a new owner."),
        (BulkRequest(BulkAction.EXTEND, key="k"), "Enter the length of the extension."),
        (BulkRequest(BulkAction.EXTEND, by=HOUR), "Enter the length of the extension."),
    ],
)
def test_incomplete_bulk_request_is_refused_for_each_claim(make, alice, order, sentence):
    claim = make("sam")
    assert run(alice, [claim], order) == [BulkResult(claim, "", sentence, "invalid")]


def test_claim_without_expiry_cannot_be_extended(make, alice):
    claim = make("sam")
    Claim.objects.update(expires_at=None)
    claim.refresh_from_db()
    assert run(alice, [claim], BulkRequest(BulkAction.EXTEND, by=HOUR, key="k")) == [
        BulkResult(claim, "", "sam has no end date.", "invalid")
    ]
    assert not Extension.objects.exists()


# By API.


def post(user, **body):
    client = APIClient()
    client.force_authenticate(user)
    return client.post(API, body, format="json", headers={"Idempotency-Key": body.pop("key", "k-1")})


def test_bulk_api_previews_and_runs(make, alice, lena):
    mine, hers = make("mine"), make("xhers", by=lena)
    ids = [str(mine.pk), str(hers.pk)]
    refusal = "xhers belongs to lena; only the owner or a lead of vision may do this."
    rows = [
        {
            "claim": ids[0],
            "name": "mine",
            "done": False,
            "message": "Released: it holds no device now.",
            "code": "",
        },
        {"claim": ids[1], "name": "xhers", "done": False, "message": refusal, "code": "refused"},
    ]
    answer = post(alice, action="release", claims=ids, preview=True)
    assert (answer.status_code, answer.json()) == (200, rows)
    assert set(Claim.objects.values_list("state", flat=True)) == {"provisioned"}
    rows[0] |= {"done": True, "message": "Release started."}
    rows[1] |= {"code": "forbidden"}
    answer = post(alice, action="release", claims=ids, key="k-2")
    assert (answer.status_code, answer.json()) == (200, rows)
    assert dict(Claim.objects.values_list("name", "state")) == {"mine": "releasing", "xhers": "provisioned"}


def test_bulk_api_extends_with_key_and_reason(make, alice):
    claim = make("sam")
    answer = post(alice, action="extend", claims=[str(claim.pk)], by="2h", reason="More.", key="k-9")
    assert answer.json()[0]["message"] == "Extension by 2 h requested."
    requested = Extension.objects.get()
    assert (requested.reason, requested.until) == ("More.", END + 2 * HOUR)


def test_bulk_api_transfers_to_existing_user(make, alice, lena):
    claim = make("sam")
    refused = post(alice, action="transfer", claims=[str(claim.pk)], to="nobody")
    assert (refused.status_code, refused.json()["detail"]) == (422, "There is no user nobody.")
    assert post(alice, action="transfer", claims=[str(claim.pk)], to="lena", key="k-2").status_code == 200
    assert Claim.objects.get().requested_by == lena


def test_bulk_api_accepts_200_claims(alice):
    assert (
        post(alice, action="release", claims=[str(uuid4()) for _ in range(bulk.MAX_CLAIMS)]).status_code
        == 200
    )
    over = post(alice, action="release", claims=[str(uuid4()) for _ in range(201)], key="k-2")
    assert over.status_code == 422
    assert "At most 200 can be changed at once." in str(over.json())


# On the page.

PAGE = "/claims/bulk/"


def test_bulk_page_offers_eligible_owners(client, make, vision, lena):
    gone = make_user("gone", is_active=False)
    vision.memberships.create(user=gone, role="member")
    make_team("nlp", members=(make_user("nina"),))
    claim = make("sam")
    client.force_login(lena)
    form = client.get(PAGE, {"action": "transfer", "claim": [claim.pk]}).context["form"]
    assert [person.username for person in form.fields["to"].queryset] == ["alice", "lars", "lena"]


def test_bulk_page_lists_possible_claims_first_and_counts_them(client, make, alice, lena):
    first = make("a-hers", ClaimState.ALLOCATED, by=lena, held=(1, 2, 3), pods=("x",))
    second = make("b-mine", ClaimState.ALLOCATED, held=(1, 2), pods=("y", "z"))
    client.force_login(alice)
    page = client.get(PAGE, {"action": "release", "claim": [first.pk, second.pk, first.pk]}).context
    assert [line.claim.name for line in page["previews"]] == ["b-mine", "a-hers"]
    assert ([line.claim for line in page["possible"]], page["devices"], page["pods"]) == ([second], 2, 2)


@pytest.mark.parametrize(("names", "status", "done"), [("ab", 200, 2), ("ac", 409, 1), ("c", 409, 0)])
def test_bulk_page_counts_outcomes(client, make, alice, names, status, done):
    claims = {
        name: make(name, ClaimState.REQUESTED if name == "c" else ClaimState.PROVISIONED) for name in "abc"
    }
    client.force_login(alice)
    answer = client.post(PAGE, {"action": "release", "claim": [claims[name].pk for name in names]})
    assert (answer.status_code, answer.context["done"]) == (status, done)


def test_bulk_page_reports_missing_fields_only_on_post(client, make, alice):
    claim = make("sam")
    client.force_login(alice)
    for action, error in (
        ("extend", "Enter the length of the extension, for example 24h or 3d."),
        ("transfer", "Choose a new owner."),
    ):
        sent = {"action": action, "claim": [claim.pk]}
        assert client.get(PAGE, sent).status_code == 200
        answer = client.post(PAGE, sent)
        assert (answer.status_code, error in answer.text) == (422, True)
    wrong = client.post(PAGE, {"action": "extend", "claim": [claim.pk], "by": "soon"})
    assert wrong.context["form"].errors["by"] == ["Enter a duration such as 24h, 3d or 1d 12h."]


# The list itself.


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", {"mine", "hers", "over", "lab"}),
        ("?state=live", {"mine", "hers", "lab"}),
        ("?state=over", {"over"}),
        ("?state=requested", {"hers"}),
        ("?who=me", {"mine", "over", "lab"}),
        ("?cluster=lab-2", {"lab"}),
        ("?profile=fast", {"lab"}),
        ("?team=vision", {"mine", "hers", "over", "lab"}),
        ("?q=lena", {"hers"}),
        ("?q=epoch", {"over"}),
        ("?q=Fast", {"lab"}),
    ],
)
def test_list_applies_filters(client, make, alice, lena, vision, query, names):
    make("mine")
    make("hers", ClaimState.REQUESTED, by=lena)
    make("over", ClaimState.RELEASED, reason="One epoch.")
    lab = make_cluster("lab-2", teams=(vision,))
    make_claim(
        vision, by=alice, cluster=lab, profile=make_profile("fast"), name="lab", state=ClaimState.PROVISIONED
    )
    make_claim(make_team("nlp"), by=make_user("nina"), cluster=lab, name="theirs")
    client.force_login(alice)
    answer = client.get(f"/claims/{query}{'&' if query else '?'}format=csv")
    rows = b"".join(answer).decode().splitlines()
    assert {row.split(",")[0] for row in rows[1:]} == names


def test_csv_row_has_all_columns_of_claim(client, make, alice, fra):
    claim = make("sam", devices=2, parallel=3, created_at=NOON - 30 * HOUR)
    client.force_login(alice)
    answer = client.get("/claims/?format=csv")
    row = b"".join(answer).decode().splitlines()[1].split(",")
    since = claim.state_since.isoformat()
    assert row[:9] == [
        *("sam", "Waiting for a pod", since, "train-80 v1", "6", "vision", "alice", "fra-1"),
        END.isoformat(),
    ]


def test_bulk_sentences_use_full_names(make, alice, lena):
    for person, name in ((alice, "Alice"), (lena, "Lena")):
        person.first_name, person.last_name = name, "Ott"
        person.save(update_fields=["first_name", "last_name"])
    claim, order = make("sam"), BulkRequest(BulkAction.TRANSFER, to=lena)
    assert lines(alice, [claim], order) == [
        ("Transferred from Alice Ott to Lena Ott; its pods keep running.", "", 0, 0)
    ]
    assert run(alice, [claim], order) == [BulkResult(claim, "Transferred to Lena Ott.")]
    assert claim.history.latest("pk").reason == "Transferred from Alice Ott to Lena Ott."
