"""Clusters in the browser: added, checked, changed, paused and removed by platform admins, by nobody else."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.urls import reverse

from claims.models import TeamNamespace
from cluster.checkup import manifest
from cluster.credentials import Credentials, seal, unseal
from cluster.protocol import NAMESPACE, NODE, Unreachable
from inventory import clusters
from inventory.models import Cluster, TelemetryAccess
from teams.models import AuditEntry
from tests.factories import make_claim, make_cluster, make_team, make_user
from tests.fakes import FakeGateway
from usage.source_report import SourceReport

pytestmark = pytest.mark.django_db(transaction=True)  # what is added and removed is committed at once

TOKEN = "the-very-secret-token"
KUBECONFIG = yaml.safe_dump(
    {
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "fra", "user": "portal"}}],
        "clusters": [{"name": "fra", "cluster": {"server": "https://fra.example:6443"}}],
        "users": [{"name": "portal", "user": {"token": TOKEN}}],
    }
)
ADD = "/setup/cluster/"
SETTINGS = "/clusters/fra-1/settings/"


@pytest.fixture
def gateway(monkeypatch):
    """Every address leads to this cluster."""
    fake = FakeGateway(name="fra")
    monkeypatch.setattr(clusters, "KubeGateway", lambda credentials: fake)
    return fake


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def as_root(client, root):
    client.force_login(root)
    return client


@pytest.fixture
def fra(gateway):
    return make_cluster(
        "fra-1", uid=gateway.uid, credentials=seal(Credentials(server="https://old", token="old"))
    )


def changes():
    return list(
        AuditEntry.objects.filter(in_activity=True)
        .order_by("-at")
        .values_list("by__username", "name", "text")
    )


def everything_stored() -> str:
    """Return all texts of the tables that hold records and sessions."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT json_agg(l)::text FROM django_admin_log l")
        return cursor.fetchone()[0] or ""


def test_cluster_is_added_from_a_pasted_kubeconfig_and_recorded(as_root, gateway, caplog):
    caplog.set_level(logging.DEBUG)
    form = {"name": "fra-1", "title": "Frankfurt", "kubeconfig": KUBECONFIG, "scope": "read-only"}
    response = as_root.post(ADD, form)
    assert response.url == SETTINGS
    cluster = Cluster.objects.get()
    assert (cluster.name, cluster.title, cluster.uid) == ("fra-1", "Frankfurt", gateway.uid)
    assert (cluster.read_only, cluster.write_quotas) == (True, False)
    assert unseal(cluster.credentials).token == TOKEN
    assert changes() == [("root", "fra-1", "added: fra.example:6443, read-only")]
    page = as_root.get(SETTINGS).text
    for text in (response.content.decode(), page, everything_stored(), caplog.text):
        assert TOKEN not in text


@pytest.mark.parametrize(
    "fields",
    [
        {"file": SimpleUploadedFile("kubeconfig", KUBECONFIG.encode())},
        {"server": "https://fra.example:6443", "token": TOKEN},
    ],
    ids=["file", "token"],
)
def test_cluster_is_added_from_a_file_or_a_token(as_root, gateway, fields):
    assert as_root.post(ADD, {"name": "fra-1", "scope": "quotas", **fields}).status_code == 302
    cluster = Cluster.objects.get()
    assert (unseal(cluster.credentials).token, cluster.write_quotas) == (TOKEN, True)


PROGRAM = KUBECONFIG.replace(f"token: {TOKEN}", "exec: {command: sh}")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"kubeconfig": PROGRAM}, "gets its token from a program (“exec”)"),
        ({"kubeconfig": TOKEN}, "This is not a kubeconfig"),
        ({"kubeconfig": KUBECONFIG, "token": TOKEN}, "not both"),
        ({"token": TOKEN}, "names no server address"),
        ({"server": "https://169.254.169.254", "token": TOKEN}, "an address of the machine itself"),
        ({"file": SimpleUploadedFile("x", b"\xff\xfe")}, "The file is not text."),
        ({}, "Paste a kubeconfig, choose its file, or give an API server with a token."),
        ({"kubeconfig": KUBECONFIG, "name": "Fra 1"}, "Lower-case letters, digits and hyphens."),
    ],
)
def test_refused_credentials_are_explained_and_never_sent_back(as_root, gateway, fields, sentence):
    response = as_root.post(ADD, {"name": "fra-1", "title": "Typed", "scope": "full", **fields})
    assert response.status_code == 422
    assert sentence in response.text
    assert "Typed" in response.text  # what is no secret is not lost
    assert TOKEN not in response.text
    assert gateway.calls == []
    assert not Cluster.objects.exists()


