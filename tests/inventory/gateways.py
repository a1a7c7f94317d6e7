"""Gateways for tests of the sync, and how a turn comes to use one."""

import threading
from contextlib import contextmanager

from cluster.protocol import Event
from inventory.sync import list_watch


class Silent:
    """A gateway whose watch says nothing until it is told to."""

    def __init__(self, fake):
        self.fake = fake
        self.waiting, self.speak = threading.Event(), threading.Event()

    def __getattr__(self, name):
        return getattr(self.fake, name)

    def watch(self, kind, *, resource_version, seconds, namespace=None):
        self.waiting.set()
        self.speak.wait(120)
        yield Event("BOOKMARK", {"metadata": {}}, str(int(resource_version) + 1))


def use(monkeypatch, gateway):
    @contextmanager
    def to_it(cluster):
        yield gateway

    monkeypatch.setattr(list_watch, "gateway_for", to_it)
