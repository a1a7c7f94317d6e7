"""
Check docker-compose.yml with `docker compose config`, if the client is installed, and with our own rules.

Every service has a health check; the portal's run on a read-only file system and get every setting of
portal/settings.py. The proxy's configuration is checked where `caddy` is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

OURS = {"web", "worker", "sync", "beat", "simulator"}
RUN_ONCE = {"migrate", "enroll"}
NOT_PASSED = {"DEBUG", "DEMO_KUBECONFIGS"}  # never in production


def complaints(services: dict[str, dict[str, object]], settings: set[str]) -> list[str]:
    """Return a sentence for each rule that is broken."""
    sentences = [
        f"service {name} is missing" for name in ("db", "redis", *sorted(OURS)) if name not in services
    ]
    for name, service in services.items():
        if "healthcheck" not in service and name not in RUN_ONCE:
            sentences.append(f"{name} has no health check")
        if name in OURS | RUN_ONCE and service.get("read_only") is not True:
            sentences.append(f"{name} has a writable file system")
        environment = service.get("environment")
        if name in OURS - {"simulator"} and isinstance(environment, dict):
            sentences += [
                f"{name} does not get {setting}" for setting in sorted(settings - environment.keys())
            ]
    return sentences


def setting_names() -> set[str]:
    """Return the variables of the environment that the portal and its web server read in production."""
    sources = [Path("portal", name).read_text() for name in ("settings.py", "serving.py")]
    read = re.compile(r'(?:env\.\w+|environ\.get)\(\s*"(\w+)"')
    return {name for source in sources for name in read.findall(source)} - NOT_PASSED


def main() -> int:
    services = yaml.safe_load(Path("docker-compose.yml").read_text())["services"]
    sentences = complaints(services, setting_names())
    version = ["docker", "compose", "version"]
    if shutil.which("docker") and not subprocess.run(version, capture_output=True).returncode:
        command = ["docker", "compose", "--profile", "simulator", "config", "--quiet"]
        secrets = dict.fromkeys(("SECRET_KEY", "CREDENTIAL_KEYS", "POSTGRES_PASSWORD"), "only-for-this-check")
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **secrets})
        if done.returncode:
            sentences.append(done.stderr.strip())
    if caddy := shutil.which("caddy"):
        command = [caddy, "validate", "--adapter", "caddyfile", "--config", "deploy/compose/Caddyfile"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sentences.append(done.stderr.strip().splitlines()[-1])
    print("\n".join(sentences))
    return bool(sentences)


if __name__ == "__main__":
    sys.exit(main())
