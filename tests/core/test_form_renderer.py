"""Options that are written without templates are those that Django draws."""

import re

import pytest
from django import forms
from django.forms.renderers import DjangoTemplates
from django.utils.safestring import mark_safe
from pytest_django.asserts import assertHTMLEqual

from core.form_renderer import FormRenderer

CHOICES = [
    ("", "Any <team>"),
    ("a&b", 'A "quoted" one'),
    ("Group <1>", [(1, "one"), (2, mark_safe("<b>two</b>"))]),
]


def without_spaces(html: str) -> str:
    return re.sub(r"\s*\n\s*", "", html)


@pytest.mark.parametrize("value", ["", "a&b", 2, None])
@pytest.mark.parametrize(
    "attrs", [{}, {"required": True, "disabled": False, "title": 'a "b" <c>', "data-n": 3}]
)
def test_select_is_the_one_that_django_draws(value, attrs):
    widget = forms.Select(choices=CHOICES, attrs={"class": "x"})
    ours, theirs = (
        widget.render("t", value, attrs, renderer) for renderer in (FormRenderer(), DjangoTemplates())
    )
    assert without_spaces(ours) == without_spaces(theirs)


@pytest.mark.parametrize("value", [None, [], ["a&b"], [2, "a&b"]])
@pytest.mark.parametrize("attrs", [{}, {"id": "id_t", "class": "x", "data-n": 3, "disabled": True}])
def test_checkboxes_are_those_that_django_draws(value, attrs):
    widget = forms.CheckboxSelectMultiple(choices=CHOICES)
    ours, theirs = (
        widget.render("t", value, attrs, renderer) for renderer in (FormRenderer(), DjangoTemplates())
    )
    assertHTMLEqual(ours, theirs)
    assert ours.count("<input") == 4
