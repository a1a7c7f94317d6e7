"""
The examples of docs/user/pipelines.md: GitHub's and Argo's own schemas accept them, every command exists,
and the tasks of the Airflow example run against a portal, with a stand-in for Airflow.
"""

import json
import re
import shlex
import subprocess
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml
from dragoman.cli.commands import dragoman
from dragoman.cli.shared import EXIT_CODES, INTERRUPTED

from tests import patience
from tests.demo.running import ROOT

PAGE = (ROOT / "docs" / "user" / "pipelines.md").read_text()
ARGO = "github.com/argoproj/argo-workflows/v3@v3.7.4"


def block(heading, language):
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    return found


def commands_in(text):
    """Return the commands `dragoman …` of a text, each as words."""
    lines = re.findall(r"(?:^|[`'\"|] ?|run: |\s)(dragoman(?: [a-z\"$<{-][^`\n|>']*)+)", text, re.MULTILINE)
    return [shlex.split(line) for line in lines if not line.startswith("dragoman import")]


def parse(words):
    """Let click read the words as the program does, without running the command."""
    context = dragoman.make_context("dragoman", words[1:])
    name, command, rest = dragoman.resolve_command(context, [*context._protected_args, *context.args])
    return command.make_context(name, list(rest), parent=context)


@pytest.fixture(scope="session")
def argo_schema():
    """The schema of Argo Workflows, from its Go module; kept on this machine."""
    kept = Path.home() / ".cache" / "dragoman" / f"argo-{ARGO.rpartition('@')[2]}.json"
    if not kept.exists():
        done = subprocess.run(
            ["go", "mod", "download", "-json", ARGO], capture_output=True, text=True, timeout=patience.COMMAND
        )
        assert done.returncode == 0, done.stdout + done.stderr
        kept.parent.mkdir(parents=True, exist_ok=True)
        module = Path(json.loads(done.stdout)["Dir"])
        kept.write_text((module / "api" / "jsonschema" / "schema.json").read_text())
    return json.loads(kept.read_text())


def test_github_accepts_the_workflow(tmp_path):
    file = tmp_path / "evaluate.yaml"
    program = str(Path(sys.executable).parent / "check-jsonschema")

    def check(text):
        file.write_text(text)
        command = [program, "--builtin-schema", "vendor.github-workflows", str(file)]
        return subprocess.run(command, capture_output=True, text=True)

    text = block("GitHub Actions", "yaml")
    assert (done := check(text)).returncode == 0, done.stdout
    assert check(text.replace("runs-on:", "runs-upon:")).returncode == 1


def test_argo_accepts_the_workflow(argo_schema):
    workflow = yaml.safe_load(block("Argo Workflows", "yaml"))
    kind = {"$ref": "#/definitions/io.argoproj.workflow.v1alpha1.Workflow"}
    jsonschema.validate(workflow, {"definitions": argo_schema["definitions"]} | kind)
    with pytest.raises(jsonschema.ValidationError):  # the schema is one that refuses
        jsonschema.validate(
            workflow | {"spec": {"templates": "none"}}, {"definitions": argo_schema["definitions"]} | kind
        )


def test_the_pod_of_argo_uses_the_claim_that_was_requested():
    templates = {
        one["name"]: one for one in yaml.safe_load(block("Argo Workflows", "yaml"))["spec"]["templates"]
    }
    (name,) = [one["value"] for one in templates["request"]["container"]["env"] if one["name"] == "CLAIM"]
    patch = yaml.safe_load(templates["train"]["podSpecPatch"])
    (claim,) = patch["resourceClaims"]
    assert claim["resourceClaimName"] == name
    assert patch["containers"] == [{"name": "main", "resources": {"claims": [{"name": claim["name"]}]}}]
    assert templates["release"]["container"]["env"] == templates["request"]["container"]["env"]


@pytest.mark.parametrize("words", commands_in(PAGE), ids=" ".join)
def test_every_command_of_the_page_exists_with_its_options(words):
    parse(words)


def test_the_page_names_every_command_that_its_examples_use_and_more():
    assert len(commands_in(PAGE)) >= 15


def test_the_page_has_every_exit_code():
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert documented == {0, 1, 2, INTERRUPTED} | {code for _kind, code in EXIT_CODES}


def test_a_new_try_has_a_new_key_and_the_end_of_none_is_an_error():
    """What is repeated finds its claim; what is tried again gets another one, and is always released."""
    github, argo, airflow = (
        block(*one) for one in (("GitHub Actions", "yaml"), ("Argo Workflows", "yaml"), ("Airflow", "python"))
    )
    assert "CLAIM: actions-${{ github.run_id }}-${{ github.run_attempt }}" in github
    assert 'key="{{ run_id }}-{{ ti.try_number }}"' in airflow
    for text in (github, argo):
        assert 'dragoman release "$CLAIM" --ignore-not-found' in text


class Task:
    """What the example uses of a task of Airflow. Calling it runs it, as a worker would."""

    def __init__(self, function):
        self.function, self.results = function, []

    def __call__(self, *args, **fields):
        values = {"{{ run_id }}": uuid.uuid4().hex, "{{ ti.try_number }}": "1"}
        for name, value in values.items():
            fields = {field: text.replace(name, value) for field, text in fields.items()}
        self.results.append(Result(self.function(*args, **fields)))
        return self.results[-1]


class Result(str):
    """A result that later tasks get; it can be ordered."""

    def __new__(cls, value):
        return super().__new__(cls, value or "")

    def as_setup(self):
        return self

    def as_teardown(self, setups):
        assert setups
        return self

    def __rshift__(self, other):
        return other


@pytest.fixture
def airflow(monkeypatch):
    """Modules named as those of Airflow 3, which run tasks at once; what they were given."""
    seen: dict[str, Any] = {}

    class Pod(Result):
        def __new__(cls, **fields):
            seen["pod"] = fields
            return super().__new__(cls, "pod")

    def dag(**options):
        seen["dag"] = options
        return lambda function: function

    def task(function):
        seen[function.__name__] = Task(function)
        return seen[function.__name__]

    sdk, pod = ModuleType("airflow.sdk"), ModuleType("airflow.providers.cncf.kubernetes.operators.pod")
    sdk.dag, sdk.task, pod.KubernetesPodOperator = dag, task, Pod
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    monkeypatch.setitem(sys.modules, pod.__name__, pod)
    return seen


def test_the_tasks_of_airflow_request_use_and_release_a_claim(airflow, simulated, client_of, monkeypatch):
    mira = client_of(simulated, "engineer")
    monkeypatch.setenv("DRAGOMAN_URL", simulated.url)
    monkeypatch.setenv("DRAGOMAN_TOKEN", mira.settings.token)
    exec(compile(block("Airflow", "python"), "pipelines.md", "exec"), {})
    (name,) = airflow["request_gpu"].results
    spec = airflow["pod"]["pod_template_dict"]["spec"]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimName": name}]
    states = [claim.state for claim in mira.claims(mine=True, profile="small-16g") if claim.name == name]
    assert states in (["releasing"], ["released"])
