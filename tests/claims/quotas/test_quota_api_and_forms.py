"""The API of quotas column by column, what forms take, and what the pages of clusters show."""

import csv
from datetime import timedelta
from typing import Any

import pytest
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.models import Quota, QuotaRequest, RequestStatus, TeamNamespace, WrittenQuota
from claims.quotas.forms import QuotaForm, QuotaGrantForm
from claims.states import ClaimState
from inventory.models import Cluster, DeviceClass, Freshness, Namespace
from tests.claims.quotas.test_quota_usage import make_unmanaged
from tests.factories import (
    GPU_CLASS,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_quota_request,
    make_raise,
    make_team,
)

pytestmark = pytest.mark.django_db
QUOTAS, REQUESTS = "/api/v1/quotas/", "/api/v1/quotas/requests/"
PAGE, SET, ASK = reverse("claims:quotas"), reverse("claims:quota_set"), reverse("claims:quota_request_new")
LIST = reverse("claims:quota_requests")
CLUSTER, STOP = (
    reverse(f"claims:{name}", args=["fra-1"]) for name in ("cluster_quotas", "cluster_quotas_stop")
)
DEVICES = f"{GPU_CLASS}.deviceclass.resource.k8s.io/devices"
DAY = timedelta(days=1)


def api(user):
    made = APIClient()
    made.force_login(user)
    return made


@pytest.fixture
def used(vision, fra, train, quota):
    """Quota of 8 + 2 devices: 3 held, 2 reserved, 6 unmanaged, 1 carried."""
    Quota.objects.update(guaranteed=2)
    make_raise(quota, 2, ends_at=timezone.now() + DAY)
    runs = make_claim(vision, cluster=fra, profile=train, devices=3, state=ClaimState.ALLOCATED, name="runs")
    next_ = make_claim(vision, cluster=fra, profile=train, devices=3, replaces=runs, name="next", carried=1)
    next_.charges.update(carried=1)
    make_unmanaged(fra, "by-hand", 6)
    return quota


def test_quota_with_decided_claims_is_readable_in_every_role(
    vision, fra, train, used, lena, alice, bob, root
):
    make_claim(vision, cluster=fra, profile=train, state=ClaimState.APPROVED, decided_by=lena, name="decided")
    by_claims = Quota.objects.create(team=vision, counts=Quota.Counts.CLAIMS, devices=5)
    for row in (used, by_claims):
        for person in (bob, alice, lena, root):
            answer = api(person).get(f"{QUOTAS}{row.pk}/")
            assert answer.status_code == 200
            decided = {
                part["claim"]["name"]: part["claim"]["decided_by"] for part in answer.json()["contributions"]
            }
            assert decided["decided"] == "lena"


def test_the_api_tells_every_figure_of_a_quota_and_its_parts(used, alice, lena, eve):
    shown = api(alice).get(f"{QUOTAS}{used.pk}/").json()
    parts = {name: shown.pop(name) for name in ("contributions", "unmanaged_parts", "raises")}
    assert shown == {
        "id": str(used.pk),
        "team": "vision",
        "device_class": GPU_CLASS,
        "profile": None,
        "counts": "devices",
        "limit": 10,
        "raised": 2,
        "guaranteed": 2,
        "held": 3,
        "reserved": 2,
        "unmanaged": 6,
        "free": 0,
        "over": 1,
    }
    assert api(alice).get(QUOTAS).json()["results"] == [shown]
    assert [
        (one["claim"]["name"], one["devices"], one["reserved"], one["carried"])
        for one in parts["contributions"]
    ] == [("runs", 3, False, 0), ("next", 2, True, 1)]
    assert parts["unmanaged_parts"] == [
        {
            "kind": "ResourceClaim",
            "cluster": "fra-1",
            "namespace": "vision",
            "name": "by-hand",
            "origin": "foreign",
            "uid": "uid-fra-1-by-hand",
            "devices": 6,
        }
    ]
    assert [one["devices"] for one in parts["raises"]] == [2]
    assert api(eve).get(QUOTAS).json()["results"] == []
    assert api(eve).get(f"{QUOTAS}{used.pk}/").status_code == 404


