"""A cluster that is added, renewed, removed: every column, and nothing of any other cluster."""

import base64
import json
from datetime import UTC, datetime

import pytest
from django.core.exceptions import ValidationError
from django.db.models import ProtectedError

from cluster.credentials import Credentials, seal, unseal
from core.errors import Conflict, Invalid
from inventory import clusters
from inventory.clusters import (
    Unknown,
    add_cluster,
    find_cluster,
    remove_cluster,
    renew_credentials,
    write_quotas,
)
from inventory.models import Cluster

OLD = Credentials(server="https://fra-1.example.org", token="old")
NEW = Credentials(server="https://fra-1.example.org:6443", token="new")
FACTS = {"uid": "uid-of-fra", "version": "v1.37.1", "simulated": True}

pytestmark = pytest.mark.django_db(transaction=True)  # what is added and removed is committed at once


@pytest.fixture
def answer(monkeypatch):
    """Every cluster says this of itself."""
    facts = dict(FACTS)
    asked = []

    def ask(credentials):
        asked.append(credentials)
        return facts

    monkeypatch.setattr(clusters, "_identity_and_version", ask)
    return facts, asked


def other(**fields):
    return Cluster.objects.create(name="ber-1", uid="ber", credentials=seal(OLD), **fields)


def columns(name):
    row = Cluster.objects.filter(name=name).values().get()
    return dict(row) | {"credentials": unseal(row["credentials"])}


def test_cluster_is_added_with_discovered_and_given_fields(answer):
    _, asked = answer
    before = Cluster.objects.filter(pk=other().pk).values().get()
    made = add_cluster(name="fra-1", credentials=NEW, title="Frankfurt", read_only=True)
    row = columns("fra-1")
    assert {name: row[name] for name in row if name not in ("id", "created_at")} == {
        "name": "fra-1",
        "title": "Frankfurt",
        "uid": "uid-of-fra",
        "credentials": NEW,
        "credentials_expire_at": None,
        "version": "v1.37.1",
        "discovery": {},
        "simulated": True,
        "read_only": True,
        "enabled": True,
        "write_quotas": False,
        "end_policy": "run",
        "grams_per_kwh": None,
        "prometheus_url": "",
        "metrics_url": "",
        "halt_reason": "",
        "checked_at": None,
        "missing": [],
        "revision": 0,
    }
    assert (made.pk, asked) == (row["id"], [NEW])
    assert Cluster.objects.filter(name="ber-1").values().get() == before


def expiring(at):
    """Return credentials whose token says when it expires (RFC 7519)."""
    payload = base64.urlsafe_b64encode(json.dumps({"exp": int(at.timestamp())}).encode()).decode()
    return Credentials(server="https://fra-1.example.org", token=f"head.{payload.rstrip('=')}.sign")


def test_expiry_of_the_credentials_is_stored_with_them(answer):
    end = datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert add_cluster(name="fra-1", credentials=expiring(end)).credentials_expire_at == end
    later = end.replace(year=2027)
    assert renew_credentials(name="fra-1", credentials=expiring(later)).credentials_expire_at == later
    assert renew_credentials(name="fra-1", credentials=NEW).credentials_expire_at is None


@pytest.mark.parametrize(
    ("name", "uid", "asked", "told"),
    [
        (
            "ber-1",
            "new",
            0,
            "A cluster “ber-1” exists already. Its settings page, or --renew, replaces its credentials.",
        ),
        (
            "fra-1",
            "ber",
            1,
            "This cluster is already “ber-1”: its kube-system namespace has the same UID ber.",
        ),
    ],
)
def test_existing_cluster_is_not_added_again(answer, name, uid, asked, told):
    other()
    facts, was_asked = answer
    facts["uid"] = uid
    with pytest.raises(Conflict) as refusal:
        add_cluster(name=name, credentials=NEW)
    assert refusal.value.message == told
    assert len(was_asked) == asked
    assert Cluster.objects.count() == 1


def test_cluster_without_uid_blocks_no_other(answer):
    Cluster.objects.create(name="new-1", uid="", credentials=b"")
    answer[0]["uid"] = ""
    assert add_cluster(name="fra-1", credentials=NEW).uid == ""


@pytest.mark.parametrize("field", ["prometheus_url", "metrics_url"])
@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "http://",
        "ftp://prometheus:9090",
        "http://prometheus:99999",
        "http://-prometheus",
        "http://prome theus",
        "http://prometheus\n",
        "http://prom_etheus",
        "http://[fd00::zz]:9090",
        "http://[fd00::1",
        "http://" + "a" * 64,
        "javascript:alert(1)",
    ],
)
def test_cluster_with_a_malformed_telemetry_url_is_refused(answer, field, url):
    with pytest.raises(ValidationError) as refusal:
        add_cluster(name="fra-1", credentials=NEW, **{field: url})
    assert refusal.value.message_dict == {field: ["Enter a URL such as http://prometheus:9090."]}
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://prometheus:9090",
        "http://prometheus-server/",
        "http://localhost:9090/prometheus",
        "http://prometheus.monitoring.svc:9090",
        "https://prometheus.example.org./base?tenant=a",
        "http://10.0.0.7:9090",
        "http://[fd00::1]:9090",
    ],
)
def test_telemetry_url_may_have_a_host_of_one_label(answer, url):
    made = add_cluster(name="fra-1", credentials=NEW, prometheus_url=url, metrics_url=url)
    assert (made.prometheus_url, made.metrics_url) == (url, url)


