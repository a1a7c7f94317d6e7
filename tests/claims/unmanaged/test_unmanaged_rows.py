"""Unmanaged objects: who sees which, and what page, CSV and API show of them."""

import csv
import html
import io
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import AnonymousUser

from claims.models import Claim, TeamNamespace
from claims.observation.observations import consumer_references
from claims.observation.unmanaged import UnmanagedClaim, unmanaged_objects
from claims.states import ClaimState
from inventory.models import Freshness, Pod, ResourceClaim, ResourceClaimTemplate
from tests.claims.mirror import result
from tests.factories import make_claim, make_cluster, make_spec, make_team, make_user

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LIST, API = "/claims/unmanaged/", "/api/v1/claims/unmanaged/"
MODELS = [ResourceClaim, ResourceClaimTemplate]


@pytest.fixture
def audio(fra, eve):
    team = make_team("audio", members=(eve,))
    TeamNamespace.objects.create(team=team, cluster=fra, namespace="audio")
    return team


def make_unmanaged(cluster, name="by-hand", model=ResourceClaim, **columns):
    spec = make_spec(2)
    raw = {"metadata": {"name": name}, "spec": spec if model is ResourceClaim else {"spec": spec}}
    values = {"uid": f"uid-{name}", "namespace": "vision", "raw": raw, **columns}
    return model.objects.create(cluster=cluster, name=name, **values)


def names(rows):
    return sorted(row.name for row in rows)


# Whose it is.


NO_CLAIM = "5d108a02-98c1-49ac-884c-8e2f650f0e80"


@pytest.mark.parametrize("model", MODELS)
def test_everybody_sees_what_stands_in_the_namespaces_of_their_teams(
    fra, audio, alice, bob, eve, root, model
):
    osl = make_cluster("osl-1", teams=(audio,))
    make_unmanaged(fra, "of-vision", model)
    make_unmanaged(fra, "of-audio", model, namespace="audio")
    make_unmanaged(osl, "of-audio-in-osl", model, namespace="audio")
    make_unmanaged(osl, "of-nobody", model)  # vision has no namespace there
    make_unmanaged(fra, "of-system", model, namespace="kube-system")
    make_unmanaged(fra, "gone", model, gone_at=NOON)
    both = ["of-audio", "of-audio-in-osl"]
    seen = {
        person.username: names(unmanaged_objects(model, person))
        for person in (alice, bob, eve, root, make_user("paul"))
    }
    assert seen == {
        "alice": ["of-vision"], "bob": ["of-vision"], "eve": both, "root": [*both, "of-vision"], "paul": [],
    }  # fmt: skip
    assert names(unmanaged_objects(model, AnonymousUser())) == []
    teams = {row.name: row.team for row in unmanaged_objects(model, root)}
    assert teams == {"of-audio": "audio", "of-audio-in-osl": "audio", "of-vision": "vision"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("known_by", ["uid", "label"])
@pytest.mark.parametrize("state", [ClaimState.PROVISIONED, ClaimState.RELEASED])
def test_what_a_claim_of_that_place_knows_is_of_the_portal(vision, fra, alice, model, known_by, state):
    """Also once it is over: then it is on its way out, and no object of a stranger."""
    claim = make_claim(vision, by=alice, cluster=fra, state=state, object_uid="uid-known")
    columns = {"uid": "uid-known"} if known_by == "uid" else {"owner": str(claim.pk)}
    make_unmanaged(fra, "known", model, **columns)
    assert names(unmanaged_objects(model, alice)) == []
    for place in ({"namespace": "other"}, {"namespace": "vision", "cluster": make_cluster("osl-1")}):
        Claim.objects.filter(pk=claim.pk).update(**place)
        assert names(unmanaged_objects(model, alice)) == ["known"]


@pytest.mark.parametrize(
    "owner", ["", "nonsense", NO_CLAIM, NO_CLAIM.upper(), f"x{NO_CLAIM}", f"{NO_CLAIM}x"]
)
def test_object_with_the_label_of_no_claim_is_unmanaged(vision, fra, alice, owner):
    make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    make_unmanaged(fra, owner=owner)
    assert names(unmanaged_objects(ResourceClaim, alice)) == ["by-hand"]


# What is said of it.


def pod(cluster, name, **columns):
    return Pod.objects.create(
        cluster=cluster, uid=f"uid-{name}", name=name,
        **{"namespace": "vision", "claims": ["by-hand"], "phase": "Running", **columns},
    )  # fmt: skip


def test_its_users_are_pods_that_name_it_in_its_place_and_have_not_ended(fra):
    found = UnmanagedClaim(make_unmanaged(fra))
    pod(fra, "b", claims=["another", "by-hand"])
    pod(fra, "a", phase="Pending")
    pod(fra, "c", phase="")
    others: dict[str, dict[str, object]] = {
        "done": {"phase": "Succeeded"},
        "failed": {"phase": "Failed"},
        "gone": {"gone_at": NOON},
        "audio": {"namespace": "audio"},
        "abroad": {"cluster": make_cluster("osl-1")},
        "other": {"claims": ["by-hand-2"]},
    }
    for name, columns in others.items():
        pod(**{"cluster": fra, **columns}, name=name)
    assert [user.name for user in found.users] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("owners", "maker"),
    [
        (None, ""),
        ([], ""),
        ([{"kind": "Job", "name": "job"}], ""),
        (
            [{"kind": "Job", "name": "job"}, {"kind": "Pod", "name": "p-0"}, {"kind": "Pod", "name": "p-1"}],
            "p-0",
        ),
    ],
)
def test_its_maker_is_the_first_pod_that_owns_it(owners, maker):
    assert UnmanagedClaim(ResourceClaim(raw={"metadata": {"ownerReferences": owners}})).maker == maker


