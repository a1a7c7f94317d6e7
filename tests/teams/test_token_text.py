"""The text of a token: found by secret scanners, refused without a query if it is mistyped."""

import re
import zlib

import pytest

from teams.tokens import DIGITS, PATTERN, checksum, find_token, is_well_formed, new_text
from tests.factories import make_token


def test_a_token_is_a_prefix_random_characters_and_their_crc32_in_base_62():
    text = new_text()
    assert re.fullmatch(r"drg_[0-9A-Za-z]{46}", text)
    random, last = text[4:44], text[44:]
    assert sum(DIGITS.index(digit) * 62**place for place, digit in enumerate(reversed(last))) == zlib.crc32(
        random.encode()
    )
    assert len({new_text() for _ in range(50)}) == 50


def test_a_checksum_keeps_its_leading_zeros():
    assert checksum("") == "000000"
    assert {len(checksum(str(number))) for number in range(200)} == {6}


@pytest.mark.security("secrets", "a token in a repository, for a scanner")
def test_the_documented_pattern_finds_tokens_in_other_text():
    text = new_text()
    assert PATTERN.findall(f'token = "{text}"\nother = "drg_short"') == [text]


@pytest.mark.security("guessing", "made-up tokens that cost a query each")
@pytest.mark.parametrize(
    "wrong", [lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"), str.lower, lambda text: text[:-1]]
)
def test_a_mistyped_token_is_refused_without_a_query(alice, wrong, django_assert_num_queries):
    _row, text = make_token(alice)
    assert is_well_formed(text)
    with django_assert_num_queries(0):
        assert find_token(wrong(text)) is None


def test_a_token_is_found_with_user_and_roles_in_one_query(alice, vision, django_assert_num_queries):
    _row, text = make_token(alice)
    find_token(text)  # records the use
    with django_assert_num_queries(1):
        token = find_token(text)
        assert token is not None
        assert token.user == alice
        assert {team.slug: role for team, role in token.user.roles_read.items()} == {"vision": "member"}