def test_telemetry_url_with_a_password_is_refused_without_repeating_it(answer):
    with pytest.raises(ValidationError) as refusal:
        add_cluster(name="fra-1", credentials=NEW, prometheus_url="https://user:secret@prometheus")
    assert refusal.value.messages == [
        "Give user and password in their own fields, where they are stored encrypted."
    ]


def test_new_credentials_end_a_halt_and_bring_the_facts_up_to_date(answer):
    before = Cluster.objects.filter(pk=other(halt_reason="stopped").pk).values().get()
    Cluster.objects.create(
        name="fra-1",
        uid="uid-of-fra",
        credentials=seal(OLD),
        halt_reason="Another cluster answers.",
        version="v1.0.0",
        title="Frankfurt",
        read_only=True,
    )
    found = renew_credentials(name="fra-1", credentials=NEW)
    row = columns("fra-1")
    assert (row["credentials"], row["halt_reason"], row["version"], row["simulated"]) == (
        NEW,
        "",
        "v1.37.1",
        True,
    )
    assert (row["title"], row["read_only"], row["uid"]) == ("Frankfurt", True, "uid-of-fra")
    assert (found.halt_reason, found.version) == ("", "v1.37.1")
    assert Cluster.objects.filter(name="ber-1").values().get() == before


def test_credentials_of_another_cluster_change_nothing(answer):
    other()
    before = Cluster.objects.values().get()
    with pytest.raises(Invalid) as refusal:
        renew_credentials(name="ber-1", credentials=NEW)
    assert refusal.value.message == (
        "These credentials lead to another cluster than “ber-1”: UID uid-of-fra instead of ber."
    )
    assert Cluster.objects.values().get() == before


def test_cluster_without_uid_takes_that_of_new_credentials(answer):
    Cluster.objects.create(name="fra-1", credentials=seal(OLD))
    assert renew_credentials(name="fra-1", credentials=NEW).uid == "uid-of-fra"


def test_unknown_cluster_is_404_with_the_known_names(answer):
    calls = (
        lambda: find_cluster("x"),
        lambda: remove_cluster(name="x"),
        lambda: renew_credentials(name="x", credentials=NEW),
        lambda: write_quotas(name="x", write=True),
    )

    def refusals():
        for call in calls:
            with pytest.raises(Unknown) as refusal:
                call()
            yield refusal.value.status, refusal.value.code, refusal.value.message

    empty = (404, "not-found", "There is no cluster “x”. Clusters: –.")
    assert set(refusals()) == {empty}
    other()
    Cluster.objects.create(name="fra-1", credentials=b"")
    assert set(refusals()) == {(404, "not-found", "There is no cluster “x”. Clusters: ber-1, fra-1.")}


@pytest.mark.parametrize(("names", "claims"), [("a", "1 claim"), ("abc", "3 claims")])
def test_cluster_with_claims_is_not_removed(monkeypatch, names, claims):
    other()
    Cluster.objects.create(name="fra-1", credentials=b"")

    def refuse(self, *args, **kwargs):
        raise ProtectedError("protected", {Cluster(name=name) for name in names})

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "delete", refuse)
        with pytest.raises(Conflict) as refusal:
            remove_cluster(name="fra-1")
    assert refusal.value.message == f"“fra-1” has {claims}, whose history would be lost. Pause it instead."
    assert Cluster.objects.count() == 2
    remove_cluster(name="fra-1")
    assert Cluster.objects.get().name == "ber-1"


@pytest.mark.parametrize("write", [True, False])
def test_quotas_are_switched_on_and_off_per_cluster(write):
    other(write_quotas=not write)
    Cluster.objects.create(name="fra-1", credentials=b"", write_quotas=not write)
    assert write_quotas(name="fra-1", write=write).write_quotas is write
    assert dict(Cluster.objects.values_list("name", "write_quotas")) == {"fra-1": write, "ber-1": not write}


def test_quotas_of_a_read_only_cluster_can_only_be_switched_off():
    other(read_only=True, write_quotas=True)
    assert write_quotas(name="ber-1", write=False).write_quotas is False
    with pytest.raises(Conflict, match="“ber-1” is read-only"):
        write_quotas(name="ber-1", write=True)
    assert Cluster.objects.get().write_quotas is False


@pytest.mark.parametrize("fails", [False, True])
def test_connection_to_a_new_cluster_is_closed(monkeypatch, fails):
    closed = []

    class Gateway:
        def __init__(self, credentials):
            assert credentials == NEW

        def discover(self):
            if fails:
                raise Invalid("no")
            return type("Found", (), {"version": "v1.36.0", "simulated": False})

        def identity(self):
            return "who"

        def close(self):
            closed.append(self)

    monkeypatch.setattr(clusters, "KubeGateway", Gateway)
    if fails:
        with pytest.raises(Invalid):
            clusters._identity_and_version(NEW)
    else:
        assert clusters._identity_and_version(NEW) == {"uid": "who", "version": "v1.36.0", "simulated": False}
    assert len(closed) == 1
