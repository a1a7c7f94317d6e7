"""The crawls: each person's is made once in a module, over a copy of the demo's database."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from django.core.cache import cache as shared_cache
from django.test import Client

from cluster.credentials import Credentials
from inventory import clusters
from tests.crawl.crawler import Crawl
from tests.fakes import FakeGateway

# The engineer tries every choice of every form, the admin those of the forms that the engineer does not see.
# The others see the same forms and send them as they stand.
FIRST, SECOND = "engineer", "admin"
VISITOR = "visitor"  # nobody is signed in


def reachable(credentials: Credentials) -> FakeGateway:
    return FakeGateway(name=credentials.server)


@pytest.fixture(scope="module")
def signed_in(demo_database: None, django_db_blocker) -> Iterator[Callable[[str], Client]]:
    """Return a client for one person of the demo. What a page writes stays in the copy of the database."""
    from inventory.counts import store_counts
    from teams.models import User

    shared_cache.clear()  # of what other tests have worked out

    def client_of(who: str) -> Client:
        client = Client(raise_request_exception=False)
        if who != VISITOR:
            client.force_login(User.objects.get(username=who))
        return client

    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        store_counts(changed_only=False)  # a figure may be a minute older than the list that it leads to
        patch.setattr(clusters, "KubeGateway", reachable)  # the page of the checks connects to it
        yield client_of


@pytest.fixture(scope="module")
def crawl(signed_in) -> Callable[[str], Crawl]:
    @cache
    def crawl_of(who: str) -> Crawl:
        tried = frozenset() if who == FIRST else crawl_of(FIRST).forms if who == SECOND else None
        return Crawl(who, signed_in(who), tried=tried).run()

    return crawl_of
