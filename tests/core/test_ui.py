import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django import forms
from django.template import engines
from django.utils import timezone

NOW = datetime(2026, 11, 17, 9, 24, tzinfo=UTC)


def shown(source: str, **context: object) -> str:
    return engines["django"].from_string(source).render(context)


def test_an_icon_is_silent_unless_it_has_a_label():
    assert shown('{% icon "cpu" %}') == (
        '<svg class="icon" aria-hidden="true"><use href="/static/vendor/icons.svg#cpu"></use></svg>'
    )
    assert 'class="icon icon-s" role="img" aria-label="Stale"' in shown(
        '{% icon "clock" "s" label="Stale" %}'
    )


def test_a_badge_has_icon_text_and_colour():
    badge = shown('{% state_badge "held" "cpu" "Allocated" %}')
    assert badge.startswith('<span class="dg-badge held"><svg')
    assert badge.endswith("Allocated</span>")
    assert "dg-badge wait quiet" in shown('{% state_badge "wait" "zzz" "Idle" quiet=True %}')


def test_a_long_name_breaks_after_its_dots_alone():
    name = shown("{{ name|breakable }}", name="gpu.nvidia.com of 1.5 <GiB>")
    assert name == "gpu.<wbr>nvidia.<wbr>com of 1.5 &lt;GiB&gt;"


def widths(meter: str) -> dict[str, float]:
    return {
        name: float(width)
        for width, name in re.findall(r'width="([\d.]+)%" height="100%" class="dg-m-(\w+)"', meter)
    }


def test_a_meter_shows_shares_of_the_whole_and_leaves_the_rest_free():
    meter = shown('{% meter 32 held=24 pend=4 this=0 label="24 held, 4 pending" %}')
    assert widths(meter) == {"held": 75.0, "pend": 12.5}
    assert 'aria-label="24 held, 4 pending"' in meter


def test_a_meter_that_holds_more_than_its_total_is_full_and_not_wider():
    assert widths(shown('{% meter 12 held=12 over=4 label="" %}')) == {"held": 75.0, "over": 25.0}


def test_a_meter_of_nothing_is_empty():
    assert widths(shown('{% meter 0 held=0 label="none" %}')) == {}


def test_a_line_breaks_where_nothing_was_measured():
    line = shown('{% sparkline values label="Activity" %}', values=[0.1, 0.2, None, 0.4, 0.5])
    assert line.count("<polyline") == 2


@time_machine.travel(NOW, tick=False)
def test_times_are_relative_with_the_absolute_of_the_readers_zone_on_hover():
    moment = NOW + timedelta(days=3, hours=7)
    with timezone.override("Europe/Berlin"):
        assert shown("{{ moment|ago }}", moment=moment) == (
            '<time datetime="2026-11-20T16:24:00+00:00" title="Fri 20 Nov 2026, 17:24 CET" '
            'data-time="relative">in 3 d 7 h</time>'
        )
        assert ">Fri 20 Nov 2026, 17:24</time>" in shown("{{ moment|at }}", moment=moment)
        assert ">Fri 20 Nov, 17:24</time>" in shown("{{ moment|at_short }}", moment=moment)
        year_later = moment + timedelta(days=365)
        assert ">Sat 20 Nov 2027, 17:24</time>" in shown("{{ moment|at_short }}", moment=year_later)
        assert 'data-time="elapsed">3 d 7 h</time>' in shown("{{ moment|elapsed }}", moment=moment)


@pytest.mark.parametrize(
    "name", ["ago", "elapsed", "at", "at_short", "duration", "money", "euros", "gib", "percent"]
)
def test_unknown_value_is_a_dash_and_never_zero(name):
    assert shown(f"{{{{ nothing|{name} }}}}", nothing=None) == "—"


def test_numbers_have_their_units_after_a_space():
    assert shown("{{ n|gib }}", n=81559 * 2**20) == "79.6 GiB"
    assert shown("{{ n|gib }}", n=40 * 2**30) == "40 GiB"
    assert shown("{{ n|percent }}", n=0.64) == "64 %"
    assert shown("{{ n|money }}", n=Decimal("5.8")) == "€5.80"
    assert shown("{{ n|euros }}", n=Decimal("26911.5")) == "€26,912"
    assert shown('{{ n|money:"CHF" }}', n=Decimal("5.8")) == "CHF 5.80"
    assert shown("{{ n|duration }}", n=timedelta(hours=5, minutes=10)) == "5 h 10 min"


def test_a_caret_below_an_expression_keeps_its_column():
    html = shown("{{ said|message }}", said="1:7: <no>\n | device.x\n | ......^")
    assert html.startswith("1:7: &lt;no&gt;<pre")
    assert html.endswith("> | device.x\n | ......^</pre>")
    assert shown("{{ said|message }}", said="no <listing>") == "no &lt;listing&gt;"


def test_an_id_is_short_and_copied_whole():
    html = shown("{% short_id id %}", id="019a9d3c-aaaa-7bbb-8ccc-dddddddddddd")
    assert ">019a9d3c</span>" in html
    assert 'data-copy="019a9d3c-aaaa-7bbb-8ccc-dddddddddddd"' in html


