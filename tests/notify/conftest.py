"""The people of tests/teams."""

from tests.teams.conftest import (  # noqa: F401  # fixtures
    _no_counts_of_others,
    alice,
    api,
    bob,
    browse,
    eve,
    olga,
    root,
    vision,
)