def test_the_api_sets_quotas_of_each_kind_for_platform_admins_alone(vision, train, root, lena, alice, eve):
    make_team("nlp", members=(eve,))
    wishes = [
        {"device_class": GPU_CLASS, "devices": 4, "guaranteed": 3},
        {"profile": "train-80", "devices": 0},
        {"counts": "claims", "devices": 5},
    ]
    for requested in wishes:
        for person, status in ((lena, 403), (alice, 403), (eve, 404)):
            assert (
                api(person).post(QUOTAS, {"team": "vision", **requested}, format="json").status_code == status
            )
    assert not Quota.objects.exists()
    for requested in wishes:
        answer = api(root).post(QUOTAS, {"team": "vision", **requested}, format="json")
        assert answer.status_code == 201
        columns = {"device_class": "", "profile": None, "counts": "devices", "guaranteed": 0, **requested}
        shown = answer.json()
        assert {name: shown[name] for name in ("device_class", "profile", "counts", "guaranteed")} == {
            name: columns[name] for name in ("device_class", "profile", "counts", "guaranteed")
        }
        assert (shown["team"], shown["limit"]) == ("vision", requested["devices"])
    assert Quota.objects.count() == 3


def test_the_api_tells_every_column_of_a_request_and_who_decided(vision, quota, alice, bob, root, eve):
    until = (timezone.now() + DAY).replace(microsecond=0)
    requested = {"team": "vision", "device_class": GPU_CLASS, "devices": 12, "reason": "a paper"}
    sent = requested | {"until": until.isoformat()}
    for person, status in ((bob, 403), (eve, 404)):
        assert (
            api(person).post(REQUESTS, sent, format="json", headers={"Idempotency-Key": "k"}).status_code
            == status
        )
    made = api(alice).post(REQUESTS, sent, format="json", headers={"Idempotency-Key": "k"}).json()
    one = QuotaRequest.objects.get()
    stamp = until.isoformat().replace("+00:00", "Z")
    waiting = requested | {
        "id": str(one.pk),
        "profile": None,
        "counts": "devices",
        "until": stamp,
        "requested_by": "alice",
        "requested_at": one.requested_at.isoformat().replace("+00:00", "Z"),
        "status": "waiting",
        "decided_by": None,
        "decided_at": None,
        "decision_note": "",
    }
    assert made == waiting
    assert api(bob).get(f"{REQUESTS}{one.pk}/").json() == waiting
    assert api(bob).get(REQUESTS).json()["results"] == [waiting]
    assert api(eve).get(REQUESTS).json()["results"] == []
    for person, status in ((alice, 403), (bob, 403), (eve, 404)):
        for action, said in (("approve", {}), ("deny", {"reason": "no"})):
            answer = api(person).post(f"{REQUESTS}{one.pk}/{action}/", said, format="json")
            assert answer.status_code == status
    denied = api(root).post(f"{REQUESTS}{one.pk}/deny/", {"reason": "full"}, format="json").json()
    one.refresh_from_db()
    assert denied == waiting | {
        "status": "denied",
        "decided_by": "root",
        "decided_at": one.decided_at.isoformat().replace("+00:00", "Z"),
        "decision_note": "full",
    }


def test_the_api_approves_with_less_until_sooner_and_a_note(vision, quota, alice, root):
    one = make_quota_request(vision, 12, by=alice)
    until = (timezone.now() + DAY).replace(microsecond=0)
    sent = {"devices": 9, "until": until.isoformat(), "note": "for now"}
    given = api(root).post(f"{REQUESTS}{one.pk}/approve/", sent, format="json").json()
    assert (given["devices"], given["decision_note"]) == (9, "for now")
    assert given["until"] == until.isoformat().replace("+00:00", "Z")
    assert [(row.devices, row.ends_at) for row in quota.increases.all()] == [(1, until)]


def test_the_api_takes_a_request_back(vision, alice, bob, eve):
    one = make_quota_request(vision, 12, by=alice)
    for person, status in ((bob, 403), (eve, 404), (alice, 200), (alice, 200)):
        assert api(person).post(f"{REQUESTS}{one.pk}/withdraw/").status_code == status
    one.refresh_from_db()
    assert (one.status, one.decided_by) == ("withdrawn", alice)