def test_its_resources_are_those_that_pods_mapped_to_it(fra):
    row = make_unmanaged(fra)

    def status(name, *resources):
        mappings = [{"resourceName": one} for one in resources]
        return {
            "status": {
                "extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": mappings}
            }
        }

    pod(fra, "a", raw=status("by-hand", "nvidia.com/gpu", "amd.com/gpu"))
    pod(fra, "b", raw=status("by-hand", "nvidia.com/gpu"))
    pod(fra, "c", raw=status("another", "intel.com/gpu"))
    pod(fra, "d", raw={})
    assert UnmanagedClaim(row).resources == ["amd.com/gpu", "nvidia.com/gpu"]


BY_HAND = (
    "Created with kubectl or another tool. Its devices count against the quota of the team as "
    "unmanaged use, and it does not expire."
)
OF_TEMPLATE = (
    "Kubernetes created it for pod {} from a ResourceClaimTemplate that is not the portal's (named {} in the "
    "pod). It is deleted with the pod."
)
BY_NUMBER = (
    "The scheduler created it because pod {} requests {} by number, as with a device plugin. It is deleted "
    "with the pod, and nobody can change it."
)
STRAY = (
    "It has a Dragoman label with the id an-id, but the portal has no claim with this id here. It may "
    "come from another portal, from a copied manifest, or from before this portal's data was restored."
)


@pytest.mark.parametrize(
    ("origin", "is_full", "origin_said", "text"),
    [
        ("foreign", True, "created outside the portal", BY_HAND),
        ("template", True, "from a template", OF_TEMPLATE.format("p-0", "gpu")),
        ("template", False, "from a template", OF_TEMPLATE.format("a pod", "?")),
        (
            "extended-resource",
            True,
            "extended resource",
            BY_NUMBER.format("p-0", "amd.com/gpu, nvidia.com/gpu"),
        ),
        ("extended-resource", False, "extended resource", BY_NUMBER.format("a pod", "an extended resource")),
        ("portal", True, "unknown label", STRAY),
    ],
)
def test_where_it_came_from_is_said(fra, origin, is_full, origin_said, text):
    row = make_unmanaged(fra, origin=origin, owner="an-id")
    if is_full:
        row.raw["metadata"] |= {
            "ownerReferences": [{"kind": "Pod", "name": "p-0"}],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        }
        mappings = [{"resourceName": "nvidia.com/gpu"}, {"resourceName": "amd.com/gpu"}]
        made = {"resourceClaimName": "by-hand", "requestMappings": mappings}
        pod(fra, "p-0", raw={"status": {"extendedResourceClaimStatus": made}})
    found = UnmanagedClaim(row)
    assert (str(found.origin), found.explanation) == (origin_said, text)


