"""Run every static check, two at a time, with its time; list the failures at the end."""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def files(*patterns: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


def tool(name: str) -> str:
    return str(BIN / name)


def uv() -> str:
    own = ROOT / ".tools" / "uv" / "bin" / "uv"
    return shutil.which("uv") or str(own)


PRODUCTION = {
    "SECRET_KEY": "only-for-the-deployment-check-0123456789-abcdefghijklmnopqrstuvwxyz",
    "INSECURE_HTTP": "false",
    "ALLOWED_HOSTS": "gpu.example.org",
    "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
    "DATABASE_POOL_SIZE": "0",
}


def commands() -> dict[str, list[str]]:
    manage = [sys.executable, "-W", "error::RuntimeWarning", "manage.py"]
    return {
        "mypy": [tool("mypy")],  # takes longest
        "ruff check": [tool("ruff"), "check", "."],
        "ruff format": [tool("ruff"), "format", "--check", "--quiet", "."],
        "lint-imports": [tool("lint-imports")],
        "djade": [tool("djade"), "--check", "--target-version", "6.1", *files("templates/*.html")],
        "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        "check --deploy": [*manage, "check", "--deploy", "--fail-level", "WARNING"],
        "API schema": [
            sys.executable,
            "manage.py",
            "spectacular",
            "--fail-on-warn",
            "--validate",
            "--file",
            os.devnull,
        ],
        "API description": [sys.executable, "manage.py", "openapi", "--check"],
        "lockfile": [uv(), "lock", "--check"],
        "shellcheck": [tool("shellcheck"), *files(".ci/run", "*.sh")],
        "Dockerfile": [tool("hadolint"), "Dockerfile"],
        "docker-compose.yml": [sys.executable, "scripts/compose.py"],
    }


def run(command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    began = time.monotonic()
    environment = {**os.environ, **PRODUCTION, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done, time.monotonic() - began


def main() -> int:
    failed = []
    with ThreadPoolExecutor(max_workers=2) as two:
        running = {two.submit(run, command): name for name, command in commands().items()}
        for future in as_completed(running):
            done, seconds = future.result()
            word = "ok" if done.returncode == 0 else "FAILED"
            print(f"{word:>6}  {running[future]} ({seconds:.1f} s)", flush=True)
            if done.returncode:
                failed.append(running[future])
                print((done.stdout + done.stderr).strip()[-6000:], flush=True)
    if failed:
        print(f"\n{len(failed)} of {len(running)} checks failed: {', '.join(failed)}")
        return 1
    print(f"\nAll {len(running)} checks passed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
