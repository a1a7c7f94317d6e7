"""That a write is noticed: what `tests.security.state` counts, and what it compares."""

import pytest
from django.db import transaction

from claims.models import ReasonTemplate
from tests.security.state import differences, stored, writes

pytestmark = pytest.mark.django_db


def added():
    ReasonTemplate.objects.create(title="Later", text="There is no room this week.")


def changed():
    ReasonTemplate.objects.update(text="There is no room today.")


def removed():
    ReasonTemplate.objects.all().delete()


@pytest.mark.parametrize("write", [added, changed, removed])
def test_a_row_that_is_added_changed_or_removed_is_counted_and_differs(write):
    ReasonTemplate.objects.create(title="Full", text="There is no room.")
    before, counted = stored(), writes()
    assert (stored(), writes()) == (before, counted)
    write()
    assert writes() != counted
    assert differences(before, stored()) == ["claims_reasontemplate"]


def test_what_was_rolled_back_is_counted_and_does_not_differ():
    before, counted = stored(), writes()
    with transaction.atomic():
        added()
        transaction.set_rollback(True)
    assert writes() != counted
    assert differences(before, stored()) == []