# Forms.


def posted(fields):
    """Return these fields as a form sends them."""
    data = QueryDict(mutable=True)
    data.update(fields)
    return data


@pytest.mark.parametrize(
    ("sent", "cleaned"),
    [
        ({"device_class": f" {GPU_CLASS} ", "devices": "0"}, (GPU_CLASS, None, "devices", 0, None)),
        ({"device_class": GPU_CLASS, "devices": "9", "guaranteed": "4"}, (GPU_CLASS, None, "devices", 9, 4)),
        ({"profile": "train-80", "devices": "1000000"}, ("", "train-80", "devices", 1_000_000, None)),
        ({"counts": "claims", "devices": "3"}, ("", None, "claims", 3, None)),
        ({"devices": "3"}, None),
        ({"device_class": GPU_CLASS, "counts": "claims", "devices": "3"}, None),
        ({"device_class": GPU_CLASS, "profile": "train-80", "devices": "3"}, None),
        ({"profile": "train-80", "counts": "claims", "devices": "3"}, None),
        ({"device_class": "limits.nvidia.com/gpu", "devices": "3"}, None),
        ({"device_class": GPU_CLASS, "devices": "1000001"}, None),
        ({"device_class": GPU_CLASS, "devices": "3", "guaranteed": "-1"}, None),
        ({"profile": "retired", "devices": "3"}, None),
    ],
)
def test_the_form_of_a_quota_names_one_thing(vision, train, sent, cleaned):
    make_profile("retired").__class__.objects.filter(slug="retired").update(retired_at=timezone.now())
    form = QuotaForm(posted({"team": "vision", **sent}))
    assert form.is_valid() is (cleaned is not None)
    if cleaned:
        said = form.cleaned_data
        profile = said["profile"] and said["profile"].slug
        assert (said["device_class"], profile, said["counts"], said["devices"], said["guaranteed"]) == cleaned


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ({"device_class": f" {GPU_CLASS} "}, (GPU_CLASS, None, "devices", 10)),
        ({"device_class": "mig.nvidia.com"}, ("mig.nvidia.com", None, "devices", 2)),
        ({"profile": "train-80"}, ("", "train-80", "devices", 5)),
        ({"counts": "claims"}, ("", None, "claims", 6)),
        ({"device_class": GPU_CLASS, "counts": "claims"}, None),
        ({"device_class": GPU_CLASS, "profile": "train-80"}, None),
        ({"device_class": "limits.nvidia.com/gpu"}, None),
        ({"profile": "retired"}, None),
        ({"profile": "closed"}, None),
    ],
)
def test_the_page_asks_for_so_many_more_than_the_team_has(client, alice, vision, train, quota, sent, asked):
    retired, _closed = make_profile("retired"), make_profile("closed", teams=(make_team("nlp"),))
    retired.retired_at = timezone.now()
    retired.save(update_fields=["retired_at"])
    make_quota(vision, 3, profile=train)
    Quota.objects.create(team=vision, counts="claims", devices=4)
    client.force_login(alice)
    answer = client.post(ASK, {"team": "vision", "more": "2", "reason": "a paper", "key": "k", **sent})
    assert answer.status_code == (302 if asked else 422)
    rows = [
        (one.device_class, one.profile and one.profile.slug, one.counts, one.devices)
        for one in QuotaRequest.objects.select_related("profile")
    ]
    assert rows == ([asked] if asked else [])


def test_the_form_to_ask_is_filled_in_from_a_quota_or_the_address(client, alice, vision, train, quota):
    own = make_quota(vision, 3, profile=train)
    theirs = make_quota(make_team("nlp"), 3, profile=train)
    client.force_login(alice)

    def filled(**address):
        context = client.get(ASK, address).context
        initial = {name: value for name, value in context["form"].initial.items() if name != "key"}
        return initial, context["row"] and context["row"].quota

    profile_quota = {"team": "vision", "device_class": "", "profile": "train-80", "counts": "devices"}
    assert filled(quota=str(own.pk), more="2") == (profile_quota | {"more": "2"}, own)
    of_class = {"team": "vision", "device_class": GPU_CLASS, "profile": "", "counts": "devices"}
    assert filled(quota=str(quota.pk)) == (of_class, quota)
    assert filled(quota=str(theirs.pk), more="1") == ({"more": "1"}, None)
    assert filled(quota="none") == ({}, None)
    named = {"team": "vision", "profile": "train-80"}
    assert filled(**named) == (named, own)
    assert filled(team="nlp", profile="train-80") == ({"team": "nlp", "profile": "train-80"}, None)


