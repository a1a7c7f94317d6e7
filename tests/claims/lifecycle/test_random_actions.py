"""Eight people do two hundred things each, at once and at random. Afterwards the books must balance."""

import random
from contextlib import suppress
from functools import partial

import pytest
from django.db.models import F, Sum

from claims.approvals.decide import approve, deny
from claims.delivery import tasks
from claims.lifecycle.services import release, withdraw
from claims.models import Approval, Claim, Delivery, Transition
from claims.requests.services import request_claim
from claims.states import FINAL, LIVE, NEXT, ClaimState
from cluster.protocol import NAMESPACE
from core.errors import PortalError
from tests.factories import make_cluster, make_profile, make_quota, make_team, make_user
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)
THREADS, STEPS = 8, 200
CLASS_LIMIT, PROFILE_LIMIT = 8, 5


@pytest.fixture
def scene(gateway, vision, fra, train):
    """Two teams of eight, both leads and members; one profile is approved by a rule and limited further."""
    people = [make_user(f"person-{number}") for number in range(THREADS)]
    nlp = make_team("nlp", leads=tuple(people))
    for person in people:
        vision.memberships.create(user=person, role="lead")
    make_cluster("fra-1", teams=(nlp,))
    gateway.put(NAMESPACE, {"metadata": {"name": "nlp"}})
    quick = make_profile("quick", approval=Approval.AUTOMATIC)
    for team in (vision, nlp):
        make_quota(team, CLASS_LIMIT)
        make_quota(team, PROFILE_LIMIT, profile=quick)
    return people, (vision, nlp), (train, quick), fra


def test_eight_people_cannot_exceed_a_quota_or_break_the_table(scene, monkeypatch):
    monkeypatch.setattr(tasks.deliver, "delay", tasks.deliver)
    monkeypatch.setattr(tasks.remove, "delay", tasks.remove)
    people, teams, profiles, cluster = scene
    granted = [0] * THREADS

    def live(number: int) -> None:
        dice = random.Random(number)
        for step in range(STEPS):
            with suppress(PortalError):
                granted[number] += _act(dice, people[number], teams, profiles, cluster, f"{number}-{step}")
            if step % 10 == 0:
                _check_quota()

    at_once(*(partial(live, number) for number in range(THREADS)))
    _check_quota()
    assert sum(granted) > 50
    assert Claim.objects.filter(state=ClaimState.RELEASED).exists()
    _check_histories()


def _act(dice, person, teams, profiles, cluster, key) -> bool:
    """Do one thing; return whether it was a request that was granted."""
    if dice.random() < 0.4:
        template = dice.random() < 0.3
        request_claim(
            by=person,
            team=dice.choice(teams),
            cluster=cluster,
            profile=dice.choice(profiles),
            devices=dice.randint(1, 4),
            parallel=dice.randint(1, 2) if template else 1,
            delivery=Delivery.TEMPLATE if template else Delivery.CLAIM,
            key=key,
        )
        return True
    claim = Claim.objects.filter(state__in=LIVE).order_by("?").first() or Claim.objects.first()
    if claim is None:
        return False
    act = dice.choice(("approve", "deny", "withdraw", "release", "release", "deliver", "remove"))
    if act == "approve":
        approve(claim=claim, by=person, spec_hash=claim.spec_hash)
    elif act == "deny":
        deny(claim=claim, by=person, reason="no")
    elif act in ("withdraw", "release"):
        {"release": release, "withdraw": withdraw}[act](claim=claim, by=person)
    else:
        getattr(tasks, act)(str(claim.pk))
    return False


def _check_quota() -> None:
    holding = Claim.objects.filter(state__in=LIVE)
    by_class = holding.values("team").annotate(total=Sum("charges__devices")).values_list("total", flat=True)
    quick = holding.filter(profile_version__profile__slug="quick").order_by()
    by_profile = quick.values("team").annotate(total=Sum(F("devices") * F("parallel")))
    assert all(total <= CLASS_LIMIT for total in by_class.order_by())
    assert all(total <= PROFILE_LIMIT for total in by_profile.values_list("total", flat=True))


def _check_histories() -> None:
    last: dict[object, str] = {}
    for step in Transition.objects.order_by("pk"):
        if step.claim_id in last:
            assert step.old == last[step.claim_id]
            assert step.new in NEXT[step.old]
        last[step.claim_id] = step.new
    states = dict(Claim.objects.values_list("pk", "state"))
    assert states == last
    assert {state for state in states.values() if state in FINAL}
