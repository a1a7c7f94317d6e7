"""User names that are made: free, and like no other name or address."""

import pytest

from core.errors import Conflict
from teams.models import User
from teams.names import account_name, is_made_from, require_free
from tests.factories import make_user

pytestmark = pytest.mark.django_db

TAKEN = ("admin", "lead", "mia@corp.example")
LOOK_ALIKES = (
    "Admin",
    "ADMIN",
    "аdmin",
    "ａｄｍｉｎ",
    "admın",
    "LEAD",
    "ⅼead",
    "Mia@Corp.example",
    "boss@corp.example",
)


@pytest.fixture(autouse=True)
def _others():
    for name in TAKEN:
        make_user(name)
    make_user("boss", email="Boss@corp.example")


@pytest.mark.security("access", "a name that passes for somebody else's")
@pytest.mark.parametrize("wanted", LOOK_ALIKES)
def test_name_that_passes_for_another_gets_a_number(wanted):
    assert account_name(wanted).endswith("-2")


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (("",), "person"),
        (("---", "mia"), "mia"),
        (("", "", "mia@x.example"), "mia@x.example"),
        (("o'brien",), "o-brien"),
        (("admin2",), "admin2"),
        (("Иван",), "Иван"),
        (("a" * 300,), "a" * 140),
        (("a\x00b\ud800",), "a-b"),
    ],
    ids=str,
)
def test_name_is_that_of_the_first_text_with_a_letter(wanted, name):
    assert account_name(*wanted) == name


def test_names_are_unique_without_capitals_one_after_another():
    made = [make_user(account_name(wanted)).username for wanted in ("Mia", "mia", "MIA", "mia-2")]
    assert made == ["Mia", "mia-2", "MIA-3", "mia-2-2"]
    assert account_name("mia", of=User.objects.get(username="Mia")) == "mia"


ALIKE = (  # a name, and one that passes for it
    *(("vera", "Vera"), ("vera", "vеra"), ("vera", "VЕRA"), ("vera", "ｖｅｒａ"), ("ivan", "ιvan")),
    *(("coco", "сосо"), ("tom", "τom"), ("mira.h@x.example", "МIRA.н@x.example"), ("kim", "kım")),
)


@pytest.mark.security("access", "a name that passes for somebody else's")
@pytest.mark.parametrize(("there", "chosen"), [*ALIKE, *(pair[::-1] for pair in ALIKE)])
def test_chosen_name_that_passes_for_another_is_refused_both_ways(there, chosen):
    User.objects.create(username=there)
    with pytest.raises(Conflict, match="is taken"):
        require_free(chosen)
    assert account_name(chosen).endswith("-2")
    require_free(f"other-{chosen}")


def test_chosen_name_that_is_the_address_of_another_is_refused():
    with pytest.raises(Conflict, match="is taken"):
        require_free("Bоss@Corp.example")


@pytest.mark.parametrize(
    ("name", "text", "made"),
    [
        *(("o-brien", "O'Brien", True), ("mia-12", "mia", True)),
        *(("mia-x", "mia", False), ("x", "mia", False), ("mia", "$", False)),
    ],
)
def test_name_is_known_as_made_from_a_text(name, text, made):
    assert is_made_from(name, text) is made
