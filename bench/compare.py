"""
The same paths of several web sites over HTTP, side by side: `python -m bench.compare SITE.yaml SITE.yaml`.

Requests to the sites alternate. A site is a YAML file:

    name: Dragoman
    url: http://127.0.0.1:8000
    login: {address: /accounts/login/, name: login, password: password}   # fields of the form
    people: {admin: {name: admin, password: secret}}                      # or {session: "sessionid=…"}
    pids: [123, 456]                                  # web and database, with their children
    paths:
      home: {as: admin, address: /}
      detail: {as: admin, address: "/claims/{id}/", ids: {address: /claims/, pattern: "claims/([0-9a-f-]+)"}}
    writes:
      submit: {as: admin, address: /claims/request/, fields: {devices: 1}}

`{id}` is what the pattern finds on another page. A write first loads the page `form`, or the address itself,
and sends its hidden fields too. CPU time is that of the pids, divided by the number of requests.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import yaml
from rich.console import Console
from rich.table import Table

from bench.measure import family, memory, percentile, threads_run

HIDDEN = re.compile(r"<input[^>]*type=\"hidden\"[^>]*>")
NAME, VALUE = re.compile(r'\bname="([^"]*)"'), re.compile(r'\bvalue="([^"]*)"')
FOLDER = Path(__file__).parent / "sites"
TIMEOUT = 120.0  # seconds
CLIENTS, SECONDS = 8, 10.0  # of the throughput


class Site:
    """One site and the people who are signed in to it."""

    def __init__(self, path: Path) -> None:
        self.spec: dict[str, Any] = yaml.safe_load(path.read_text())
        self.name, self.url = str(self.spec["name"]), str(self.spec["url"])
        self.clients = {name: self.signed_in(person) for name, person in self.spec["people"].items()}
        self.ids: dict[str, list[str]] = {}

    def signed_in(self, person: dict[str, str]) -> httpx.Client:
        client = httpx.Client(base_url=self.url, timeout=TIMEOUT, headers={"Referer": self.url})
        if session := person.get("session"):
            name, _, value = session.partition("=")
            client.cookies.set(name, value)
            return client
        login = self.spec["login"]
        fields = hidden_fields(client.get(login["address"]).text)
        fields |= {login["name"]: person["name"], login["password"]: person["password"]}
        client.post(login["address"], data=fields)
        return client

    @property
    def pids(self) -> list[int]:
        return [pid for top in self.spec["pids"] for pid in family(top)]

    def address(self, name: str, entry: dict[str, Any]) -> str:
        """Return the address of a path, with the next of its ids."""
        if "ids" not in entry:
            return str(entry["address"])
        return str(entry["address"]).replace("{id}", self.next_id(name, entry))

    def next_id(self, name: str, entry: dict[str, Any]) -> str:
        if not self.ids.get(name):
            source = entry["ids"]
            page = self.clients[entry["as"]].get(source["address"]).text
            self.ids[name] = list(dict.fromkeys(re.findall(source["pattern"], page)))
        return self.ids[name].pop(0)

    def read(self, name: str) -> tuple[float, float] | None:
        """Request a path once; return milliseconds of wall-clock and of CPU time, None without the path."""
        entry = self.spec["paths"].get(name)
        if entry is None:
            return None
        client, address = self.clients[entry["as"]], self.address(name, entry)
        return self.timed(lambda: client.get(address), f"{name}: GET {address}")

    def write(self, name: str) -> tuple[float, float] | None:
        """Load the form, then send it; only the second request counts."""
        entry = self.spec.get("writes", {}).get(name)
        if entry is None:
            return None
        client, number = self.clients[entry["as"]], ""
        if "ids" in entry:
            number = self.next_id(name, entry)
        address = str(entry["address"]).replace("{id}", number)
        form = client.get(str(entry.get("form", address)).replace("{id}", number))
        fields = hidden_fields(form.text) | {key: str(value) for key, value in entry["fields"].items()}
        return self.timed(lambda: client.post(address, data=fields), f"{name}: POST {address}")

    def timed(self, send: Any, label: str) -> tuple[float, float]:
        before, start = threads_run(self.pids), time.perf_counter()
        response = send()
        wall = 1000 * (time.perf_counter() - start)
        if response.status_code not in (200, 302, 303):
            raise RuntimeError(f"{self.name}: {label}: status {response.status_code}")
        after = threads_run(self.pids)  # without processes that have ended, such as those of autovacuum
        return wall, sum(ran - before.get(pid, 0) for pid, ran in after.items()) / 1e6

    def throughput(self) -> tuple[float, float]:
        """Return requests per second of clients without pause, and the 95th percentile in milliseconds."""
        walls: list[float] = []
        deadline = time.monotonic() + SECONDS
        addresses = [
            (entry["as"], self.address(name, entry))
            for name, entry in self.spec["paths"].items()
            if entry.get("mix", False)
        ]

        def browse(seed: int) -> None:
            rng = random.Random(seed)  # noqa: S311, nothing secret
            clients = {
                name: httpx.Client(base_url=self.url, timeout=TIMEOUT, cookies=client.cookies)
                for name, client in self.clients.items()
            }
            while time.monotonic() < deadline:
                person, address = rng.choice(addresses)
                start = time.perf_counter()
                clients[person].get(address)
                walls.append(1000 * (time.perf_counter() - start))

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(browse, range(CLIENTS)))
        return len(walls) / SECONDS, percentile(walls)


def hidden_fields(page: str) -> dict[str, str]:
    """Return name and value of every hidden field of a page."""
    fields = {}
    for tag in HIDDEN.findall(page):
        if name := NAME.search(tag):
            value = VALUE.search(tag)
            fields[unescape(name[1])] = unescape(value[1]) if value else ""
    return fields


def compared(sites: Sequence[Site], repeat: int) -> Iterator[tuple[str, list[tuple[float, float] | None]]]:
    """Yield each path with the median wall-clock and CPU time at each site."""
    reads = dict.fromkeys(name for site in sites for name in site.spec["paths"])
    writes = dict.fromkeys(name for site in sites for name in site.spec.get("writes", {}))
    for name in (*reads, *writes):
        samples: list[list[tuple[float, float]]] = [[] for _ in sites]
        for _ in range(repeat + 1):
            for site, times in zip(sites, samples, strict=True):
                try:
                    sample = site.read(name) if name in reads else site.write(name)
                except (RuntimeError, IndexError) as error:
                    print(f"{site.name}: {name}: {error}", file=sys.stderr)  # noqa: T201
                    continue
                if sample is not None:
                    times.append(sample)
        yield name, [medians(times[1:]) for times in samples]  # the first one warms the process


def medians(samples: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    if not samples:
        return None
    return statistics.median(wall for wall, _ in samples), statistics.median(cpu for _, cpu in samples)


def main() -> int:
    """Print CPU and wall-clock milliseconds per path and site, and the ratio of the last to the first."""
    parser = argparse.ArgumentParser(prog="bench.compare", description=main.__doc__)
    parser.add_argument("sites", type=Path, nargs="+", metavar="SITE.yaml")
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    sites = [Site(path) for path in options.sites]
    table = Table(title="CPU ms of web and database (wall-clock ms)")
    for column in ("path", *(site.name for site in sites), f"{sites[-1].name} ÷ {sites[0].name}"):
        table.add_column(column, justify="left" if column == "path" else "right")
    fresh = [memory(family(site.spec["pids"][0])) for site in sites]
    for name, figures in compared(sites, options.repeat):
        cells = ["–" if pair is None else f"{pair[1]:,.1f} ({pair[0]:,.0f})" for pair in figures]
        first, last = figures[0], figures[-1]
        table.add_row(name, *cells, f"{last[1] / first[1]:.1f}" if first and last else "")
    rates = [site.throughput() for site in sites]
    cells = [f"{rate:.1f} /s (p95 {p95:,.0f} ms)" for rate, p95 in rates]
    table.add_row(f"throughput, {CLIENTS} clients", *cells, f"1 / {rates[0][0] / rates[-1][0]:.1f}")
    loaded = [memory(family(site.spec["pids"][0])) for site in sites]
    cells = [f"{before:.0f} → {after:.0f} MiB" for before, after in zip(fresh, loaded, strict=True)]
    table.add_row("web process, before and after", *cells, f"{loaded[-1] / loaded[0]:.1f}")
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
