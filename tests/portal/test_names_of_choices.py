"""Names of choices begin with a capital where they stand alone, and are lower case inside sentences."""

from collections.abc import Iterator

import pytest
from django import forms
from django.urls import get_resolver, reverse

from claims.models import Approval, ApprovalRule, AtLimit
from inventory.states import EndPolicy
from teams.models import Role
from tests.factories import make_team, make_user

PACKAGES = ("claims", "inventory", "notify", "portal", "teams", "usage")
SCOPES = "ScopesField"  # spelled as in programs
NOT_DRAWN = {"usage.fleet_views.ReportForm"}  # its choices are parts of addresses; links have their own words


def form_classes(parent: type[forms.BaseForm] = forms.BaseForm) -> Iterator[type[forms.BaseForm]]:
    for form in parent.__subclasses__():
        yield form
        yield from form_classes(form)


def labels() -> Iterator[tuple[str, str]]:
    """Yield (form and field, label) of each choice that does not depend on rows."""
    assert get_resolver().url_patterns  # imports all views
    for form in form_classes():
        if form.__module__.split(".")[0] not in PACKAGES:
            continue
        for name, field in getattr(form, "base_fields", {}).items():
            where = f"{form.__module__}.{form.__name__}.{name}"
            if where.rpartition(".")[0] in NOT_DRAWN:
                continue
            if isinstance(field, forms.ModelChoiceField):
                yield where, str(field.empty_label or "")
            elif isinstance(field, forms.ChoiceField) and type(field).__name__ != SCOPES:
                choices = field.choices
                if isinstance(choices, list):
                    yield from ((where, str(label)) for _value, label in choices)


def test_every_option_of_a_form_begins_with_a_capital():
    found = set(labels())
    assert len(found) > 50
    assert sorted(row for row in found if row[1][:1].islower()) == []


@pytest.mark.parametrize("choices", [Role, Approval, EndPolicy, AtLimit])
def test_labels_are_lower_case_for_sentences(choices):
    assert all(label == label.lower() for label in choices.labels)


@pytest.mark.django_db
def test_cells_and_the_sidebar_begin_with_a_capital(client):
    alice, root = make_user("alice"), make_user("root", admin=True)
    vision = make_team("vision", members=(alice,))
    ApprovalRule.objects.create(team=vision, approval=Approval.BOTH)
    client.force_login(alice)
    assert "<td>Member</td>" in client.get(reverse("teams:people", args=["vision"])).text
    client.force_login(root)
    home = client.get(reverse("home")).text
    assert '<span class="dg-s">Platform admin</span>' in home
    rules = client.get(reverse("claims:approval_rules")).text
    assert "<td>Every profile</td>" in rules
    assert "<td>Lead, then platform admin</td>" in rules


@pytest.mark.django_db
def test_approval_rules_are_in_the_sidebar_of_platform_admins_alone(client):
    lena = make_user("lena")
    make_team("vision", leads=(lena,))
    rules = reverse("claims:approval_rules")
    client.force_login(make_user("root", admin=True))
    assert f'href="{rules}"' in client.get(reverse("home")).text
    page = client.get(rules).text
    assert f'href="{rules}" aria-current="page"' in page
    assert f'href="{reverse("claims:approvals")}" aria-current="page"' not in page
    client.force_login(lena)
    assert f'href="{rules}"' not in client.get(reverse("home")).text
