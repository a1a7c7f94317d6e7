"""What `make test` says of a machine that lacks something, what it installs, and the last line of its run."""

import os
from dataclasses import replace

import pytest

from demo.controlplane import build
from tests import machine
from tests.keycloak import server as keycloak


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A Debian without any of the tools; return the folder of its programs."""
    put(tmp_path, "apt-get")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.delenv("INSTALL", raising=False)
    monkeypatch.setenv("DRAGOMAN_CONTROLPLANE_DIR", str(tmp_path / "nothing"))
    monkeypatch.setattr("tests.oracle.build.program", lambda: tmp_path / "oracle")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(keycloak, "java_version", lambda: 17 if (tmp_path / "java").exists() else 0)
    ready = [replace(need, prepare=need.prepare and (lambda: "")) for need in machine.NEEDS]
    monkeypatch.setattr(machine, "NEEDS", ready)
    return tmp_path


def put(folder, name):
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


class Apt:
    """apt-get of a Debian: what it was told, and what it installs into `folder`."""

    PROGRAMS = {
        "chromium": ["chromium"],
        "prometheus": ["prometheus", "promtool"],
        "default-jre-headless": ["java"],  # there is no openjdk-17-jre-headless
    }

    def __init__(self, folder, *, stale=True):
        self.folder, self.stale, self.told = folder, stale, []

    def __call__(self, command):
        self.told.append(" ".join(command))
        if "update" in command:
            self.stale = False
            return 0
        programs = () if self.stale else self.PROGRAMS.get(command[-1], ())
        for name in programs:
            put(self.folder, name)
        return 0 if programs else 100


def test_bare_debian_gets_chromium_java_and_prometheus(bare):
    said: list[str] = []
    apt = Apt(bare)
    lacking = machine.prepare(said.append, apt)
    assert sum("update" in command for command in apt.told) == 1
    of_go = {"control plane", "generated clients", "oracle"}
    assert {need.name for need, _reason in lacking} == of_go
    assert said[0] == "Chromium is missing; installing the package chromium …"


def test_ubuntu_gets_the_chromium_of_playwright(bare, monkeypatch):
    monkeypatch.setitem(Apt.PROGRAMS, "chromium", [])
    apt = Apt(bare)
    lacking = machine.prepare(print, apt)
    assert apt.told[3].endswith("-m playwright install --with-deps chromium")
    assert "Chromium" in {need.name for need, _reason in lacking}  # that apt installs nothing


@pytest.mark.parametrize("why", ["not root", "INSTALL=0"])
def test_table_names_what_is_skipped_and_one_command_that_installs_it(bare, monkeypatch, why):
    if why == "not root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    else:
        monkeypatch.setenv("INSTALL", "0")
    apt = Apt(bare)
    lacking = machine.prepare(print, apt)
    assert apt.told == []
    table = "\n".join(machine.table(lacking))
    assert "Prometheus     missing: prometheus and promtool not on PATH" in table
    assert "skipped: three days of usage and cost, gaps of telemetry, alert rules." in table
    assert "install Go (https://go.dev/dl)" in table
    assert "MLflow         ready" in table
    how = "sudo apt-get install -y chromium prometheus openjdk-17-jre-headless"
    assert machine.command(lacking) == how


def test_download_that_fails_is_in_the_table(bare, monkeypatch):
    (mlflow,) = (need for need in machine.NEEDS if need.name == "MLflow")
    refused = replace(mlflow, prepare=lambda: "MLflow cannot be installed: no network")
    monkeypatch.setattr(machine, "NEEDS", [refused if need == mlflow else need for need in machine.NEEDS])
    table = machine.table(machine.prepare(print, Apt(bare)))
    assert "  MLflow         missing: MLflow cannot be installed: no network" in table


def test_last_line_counts_what_was_not_run_by_what_lacks(bare):
    reasons = [
        "Skipped: promtool is not installed; it comes with Debian's package prometheus",
        "Skipped: prometheus is not installed; it comes with Debian's package prometheus",
        "Skipped: No Chromium on PATH: install Debian's chromium, or name one in CHROMIUM.",
        "Skipped: only Linux ends a child with its parent",
    ]
    said = machine.last_line(14_012, 2, reasons)
    assert said.startswith(
        "14,012 passed, 2 failed, 3 not run for lack of Prometheus (2), Chromium (1): not a full run."
    )
    assert machine.last_line(14_650, 0, reasons[3:]) == ""


def test_every_reason_to_skip_for_want_of_a_tool_is_counted(bare, monkeypatch):
    """What the fixtures say on a bare machine is what the last line knows."""
    from tests.e2e import chromium
    from tests.oracle import build as oracle
    from tests.prometheus import prometheus_program

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("DRAGOMAN_CONTROLPLANE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(bare))
    reasons = [build.why_unusable(), keycloak.why_unusable(), oracle.why_unusable()]
    for tool in (prometheus_program, chromium.executable):
        with pytest.raises(pytest.skip.Exception) as skipped:
            tool()
        reasons.append(str(skipped.value))
    assert all(reasons)
    counted = machine.not_run(reasons)
    assert counted == dict.fromkeys(("control plane", "Java 17", "oracle", "Prometheus", "Chromium"), 1)


def test_missing_tool_is_an_error_in_ci(bare, monkeypatch, capsys):
    monkeypatch.setattr(machine, "_run", Apt(bare))
    monkeypatch.setenv("CI", "true")
    assert machine.main() == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("  ")
    monkeypatch.setenv("CI", "false")
    assert machine.main() == 0
