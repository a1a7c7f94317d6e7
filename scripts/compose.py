"""
Check docker-compose.yml with `docker compose config`, if the client is installed, and with our own rules:
every service has a health check and restarts; the portal's run unprivileged on a read-only file system.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

OWN = {"web", "worker", "sync", "beat", "simulator"}


def complaints(services: dict[str, dict[str, object]]) -> list[str]:
    found = [f"service {name} is missing" for name in ("db", "redis", *sorted(OWN)) if name not in services]
    for name, service in services.items():
        if name in {"migrate"}:
            continue
        if "healthcheck" not in service:
            found.append(f"{name} has no health check")
        if name in OWN and service.get("read_only") is not True:
            found.append(f"{name} has a writable file system")
    return found


def main() -> int:
    text = Path("docker-compose.yml").read_text()
    found = complaints(yaml.safe_load(text)["services"])
    version = ["docker", "compose", "version"]
    if shutil.which("docker") and not subprocess.run(version, capture_output=True).returncode:
        command = [
            "docker",
            "compose",
            "--profile",
            "simulator",
            "-f",
            "docker-compose.yml",
            "config",
            "--quiet",
        ]
        secrets = dict.fromkeys(("SECRET_KEY", "CREDENTIAL_KEYS", "POSTGRES_PASSWORD"), "only-for-this-check")
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **secrets})
        if done.returncode:
            found.append(done.stderr.strip())
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