def test_unreachable_cluster_is_not_added(as_root, gateway):
    gateway.fail(Unreachable("fra.example:6443 does not answer."), times=10)
    response = as_root.post(ADD, {"name": "fra-1", "kubeconfig": KUBECONFIG, "scope": "full"})
    assert (response.status_code, Cluster.objects.count(), changes()) == (409, 0, [])
    assert "fra.example:6443 does not answer." in response.text
    assert "not readable" in response.text


CHECKED = {"name": "fra-1", "title": "Frankfurt", "kubeconfig": KUBECONFIG, "scope": "full", "do": "check"}


def test_check_keeps_a_draft_with_which_the_cluster_is_added_without_typing_secrets_again(as_root, gateway):
    make_team("vision")
    gateway.put(NAMESPACE, {"metadata": {"name": "vision"}})
    gateway.put(NODE, {"metadata": {"name": "gpu-01"}})
    assert as_root.post(ADD, CHECKED).url == f"{ADD}#check"
    assert not Cluster.objects.exists()
    assert TOKEN not in str(dict(as_root.session.items()))
    page = as_root.get(ADD).text
    for fact in ("https://fra.example:6443", "All passed", "exists", "Add fra-1", "get, list, watch"):
        assert fact in page
    assert "disabled" not in page[page.index('value="add"') :][:60]
    assert TOKEN not in page
    form = {"name": "fra-1", "title": "Hall 2", "scope": "full", "namespace-vision": "vision", "do": "add"}
    assert as_root.post(ADD, form).url == SETTINGS
    cluster = Cluster.objects.get()
    assert (cluster.title, unseal(cluster.credentials).token) == ("Hall 2", TOKEN)
    assert TeamNamespace.objects.get(cluster=cluster).namespace == "vision"
    assert "Check it first." in as_root.get(ADD).text  # the draft is over


def test_failed_check_shows_its_remedy_in_place_and_the_cluster_can_be_added_read_only(as_root, gateway):
    gateway.denied.add(("delete", "resourceclaimtemplates"))
    page = as_root.post(ADD, CHECKED, follow=True).text
    assert "1 check must pass before it can take claims." in page
    assert "kubectl apply -f dragoman-full.yaml" in page
    form = {"name": "fra-1", "title": "", "scope": "full"}
    refused = as_root.post(ADD, form | {"do": "add"})
    assert (refused.status_code, Cluster.objects.count()) == (409, 0)
    assert "1 check failed: delete resourceclaimtemplates.resource.k8s.io: missing" in refused.text
    assert as_root.post(ADD, form | {"do": "read-only"}).url == SETTINGS
    assert Cluster.objects.get().read_only is True


def test_read_only_is_no_way_out_if_the_cluster_cannot_be_read(as_root, gateway):
    gateway.denied.add(("list", "nodes"))
    assert "Add it read-only for now" not in as_root.post(ADD, CHECKED, follow=True).text
    form = {"name": "fra-1", "title": "", "scope": "full", "do": "read-only"}
    assert (as_root.post(ADD, form).status_code, Cluster.objects.count()) == (409, 0)


def test_draft_is_discarded_and_one_that_cannot_be_read_is_ignored(as_root, gateway):
    as_root.post(ADD, CHECKED)
    assert as_root.post(ADD, {"do": "discard"}).url == ADD
    assert as_root.post(ADD, {"name": "fra-1", "do": "check"}).status_code == 422  # no credentials are left
    session = as_root.session
    session["cluster_draft"] = {"name": "fra-1"}
    session.save()
    assert "Check it first." in as_root.get(ADD).text


def test_page_costs_the_same_queries_for_any_number_of_teams(as_root, gateway, django_assert_max_num_queries):
    make_team("vision")
    as_root.post(ADD, CHECKED)
    as_root.get(ADD)
    with django_assert_max_num_queries(15) as few:
        as_root.get(ADD)
    for number in range(30):
        make_team(f"team-{number}")
    with django_assert_max_num_queries(len(few)):
        assert "11 more teams" in as_root.get(ADD).text