@pytest.mark.parametrize(
    ("origin", "deleting", "is_adoptable"),
    [
        ("foreign", None, True),
        ("portal", None, True),
        ("template", None, False),
        ("extended-resource", None, False),
        ("foreign", NOON, False),
        ("portal", NOON, False),
    ],
)
def test_what_stays_can_be_adopted(origin, deleting, is_adoptable):
    assert UnmanagedClaim(ResourceClaim(origin=origin, deleting_since=deleting)).is_adoptable is is_adoptable


def test_it_is_reserved_for_those_of_its_status():
    assert (
        consumer_references(ResourceClaim(raw={}))
        == consumer_references(ResourceClaim(raw={"status": None}))
        == []
    )
    row = ResourceClaim(raw={"status": {"reservedFor": [{"name": "a"}, {"name": "b"}]}})
    assert [one["name"] for one in consumer_references(row)] == ["a", "b"]
    assert UnmanagedClaim(row).pods == 2


# The lists.


@pytest.fixture
def several(fra, audio, vision):
    osl = make_cluster("osl-1", teams=(vision,))
    full = {
        "metadata": {"name": "full"},
        "spec": make_spec(3),
        "status": {
            "allocation": {"devices": {"results": [result("gpu-0"), result("gpu-1")]}},
            "reservedFor": [{"name": "a"}],
        },
    }
    make_unmanaged(
        fra, "full", raw=full, state="allocated,reserved", origin="template", allocated_at=NOON,
        created_at=NOON - timedelta(hours=1),
    )  # fmt: skip
    make_unmanaged(osl, "plain", created_at=NOON + timedelta(hours=1))
    make_unmanaged(fra, "of-audio", namespace="audio", created_at=NOON)
    make_unmanaged(fra, "undated")


def csv_of(client, path, **query):
    lines = b"".join(client.get(f"{path}?{urlencode({'format': 'csv', **query}, doseq=True)}")).decode()
    return list(csv.reader(io.StringIO(lines)))


def test_the_csv_has_every_column_of_every_row_newest_first(client, root, several):
    client.force_login(root)
    head, *rows = csv_of(client, LIST)
    assert head == [
        "ResourceClaim", "Origin", "State", "Requested devices", "Held", "Pods", "Allocated", "Team",
        "Namespace", "Cluster", "Created",
    ]  # fmt: skip
    direct = "created outside the portal"
    at = {hour: f"2026-11-20T{hour}:00:00+00:00" for hour in (11, 12, 13)}
    assert rows == [
        ["plain", direct, "pending", "2", "0", "0", "", "vision", "vision", "osl-1", at[13]],
        ["of-audio", direct, "pending", "2", "0", "0", "", "audio", "audio", "fra-1", at[12]],
        ["full", "from a template", "allocated,reserved", "3", "2", "1", at[12], "vision", "vision", "fra-1",
         at[11]],
        ["undated", direct, "pending", "2", "0", "0", "", "vision", "vision", "fra-1", ""],
    ]  # fmt: skip
    uids = csv_of(client, LIST, col="uid", sort="name")
    assert uids[1:] == [[name, f"uid-{name}"] for name in ("full", "of-audio", "plain", "undated")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["full", "of-audio", "plain", "undated"]),
        ({"team": "audio"}, ["of-audio"]),
        ({"team": "vision"}, ["full", "plain", "undated"]),
        ({"cluster": "osl-1"}, ["plain"]),
        ({"cluster": "fra-1", "team": "vision"}, ["full", "undated"]),
        ({"origin": "template"}, ["full"]),
        ({"origin": "foreign"}, ["of-audio", "plain", "undated"]),
        ({"state": "allocated,reserved"}, ["full"]),
        ({"state": "pending"}, ["of-audio", "plain", "undated"]),
    ],
)
def test_list_and_api_are_narrowed_alike(client, root, several, query, expected):
    client.force_login(root)
    assert [line[0] for line in csv_of(client, LIST, sort="name", **query)[1:]] == expected
    newest_first = [name for name in ("undated", "of-audio", "plain", "full") if name in expected]
    assert [one["name"] for one in client.get(API, query).json()["results"]] == newest_first


