"""`make mutate` makes the mistakes that it says, and in functions that decorators hide too."""

import ast
import importlib.util
from pathlib import Path

import pytest

from scripts.mutants import mutants_of
from scripts.mutate import changed_lines, main, replace_code

ROOT = Path(__file__).resolve().parents[2]


def made(body):
    """Return what becomes of the body of a function, by what was done to it."""
    text = f"def f(a, b):\n    {body}\n"
    return {
        (one.what, one.apply(text).removeprefix("def f(a, b):\n    ").removesuffix("\n"))
        for one in mutants_of(Path("f.py"), text)
    }


@pytest.mark.parametrize(
    ("body", "what", "expected"),
    [
        ("a = b < 2", "comparison", "a = b <= 2"),
        ("a = b not in (1,)", "comparison", "a = b in (1,)"),
        ("a = (b) == (a)", "comparison", "a = (b) != (a)"),
        ("a = a and b", "and/or", "a = a or b"),
        ("a = not b", "not removed", "a = b"),
        ("a = b - 1", "plus/minus", "a = b + 1"),
        ("a -= b", "plus/minus", "a += b"),
        ("a = True", "boolean", "a = False"),
        ("a = 8", "number", "a = 9"),
        ("a = max(a, b)", "max", "a = min(a, b)"),
        ("a = 1 if b.ready() else 0", "condition negated", "a = 1 if not (b.ready()) else 0"),
        ("a.save(b)", "call removed", "pass"),
        ("raise a", "refusal removed", "pass"),
        ("return a", "nothing returned", "return None"),
        ("a = b.select_for_update(no_key=a).get()", "lock removed", "a = b.get()"),
        ("a = lock_row(b.all(), a.pk)", "lock removed", "a = b.all().get(pk=a.pk)"),
        ("a = b.filter(a, x=1, y=b)", "condition x removed", "a = b.filter(a, y=b)"),
        ("a = b.update(x=1, y=b)", "column y removed", "a = b.update(x=1)"),
        ("b.save(update_fields=[a, b])", "column not saved", "b.save(update_fields=[a])"),
        ("a = b.order_by(a).first()", "order_by removed", "a = b.first()"),
        ("a = a and b", "operand dropped", "a = a and True"),
        ("a = a or b", "operand dropped", "a = False or b"),
        ("a = a | b", "left operand dropped", "a = b"),
        ("a = a & b", "right operand dropped", "a = a"),
        ("a = min(a, b)", "bound dropped", "a = (b)"),
        ("a = [x for x in b if x]", "condition dropped", "a = [x for x in b if True]"),
        ("a.x = b", "assignment removed", "pass"),
        ("for x in b: a(x)", "only the first", "for x in list(b)[:1]: a(x)"),
        ("if a: b()", "branch dropped", "if False: b()"),
    ],
)
def test_a_mistake_is_made(body, what, expected):
    assert (what, expected) in made(body)


@pytest.mark.parametrize(
    "body", ["log.info(1 < 2)", 'return ""', "return None", "a: int | None", '"""1 + 1"""']
)
def test_log_calls_and_equivalent_mutants_are_left_out(body):
    assert made(body) == set()


def test_import_time_code_is_not_mutated():
    text = (
        "LIMIT = 5\n\n@keep(3)\nclass C:\n    most = 1 < 2\n\n    def f(self, least=7):\n        return []\n"
    )
    assert mutants_of(Path("f.py"), text) == []


CODE = ("claims/requests/services.py", "claims/delivery/deliver.py", "usage/cost.py")


@pytest.mark.parametrize("name", CODE)
def test_every_mutant_of_our_code_is_a_program_and_another_one(name):
    text = (ROOT / name).read_text()
    found = mutants_of(Path(name), text)
    assert len(found) > 20
    for one in found:
        assert ast.dump(ast.parse(one.apply(text))) != ast.dump(ast.parse(text)), one


def test_live_functions_get_the_code_of_the_mutant_behind_their_decorators(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        "import functools\n\n\n"
        "def twice(function):\n"
        "    @functools.wraps(function)\n"
        "    def inner(number):\n"
        "        return function(number) * 2\n\n"
        "    return inner\n\n\n"
        "@twice\n"
        "def more(number):\n"
        "    return number + 1\n"
    )
    spec = importlib.util.spec_from_file_location("some", path)
    some = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(some)
    text = path.read_text()
    (less,) = [one for one in mutants_of(path, text) if one.what == "plus/minus"]
    assert some.more(1) == 4
    replace_code(less, text)
    assert some.more(1) == 0


def test_the_lines_of_a_change_are_those_of_its_diff(monkeypatch):
    said = "+++ b/a.py\n@@ -3 +5,2 @@ def f\n+++ b/b.py\n@@ -0,0 +1 @@\n@@ -9,2 +8,0 @@\n"
    answer = type("Answer", (), {"stdout": said})
    monkeypatch.setattr("scripts.mutate.subprocess.run", lambda *args, **options: answer)
    assert changed_lines("main") == {"a.py": {5, 6}, "b.py": {1}}


def test_a_change_without_code_of_the_portal_is_nothing_to_mutate_and_no_error(monkeypatch, capsys):
    monkeypatch.setattr("scripts.mutate.changed_lines", lambda base: {"tests/core/test_mutants.py": {1}})
    monkeypatch.setattr("sys.argv", ["make mutate", "--changed", "main"])
    assert main() == 0
    assert capsys.readouterr().out == "No code of the portal differs from main: nothing to mutate.\n"