def test_same_form_twice_adds_one_cluster(as_root, gateway):
    form = {"name": "fra-1", "kubeconfig": KUBECONFIG, "scope": "full"}
    as_root.post(ADD, form)
    again = as_root.post(ADD, form)
    assert (again.status_code, Cluster.objects.count(), len(changes())) == (409, 1, 1)
    assert "A cluster “fra-1” exists already." in again.text


@pytest.mark.parametrize(
    ("scope", "options"),
    [
        ("full", {}),
        ("quotas", {"write_quotas": True}),
        ("evict", {"evict_pods": True}),
        ("quotas-evict", {"write_quotas": True, "evict_pods": True}),
        ("read-only", {"read_only": True}),
    ],
)
def test_permissions_are_those_that_the_command_prints(as_root, scope, options):
    assert as_root.get(ADD, {"scope": scope, "download": 1}).content.decode() == manifest(**options)
    with_tokens = as_root.get(ADD, {"scope": scope, "tokens": 1, "download": 1})
    assert with_tokens.content.decode() == manifest(review_tokens=True, **options)
    assert with_tokens["Content-Disposition"] == f'attachment; filename="dragoman-{scope}-tokens.yaml"'
    assert f"{ADD}?scope={scope}&amp;tokens=1&amp;download=1" in as_root.get(ADD).text


@pytest.mark.parametrize(
    ("scope", "stored", "shown"),
    [
        ("quotas", (True, "run"), "dragoman-quotas.yaml"),
        ("evict", (False, "ask"), "dragoman-evict.yaml"),
        ("quotas-evict", (True, "ask"), "dragoman-quotas-evict.yaml"),
    ],
)
def test_permission_to_evict_asks_first_until_the_settings_say_more(as_root, gateway, scope, stored, shown):
    assert as_root.post(ADD, {"name": "fra-1", "kubeconfig": KUBECONFIG, "scope": scope}).status_code == 302
    assert Cluster.objects.values_list("write_quotas", "end_policy").get() == stored
    assert shown in as_root.get(SETTINGS).text
    assert shown.replace(".yaml", "-tokens.yaml") in as_root.get(SETTINGS).text
    form = {"title": "", "end_policy": "evict"}
    assert as_root.post(SETTINGS, form).status_code == 302
    assert Cluster.objects.get().end_policy == "evict"
    assert ("root", "fra-1", f"end_policy {stored[1]} → evict") in changes()
    assert as_root.post(SETTINGS, {"title": "", "end_policy": "kill"}).status_code == 422


def test_failed_check_shows_its_remedy(as_root, fra, gateway):
    gateway.denied.add(("delete", "resourceclaims"))
    page = as_root.get(f"{SETTINGS}checks/").text
    assert "delete resourceclaims.resource.k8s.io" in page
    assert page.count("Apply the permissions again") == 1
    assert "1 failed" in page
    gateway.denied.clear()
    assert "All passed" in as_root.get(f"{SETTINGS}checks/", headers={"HX-Request": "true"}).text


def test_settings_page_opens_without_a_connection_to_the_cluster(as_root, fra, gateway):
    assert as_root.get(SETTINGS).status_code == 200
    assert gateway.calls == []


def test_title_and_mode_are_changed_and_recorded_once(as_root, fra):
    for _attempt in range(2):
        assert (
            as_root.post(SETTINGS, {"title": "Hall 2", "read_only": "on", "end_policy": "run"}).status_code
            == 302
        )
    fra.refresh_from_db()
    assert (fra.title, fra.read_only) == ("Hall 2", True)
    assert changes() == [("root", "fra-1", "title – → Hall 2, read_only off → on")]


def test_cluster_with_written_quotas_does_not_become_read_only(as_root, fra):
    Cluster.objects.update(write_quotas=True)
    response = as_root.post(SETTINGS, {"title": "", "read_only": "on", "end_policy": "run"})
    assert (response.status_code, Cluster.objects.get().read_only) == (409, False)
    assert "Stop that first" in response.text


TELEMETRY = {"prometheus_url": "http://prometheus:9090", "metrics_url": "", "timeout_seconds": "10"}