@pytest.mark.parametrize(
    ("words", "expected"),
    [("plai", ["plain"]), ("audio", ["of-audio"]), ("uid-full", ["full"]), ("no such", [])],
)
def test_a_list_is_searched_by_name_namespace_and_uid(client, root, several, words, expected):
    client.force_login(root)
    assert [line[0] for line in csv_of(client, LIST, sort="name", q=words)[1:]] == expected


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("name", ["full", "of-audio", "plain", "undated"]),
        ("-name", ["undated", "plain", "of-audio", "full"]),
        ("created", ["full", "of-audio", "plain", "undated"]),
        ("-cluster", ["plain"]),
        ("-origin", ["full"]),
        ("state", ["full"]),
        ("team", ["of-audio"]),
        ("namespace", ["of-audio"]),
        ("since", ["full"]),
    ],
)
def test_a_list_is_sorted(client, root, several, sort, expected):
    client.force_login(root)
    found = [line[0] for line in csv_of(client, LIST, sort=sort)[1:]]
    assert found[: len(expected)] == expected


def test_the_api_is_narrowed_by_namespace(client, root, several):
    client.force_login(root)
    answer = client.get(API, {"namespace": "audio"}).json()
    assert [one["name"] for one in answer["results"]] == ["of-audio"]


def test_the_api_says_all_of_an_object(client, alice, several):
    client.force_login(alice)
    (full,) = client.get(API, {"origin": "template"}).json()["results"]
    held = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-1", "since": "2026-11-20T12:00:00Z"}
    assert full == {
        "uid": "uid-full",
        "name": "full",
        "namespace": "vision",
        "cluster": "fra-1",
        "team": "vision",
        "origin": "template",
        "explanation": OF_TEMPLATE.format("a pod", "?"),
        "state": "allocated,reserved",
        "requested_devices": 3,
        "held": [held | {"device": "gpu-0"}, held | {"device": "gpu-1"}],
        "pods": 1,
        "allocated_at": "2026-11-20T12:00:00Z",
        "created_at": "2026-11-20T11:00:00Z",
        "adoptable": False,
    }


def test_templates_have_a_list_of_their_own_with_what_they_ask_for(client, root, fra, audio):
    make_unmanaged(fra, "tpl-1", ResourceClaimTemplate, created_at=NOON)
    make_unmanaged(
        fra, "tpl-2", ResourceClaimTemplate, namespace="audio", created_at=NOON + timedelta(hours=1)
    )
    make_unmanaged(fra, "claim")
    client.force_login(root)
    head, *rows = csv_of(client, f"{LIST}templates/")
    assert head == ["Template", "Requested devices", "Team", "Namespace", "Cluster", "Created"]
    at = "2026-11-20T{}:00:00+00:00"
    assert rows == [
        ["tpl-2", "2", "audio", "audio", "fra-1", at.format(13)],
        ["tpl-1", "2", "vision", "vision", "fra-1", at.format(12)],
    ]
    assert [line[0] for line in csv_of(client, f"{LIST}templates/", team="audio")[1:]] == ["tpl-2"]
    shown = client.get(f"{LIST}templates/").context["listing"].loaded
    assert [(row.name, row.requested) for row in shown] == [("tpl-2", 2), ("tpl-1", 2)]


# The pages.


def test_the_page_has_its_own_object_as_kubectl_shows_it(client, alice, root, fra):
    raw = {
        "status": {"reservedFor": []}, "kind": "ResourceClaim", "metadata": {"name": "by-hand"},
        "spec": make_spec(2), "apiVersion": "resource.k8s.io/v1", "extra": 1,
    }  # fmt: skip
    row = make_unmanaged(fra, raw=raw)
    make_unmanaged(fra, "another", uid="a-uid-before")
    client.force_login(alice)
    shown = client.get(f"{LIST}{row.uid}/").context
    assert (shown["row"], shown["unmanaged"], shown["may_adopt"]) == (row, UnmanagedClaim(row), False)
    keys = [line.split(":")[0] for line in shown["yaml"].splitlines() if line and line[0] not in " -"]
    assert keys == ["apiVersion", "kind", "metadata", "spec", "status"]
    client.force_login(root)
    assert client.get(f"{LIST}{row.uid}/").context["may_adopt"] is True
    ResourceClaim.objects.filter(pk=row.pk).update(origin="template")
    assert client.get(f"{LIST}{row.uid}/").context["may_adopt"] is False
    assert client.get(f"{LIST}no-such-uid/").status_code == 404


