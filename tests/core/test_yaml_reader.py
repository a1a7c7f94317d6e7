"""The reader of YAML: what it gives, what it refuses with a line, and that no text is expensive."""

import json
import time
import tracemalloc
from contextlib import suppress
from datetime import timedelta

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import Invalid
from core.yaml_documents import YamlLimits, read_yaml

LIMITS = YamlLimits(bytes=256_000, documents=50, levels=40, nodes=10_000)  # those of a manifest
LONGEST = 64 * 1024
MAX_SECONDS = 0.5
MAX_BYTES = 50 * 1024 * 1024


def values(text, limits=LIMITS):
    return [value for _node, value in read_yaml(text, "f", limits)]


def refusal(text, limits=LIMITS):
    with pytest.raises(Invalid) as refused:
        read_yaml(text, "f", limits)
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\n---\n---\nb: [x, 1.5, null, ~, yes]\n", [{"a": 1}, {"b": ["x", 1.5, None, None, True]}]),
        ("\ufeffa: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}]),
        ('{"a": {"b": "\\u00e4"}}', [{"a": {"b": "ä"}}]),
        ("a: 2026-01-02\nb: 2026-02-31\nc: 12:30:45", ["2026-01-02", "2026-02-31", "12:30:45"]),
        ("a: 190:20:30.5\n", ["190:20:30.5"]),
        ("a: 0x1f\nb: 010\nc: -0b11\nd: 1_000\ne: 0\nf: 08", [31, 8, -3, 1000, 0, "08"]),
        ("1: a\ntrue: b\n~: c\n", [{"1": "a", "true": "b", "~": "c"}]),
        (
            "a: &x {k: 1, l: 2}\nb: *x\nc: {<<: *x, l: 3}\nd: {<<: [{l: 4}, *x]}",
            [{"k": 1, "l": 2}] * 2 + [{"k": 1, "l": 3}, {"k": 1, "l": 4}],
        ),
        ("# only words\n", []),
        ("%YAML 1.1\n---\na: 1\n", [{"a": 1}]),
        ("a: !!str 5\nb: !!int '7'", ["5", 7]),
    ],
)  # fmt: skip
def test_documents_are_read_as_kubernetes_reads_them(text, expected):
    found = values(text)
    if len(found) == 1 and isinstance(expected[0], str | int):
        found = list(found[0].values())
    if text.startswith("a: &x"):
        found = list(found[0].values())
    assert found == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: [", "f, line 2: this is not YAML: "),
        ("%YAML 1.3\n---\na: 1\n", "f, line 1: this is not YAML: found incompatible YAML document"),
        ("a: 1\n\tb: 2", "f, line 2: this is not YAML: "),
        ("a: *nobody", "f, line 1: this is not YAML: found undefined alias"),
        ("a: 1\nb: \x01", "f, line 2: this is not YAML: control characters are not allowed"),
        ("a: 1\nb: \ud800", "f, line 2: a character is half of a surrogate pair."),
        ("a: 1\nb: 2\na: 3", "f, line 3: a appears twice."),
        ("a: &x [*x]", "f, line 1: this refers to itself."),
        ("a: !!python/name:os.system x", "f, line 1: the tag !!python/name:os.system is not supported."),
        ("a: !mine {}", "f, line 1: the tag !mine is not supported."),
        ("a: !!set {b}", "f, line 1: the tag !!set is not supported."),
        ("a: !!binary aGk=", "f, line 1: the tag !!binary is not supported."),
        ("a: !!int x", "f, line 1: x is no number or text here; put it in quotes."),
        ("a: .nan", "f, line 1: .nan is no number or text here; put it in quotes."),
        ("a: 1.0e+400", "f, line 1: 1.0e+400 is no number or text here; put it in quotes."),
        ("a: 0x" + "f" * 6000, "f, line 1: 0xfff"),
        ("a: " + "9" * 6000, "f, line 1: 9999"),
        ("? [a]\n: 1", "f, line 1: a key must be text."),
        ("a: {<<: 5}", "f, line 1: << needs a mapping."),
        ("[" * 41, "f, line 1: the limit is 40 levels."),
        ("a: 1\n---\n" * 51, "f, line 100: the limit is 50 documents."),
        ("[" + "1," * 10_001 + "]", "f, line 1: the limit is 10,000 values."),
        ("x" * 256_001, "f has 256,001 bytes; the limit is 256,000."),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text, sentence):
    assert refusal(text).startswith(sentence)


def aliases(levels, width, leaf="lol"):
    lines = [f"a0: &a0 [{', '.join([leaf] * width)}]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * width)}]" for at in range(1, levels)]
    return "\n".join(lines)


def chain(length):
    return "a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n" + "\n".join(
        f"a{at}: &a{at} [[[[[[[[[[*a{at - 1}]]]]]]]]]]" for at in range(1, length)
    )