def test_telemetry_secret_is_stored_encrypted_and_never_shown(as_root, fra, caplog):
    caplog.set_level(logging.DEBUG)
    form = TELEMETRY | {"kind": "password", "user": "reader", "password": "pa55word"}
    assert as_root.post(f"{SETTINGS}telemetry", form).status_code == 302
    access = TelemetryAccess.objects.get()
    assert (access.kind, access.server) == ("password", "http://prometheus:9090")
    page = as_root.get(SETTINGS).text
    assert "User and password stored encrypted for http://prometheus:9090" in page
    assert "pa55word" not in page + everything_stored() + caplog.text + str(bytes(access.sealed))
    assert sorted(text for _, _, text in changes()) == [
        "access to telemetry given: user and password",
        "prometheus_url – → prometheus",
    ]


def test_empty_secret_of_the_same_kind_keeps_the_stored_one(as_root, fra):
    as_root.post(f"{SETTINGS}telemetry", TELEMETRY | {"kind": "token", "token": TOKEN})
    kept = bytes(TelemetryAccess.objects.get().sealed)
    assert as_root.post(f"{SETTINGS}telemetry", TELEMETRY | {"kind": "token"}).status_code == 302
    assert bytes(TelemetryAccess.objects.get().sealed) == kept
    moved = TELEMETRY | {"kind": "token", "prometheus_url": "http://elsewhere:9090"}
    refused = as_root.post(f"{SETTINGS}telemetry", moved)
    assert (refused.status_code, Cluster.objects.get().prometheus_url) == (422, TELEMETRY["prometheus_url"])
    assert "was given for http://prometheus:9090 and is not sent elsewhere" in refused.text
    assert as_root.post(f"{SETTINGS}telemetry", TELEMETRY | {"kind": ""}).status_code == 302
    assert TelemetryAccess.objects.get().kind == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prometheus_url": "ftp://prometheus"}, "Enter a URL"),
        ({"prometheus_url": "http://reader:pa55word@prometheus"}, "in their own fields"),
        ({"prometheus_url": "", "kind": "token", "token": "pa55word"}, "Give the address"),
        ({"kind": "token"}, "Give the bearer token"),
        ({"kind": "password", "password": "pa55word"}, "Give the user"),
        ({"token": "pa55word"}, "Choose “Bearer token”, or empty its fields."),
        ({"kind": "token", "token": "a", "password": "pa55word"}, "Choose “User and password”"),
        ({"matchers": "cluster=fra"}, "Enter label matchers"),
        ({"kind": "certificate", "certificate": "pa55word", "key": "pa55word"}, "damaged"),
        ({"authority": "PEM"}, "Enter certificates in PEM"),
        ({"tenant": "a b"}, "several tenants"),
        ({"timeout_seconds": "0"}, "greater than or equal to 1"),
    ],
)
def test_malformed_telemetry_is_refused_without_repeating_a_secret(as_root, fra, fields, words):
    refused = as_root.post(f"{SETTINGS}telemetry", TELEMETRY | fields)
    assert refused.status_code == 422
    assert words in refused.text
    assert "pa55word" not in refused.text
    assert not TelemetryAccess.objects.exists()


def test_telemetry_is_tested_without_being_saved(as_root, fra, monkeypatch):
    asked = []

    def check(cluster, source):
        asked.append((source.url, source.secret.token, source.tenant))
        return SourceReport(problem="It does not respond.")

    monkeypatch.setattr("portal.setup.clusters.check_source", check)
    form = TELEMETRY | {"kind": "token", "token": TOKEN, "tenant": "gpu", "test": "1"}
    page = as_root.post(f"{SETTINGS}telemetry", form).text
    assert "It does not respond. Nothing was saved." in page
    assert TOKEN not in page
    assert asked == [("http://prometheus:9090", TOKEN, "gpu")]
    assert (Cluster.objects.get().prometheus_url, TelemetryAccess.objects.exists()) == ("", False)
    assert (
        "Give an address to test."
        in as_root.post(f"{SETTINGS}telemetry", {"timeout_seconds": "10", "test": "1"}).text
    )


def test_stored_secret_is_used_by_a_test(as_root, fra, monkeypatch):
    as_root.post(f"{SETTINGS}telemetry", TELEMETRY | {"kind": "token", "token": TOKEN})
    asked = []

    def check(cluster, source):
        asked.append(source.secret.token)
        return SourceReport()

    monkeypatch.setattr("portal.setup.clusters.check_source", check)
    as_root.post(f"{SETTINGS}telemetry", TELEMETRY | {"kind": "token", "test": "1"})
    assert asked == [TOKEN]


