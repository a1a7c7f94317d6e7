"""The comparison of sites reads hidden fields and fills in ids."""

import yaml

from bench import compare


def test_hidden_fields_of_a_form_are_read():
    page = (
        '<form><input type="hidden" name="csrf" value="a&amp;b"><input type="text" name="x" value="y">'
        '<input name="key" type="hidden"></form>'
    )
    assert compare.hidden_fields(page) == {"csrf": "a&b", "key": ""}


def test_each_request_takes_the_next_id(tmp_path):
    spec = {"name": "Site", "url": "http://site.test", "people": {}, "pids": [], "paths": {}}
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(spec))
    site = compare.Site(tmp_path / "site.yaml")
    site.ids["detail"] = ["7", "8"]
    entry = {"as": "admin", "address": "/claims/{id}/", "ids": {}}
    assert [site.address("detail", entry) for _ in range(2)] == ["/claims/7/", "/claims/8/"]


def test_both_sites_measure_the_same_paths():
    ours, theirs = (
        yaml.safe_load((compare.FOLDER / f"{name}.yaml").read_text()) for name in ("dragoman", "coldfront")
    )
    assert list(ours["paths"]) == list(theirs["paths"])
    assert list(ours["writes"]) == list(theirs["writes"])