def test_yaml_is_coloured_and_escaped():
    html = shown('{% code text "yaml" %}', text='- name: "<script>" # why\nplain <b>')
    assert '- <span class="k">name</span>:<span class="s"> &quot;&lt;script&gt;&quot;</span>' in html
    assert '<span class="c"> # why</span>' in html
    assert "plain &lt;b&gt;" in html
    assert "<script>" not in html


def test_a_button_that_copies_is_called_by_a_word_and_not_by_a_whole_file():
    assert 'aria-label="Copy gpu-0"' in shown("{% copy_button text %}", text="gpu-0")
    assert 'aria-label="Copy"' in shown("{% copy_button text %}", text="kind: Pod\nmetadata: {}\n")


HOSTILE = '"><script>alert(1)</script>'


@pytest.mark.parametrize(
    "source",
    [
        '{% state_badge "held" "cpu" evil %}',
        "{% state_badge evil evil evil %}",
        '{% icon "cpu" label=evil %}',
        "{% meter 1 held=1 label=evil %}",
        "{% sparkline values label=evil %}",
        "{% short_id evil %}",
        "{% copy_button evil %}",
        "{% code evil %}",
        "{{ evil|message }}",
        '{% code evil "yaml" label=evil %}',
        "{% empty evil evil evil evil evil %}",
    ],
)
def test_no_tag_lets_markup_through(source):
    page = shown(source, evil=HOSTILE, values=[1, 2])
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_meter_is_drawn_to_the_hundredth_with_a_gap_between_its_parts():
    assert shown('{% meter 8 size="lg" held=2 none=unknown pend=4 label="x" %}', unknown=None) == (
        '<svg class="dg-meter lg" role="img" aria-label="x">'
        '<rect x="0.00%" width="25.00%" height="100%" class="dg-m-held"></rect>'
        '<rect x="25.00%" width="50.00%" height="100%" class="dg-m-pend"></rect>'
        '<rect x="25.00%" width="1.5" height="100%" class="dg-m-gap"></rect></svg>'
    )


def test_a_line_is_drawn_from_edge_to_edge_and_never_above_its_top():
    def points(values, **options):
        line = shown('{% sparkline values label="x" top=top %}', values=values, top=options.get("top", 1.0))
        return re.findall(r'points="([^"]*)"', line)

    assert points([0, 0.5, 1]) == ["0.0,17.0 32.0,9.0 64.0,1.0"]
    assert points([0, 2, 4], top=2) == ["0.0,17.0 32.0,1.0 64.0,1.0"]
    assert points([0, 0, None, 1]) == ["0.0,17.0 21.3,17.0"]
    assert points([1]) == points([]) == []


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("percent", 0, "0 %"),
        ("percent", 0.0035, "&lt; 1 %"),
        ("percent", 0.006, "1 %"),
        ("percent", 1, "100 %"),
        ("percent", 0.996, "100 %"),
        ("gib", 0, "0 GiB"),
        ("gib", 2**30 + 2**29, "1.5 GiB"),
        ("money", 0, "€0.00"),
        ("euros", 0, "€0"),
        ("duration", timedelta(0), "0 s"),
    ],
)
def test_zero_is_a_number_and_no_dash(template, value, text):
    assert shown(f"{{{{ value|{template} }}}}", value=value) == text


@time_machine.travel(NOW, tick=False)
def test_times_carry_their_zone_and_say_how_they_are_kept_current():
    value = NOW - timedelta(minutes=6)
    whole = 'datetime="2026-11-17T09:18:00+00:00" title="Tue 17 Nov 2026, 09:18 UTC"'
    assert shown("{{ value|at }}", value=value) == f"<time {whole}>Tue 17 Nov 2026, 09:18</time>"
    assert shown("{{ value|ago }}", value=value) == f'<time {whole} data-time="relative">6 min ago</time>'
    assert shown("{{ value|elapsed }}", value=value) == f'<time {whole} data-time="elapsed">6 min</time>'


def test_an_id_that_is_short_is_shown_whole():
    assert ">12345678</span>" in shown("{% short_id id %}", id="12345678")
    assert ">12345678</span>" in shown("{% short_id id %}", id="123456789")
    assert ">1234</span>" in shown("{% short_id id length=4 %}", id="123456789")


def test_a_line_of_yaml_that_is_a_comment_is_one():
    assert shown("{{ text|yaml }}", text="# why\na: 1\nb:") == (
        '<span class="c"># why</span>\n<span class="k">a</span>:<span class="s"> 1</span>\n'
        '<span class="k">b</span>:'
    )


@pytest.mark.parametrize(("required", "mark"), [(True, "Europe/Berlin"), (False, "optional, Europe/Berlin")])
def test_a_field_for_a_time_names_the_zone_in_which_it_is_read(required, mark):
    class When(forms.Form):
        at = forms.DateTimeField(required=required, widget=forms.DateTimeInput({"type": "datetime-local"}))
        day = forms.DateField()

    with timezone.override("Europe/Berlin"):
        time, day = (shown("{% field bound %}", bound=bound) for bound in When())
    assert f'<span class="dg-opt-note">{mark}</span>' in time
    assert "Berlin" not in day
