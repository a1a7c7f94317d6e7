"""Markup is what Django's own functions return, which take longer."""

import pytest
from django.utils.functional import lazystr
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from core.markup import escape, joined, markup

VALUES = ["plain", "<b>&'\"", mark_safe("<b>safe</b>"), lazystr("<lazy>"), 7, None, "{}", "é"]


@pytest.mark.security("injection", "markup in values of a page")
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_escaped_once_and_safe_ones_not(value):
    assert escape(value) == conditional_escape(value)
    text = markup('<td title="{}">{}</td>', value, value)
    assert text == format_html('<td title="{}">{}</td>', value, value)
    assert isinstance(text, SafeString)
    assert markup("<tr>{}</tr>", text) == f"<tr>{text}</tr>"


def test_parts_are_escaped_and_joined():
    text = joined(", ", iter(VALUES))
    assert text == format_html_join(", ", "{}", ((value,) for value in VALUES))
    assert isinstance(text, SafeString)
