"""A cluster is mirrored once, whatever it is called and however many people add it at the same moment."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest
from django.db import IntegrityError, connection

from cluster.credentials import Credentials
from core.errors import Conflict
from inventory import clusters
from inventory.clusters import add_cluster
from inventory.models import Cluster, Device, Freshness
from inventory.sync import list_watch
from inventory.sync.list_watch import sync_once

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = Credentials(server="https://fra-1.example.org", token="not-a-secret")


@pytest.fixture
def answers(monkeypatch) -> Callable[..., None]:
    """Let every cluster that is added say that it is this one, after `wait`."""

    def answer(uid: str = "uid-of-fra", wait: Callable[[], object] = lambda: None) -> None:
        def ask(credentials: Credentials) -> dict[str, str | bool]:
            wait()
            return {"uid": uid, "version": "v1.37.1", "simulated": False}

        monkeypatch.setattr(clusters, "_identity_and_version", ask)

    return answer


def test_one_of_two_concurrent_additions_is_a_conflict(answers, monkeypatch):
    answers()
    together = Barrier(2)
    save = Cluster.save

    def save_together(cluster, **how):
        together.wait(60)  # both have looked, and neither has found the other
        save(cluster, **how)

    monkeypatch.setattr(Cluster, "save", save_together)

    def add(name):
        try:
            return add_cluster(name=name, credentials=TOKEN).name
        except Conflict as refusal:
            return refusal.message
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        told = set(threads.map(add, ("fra-1", "fra-2")))
    name = Cluster.objects.get().name
    assert told == {
        name,
        f"This cluster is already “{name}”: its kube-system namespace has the same UID uid-of-fra.",
    }


def test_clusters_without_uid_do_not_conflict(db):
    for name in ("fra-1", "fra-2"):
        Cluster.objects.create(name=name, credentials=b"")
    with pytest.raises(IntegrityError):
        Cluster.objects.update(uid="the-same")


def test_second_name_of_a_mirrored_cluster_is_halted(mirrored, fake, monkeypatch):
    @contextmanager
    def to_fake(cluster):
        yield fake

    monkeypatch.setattr(list_watch, "gateway_for", to_fake)
    twin = Cluster.objects.create(name="fra-2", credentials=b"")
    assert list_watch.run_session(twin.pk, "nodes") is None
    twin.refresh_from_db()
    assert twin.halt_reason == (
        "fra-2 is already mirrored as fra-1: its kube-system namespace has the same "
        f"UID {fake.uid}. The sync under this name is halted."
    )
    assert not Device.objects.filter(cluster=twin).exists()
    assert not Freshness.objects.filter(cluster=twin).exclude(holder="").exists()


def test_second_name_is_synced_once_the_first_is_removed(mirrored, fake):
    twin = Cluster.objects.create(name="fra-2", credentials=b"", halt_reason="It is mirrored as fra-1.")
    mirrored.delete()
    sync_once(twin, fake)
    twin.refresh_from_db()
    assert (twin.uid, twin.halt_reason) == (fake.uid, "")
    assert Device.objects.filter(cluster=twin).count() == 3
