"""What an installation is made of: pinned, listed, and known to nobody as vulnerable."""

import hashlib
import json
import re
import subprocess
import tomllib
import zipfile
from datetime import date
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from scripts import audit_dependencies, sbom
from scripts.audit_dependencies import Accepted, Found, NotChecked, accepted, problems, vulnerabilities
from scripts.sbom import ROOT, uv

# Licenses of what is installed with the portal or served by it, as the packages name them.
ALLOWED = re.compile(
    r"^(MIT(-0| License)?|BSD( License| \d-Clause|-\d-Clause)?|Apache(-2\.0| Software License)|PSF-2\.0"
    r"|Python Software Foundation License|Mozilla Public License 2\.0 \(MPL 2\.0\)|LGPL-3\.0-only|OFL-1\.1"
    r"|ISC|The Unlicense \(Unlicense\)|Other/Proprietary License)$"
)
# Named, and why it is no reason to leave the package out.
EXPLAINED = {"qrcode": "BSD; the other classifier is about a trademark of the word “QR Code”"}


def uv_packages():
    return tomllib.loads((ROOT / "uv.lock").read_text())["package"]


def npm_packages():
    return {path: one for path, one in npm_lock().items() if path}


def npm_lock():
    return json.loads((ROOT / "package-lock.json").read_text())["packages"]


@pytest.mark.security("supply", "a package in a lock file without the hash of its file")
def test_every_locked_file_has_its_hash():
    files = 0
    for package in uv_packages():
        if "registry" not in package["source"]:
            assert package["name"] in ("dragoman", "dragoman-client"), "only what is in this repository"
            continue
        assert package["source"]["registry"] == "https://pypi.org/simple"
        for file in [*package.get("wheels", []), *filter(None, [package.get("sdist")])]:
            assert re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"]), package["name"]
            files += 1
    assert files > 500
    for path, package in npm_packages().items():
        assert package["integrity"].startswith("sha512-"), path


def wheel(folder, content):
    name = folder / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr("small.py", content)
        archive.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        archive.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("small-1.0.dist-info/RECORD", "")
    return name


@pytest.fixture
def index(tmp_path):
    """A package index of one file on this machine."""
    folder = tmp_path / "index"
    (folder / "small").mkdir(parents=True)
    file = wheel(folder / "small", "one = 1\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "small" / "index.html").write_text(f'<a href="{file.name}#sha256={digest}">{file.name}</a>')
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.security("supply", "a package whose file was replaced after it was locked")
def test_uv_installs_nothing_whose_file_is_another_than_was_locked(tmp_path, index):
    folder, url = index
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\nrequires-python = "==3.12.*"\ndependencies = ["small"]\n'
        f'[tool.uv]\npackage = false\n[[tool.uv.index]]\nurl = "{url}"\ndefault = true\n'
    )
    python = str(ROOT / ".venv/bin/python")

    def run(*command, cache):
        options = ("--cache-dir", str(tmp_path / cache), "--python", python)
        return subprocess.run([uv(), *command, *options], cwd=project, capture_output=True, text=True)

    assert run("lock", cache="a").returncode == 0
    assert run("sync", "--frozen", cache="b").returncode == 0
    wheel(folder / "small", "one = 'another'\n")
    refused = run("sync", "--frozen", "--reinstall", cache="c")
    assert refused.returncode != 0
    assert "hash mismatch" in refused.stderr.lower()


@pytest.mark.security("supply", "an image or an installation that is not made of the lock files")
def test_image_and_installation_are_made_of_the_lock_files():
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"uv sync (\S+)", dockerfile) == ["--frozen", "--frozen"]
    assert "pip install" not in dockerfile
    assert '"sync", "--quiet", "--frozen"' in (ROOT / "scripts/bootstrap.py").read_text()
    assert '"ci", *options' in (ROOT / "core/assets.py").read_text()
    assert "--ignore-scripts" in (ROOT / "core/assets.py").read_text()