def test_the_card_takes_a_limit_of_one_and_more(db):
    for devices, valid in (("0", False), ("1", True), ("1000000", True), ("1000001", False), ("", True)):
        assert QuotaGrantForm({"devices": devices}).is_valid() is valid


# Pages.


def test_a_wrong_form_of_a_stranger_is_403_all_the_same(client, lena, quota):
    client.force_login(lena)
    assert client.post(SET, {}).status_code == 403


def test_the_pages_of_quotas_list_every_row_and_are_taken_along(client, alice, root, used, train, vision):
    nlp = make_team("nlp")
    make_team("empty")
    make_quota(nlp, 5, device_class="mig.nvidia.com")
    Quota.objects.create(team=vision, counts="claims", devices=4)
    make_quota(vision, 3, profile=train)
    make_quota(vision, 3, device_class="a.example.com")
    client.force_login(root)
    context = client.get(PAGE).context
    groups = [(group.team.slug, [row.label for row in group.rows]) for group in context["groups"]]
    assert groups == [
        ("nlp", ["mig.nvidia.com"]),
        ("vision", ["a.example.com", GPU_CLASS, "train-80", "claims"]),
        ("empty", []),
    ]
    assert [(row.label, row.over) for row in context["over"]] == [(GPU_CLASS, 1), ("train-80", 2)]
    client.force_login(alice)
    rows = list(csv.reader(client.get(PAGE, {"format": "csv"}).getvalue().decode().splitlines()))
    assert rows == [
        [
            "Team",
            "Quota of",
            "Counts",
            "Limit",
            "Held",
            "Reserved",
            "Unmanaged",
            "Free",
            "Over",
            "Guaranteed",
        ],
        ["vision", "a.example.com", "devices", "3", "0", "0", "0", "3", "0", "0"],
        ["vision", GPU_CLASS, "devices", "10", "3", "2", "6", "0", "1", "2"],
        ["vision", "train-80", "devices", "3", "3", "2", "0", "0", "2", "0"],
        ["vision", "claims", "claims", "4", "1", "0", "1", "2", "0", "0"],
    ]
    answer = client.get(reverse("claims:quota", args=[used.pk]), {"format": "csv"})
    assert list(csv.reader(answer.getvalue().decode().splitlines())) == [
        ["Claim", "State", "Who", "Counts as", "Devices"],
        ["runs", "Allocated", "alice", "held", "3"],
        ["next", "Waiting for approval", "alice", "reserved", "2"],
        ["by-hand", "ResourceClaim", "vision", "unmanaged", "6"],
    ]
    assert "quota-vision-gpunvidiacom.csv" in answer["Content-Disposition"]


def test_the_list_of_requests_is_newest_first_with_every_column(client, alice, vision, train, root):
    now = timezone.now()
    old = make_quota_request(vision, 12, by=alice, requested_at=now - DAY)
    make_quota_request(vision, 3, by=alice, profile=train, requested_at=now, until=now + DAY)
    old.decide(RequestStatus.DENIED, by=root)
    make_quota_request(make_team("nlp"), 3, by=root)
    client.force_login(alice)
    lines = b"".join(client.get(LIST, {"format": "csv"})).decode().splitlines()
    rows = [row[:7] for row in csv.reader(lines)][1:]
    assert [(row[0], row[1], row[2], row[4], row[5]) for row in rows] == [
        ("vision", "train-80", "3", "waiting", "alice"),
        ("vision", GPU_CLASS, "12", "denied", "alice"),
    ]
    assert rows[1][3] == "for good"
    assert rows[0][3].startswith("until ")