HEADERS = ("", "%YAML 1.3\n---\n", "%YAML 1.1\n---\n", "%TAG ! tag:yaml.org,2002:\n---\n", "--- \n")
BOMBS = {
    "aliases": aliases(9, 10),
    "wide aliases": aliases(3, 3000),
    "text by aliases": "a: &a " + "x" * 30_000 + "\nb: [" + "*a," * 9_000 + "]",
    "merges": "a: &a {" + ",".join(f"k{at}: 1" for at in range(3000)) + "}\nb: {<<: [" + "*a," * 9000 + "]}",
    "nested merges": "a: &a {k: 1}\n" + "\n".join(f"a{at}: &a{at} {{<<: [*a, *a]}}" for at in range(2000)),
    "deep aliases": chain(500),
    "recursion": "a: &a [*a, " + "*a," * 9000 + "]",
    "brackets": "[" * LONGEST,
    "braces": "{" * LONGEST,
    "keys in keys": "? " * 30_000,
    "dashes": "- " * 30_000,
    "flow keys": "{" + "a:{" * 20_000,
    "commas": "[" + "1," * 32_000 + "]",
    "lines": "-\n" * 32_000,
    "documents": "---\n" * 16_000,
    "documents with content": "--- a\n" * 10_000,
    "empty mappings": "[" + "{}," * 20_000 + "]",
    "pairs": "\n".join(f"{at}:" for at in range(9_500)),
    "sexagesimal": "a: 1" + ":1" * 32_000,
    "sexagesimal float": "a: 1" + ":1" * 32_000 + ".5",
    "digits": "a: " + "9" * LONGEST,
    "hexadecimal": "a: 0x" + "f" * LONGEST,
    "binary": "a: 0b" + "1" * LONGEST,
    "underscores": "a: 1" + "_" * LONGEST,
    "float": "a: 1." + "9" * LONGEST,
    "moment": "a: 9999-12-31t23:59:59-23:00",
    "tags": "a: " + "!!str " * 10_000,
    "long tag": "a: !" + "x" * LONGEST + " b",
    "long key": "x" * LONGEST + ": 1",
    "quotes": "a: '" + "''" * 32_000 + "'",
    "escapes": 'a: "' + "\\u0041" * 10_000 + '"',
    "comments": "#\n" * 32_000,
    "block text": "a: |\n" + "  x\n" * 16_000,
    "folded text": "a: >\n" + "  x\n\n" * 12_000,
    "blanks": "a:" + " " * LONGEST + "b",
    "tabs": "\t" * LONGEST,
    "anchors": "\n".join(f"- &a{at} x" for at in range(6_000)),
    "question marks": "[" + "?," * 32_000 + "]",
    "plain over lines": "a:\n" + " x\n" * 20_000,
    "surrogates": "a: " + "\ud800" * 20_000,
}


def spent(text, read=values):
    """Return processor seconds and bytes of memory at the most of reading, refused or not."""
    outcome = None
    tracemalloc.start()
    try:
        began = time.process_time()
        try:
            outcome = read(text)
        except Invalid as refused:
            outcome = refused.message
        seconds = time.process_time() - began
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return outcome, seconds, peak


def untraced_seconds(text):
    """Return the processor seconds of reading; a busy machine is asked again, up to three times."""
    seconds: list[float] = []
    while len(seconds) < 3 and not (seconds and min(seconds) < MAX_SECONDS):
        began = time.process_time()
        with suppress(Invalid):
            values(text)
        seconds.append(time.process_time() - began)
    return min(seconds)


@pytest.mark.security("bombs", "sends YAML that is short and expensive to read")
@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("header", HEADERS)
def test_no_bomb_takes_long_or_much_memory(header, bomb):
    text = header + BOMBS[bomb][: LONGEST - len(header)]
    assert untraced_seconds(text) < MAX_SECONDS
    outcome, _traced, peak = spent(text)
    assert peak < MAX_BYTES
    assert len(json.dumps(outcome)) < 3 * LIMITS.bytes


WORDS = [
    "~",
    "yes",
    "0x1f",
    "1:30",
    "2026-02-31",
    "'",
    '"',
    "|",
    ">",
    "!!int",
    "!!set",
    "<<",
    "*a",
    "&a",
    "*b",
]
SCALARS = st.one_of(
    st.sampled_from([*WORDS, "&b x"]),
    st.integers().map(str), st.text(max_size=6), st.floats().map(str),
)  # fmt: skip
LINES = st.builds(
    lambda indent, dash, key, value: " " * indent + "- " * dash + (f"{key}: {value}" if key else value),
    st.integers(0, 6), st.integers(0, 3), st.sampled_from(["", "a", "b", "<<", "? a", "&a c", "{"]), SCALARS,
)  # fmt: skip
TEXTS = st.builds(
    lambda header, lines, times: (header + "\n".join(lines) * times)[:LONGEST],
    st.sampled_from((*HEADERS, "%", "%YAML 2.0\n---\n", "...\n", "\ufeff")),
    st.lists(LINES, max_size=12),
    st.sampled_from((1, 1, 1, 2, 50, 2000)),
)


@pytest.mark.security("bombs", "sends random YAML with directives, tags, anchors and depth")
@settings(max_examples=400, deadline=timedelta(seconds=20), suppress_health_check=list(HealthCheck))
@given(TEXTS)
def test_random_text_is_read_or_refused_within_the_limits(text):
    outcome, _seconds, peak = spent(text)
    assert peak < MAX_BYTES
    json.dumps(outcome, allow_nan=False)
    assert untraced_seconds(text) < MAX_SECONDS


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1), DATA, min_size=1), st.booleans())
def test_what_is_written_as_yaml_or_json_is_read_the_same(data, as_json):
    text = json.dumps(data, ensure_ascii=False) if as_json else yaml.safe_dump(data, allow_unicode=True)
    assert values(text) == [data]
