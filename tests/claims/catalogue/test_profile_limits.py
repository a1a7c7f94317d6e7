"""The limits of a profile: one definition, from which columns, forms, API and file are derived."""

from datetime import timedelta

import pytest

from claims.catalogue.api import ChangeProfileIn, ProfileOut, VersionOut
from claims.catalogue.definition import limits_in_words
from claims.catalogue.forms import ProfileForm
from claims.models import LIMITS, ProfileLimits, ProfileVersion
from claims.models.limits import Group

HOUR = timedelta(hours=1)
NAMES = [limit.name for limit in LIMITS]


def test_every_limit_has_a_column_a_field_and_a_key():
    columns = {field.name for field in ProfileVersion._meta.get_fields()}
    assert set(NAMES) <= columns
    for fields in (ProfileForm.base_fields | ProfileForm().fields, ChangeProfileIn().fields):
        assert set(NAMES) <= set(fields)
    for fields in (ProfileOut().fields, VersionOut().fields):
        assert set(NAMES) <= set(fields)
    assert len({limit.path for limit in LIMITS}) == len(LIMITS)


def test_version_without_limits_has_the_defaults():
    version = ProfileVersion(deliveries=["claim", "template"])
    assert version.limits == ProfileLimits()


def test_limits_of_another_name_are_ignored():
    assert ProfileLimits.among({"max_devices": 4, "title": "Train"}) == ProfileLimits(max_devices=4)


def test_deliveries_have_one_order_and_no_duplicates():
    assert ProfileLimits(deliveries=("template", "claim", "template")).deliveries == ("claim", "template")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("scalable", "", "—"),
        ("scalable", "gpu", "gpu"),
        ("max_devices", 4, "4"),
        ("grace", timedelta(0), "none"),
        ("grace", HOUR, "1 h"),
        ("deliveries", ["claim", "template"], "Named claim, Template"),
        ("approval", "admin", "platform admin"),
        ("automatic_devices", 0, "0"),
        ("automatic_duration", None, "—"),
        ("idle_percent", None, "10 % (default)"),
        ("idle_percent", 5, "5 %"),
        ("idle_after", None, "30 min (default)"),
        ("idle_after", HOUR, "1 h"),
    ],
)
def test_limit_in_words(name, value, words):
    (limit,) = (limit for limit in LIMITS if limit.name == name)
    assert limit.in_words(value) == words


@pytest.mark.parametrize(
    ("minutes", "accepted"), [(0, False), (4, False), (5, True), (7, False), (1440, True), (1445, False)]
)
def test_idle_time_is_in_steps_of_five_minutes_up_to_a_day(minutes, accepted):
    problems = ProfileLimits(idle_after=timedelta(minutes=minutes)).problems()
    assert ("idle_after" not in problems) is accepted


def test_page_shows_all_limits_except_those_of_approval():
    version = ProfileVersion(deliveries=["claim"])
    labels = [label for label, _value in limits_in_words(version)]
    assert labels == [limit.label for limit in LIMITS if limit.group != Group.APPROVAL]


def test_editor_shows_each_limit_once_in_the_rows_of_its_group():
    rows = [[field.name for field in row] for row in ProfileForm().limit_rows]
    assert rows == [
        ["scalable", "max_devices"],
        ["default_duration", "max_duration"],
        ["grace", "extension", "end_policy"],
        ["approval", "automatic_devices", "automatic_duration"],
        ["deliveries"],
        ["idle_percent", "idle_after"],
    ]
    assert sorted(name for row in rows for name in row) == sorted(NAMES)