def test_the_page_of_a_cluster_shows_each_class_of_each_team_there(client, root, vision, fra, train, quota):
    nlp, osl = make_team("nlp"), make_cluster("osl-1", teams=(vision,))
    make_cluster("fra-1", teams=(nlp,))
    make_quota(vision, 4, device_class="mig.nvidia.com")
    make_quota(vision, 3, profile=train)
    make_quota(nlp, 5)
    make_claim(vision, cluster=fra, profile=train, devices=2, state=ClaimState.ALLOCATED)
    make_claim(vision, cluster=osl, profile=train, devices=1, state=ClaimState.ALLOCATED)
    seen = {DEVICES: "7", "limits.nvidia.com/gpu": "2"}
    written: dict[str, dict[str, Any]] = {
        "vision": {"drift": "Somebody changed it.", "observed_hard": seen, "observed_used": {DEVICES: "2"}},
        "nlp": {"problem": "no answer"},
    }
    for place in TeamNamespace.objects.filter(cluster=fra).select_related("team"):
        WrittenQuota.objects.create(team_namespace=place, **written[place.team.slug])
    elsewhere = TeamNamespace.objects.get(cluster=osl)
    WrittenQuota.objects.create(team_namespace=elsewhere, drift="There too.", problem="there")
    client.force_login(root)
    context = client.get(CLUSTER).context
    rows = {
        row.team_namespace.team.slug: [
            (line.label, line.present, line.free, line.written, line.used) for line in row.lines
        ]
        for row in context["rows"]
    }
    assert list(rows) == ["nlp", "vision"]
    assert sorted(rows["vision"]) == [(GPU_CLASS, 2, 5, "7", "2"), ("mig.nvidia.com", 0, 4, "", "")]
    assert rows["nlp"] == [(GPU_CLASS, 0, 5, "", "")]
    assert [len(row.ignored) for row in context["rows"]] == [0, 1]
    assert [bool(row.written.drift) for row in context["rows"]] == [False, True]
    assert context["failing"] == 1


def test_before_quotas_are_stopped_the_page_lists_what_goes_and_stays_in_that_cluster(client, root, fra):
    osl, places = make_cluster("osl-1"), {}
    for cluster in (fra, osl):
        for slug in ("c", "b", "a", "d"):
            places[cluster.name, slug] = TeamNamespace.objects.create(
                team=make_team(slug), cluster=cluster, namespace=slug
            )
    for name in ("fra-1", "osl-1"):
        seen = {"pods": "3", DEVICES: "8"}
        WrittenQuota.objects.create(
            team_namespace=places[name, "c"], observed_hard=seen, hard={DEVICES: "8"}, problem="x"
        )
        WrittenQuota.objects.create(team_namespace=places[name, "b"], observed_hard=seen, hard=seen)
        WrittenQuota.objects.create(team_namespace=places[name, "d"], problem="not ours")
        WrittenQuota.objects.create(team_namespace=places[name, "a"], problem="not ours either")
    WrittenQuota.objects.create(
        team_namespace=TeamNamespace.objects.create(team=make_team("e"), cluster=fra, namespace="e")
    )
    client.force_login(root)
    context = client.get(STOP).context
    going = [(str(one.team_namespace), one.others) for one in context["going"]]
    assert going == [("fra-1/b", []), ("fra-1/c", ["pods: 3"])]
    assert [str(row.team_namespace) for row in context["staying"]] == ["fra-1/a", "fra-1/d"]


def test_quotas_of_a_cluster_that_may_not_be_written_to_are_not_switched_on(client, root, fra):
    Cluster.objects.filter(pk=fra.pk).update(read_only=True)
    client.force_login(root)
    answer = client.post(reverse("claims:cluster_quotas_write", args=["fra-1"]), follow=True)
    assert answer.status_code == 200
    fra.refresh_from_db()
    assert not fra.write_quotas