def test_the_page_of_a_template_is_of_that_template(client, alice, fra):
    make_unmanaged(fra, "another", ResourceClaimTemplate, uid="a")
    row = make_unmanaged(fra, "tpl", ResourceClaimTemplate)
    client.force_login(alice)
    shown = client.get(f"{LIST}templates/{row.uid}/").context
    assert (shown["row"], shown["requested_devices"]) == (row, 2)
    assert "name: tpl" in shown["yaml"]
    assert client.get(f"{LIST}templates/no-such-uid/").status_code == 404


@pytest.mark.parametrize("path", [LIST, f"{LIST}templates/", f"{LIST}uid-by-hand/", f"{LIST}templates/t/"])
def test_pages_have_heads(client, alice, fra, path):
    make_unmanaged(fra)
    make_unmanaged(fra, "tpl", ResourceClaimTemplate, uid="t")
    client.force_login(alice)
    assert client.get(path).status_code == client.head(path).status_code == 200


# How old it is.


@pytest.fixture
def freshness(fra):
    """Each resource was seen at another hour; of osl-1 nothing was listed yet."""
    make_cluster("osl-1")
    make_cluster("off-1", enabled=False)
    for hour, resource in enumerate(("resourceclaims", "pods", "resourceclaimtemplates", "nodes"), start=3):
        Freshness.objects.create(cluster=fra, resource=resource, seen_at=NOON.replace(hour=hour))


@pytest.mark.parametrize(
    ("path", "hour", "of_all"),
    [
        (LIST, 3, True),
        (f"{LIST}uid-by-hand/", 3, False),
        (f"{LIST}templates/", 5, True),
        (f"{LIST}templates/t/", 5, False),
    ],
)
def test_a_page_says_how_old_what_it_shows_is(client, alice, fra, freshness, path, hour, of_all):
    make_unmanaged(fra)
    make_unmanaged(fra, "tpl", ResourceClaimTemplate, uid="t")
    client.force_login(alice)

    def ages():
        return [(age.cluster.name, age.seen_at) for age in client.get(path).context["ages"]]

    others = [("osl-1", None)] if of_all else []
    assert ages() == [("fra-1", NOON.replace(hour=hour)), *others]
    if hour == 3:  # pods count too: the oldest of both
        Freshness.objects.filter(resource="pods").update(seen_at=NOON.replace(hour=1))
        assert ages() == [("fra-1", NOON.replace(hour=1)), *others]


@pytest.mark.parametrize(
    ("path", "title", "text"),
    [
        (LIST, "No unmanaged claims",
         "Every ResourceClaim in your teams' namespaces belongs to a claim of the portal."),
        (f"{LIST}templates/", "No unmanaged templates",
         "Every template in your teams' namespaces belongs to a claim of the portal."),
    ],
)  # fmt: skip
def test_an_empty_list_says_so(client, alice, fra, path, title, text):
    client.force_login(alice)
    shown = client.get(path)
    assert title in shown.text
    assert text in html.unescape(shown.text)


def test_the_list_shows_its_rows_newest_first(client, root, several):
    client.force_login(root)
    shown = client.get(LIST).context["listing"].loaded
    assert [row.name for row in shown] == ["plain", "of-audio", "full", "undated"]
    assert [row.requested for row in shown] == [2, 2, 3, 2]


def test_the_table_shows_what_the_csv_has(client, root, several):
    client.force_login(root)
    columns = ["name", "origin", "state", "requested", "held", "pods", "team", "namespace", "cluster"]
    page = client.get(LIST, {"col": columns}).text
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    rows = re.findall("<tr>(.*?)</tr>", table, re.DOTALL)
    cells = [[html.unescape(re.sub("<[^>]+>", "", cell)) for cell in row.split("</td>")[:-1]] for row in rows]
    assert cells == csv_of(client, LIST, col=columns)[1:] != []
