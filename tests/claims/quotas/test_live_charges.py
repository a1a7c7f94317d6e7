"""Charges are live as their claims are, sums per class follow charges, and a command repairs both."""

from random import Random

import pytest
from django.db.models import F, Sum

from claims.models import Claim, ClaimCharge, ClassUse
from claims.quotas import class_use
from claims.quotas.counts import CHARGED_DEVICES, used_by_all_teams
from claims.states import NEXT, ClaimState
from tests.factories import GPU_CLASS, make_claim
from tests.recomputed import failed_check, recompute
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db


def live(claim):
    return set(claim.charges.values_list("live", flat=True))


@pytest.mark.parametrize("end", [state for state in ClaimState if not NEXT[state]])
def test_charges_end_with_their_claim(end, vision, fra, train):
    before = next(state for state in ClaimState if end in NEXT[state])
    claim = make_claim(vision, cluster=fra, profile=train, devices=2, state=before)
    other = make_claim(vision, cluster=fra, profile=train, devices=3)
    assert used_by_all_teams([GPU_CLASS]) == {GPU_CLASS: 5}
    assert claim.advance(end, why="Over.")
    assert (live(claim), live(other)) == ({False}, {True})
    assert used_by_all_teams([GPU_CLASS]) == {GPU_CLASS: 3}


def test_the_command_repairs_charges_of_both_kinds(vision, fra, train):
    running, ended = (make_claim(vision, cluster=fra, profile=train, devices=2) for _ in range(2))
    ended.advance(ClaimState.WITHDRAWN, why="Not needed.")
    ClaimCharge.objects.filter(claim=running).update(live=False)
    ClaimCharge.objects.filter(claim=ended).update(live=True)
    assert failed_check("charges") == "charges: 2 charges, 2 rows to repair.\n"
    assert recompute("charges") == "charges: 2 charges, 2 rows repaired.\n"
    assert (live(running), live(ended)) == ({True}, {False})
    assert recompute("charges", "--check") == "charges: 2 charges, 0 rows to repair.\n"


MIG = "mig.nvidia.com"


def stored_use():
    rows = ClassUse.objects.values_list("device_class").annotate(total=Sum("devices"))
    return {name: devices for name, devices in rows if devices}


def plain_use():
    rows = ClaimCharge.objects.filter(live=True).values_list("device_class")
    return {name: devices for name, devices in rows.annotate(total=Sum(CHARGED_DEVICES)) if devices}


@pytest.mark.parametrize("seed", range(4))
def test_sums_agree_with_live_charges_after_random_operations(seed, vision, fra, train):
    random, charges = Random(seed), ClaimCharge.objects
    for step in range(60):
        some = (
            charges.filter(pk__in=random.sample(ids, k=min(len(ids), random.randint(1, 4))))
            if (ids := list(charges.values_list("pk", flat=True)))
            else charges.none()
        )
        match random.randrange(8):
            case 0 | 1 | 2:
                claim = make_claim(vision, cluster=fra, profile=train, devices=random.randint(1, 5))
                charges.create(claim=claim, device_class=MIG, devices=random.randint(1, 9))
            case 3:
                some.update(live=random.random() < 0.5)
            case 4:
                some.update(settled=F("devices") - 1)
            case 5:
                some.update(carried=random.randint(0, 6))
            case 6:
                Claim.objects.filter(pk__in=some.values("claim")[:1]).delete()
            case _:
                class_use.compact()
        assert stored_use() == plain_use(), step
    class_use.compact()
    assert stored_use() == plain_use()
    assert ClassUse.objects.count() == len(plain_use())


def test_an_update_that_changes_no_sum_adds_no_row(vision, fra, train):
    make_claim(vision, cluster=fra, profile=train, devices=2)
    before = ClassUse.objects.count()
    ClaimCharge.objects.update(devices=2)
    assert ClassUse.objects.count() == before


def test_the_command_repairs_sums(vision, fra, train):
    make_claim(vision, cluster=fra, profile=train, devices=2)
    ClassUse.objects.all().delete()
    ClassUse.objects.create(device_class=MIG, devices=4)
    assert failed_check("charges") == "charges: 1 charge, 2 rows to repair.\n"
    assert recompute("charges") == "charges: 1 charge, 2 rows repaired.\n"
    assert stored_use() == plain_use() == {GPU_CLASS: 2}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_two_that_compact_at_once_count_nothing_twice(vision, fra, train, monkeypatch, locked):
    """Without the lock, both replace rows that the other has counted."""
    make_claim(vision, cluster=fra, profile=train, devices=2)
    ClassUse.objects.all().delete()  # so that the repair has something to add
    race = Race(monkeypatch)
    race.hold_after(class_use, "_differences")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.class_use._lock")
    race.run(class_use.repair, class_use.repair)
    assert race.waited is locked
    assert (stored_use() == plain_use()) is locked
