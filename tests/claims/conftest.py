"""The people of team vision, their cluster with a gateway in memory, and eight devices of quota."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from claims.models import Claim, Profile, Quota
from claims.requests import services
from cluster.protocol import NAMESPACE
from inventory.models import Cluster
from teams.models import Team, User
from tests.factories import make_cluster, make_profile, make_quota, make_team, make_user
from tests.fakes import FakeGateway


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def bob(db: None) -> User:
    return make_user("bob")


@pytest.fixture
def lena(db: None) -> User:
    return make_user("lena")


@pytest.fixture
def lars(db: None) -> User:
    return make_user("lars")


@pytest.fixture
def eve(db: None) -> User:
    return make_user("eve")


@pytest.fixture
def root(db: None) -> User:
    return make_user("root", admin=True)


@pytest.fixture
def vision(alice: User, bob: User, lena: User, lars: User) -> Team:
    return make_team("vision", members=(alice,), viewers=(bob,), leads=(lena, lars))


@pytest.fixture
def fra(vision: Team) -> Cluster:
    return make_cluster("fra-1", teams=(vision,))


@pytest.fixture
def train(db: None) -> Profile:
    return make_profile("train-80")


@pytest.fixture
def quota(vision: Team) -> Quota:
    return make_quota(vision, 8)


@pytest.fixture
def gateway(fra: Cluster, monkeypatch: pytest.MonkeyPatch) -> FakeGateway:
    """What `fra` leads to; it has the namespace of vision."""
    fake = FakeGateway()
    fake.put(NAMESPACE, {"metadata": {"name": "vision"}})

    @contextmanager
    def connected(cluster: Cluster) -> Iterator[FakeGateway]:
        yield fake

    monkeypatch.setattr("claims.delivery.deliver.gateway_for", connected)
    return fake


@pytest.fixture
def ask(
    alice: User, vision: Team, fra: Cluster, train: Profile, quota: Quota, gateway: FakeGateway
) -> Callable[..., Claim]:
    """Ask as alice for vision; each call with a key of its own unless one is given."""
    asked = iter(range(10_000))

    def ask_as_alice(**fields: object) -> Claim:
        fields = {
            "by": alice,
            "team": vision,
            "cluster": fra,
            "profile": train,
            "key": f"k{next(asked)}",
            **fields,
        }
        return services.request_claim(**fields)  # type: ignore[arg-type]

    return ask_as_alice