def test_the_page_of_policies_lists_the_namespaces_of_that_cluster_that_have_the_mode(client, root, fra):
    osl, labels = make_cluster("osl-1"), {"gpu.dragoman.dev/gpu-mode": "dra-only"}
    rows = [
        (fra, "closed", labels, None),
        (fra, "open", {}, None),
        (fra, "other", {"gpu.dragoman.dev/gpu-mode": "any"}, None),
        (fra, "gone", labels, timezone.now()),
        (osl, "elsewhere", labels, None),
    ]
    for cluster, name, own, gone in rows:
        Namespace.objects.create(cluster=cluster, uid=name, name=name, labels=own, gone_at=gone)
    DeviceClass.objects.create(cluster=fra, uid="c", name=GPU_CLASS)
    client.force_login(root)
    page = reverse("claims:policies", args=["fra-1"])
    context = client.get(page).context
    assert list(context["labeled"]) == ["closed"]
    assert [chosen for *_words, chosen in context["policies"]] == [True, True, True]
    assert (context["warn"], context["problem"]) == (False, "")
    one = {"policy": ["gpu-portal-labels", "unknown"], "action": "Warn", "account": " me "}
    context = client.get(page, one).context
    assert [key for key, *_words, chosen in context["policies"] if chosen] == ["gpu-portal-labels"]
    assert (context["warn"], context["account"]) == (True, "me")
    wrong = client.get(page, {"account": "a' || true"})
    assert (wrong.status_code, wrong.context["text"]) == (422, "")


@pytest.mark.parametrize(("address", "more"), [(QUOTAS, {}), (REQUESTS, {"reason": "A run."})])
def test_the_api_asks_before_it_takes_a_class_no_cluster_has(vision, fra, root, address, more):
    sent = {"team": "vision", "device_class": "gpu.nvida.com", "devices": 4, **more}
    DeviceClass.objects.create(cluster=fra, uid="c", name=GPU_CLASS)
    refused = api(root).post(address, sent, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown-name")
    assert "“gpu.nvida.com”. Did you mean “gpu.nvidia.com”?" in refused.json()["detail"]
    assert not Quota.objects.exists()
    assert not QuotaRequest.objects.exists()
    assert api(root).post(address, {**sent, "allow_unknown": True}, format="json").status_code < 300
    before = api(root).post(address, {**sent, "device_class": GPU_CLASS}, format="json")
    assert before.status_code < 300


def test_the_api_asks_before_it_takes_a_namespace_that_the_cluster_has_not(vision, fra, root):
    address = "/api/v1/teams/vision/namespaces/fra-1/"
    TeamNamespace.objects.filter(team=vision).delete()
    Namespace.objects.create(cluster=fra, uid="n", name="speech")
    assert api(root).put(address, {"namespace": "speach"}, format="json").status_code == 200  # not read yet
    Freshness.objects.create(cluster=fra, resource="namespaces", listed_at=timezone.now())
    refused = api(root).put(address, {"namespace": "speeech"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown-name")
    assert "fra-1 has no namespace “speeech”. Did you mean “speech”?" in refused.json()["detail"]
    for sent in ({"namespace": "speech"}, {"namespace": "speeech", "allow_unknown": True}):
        assert api(root).put(address, sent, format="json").status_code == 200


@pytest.mark.parametrize(
    ("address", "more"),
    [(SET, {"devices": "4"}), (ASK, {"more": "4", "reason": "A run.", "key": "k"})],
)
def test_a_page_asks_once_before_it_takes_a_class_no_cluster_has(client, vision, fra, root, address, more):
    client.force_login(root)
    sent = {"team": "vision", "device_class": "gpu.nvida.com", **more}
    DeviceClass.objects.create(cluster=fra, uid="c", name=GPU_CLASS)
    refused = client.post(address, sent)
    assert refused.status_code == 422
    assert "Did you mean “gpu.nvidia.com”?" in refused.text
    assert "Save anyway" in refused.text
    assert not Quota.objects.exists()
    assert not QuotaRequest.objects.exists()
    assert client.post(address, {**sent, "allow_unknown": "on"}).status_code == 302


def test_no_class_is_unknown_before_any_cluster_has_told_its_own(client, vision, root):
    client.force_login(root)
    sent = {"team": "vision", "device_class": "gpu.nvida.com", "devices": "4"}
    assert "Save anyway" not in client.get(PAGE).text
    assert client.post(SET, sent).status_code == 302
