"""
The demo: its second start, its CPU time with nobody working, and what a browser loads on a first visit.

Needs Chromium, as the browser tests do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from bench.measure import Result, seconds_run
from tests.demo.running import RunningDemo
from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.person import Person

SECOND_START = 12.0  # seconds
IDLE = 2.0  # percent of a core, in all processes together
SETTLE, IDLE_SECONDS = 10.0, 40.0
WIRE = 120.0  # KiB of CSS and JavaScript, compressed
FIRST_PAINT, INTERACTIVE = 200.0, 400.0  # ms
SHIFT = 0.001  # nothing that a person could see
VISITS = 5
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
            yield Result(f"browser: {name}", devices, "Home", [visit[key] for visit in visits], unit, budget)
        person.page.goto("/")
        time.sleep(SETTLE)
        pids = [process.pid for process in demo.family()]
        ran = seconds_run(pids)
        time.sleep(IDLE_SECONDS)
        share = 100 * (seconds_run(pids) - ran) / IDLE_SECONDS
        yield Result("demo: idle, Home open", devices, "all processes", [share], "%", IDLE)
        browser.close()


def _visit(browser: Browser, url: str, state: Any) -> dict[str, float]:
    """Open Home with an empty cache; return the bytes of CSS and JavaScript, and the browser's timings."""
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
    context.close()
    return timings
