"""
A real Keycloak on a loopback port, for tests; nothing of it is a dependency of the portal.

`python -m tests.keycloak.server` downloads the distribution from Maven Central into `.tools/`, once. It needs
Java 17 or newer.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from demo.controlplane.harness import Program, free_ports
from tests import patience

VERSION = "26.7.3"
NAME = "keycloak-quarkus-dist"
URL = f"https://repo1.maven.org/maven2/org/keycloak/{NAME}/{VERSION}/{NAME}-{VERSION}.zip"
SHA256 = "27a6535553c3cdcd083872ba40629efafb3475e3b758e0c6f691395561dd0f1f"
TOOLS = Path(__file__).parents[2] / ".tools"
HOME = TOOLS / f"keycloak-{VERSION}"
INSTALLED = HOME / ".installed"  # written last
OLDEST_JAVA = 17
READY = 300 * patience.SCALE  # the first start compiles its configuration
ADMIN = "admin"  # user name and password of the server's own administrator


def java_version() -> int:
    """Return the major version of the Java on PATH, 0 without one."""
    java = shutil.which("java")
    if java is None:
        return 0
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r'version "(\d+)', said.stderr)
    return int(found[1]) if found else 0


def why_unusable() -> str:
    """Return why the tests cannot run on this machine, "" if they can once Keycloak is downloaded."""
    version = java_version()
    if version >= OLDEST_JAVA:
        return ""
    what = f"Java {version} is too old" if version else "There is no Java on PATH"
    return f"{what}: install Java {OLDEST_JAVA} or newer, in Debian openjdk-17-jre-headless."


def install() -> str:
    """Download and unpack Keycloak unless it is there; return why that is not possible, "" if all is well."""
    if INSTALLED.exists():
        return ""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "keycloak.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if INSTALLED.exists():
            return ""
        archive = TOOLS / f"{NAME}-{VERSION}.zip"
        try:
            if not archive.exists() or digest_of(archive) != SHA256:
                download(archive)
        except httpx.HTTPError as error:
            return f"Keycloak cannot be downloaded from Maven Central: {error}"
        if digest_of(archive) != SHA256:
            archive.unlink()
            return f"{URL} is not the file whose SHA-256 is pinned."
        shutil.rmtree(HOME, ignore_errors=True)
        with zipfile.ZipFile(archive) as content:
            content.extractall(TOOLS)
        for script in (HOME / "bin").glob("*.sh"):
            script.chmod(0o755)
        archive.unlink()
        INSTALLED.touch()
    return ""


def download(archive: Path) -> None:
    with (
        httpx.stream("GET", URL, timeout=60, follow_redirects=True) as response,
        archive.open("wb") as file,
    ):
        response.raise_for_status()
        for part in response.iter_bytes():
            file.write(part)


def digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


class RealKeycloak:
    """
    One server with its data in memory; `folder` gets its log. Realms are imported by `add_realm`.

    Its admin API is called as the server's own administrator.
    """

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.token, self.token_ends = "", 0.0
        self.program = Program(
            "keycloak",
            [
                "/usr/bin/env",
                f"KC_BOOTSTRAP_ADMIN_USERNAME={ADMIN}",
                f"KC_BOOTSTRAP_ADMIN_PASSWORD={ADMIN}",
                "JAVA_OPTS_KC_HEAP=-Xms64m -Xmx384m",
                "JAVA_OPTS_APPEND=-XX:TieredStopAtLevel=1",  # starts sooner
                *(str(HOME / "bin" / "kc.sh"), "start-dev", "--db=dev-mem", "--cache=local"),
                *("--http-host=127.0.0.1", f"--http-port={port}", "--features-disabled=device-flow,ciba"),
            ],
            folder / "keycloak.log",
        )

    def start(self) -> None:
        self.program.start()
        ends = time.monotonic() + READY
        while not self.is_ready():
            assert self.program.running, self.program.last_lines()
            assert time.monotonic() < ends, self.program.last_lines()
            time.sleep(0.5)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/realms/master", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        """End the script and the Java that it has started."""
        if self.program.running:
            os.killpg(self.program.pid, signal.SIGKILL)
        self.program.stop()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the admin API below /admin/realms; return the JSON of its answer, None without one."""
        if time.monotonic() > self.token_ends:
            form = {"grant_type": "password", "client_id": "admin-cli", "username": ADMIN, "password": ADMIN}
            answer = httpx.post(
                f"{self.url}/realms/master/protocol/openid-connect/token", data=form, timeout=30
            )
            assert answer.is_success, answer.text
            self.token, self.token_ends = answer.json()["access_token"], time.monotonic() + 30
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx.request(
            method, f"{self.url}/admin/realms{path}", json=body, headers=headers, timeout=60
        )
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def add_realm(self, realm: Mapping[str, Any]) -> Realm:
        self.call("POST", "", realm)
        return Realm(self, str(realm["realm"]))


class Realm:
    """A realm, through the admin API."""

    def __init__(self, server: RealKeycloak, name: str) -> None:
        self.server, self.name = server, name
        self.issuer = f"{server.url}/realms/{name}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.server.call(method, f"/{self.name}{path}", body)

    def user_id(self, username: str) -> str:
        (user,) = self.call("GET", f"/users?exact=true&username={username}")
        return str(user["id"])

    def group_id(self, name: str) -> str:
        (group,) = self.call("GET", f"/groups?exact=true&search={name}")
        return str(group["id"])

    def leaves(self, username: str, group: str) -> None:
        self.call("DELETE", f"/users/{self.user_id(username)}/groups/{self.group_id(group)}")

    def joins(self, username: str, group: str) -> None:
        self.call("PUT", f"/users/{self.user_id(username)}/groups/{self.group_id(group)}")

    def set_enabled(self, username: str, *, enabled: bool) -> None:
        self.call("PUT", f"/users/{self.user_id(username)}", {"enabled": enabled})

    def log_out(self, username: str) -> None:
        """End all sessions of a person; Keycloak tells each client by back-channel logout."""
        self.call("POST", f"/users/{self.user_id(username)}/logout")

    def rotate_keys(self) -> None:
        """Sign with a new key from now on; the old one is published no longer."""
        components = self.call("GET", "/components?type=org.keycloak.keys.KeyProvider")
        priority = max(
            int(one["config"].get("priority", ["0"])[0])
            for one in components
            if one["providerId"] == "rsa-generated"
        )
        realm_id = self.call("GET", "")["id"]
        new = {
            "name": f"rsa-{priority + 1}",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "parentId": realm_id,
            "config": {"priority": [str(priority + 1)], "algorithm": ["RS256"], "keySize": ["2048"]},
        }
        self.call("POST", "/components", new)
        for one in components:
            if one["providerId"] == "rsa-generated":
                self.call("DELETE", f"/components/{one['id']}")


if __name__ == "__main__":
    if problem := why_unusable() or install():
        raise SystemExit(problem)
