"""
Known vulnerabilities of the Python packages of an installation, as PyPI publishes them (the data of OSV).

Exits with 1 for one that `scripts/accepted_vulnerabilities.toml` does not accept, or no longer does. What
PyPI does not answer for, or a mirror that has only the newest releases, is named as not checked; `--strict`
makes that an error, 2.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from scripts.sbom import python_packages

ACCEPTED = Path(__file__).with_name("accepted_vulnerabilities.toml")
SERVICE = "https://pypi.org/pypi"
TIMEOUT = 20  # seconds for one answer


class Found(NamedTuple):
    package: str
    version: str
    ids: frozenset[str]
    fixed_in: str


class Accepted(NamedTuple):
    id: str
    reason: str
    until: date


class NotChecked(Exception):
    """PyPI does not answer for a release; the message says why."""


def read(path: str) -> dict[str, Any]:
    """Return a document of PyPI. Raises NotChecked."""
    try:
        answer = httpx.get(f"{SERVICE}/{path}/json", timeout=TIMEOUT, follow_redirects=True)
        found: dict[str, Any] = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as failure:
        raise NotChecked(str(failure).partition("\n")[0]) from failure
    return found


def asked(package: str, version: str) -> list[dict[str, Any]]:
    """Return what PyPI knows of a release, which is often the newest. Raises NotChecked."""
    newest = read(package)
    document = newest if newest["info"]["version"] == version else read(f"{package}/{version}")
    return list(document["vulnerabilities"])


type Ask = Callable[[str, str], list[dict[str, Any]]]


def vulnerabilities(packages: list[tuple[str, str]], ask: Ask = asked) -> tuple[list[Found], list[str]]:
    """Return what is known of the packages, and those that were not checked, with why."""

    def of(package: tuple[str, str]) -> list[Found] | str:
        name, version = package
        try:
            rows = ask(name, version)
        except NotChecked as failure:
            return f"{name} {version}: {failure}"
        return [
            Found(name, version, frozenset({row["id"], *row["aliases"]}), ", ".join(row["fixed_in"]))
            for row in rows
            if not row.get("withdrawn")
        ]

    with ThreadPoolExecutor(max_workers=4) as four:
        answers = list(four.map(of, packages))
    unchecked = [one for one in answers if isinstance(one, str)]
    return [found for one in answers if not isinstance(one, str) for found in one], unchecked


def accepted(text: str) -> list[Accepted]:
    """Return the accepted ones. Raises ValueError for one without a reason or an end."""
    rows = [Accepted(**row) for row in tomllib.loads(text).get("accepted", [])]
    for row in rows:
        if not row.reason.strip() or not isinstance(row.until, date):
            raise ValueError(f"{row.id}: give a reason and until when, as a date.")
    return rows


def problems(found: list[Found], allowed: list[Accepted], today: date) -> list[str]:
    """Return a sentence for each vulnerability that is not accepted, and for each entry that is over."""
    lines = []
    for one in found:
        entry = next((row for row in allowed if row.id in one.ids), None)
        fixed = one.fixed_in or "no version"
        name = f"{one.package} {one.version}: {', '.join(sorted(one.ids))}, fixed in {fixed}."
        if entry is None:
            lines.append(f"{name} Update it, or accept it with a reason in {ACCEPTED.name}.")
        elif entry.until < today:
            lines.append(f"{name} It was accepted until {entry.until}.")
    ids = {known for one in found for known in one.ids}
    over = [row.id for row in allowed if row.id not in ids]
    return lines + [f"{known} is accepted and no longer found. Remove it." for known in over]


def main(arguments: list[str]) -> int:
    packages = python_packages()
    found, unchecked = vulnerabilities(packages)
    lines = problems(found, accepted(ACCEPTED.read_text()), datetime.now(UTC).date())
    print("\n".join(lines) or f"No known vulnerability in {len(packages) - len(unchecked)} packages.")
    if unchecked:
        print(f"NOT CHECKED, {len(unchecked)} of {len(packages)}: PyPI does not answer for them.")
        print("\n".join(f"  {line}" for line in unchecked))
    if lines:
        return 1
    return 2 if unchecked and "--strict" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
