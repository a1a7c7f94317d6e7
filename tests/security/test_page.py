"""The page of the tests of security says what there is."""

import pytest

from tests.security import page


def test_the_page_lists_every_marked_test():
    fresh = page.written(page.found())
    assert page.PAGE.read_text() == fresh, "Write it again: python -m tests.security.page"


def test_every_subject_has_tests_and_every_text_is_one_sentence_without_a_table_in_it():
    tests = page.found()
    assert {test.subject for test in tests} == set(page.SUBJECTS)
    assert [test for test in tests if "|" in test.tries or "\n" in test.tries] == []


@pytest.mark.parametrize("arguments", ['"access"', '"nothing", "tries"', '"access", WHAT'])
def test_a_mark_that_is_not_plain_is_named(tmp_path, monkeypatch, arguments):
    (tmp_path / "tests").mkdir()
    file = tmp_path / "tests" / "test_x.py"
    file.write_text(f"@pytest.mark.security({arguments})\ndef test_x(): pass\n")
    monkeypatch.setattr(page, "ROOT", tmp_path)
    with pytest.raises(page.NotPlain, match="test_x"):
        page.found()
