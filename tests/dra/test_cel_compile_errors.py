"""Selectors that the API server does not take: in its words, at its cost."""

import pytest

from dra.cel import CompileError, NotPreviewable, Work, compile_selector
from dra.cel.access import MAX_DEVICE_STEPS
from dra.cel.selector import compile_stored
from dra.features import Features
from tests.dra.test_cel_selects_devices import DEVICE


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('device.name == "gpu-0"', "undefined field 'name'"),
        ('device.attributes["compute.major"] >= 8', "applied to '(map(string, any), int)'"),
        ('device.attributes["gpu.nvidia.com/model"] == "H100"', "applied to '(map(string, any), string)'"),
        ('quantity("1") >= quantity("2")', "applied to '(kubernetes.Quantity, kubernetes.Quantity)'"),
        ('device.capacity["gpu.nvidia.com"].memory > quantity("2")', "no matching overload for '_>_'"),
        ('device.capacity["gpu.nvidia.com"].memory.sign() == 1', "applied to 'kubernetes.Quantity.()'"),
        ('semver("1.0.0") >= semver("2.0.0")', "no matching overload for '_>=_'"),
        ('quantity("1").major() == 1', "applied to 'kubernetes.Quantity.()'"),
        ("device.driver ==", "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(',"),
        ("nothing.known()", "undeclared reference to 'nothing' (in container '')"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("device.driver.matches('(')", "invalid matches argument"),
        ("device.driver.find('(') == ''", "program instantiation failed: error parsing regexp"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("[1].all(1, true)", "argument must be a simple name"),
        ("has(device)", "invalid argument to has() macro"),
        ("package == 1", "reserved identifier: package"),
        (
            'device.attributes.example.exists(k, k == "x")',
            "too complex",
        ),  # the domain as a field has no known size
        ("device.attributes.a.b.exists(x, x == 1)", "cannot be range of a comprehension"),
        ('device.driver == "' + "x" * 10_300 + '"', "10240 bytes"),
    ],
)
def test_what_the_api_server_refuses_does_not_compile(expression, said):
    with pytest.raises(CompileError) as refusal:
        compile_selector(expression)
    assert said in refusal.value.message


def test_a_compile_error_says_where():
    with pytest.raises(CompileError) as refusal:
        compile_selector('true &&\n\tdevice.name == "ü"')
    assert refusal.value.message.endswith("undefined field 'name'\n |  device.name == \"ü\"\n | .......^")
    with pytest.raises(CompileError) as refusal:
        compile_selector('"ü" == é')
    assert refusal.value.message.endswith("recognition error at: 'é'\n | \"ü\" == é\n | .．.....＾")
    with pytest.raises(CompileError) as refusal:
        compile_selector('true &&\n device.name == "x" || nobody')
    assert refusal.value.message == (
        "compilation failed: "
        "ERROR: <input>:2:8: undefined field 'name'\n |  device.name == \"x\" || nobody\n | .......^\n"
        "ERROR: <input>:2:24: undeclared reference to 'nobody' (in container '')"
        '\n |  device.name == "x" || nobody\n | .......................^'
    )


@pytest.mark.parametrize(
    "expression",
    [
        f"{[*range(400)]}.all(a, {[*range(400)]}.all(b, a + b >= 0))",
        '"a.b".split(".").join("-") == "a-b"',  # the size of the parts is not known
        "lists.range(1000000).size() > 0",
    ],
)
def test_what_would_take_too_much_is_refused_before_it_runs(expression):
    with pytest.raises(CompileError, match="too complex, exceeds cost limit"):
        compile_selector(expression)


NUMBERS = [*range(45)]
LONG = '"x".replace("x", "' + "y" * 300 + '").replace("y", "' + "z" * 300 + '")'


@pytest.mark.parametrize(
    "expression",
    [
        # accepted by the API server; on 152 devices it kept a thread busy for 73 s
        f'{NUMBERS}.all(a, {NUMBERS}.all(b, {NUMBERS}.all(c, device.driver != "z")))',
        f"{NUMBERS}.map(a, {NUMBERS}.map(b, {NUMBERS}.map(c, a + b + c))).size() > 0",
        f"{NUMBERS}.exists_one(a, {NUMBERS}.exists_one(b, {NUMBERS}.exists(c, a + b + c < 0)))",
        "lists.range(1000).distinct().size() == 1000",
        "sets.contains(lists.range(1000), lists.range(1000))",
        "cel.bind(a, lists.range(1000).map(x, lists.range(1000)), a == a)",
        "lists.range(300000).exists(x, x == -1)",
        f"lists.range(1000).all(n, !{LONG}.contains('q'))",
        f"lists.range(1000).all(n, !{LONG}.matches('(q|w)+$'))",
        f"lists.range(1000).all(n, {LONG}.split('').size() > 0)",
    ],
)
def test_evaluation_stops_after_a_number_of_steps(expression):
    work = Work()
    selector = compile_stored(expression)
    with pytest.raises(NotPreviewable, match="more than 100,000 steps on one device, the portal's limit"):
        selector.matches(DEVICE, work)
    assert work.steps > MAX_DEVICE_STEPS
    with pytest.raises(NotPreviewable):
        selector.matches(DEVICE, again := Work())
    assert again.steps == work.steps  # a number of steps, not a time


@pytest.mark.parametrize(
    ("expression", "steps"),
    [
        ("true", 0),
        ('device.driver == "x"', 2),
        ("[1, 2, 3].all(n, n > 0)", 3 + 3 * 7),
        ("[1, 2, 3, 4].all(n, n > 0)", 3 + 4 * 7),
        ("[1, 2, 3].all(n, n < 3 || [1, 2].all(m, m > 0))", 3 + 3 * 11 + 2 * 7),
        ('"a b".contains("b")', 1),
        ("[1, 2, 3] == [1, 2, 3]", 3 + 3),
    ],
)
def test_steps_grow_with_what_is_evaluated(expression, steps):
    compile_stored(expression).matches(DEVICE, work := Work())
    assert work.steps == steps


def test_a_text_that_would_fill_the_memory_is_left_to_the_cluster():
    grown = f'"x".replace("x", "{"y" * 900}").replace("y", "{"z" * 900}").replace("z", "{"w" * 900}")'
    selector = compile_selector(f"{grown}.size() > 0")
    with pytest.raises(NotPreviewable, match="a cluster decides"):
        selector.matches(DEVICE)


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ('device.attributes["gpu.nvidia.com"].?productName.orValue("") == "x"', 6),
        ('device.attributes["gpu.nvidia.com"].exists(k, v, v == "x")', 196),
        ("[3, 1, 2].sort() == [1, 2, 3]", 50),
        ('"a".replace("", device.driver).size() == 1', 5),
    ],
)
def test_the_cost_is_the_one_that_the_api_server_estimates(expression, cost):
    assert compile_selector(expression).cost == cost


def test_a_cluster_without_the_switch_does_not_know_the_field():
    assert compile_selector("device.allowMultipleAllocations").matches(DEVICE) is False
    with pytest.raises(CompileError, match="undefined field 'allowMultipleAllocations'"):
        compile_selector("device.allowMultipleAllocations", Features())
