"""
The demo: its second start, its CPU time with nobody working, and what a browser loads on a first visit.

Needs Chromium, as the browser tests do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from bench.measure import Result, seconds_run
from tests.demo.running import RunningDemo
from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.person import Person

SECOND_START = 12.0  # seconds
IDLE = 2.0  # percent of a core, in all processes together
SETTLE, IDLE_SECONDS = 60.0, 40.0  # after a start, what was missed is caught up
WIRE = 120.0  # KiB of CSS and JavaScript, compressed
FIRST_PAINT, INTERACTIVE = 200.0, 400.0  # ms
SHIFT = 0.001  # nothing that a person could see
VISITS = 5
COSTLY = 3  # processes or files that are named
NAMED, WIDTH = 12, 60  # words and characters of a process's command
OBSERVE_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifted += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""
TIMINGS = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  interactive: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  shifted: window.shifted,
})"""
FILES = """() => ["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type))
  // the `duration` of the page itself lasts until its load event
  .map(({ name, requestStart, responseEnd, startTime, transferSize }) =>
    ({ name, duration: responseEnd - (requestStart || startTime), bytes: transferSize }))"""


def results() -> Iterator[Result]:
    """Yield the lines "demo" and "browser"."""
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as home:
        Path(home).chmod(0o755)  # the embedded PostgreSQL runs as another user when root measures
        demo = RunningDemo(Path(home), "sim")
        demo.start()
        demo.stop()
        start = time.perf_counter()
        demo.start()
        seconds = time.perf_counter() - start
        try:
            devices = _devices(demo)
            yield Result("demo: second start", devices, "simulated", [seconds], "s", SECOND_START)
            yield from _browse(demo, devices)
        finally:
            demo.stop()


def _devices(demo: RunningDemo) -> int:
    with demo.client("admin") as client:
        total, address = 0, "/api/v1/devices/?limit=500"
        while address:
            page = client.get(address).json()
            total, address = total + len(page["results"]), page["next"]
        return total


def _browse(demo: RunningDemo, devices: int) -> Iterator[Result]:
    try:
        path = executable()
    except pytest.skip.Exception:
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        person = Person(browser, demo.url, "engineer").sign_in()
        state = person.context.storage_state()
        visits = [_visit(browser, demo.url, state) for _ in range(VISITS)]
        lines = (
            ("CSS and JavaScript of a first visit", "KiB", "bytes", WIRE),
            ("layout shift", "score", "shifted", SHIFT),
            ("first paint", "ms", "paint", FIRST_PAINT),
            ("interactive", "ms", "interactive", INTERACTIVE),
        )
        for name, unit, key, budget in lines:
            samples = [visit.timings[key] for visit in visits]
            result = Result(f"browser: {name}", devices, "Home", samples, unit, budget)
            result.profile = visits[0].costs() if result.misses else []
            yield result
        person.page.goto("/")
        time.sleep(SETTLE)
        yield _idle(demo, devices)
        browser.close()


def _idle(demo: RunningDemo, devices: int) -> Result:
    labels = {process.pid: " ".join(process.cmdline()[:NAMED])[-WIDTH:] for process in demo.family()}
    before = {pid: seconds_run([pid]) for pid in labels}
    time.sleep(IDLE_SECONDS)
    shares = {pid: 100 * (seconds_run([pid]) - before[pid]) / IDLE_SECONDS for pid in labels}
    result = Result("demo: idle, Home open", devices, "all processes", [sum(shares.values())], "%", IDLE)
    if result.misses:
        costly = sorted(shares, key=lambda pid: -shares[pid])[:COSTLY]
        result.profile = [f"{shares[pid]:.1f} % {labels[pid]}" for pid in costly]
    return result


@dataclass(slots=True)
class Visit:
    """One visit: the browser's timings with the bytes of CSS and JavaScript, and what it loaded."""

    timings: dict[str, float]
    files: list[dict[str, Any]]

    def costs(self) -> list[str]:
        """Return what was loaded longest, from request to the last byte."""
        longest = sorted(self.files, key=lambda file: -float(file["duration"]))[:COSTLY]
        return [
            f"{file['duration']:.0f} ms, {file['bytes'] / 1024:.0f} KiB {urlsplit(file['name']).path}"
            for file in longest
        ]


def _visit(browser: Browser, url: str, state: Any) -> Visit:
    """Open Home with an empty cache."""
    context: BrowserContext = browser.new_context(
        base_url=url, storage_state=state, viewport={"width": 1440, "height": 900}
    )
    context.add_init_script(OBSERVE_SHIFTS)
    page = context.new_page()
    session = context.new_cdp_session(page)
    code: set[str] = set()
    sizes: dict[str, float] = {}

    def note_kind(event: dict[str, Any]) -> None:
        if event["type"] in ("Stylesheet", "Script"):
            code.add(event["requestId"])

    def note_size(event: dict[str, Any]) -> None:
        sizes[event["requestId"]] = event["encodedDataLength"]

    session.on("Network.responseReceived", note_kind)
    session.on("Network.loadingFinished", note_size)
    session.send("Network.enable")
    page.goto("/")
    page.wait_for_load_state("networkidle")
    timings: dict[str, float] = page.evaluate(TIMINGS)
    timings["bytes"] = sum(size for request, size in sizes.items() if request in code) / 1024
    files = page.evaluate(FILES)
    context.close()
    return Visit(timings, files)
