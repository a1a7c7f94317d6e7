import json
import re

import pytest

from core import assets


def test_every_package_of_the_lockfile_has_an_integrity_hash():
    lock = json.loads((assets.ROOT / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())


def test_a_sprite_has_a_symbol_per_icon_without_the_invisible_square(tmp_path):
    (tmp_path / "plus.svg").write_text(
        '<svg><path stroke="none" d="M0 0h24v24H0z" fill="none"/><path d="M12 5l0 14" /></svg>'
    )
    symbol = '<symbol id="plus" viewBox="0 0 24 24"><path d="M12 5l0 14" /></symbol>'
    assert symbol in assets.sprite(tmp_path, ["plus"])


def test_an_icon_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(assets.AssetsMissing, match="no-such-icon"):
        assets.sprite(tmp_path, ["no-such-icon"])


def test_the_result_is_current_only_for_the_inputs_it_was_made_from(tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "VENDOR", tmp_path)
    assert not assets.is_current()
    (tmp_path / ".stamp").write_text(assets.stamp())
    assert assets.is_current()
    icons = tmp_path / "icons.txt"
    icons.write_text("cpu\n")
    monkeypatch.setattr(assets, "ICON_LIST", icons)
    assert not assets.is_current()


def test_icons_are_one_per_line_with_comments(tmp_path, monkeypatch):
    icons = tmp_path / "icons.txt"
    icons.write_text("# chips\ncpu  # a device\n\ncpu\nplus\n")
    monkeypatch.setattr(assets, "ICON_LIST", icons)
    assert assets.icon_names() == ["cpu", "plus"]


def test_own_sheets_are_all_there_with_print_in_a_media_query():
    sheet = assets.own_sheets()
    assert set(assets.SHEETS) == {file.stem for file in assets.OWN_CSS.glob("*.css")}
    assert '"inter.woff2"' in sheet  # the font beside it
    assert sheet.index("@media print {") > sheet.index((assets.OWN_CSS / "overlays.css").read_text())


def test_built_stylesheet_has_our_own_rules_and_drops_what_no_page_uses():
    built = (assets.VENDOR / "dragoman.css").read_text()
    assert built.endswith(assets.own_sheets())
    tabler = built.removesuffix(assets.own_sheets())
    assert ".form-select" in tabler  # written by a form in Python only
    assert ".carousel" not in tabler
    assert "sourceMappingURL" not in built
    assert len(tabler) < 100_000


def test_every_python_file_that_writes_a_class_is_a_source_of_class_names():
    """What only another file mentions would be dropped from the stylesheet."""
    written = re.compile(r'(?<![\w])class="[a-z]|"class": "[a-z-]+"')
    apps = ("claims", "core", "inventory", "notify", "portal", "teams", "usage")
    files = {path for app in apps for path in (assets.ROOT / app).rglob("*.py") if path.name != "logs.py"}
    assert {path for path in files if written.search(path.read_text())} <= set(assets.class_sources())
