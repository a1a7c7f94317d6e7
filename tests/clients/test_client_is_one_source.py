"""The client without `await` is made from the one with it, and runs on every Python that it promises."""

import ast
import hashlib
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import dragoman
import pytest

from tests import patience
from tests.clients.conftest import CLIENT
from tests.demo.running import ROOT


@pytest.fixture(scope="module")
def make_sync():
    spec = importlib.util.spec_from_file_location("make_sync", CLIENT / "make_sync.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the folder of the package as a wheel has it, built from what git has of it."""
    folder = tmp_path_factory.mktemp("client")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=CLIENT, capture_output=True, check=True
    )
    for name in listed.stdout.decode().split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLIENT / name, folder / name)
    assert not (folder / "src/dragoman/_sync").exists()
    uv = shutil.which("uv") or ROOT / ".tools" / "uv" / "bin" / "uv"
    python = next(iter(interpreters().values()), sys.executable)
    subprocess.run([uv, "build", "-q", "--wheel", "--python", python, folder], check=True)
    with zipfile.ZipFile(next(folder.glob("dist/*.whl"))) as archive:
        archive.extractall(folder / "built")
    return folder / "built" / "dragoman"


def test_a_wheel_has_the_client_without_await(make_sync, wheel):
    """Built by the oldest Python that it promises, which reads other tokens than this one."""
    made = make_sync.made_files()
    assert {file.name: file.read_text() for file in (wheel / "_sync").glob("*.py")} == made
    assert {file.name for file in make_sync.TARGET.glob("*.py")} == set(made)


def test_nothing_of_asyncio_is_left(make_sync):
    for text in make_sync.made_files().values():
        tree = ast.walk(ast.parse(text))
        assert not [
            node for node in tree if isinstance(node, ast.Await | ast.AsyncFunctionDef | ast.AsyncWith)
        ]
        assert "asyncio" not in text
        assert "Async" not in text


@pytest.mark.parametrize("name", ["Client", "Claim", "PendingClaim"])
def test_both_have_the_same_methods_with_the_same_parameters(name):
    def signatures(cls):
        members = inspect.getmembers(cls, inspect.isfunction)
        public = {key: member for key, member in members if not key.startswith("_")}
        return {
            key.replace("aclose", "close"): list(inspect.signature(one).parameters)
            for key, one in public.items()
        }

    assert signatures(getattr(dragoman, name)) == signatures(getattr(dragoman, f"Async{name}"))


def test_the_core_needs_httpx_alone():
    """It can be imported where no extra is installed: a None in `sys.modules` makes an import fail."""
    extras = ("django", "pandas", "IPython", "rich", "click", "yaml", "jupyterhub", "kubespawner")
    code = f"import sys; sys.modules |= dict.fromkeys({extras}); import dragoman; dragoman.Client"
    subprocess.run([sys.executable, "-c", code], check=True)


def interpreters():
    """Return the other versions of Python on this machine that the client promises to run on."""
    found = {}
    for version in ("3.10", "3.11", "3.13"):
        candidates = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        if candidates:
            found[version] = candidates[-1]
    return found


FILES = ("requests", "config", "login", "results", "waits")


@pytest.mark.parametrize("version", interpreters())
def test_it_passes_its_tests_on_other_versions(version, tmp_path):
    """In an environment of that version with the client, its command and pytest; made once."""
    uv = shutil.which("uv") or ROOT / ".tools" / "uv" / "bin" / "uv"
    wanted = hashlib.sha256((CLIENT / "pyproject.toml").read_bytes()).hexdigest()[:12]
    folder = Path.home() / ".cache" / "dragoman" / f"client-{version}-{wanted}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([uv, "venv", "-q", "--clear", "--python", interpreters()[version], folder], check=True)
        packages = ["-e", f"{CLIENT}[cli]", "pytest"]
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], check=True)
        (folder / "ready").touch()
    files = [f"tests/clients/test_client_{name}.py" for name in FILES]
    options = ["-q", "-c", "/dev/null", "--rootdir=.", "--import-mode=importlib", "-p", "no:cacheprovider"]
    # Without a folder of its own pytest takes /tmp/pytest-of-USER from every other user, and so from the
    # PostgreSQL of a demo that runs below it as another user.
    options.append(f"--basetemp={tmp_path / 'inner'}")
    done = subprocess.run(
        [python, "-m", "pytest", *options, "--noconftest", "-p", "tests.clients.conftest", *files],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(CLIENT / "src")},
        capture_output=True,
        text=True,
        timeout=patience.COMMAND,
    )
    assert done.returncode == 0, done.stdout
