"""The checks of the crawl find what they are for."""

import pytest

from tests.crawl import checks
from tests.crawl.forms import forms, links
from tests.crawl.tree import parse

LIST = """
<div class="dg-head"><h1>Claims</h1><span class="dg-sub">{heading}</span></div>
<section id="listing"><table><thead><tr><th>Name</th></tr></thead><tbody><tr><td>a</td></tr>
<tr><td>b</td></tr></tbody></table><div class="dg-listfoot"><span>{foot}</span></div></section>
"""
CARD = """
<section class="card"><div class="card-header"><h2>Pods</h2><span class="dg-count">{count}</span></div>
<ul><li>a</li><li>b <ul><li>of b</li></ul></li></ul>{foot}</section>
"""


@pytest.mark.parametrize(
    "text",
    [
        "[datetime.datetime(2026, 11, 21, 3, 9)]",
        "Decimal('1.5') an hour",
        "UUID('01a2')",
        "&lt;QuerySet [1]&gt;",
        "&lt;Claim object at 0x7f&gt;",
        "%(count)d requests",
        "[]",
        "{'team': 'vision'}",
        " None ",
    ],
)
def test_a_text_of_python_is_found_wherever_people_read_it(text):
    assert len(list(checks.leaks(parse(f"<p>{text}</p>")))) == 1
    assert len(list(checks.leaks(parse(f'<p title="{text}">fine</p>')))) == 1
    assert list(checks.leaks(parse(f"<pre>{text}</pre><textarea>{text}</textarea>"))) == []


def test_element_inside_an_attribute_is_found():
    page = parse('<a title="As of <time title="now">17 s ago</time>">Check</a>')
    assert len(list(checks.leaks(page))) == 2  # the attribute, and the text that it left behind


def test_prose_and_addresses_are_no_text_of_python():
    assert list(checks.leaks(parse('<p>None chosen: 90 % of 12. <a href="/nodes/none/">list</a></p>'))) == []
    assert len(list(checks.leaks(parse('<a href="/claims/None/">claim</a>')))) == 1


@pytest.mark.parametrize(
    ("heading", "foot", "faults"),
    [
        ("2 claims", "1 to 2 of 2 · sorted by name", 0),
        ("52 claims", "1 to 2 of 52", 0),
        ("what each team may hold", "1 to 2 of 2", 0),
        ("12 claims", "1 to 2 of 9", 1),
        ("3 claims", "1 to 3 of 3", 1),
        ("2 claims", "", 2),
    ],
)
def test_a_list_has_as_many_rows_as_its_page_says(heading, foot, faults):
    assert len(list(checks.contradictions(parse(LIST.format(heading=heading, foot=foot))))) == faults


@pytest.mark.parametrize(
    ("count", "foot", "faults"),
    [
        ("2", "", 0),
        ("12", '<p class="card-footer">The newest 2 of 12.</p>', 0),
        ("3", "", 1),
        ("12", '<p class="card-footer">The newest 5 of 12.</p>', 1),
    ],
)
def test_a_card_lists_as_many_entries_as_its_heading_says(count, foot, faults):
    assert len(list(checks.contradictions(parse(CARD.format(count=count, foot=foot))))) == faults


def test_the_open_tab_stands_above_as_many_rows_as_it_says():
    page = '<nav class="dg-tabs"><a aria-current="page">Mine <span class="dg-count">{}</span></a></nav>'
    row = '<div role="listitem">a</div>'
    assert list(checks.contradictions(parse(page.format(1) + row))) == []
    assert len(list(checks.contradictions(parse(page.format(2) + row)))) == 1


def test_a_form_is_sent_as_it_stands_and_with_each_choice():
    page = parse("""
      <form id="f" action="/claims/"><input type="hidden" name="sort" value="name"><input name="q">
      <select name="state"><option value=""></option><option value="over">over</option></select></form>
      <input type="checkbox" name="col" value="id" form="f">
      <form method="post" action="/never/"><input name="x"></form><a href="/quotas/">quotas</a>
    """)
    ((name, action, found),) = forms(page)
    assert (name, action) == ("f", "/claims/")
    assert [one.address for one in found] == [
        "/claims/?sort=name&q=&state=",
        "/claims/?sort=name&state=&q=gpu",
        "/claims/?sort=name&q=&state=",
        "/claims/?sort=name&q=&state=over",
        "/claims/?sort=name&q=&state=",
        "/claims/?sort=name&q=&state=&col=id",
        "/claims/?sort=name&q=&state=&col=id",
        "/claims/?sort=name&q=&state=&col=id",
    ]
    assert [one.address for one in links(page)] == ["/quotas/"]
