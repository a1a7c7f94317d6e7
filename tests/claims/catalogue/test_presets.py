"""The presets. `tests/scheduler/test_presets.py` tests what the scheduler does with them."""

import pytest

from claims.catalogue.presets import FOLDER, presets
from claims.catalogue.services import add_profiles, import_profiles
from claims.catalogue.yaml_export import catalogue_file, exported
from claims.catalogue.yaml_import import read_definitions

SLUGS = [entry.slug for entry in presets()]


def test_each_preset_has_a_file_of_its_slug():
    assert [file.stem for file in sorted(FOLDER.glob("*.yaml"))] == SLUGS
    assert len(SLUGS) >= 15


def test_each_preset_survives_export_and_import():
    changed = [
        entry.slug
        for entry in presets()
        if read_definitions(catalogue_file([entry]), "again.yaml") != [entry]
    ]
    assert changed == []


@pytest.mark.django_db
def test_all_presets_are_added_once_and_exported(root):
    assert [change.kind for change in add_profiles(by=root, definitions=presets())] == ["new"] * len(SLUGS)
    assert add_profiles(by=root, definitions=presets()) == []
    again = read_definitions(catalogue_file(exported()), "catalogue.yaml")
    assert again == list(presets())
    assert {change.kind for change in import_profiles(by=root, definitions=again)} == {"same"}
