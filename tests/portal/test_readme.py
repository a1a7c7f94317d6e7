"""Each command of the README is executed by a test, here or in the file named; or it is said why not."""

import io
import re
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from tests.demo.running import ROOT

README = (ROOT / "README.md").read_text()
# Beginning of a line → the test that executes it, or why none does.
ELSEWHERE = {
    "git clone": "this very checkout",
    "make demo": "tests/portal/test_demo_processes.py::"
    "test_first_start_has_its_own_database_and_starting_again_keeps_it",
    "export KUBECONFIG": "tests/e2e/test_readme.py::test_steps_of_try_it_lead_to_a_pod_without_a_reload",
    "kubectl": "tests/e2e/test_readme.py::test_steps_of_try_it_lead_to_a_pod_without_a_reload",
    "dragoman": "tests/e2e/test_readme.py::test_the_commands_request_a_gpu_and_give_it_back",
    "manage.py cluster add": "tests/cluster/test_command.py::"
    "test_a_cluster_is_added_by_its_identity_and_its_credentials_are_sealed",
    "manage.py cluster check": "tests/cluster/test_command.py::test_a_check_shows_what_works",
    "manage.py cluster rbac": "tests/cluster/test_command.py::"
    "test_a_check_of_a_real_cluster_with_the_printed_role_finds_nothing_missing",
    "manage.py allocate": "tests/portal/test_allocate_command.py::"
    "test_allocate_answers_line_by_line_without_a_database",
}
INLINE = {  # commands in sentences
    "make demo CLUSTER=real": "tests/e2e/test_request_to_release.py::"
    "test_an_engineer_asks_a_lead_approves_a_pod_holds_the_gpu_and_all_is_given_back",
    "make demo-reset": "tests/portal/test_demo_reset.py::test_reset_deletes_the_data_of_the_demo",
    "make test": "the run of this test",
    "make check": "what CI runs before the tests",
}


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]
    return [part for line in lines for part in line.split(" && ") if part]


def here() -> list[str]:
    return [command for command in commands() if not command.startswith(tuple(ELSEWHERE))]


def test_each_command_is_executed_by_a_test_or_has_a_reason():
    assert len(commands()) > 15
    assert all(command.startswith("manage.py ") for command in here() if not command.startswith("cd ")), (
        here()
    )
    unused = [start for start in ELSEWHERE if not any(line.startswith(start) for line in commands())]
    assert unused == []
    assert set(re.findall(r"`(make [^`]+)`", README)) == set(INLINE)
    named = [where for where in (*ELSEWHERE.values(), *INLINE.values()) if "::" in where]
    for where in named:
        file, _, function = where.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(), where


@pytest.mark.usefixtures("demo_database")
@pytest.mark.django_db
def test_commands_of_the_portal_run_as_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    spec = {"exactly": {"deviceClassName": "gpu.nvidia.com"}, "name": "gpu"}
    Path("claim.yaml").write_text(
        f"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: one}}\n"
        f"spec: {{devices: {{requests: [{spec}]}}}}\n"
    )
    written = io.StringIO()
    call_command("config", "export", stdout=written)
    Path("site.yaml").write_text(written.getvalue() or capsys.readouterr().out)
    for command in here():
        if command.startswith("cd "):
            continue
        _program, *words = command.split()
        if words[0] == "lint_catalogue":  # the demo has something to fix, and it ends with 1
            with pytest.raises((CommandError, SystemExit)):
                call_command(*words)
        else:
            call_command(*words)
    assert len(list(yaml.safe_load_all(Path("catalogue.yaml").read_text()))) > 5