def test_settings_page_reads_no_source(as_root, fra, monkeypatch):
    Cluster.objects.update(prometheus_url="http://prometheus:9090")
    monkeypatch.setattr("usage.sources.ask", lambda *arguments: pytest.fail("The source was read."))
    assert as_root.get(SETTINGS).status_code == 200


def test_settings_say_when_the_credentials_expire(as_root, fra):
    assert "Replace them before their token expires." in as_root.get(SETTINGS).text
    Cluster.objects.update(credentials_expire_at=datetime(2100, 1, 1, tzinfo=UTC))
    page = as_root.get(SETTINGS).text
    assert "They expire" in page
    assert 'datetime="2100-01-01T00:00:00' in page


def test_credentials_are_replaced_only_by_some_of_the_same_cluster(as_root, fra, gateway):
    address = "/clusters/fra-1/credentials/"
    Cluster.objects.update(uid="another")
    refused = as_root.post(address, {"kubeconfig": KUBECONFIG})
    assert "lead to another cluster" in refused.text
    assert unseal(Cluster.objects.get().credentials).token == "old"
    Cluster.objects.update(uid=gateway.identity())
    assert as_root.post(address, {"kubeconfig": KUBECONFIG}).url == SETTINGS
    assert unseal(Cluster.objects.get().credentials).token == TOKEN
    assert changes() == [("root", "fra-1", "credentials replaced: fra.example:6443")]
    assert TOKEN not in as_root.get(SETTINGS).text + refused.text


def test_pause_says_how_many_claims_wait_and_resume_ends_it(as_root, fra):
    make_claim(cluster=fra)
    page = as_root.get("/clusters/fra-1/pause/").text
    assert "1 request waits for delivery" in page
    for _attempt in range(2):
        as_root.post("/clusters/fra-1/pause/")
    assert Cluster.objects.get().enabled is False
    as_root.post("/clusters/fra-1/resume")
    assert Cluster.objects.get().enabled is True
    assert [change for *_who, change in changes()] == ["resumed", "paused"]


def test_cluster_is_removed_once_its_name_is_typed(as_root, fra):
    assert as_root.post("/clusters/fra-1/remove/", {"name": "fra"}).status_code == 422
    assert Cluster.objects.exists()
    assert as_root.post("/clusters/fra-1/remove/", {"name": "fra-1"}).url == "/clusters/"
    assert not Cluster.objects.exists()
    assert changes() == [("root", "fra-1", "removed")]
    assert as_root.post("/clusters/fra-1/remove/", {"name": "fra-1"}).status_code == 404


def test_cluster_with_claims_is_not_removed_and_the_page_says_why(as_root, fra):
    make_claim(cluster=fra)
    assert "the history and cost of its 1 claim would be lost" in as_root.get("/clusters/fra-1/remove/").text
    response = as_root.post("/clusters/fra-1/remove/", {"name": "fra-1"})
    assert (response.status_code, Cluster.objects.count(), changes()) == (409, 1, [])


GETS = ("cluster", "cluster_checks", "cluster_credentials", "cluster_pause", "cluster_remove")
POSTS = (*GETS[:1], *GETS[2:], "cluster_telemetry", "cluster_resume")


@pytest.mark.parametrize("person", ["outsider", "mia", "lena", "owen"])
def test_only_platform_admins_open_or_change_a_cluster(client, fra, gateway, person):
    people = {name: make_user(name) for name in ("outsider", "mia", "lena", "owen")}
    make_team(members=(people["mia"],), leads=(people["lena"],), owners=(people["owen"],))
    client.force_login(people[person])
    before = Cluster.objects.values().get()
    assert client.get(ADD).status_code == 403
    form = {"name": "fra-1", "title": "Mine", "kubeconfig": KUBECONFIG, "scope": "full"}
    assert client.post(ADD, form).status_code == 403
    for name in GETS:
        assert client.get(reverse(f"setup:{name}", args=["fra-1"])).status_code == 403, name
    for name in POSTS:
        assert client.post(reverse(f"setup:{name}", args=["fra-1"]), form).status_code == 403, name
    assert (Cluster.objects.values().get(), gateway.calls, changes()) == (before, [], [])
