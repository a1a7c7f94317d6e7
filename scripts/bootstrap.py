#!/usr/bin/env python3
"""
Find or install uv and Python 3.12, then install uv.lock into .venv. Runs on Python 3.8 or newer.

uv: the one on PATH, otherwise .tools/uv, installed by pip or, without pip, directly from PyPI.
Python 3.12: one that runs, otherwise one of pyenv's, otherwise the one that uv downloads.
"""

import glob
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import urllib.request
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOLS = os.path.join(ROOT, ".tools", "uv")
STAMP = os.path.join(ROOT, ".venv", ".synced")


def say(text):
    print(text, flush=True)


def find_uv():
    path = shutil.which("uv")
    if path:
        return path
    local_uv = os.path.join(TOOLS, "bin", "uv")
    if not os.path.exists(local_uv):
        say("uv is not installed; installing it from PyPI into .tools/ …")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            TOOLS,
            "--root-user-action",
            "ignore",
            "uv",
        ]
        if subprocess.run(pip, stderr=subprocess.DEVNULL).returncode or not os.path.exists(local_uv):
            download_uv(local_uv)
    return local_uv


def download_uv(target):
    """Install this platform's wheel from PyPI without pip; check it against PyPI's hash."""
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    wanted = "manylinux" if sys.platform == "linux" else "macosx"
    with urllib.request.urlopen("https://pypi.org/pypi/uv/json", timeout=60) as answer:
        files = json.load(answer)["urls"]
    names = ("arm64", "aarch64") if machine == "aarch64" else (machine,)
    for file in files:
        name = file["filename"]
        if name.endswith(".whl") and wanted in name and any(arch in name for arch in names):
            break
    else:
        sys.exit("PyPI has no uv for %s on %s; install uv by hand." % (machine, sys.platform))
    with urllib.request.urlopen(file["url"], timeout=300) as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != file["digests"]["sha256"]:
        sys.exit("The uv wheel from PyPI does not match its published hash; stopping.")
    wheel = os.path.join(ROOT, ".tools", "uv.whl")
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(wheel, "wb") as handle:
        handle.write(data)
    with zipfile.ZipFile(wheel) as archive:
        member = next(
            name for name in archive.namelist() if name.endswith("/bin/uv") or name.endswith("scripts/uv")
        )
        with archive.open(member) as source, open(target, "wb") as handle:
            shutil.copyfileobj(source, handle)
    os.chmod(target, 0o755)


def find_python():
    candidates = ["python3.12"] + sorted(
        glob.glob(os.path.expanduser("~/.pyenv/versions/3.12*/bin/python")), reverse=True
    )
    for candidate in candidates:
        command = [candidate, "-c", "import sys; print(sys.executable, *sys.version_info[:2])"]
        try:
            answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        words = answer.stdout.decode().split()
        if answer.returncode == 0 and words[-2:] == ["3", "12"]:
            return words[0]  # a shim of pyenv may exist and not run
    return None


def main():
    with open(os.path.join(ROOT, "uv.lock"), "rb") as handle:
        wanted = hashlib.sha256(handle.read()).hexdigest()
    if os.path.exists(STAMP) and open(STAMP).read() == wanted:
        return
    uv = find_uv()
    environment = dict(os.environ)
    python = find_python()
    if python is None:
        say("No Python 3.12 found; uv downloads one …")
        environment["UV_PYTHON_DOWNLOADS"] = "automatic"
        python = "3.12"
    say("Installing and compiling the packages of uv.lock into .venv, which takes up to a minute …")
    # Compile once here: otherwise, if Python may not write bytecode, each process spends seconds on it.
    # Quiet: a line per package helps nobody, and errors are printed anyway.
    sync = [uv, "sync", "--quiet", "--frozen", "--compile-bytecode", "--python", python]
    done = subprocess.run(sync, cwd=ROOT, env=environment)
    if done.returncode:
        sys.exit(
            "uv could not install the packages (see above). Python 3.12 and access to PyPI are needed; "
            "install Python 3.12 and run make again."
        )
    with open(STAMP, "w") as handle:
        handle.write(wanted)


if __name__ == "__main__":
    main()