@pytest.mark.security("supply", "a script or a font for browsers that differs from the listed one")
def test_files_for_browsers_are_those_of_the_list():
    lines = (ROOT / "static/dragoman/vendor.sha256").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split() for line in lines)}
    folder = ROOT / "static/vendor"
    made_of_ours = {"dragoman.css", "icons.svg"}  # by core.assets, of packages with hashes
    files = {one.name for one in folder.iterdir() if not one.name.startswith((".", "LICENSE"))}
    assert files - made_of_ours == set(listed)
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in listed}
    assert found == listed, "(cd static/vendor && sha256sum …) > static/dragoman/vendor.sha256, after a look"


@pytest.fixture(scope="module")
def bill():
    return sbom.document()


@pytest.mark.security("supply", "a component that the bill of materials leaves out")
def test_the_bill_of_materials_has_every_component(bill):
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["name"] == "dragoman"
    names = {one["name"] for one in bill["components"]}
    assert {"django", "kubernetes", "pyarrow", "uplot", "@tabler/core", "python"} <= names
    assert not {"pytest", "purgecss", "starlette"} & names
    for one in bill["components"]:
        hashes = [*one.get("hashes", ())]
        hashes += [value for link in one.get("externalReferences", ()) for value in link.get("hashes", ())]
        assert hashes or one["type"] == "container", one["name"]
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(references) == len(set(references))


@pytest.mark.security("supply", "a dependency under a license that Dragoman cannot be shipped with")
def test_every_component_has_a_license_that_allows_to_ship_it(bill):
    unknown = {}
    for one in bill["components"]:
        if one["type"] == "container":
            continue
        entry: dict = (one.get("licenses") or [{}])[0]
        name = entry.get("expression") or entry.get("license", {}).get("name", "")
        parts = re.split(r" (?:OR|AND) ", name)
        if not all(ALLOWED.fullmatch(part) for part in parts):
            unknown[one["name"]] = name
        if any("Proprietary" in part for part in parts):
            assert one["name"] in EXPLAINED
    assert unknown == {}


ROWS = [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fixed_in": ["2.0"], "withdrawn": None}]
TODAY = date(2026, 11, 27)


@pytest.mark.security("supply", "a known vulnerability that nobody has accepted, or for longer than was said")
def test_a_known_vulnerability_fails_unless_it_is_accepted_for_now():
    found, unchecked = vulnerabilities([("small", "1.0")], lambda _name, _version: ROWS)
    assert (found, unchecked) == ([Found("small", "1.0", frozenset({"PYSEC-1", "CVE-1"}), "2.0")], [])
    assert "Update it, or accept it" in problems(found, [], TODAY)[0]
    assert problems(found, [Accepted("CVE-1", "not used", date(2026, 12, 1))], TODAY) == []
    assert (
        "was accepted until" in problems(found, [Accepted("CVE-1", "not used", date(2026, 11, 1))], TODAY)[0]
    )
    assert "no longer found" in problems([], [Accepted("CVE-1", "not used", date(2026, 12, 1))], TODAY)[0]
    withdrawn = [{**ROWS[0], "withdrawn": "2026-01-01T00:00:00Z"}]
    assert vulnerabilities([("small", "1.0")], lambda _name, _version: withdrawn) == ([], [])


def test_what_is_accepted_has_a_reason_and_an_end():
    assert accepted(audit_dependencies.ACCEPTED.read_text()) is not None
    row = '[[accepted]]\nid = "CVE-1"\nreason = "{}"\nuntil = {}\n'
    assert accepted(row.format("not used", "2026-12-01"))[0].until == date(2026, 12, 1)
    for reason, until in ((" ", "2026-12-01"), ("not used", '"soon"')):
        with pytest.raises(ValueError, match="CVE-1"):
            accepted(row.format(reason, until))


def test_a_service_that_does_not_answer_is_told_and_fails_only_where_that_is_wanted(monkeypatch, capsys):
    def away(_path):
        raise NotChecked("Connection refused")

    monkeypatch.setattr(audit_dependencies, "read", away)
    monkeypatch.setattr(audit_dependencies, "python_packages", lambda: [("small", "1.0")])
    monkeypatch.setattr(audit_dependencies, "accepted", lambda _text: [])
    assert audit_dependencies.main([]) == 0
    assert "NOT CHECKED, 1 of 1" in capsys.readouterr().out
    assert audit_dependencies.main(["--strict"]) == 2
