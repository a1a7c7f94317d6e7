"""Building the programs: with a stand-in for Go, because a real build takes minutes."""

import os
import stat
from pathlib import Path

import pytest

from demo.controlplane import build
from demo.controlplane.build import PROGRAMS

# Writes the file that -o names, as Go does; fails after that if told to.
GO = """#!/bin/sh
[ "$1" = list ] && { echo one; echo two; exit 0; }
while [ $# -gt 0 ]; do [ "$1" = -o ] && { echo program > "$2"; chmod +x "$2"; }; shift; done
echo some/package >&2
exit ${GO_EXIT:-0}
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DRAGOMAN_CONTROLPLANE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/dragoman/controlplane" / build.version()


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin/go"
    program.parent.mkdir()
    program.write_text(GO)
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def test_the_version_is_that_of_the_module():
    assert build.version() == "v1.37.1"


def test_all_five_programs_are_built_into_the_cache(empty_cache, go):
    assert build.ensure() == empty_cache
    assert build.missing() == []
    assert {file.name for file in empty_cache.iterdir() if not file.name.startswith(".")} == set(PROGRAMS)


def test_what_is_there_is_not_built_again(empty_cache, go):
    build.ensure()
    before = (empty_cache / "etcd").stat().st_mtime_ns
    (empty_cache / "kwok").unlink()
    build.ensure()
    assert (empty_cache / "etcd").stat().st_mtime_ns == before
    assert (empty_cache / "kwok").exists()


def test_a_build_that_fails_leaves_nothing_half(empty_cache, go, monkeypatch):
    monkeypatch.setenv("GO_EXIT", "1")
    with pytest.raises(build.BuildFailed, match="Go could not build etcd"):
        build.ensure()
    assert [file.name for file in empty_cache.iterdir()] == [".lock"]


def test_without_go_it_says_so(empty_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Go, which would build them, is not installed" in build.why_unusable()
    with pytest.raises(build.BuildFailed, match="Go"):
        build.ensure()


def test_a_named_folder_is_used_and_never_filled(tmp_path, go, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CONTROLPLANE_DIR", str(tmp_path / "mine"))
    with pytest.raises(build.BuildFailed, match="which DRAGOMAN_CONTROLPLANE_DIR names"):
        build.ensure()
    assert not (tmp_path / "mine").exists()


def test_the_command_says_why_it_failed(empty_cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.main() == 1
    assert "kube-apiserver" in capsys.readouterr().err
