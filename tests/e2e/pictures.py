"""
Take the pictures of the README from a running demo: `python -m tests.e2e.pictures [FOLDER]`.

Starts a demo of its own, so that the pictures show what a fresh clone shows, and stops it.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.demo.running import ROOT, RunningDemo
from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.person import Person

REQUEST = "/claims/request/?profile=train-80g&cluster=fra-1&devices=2"
PICTURES = {  # name: (who, address or the claim to open, theme, width, height)
    "home": ("engineer", "/", "light", 1440, 1100),
    "home-phone": ("engineer", "/", "dark", 390, 844),
    "catalogue": ("engineer", "/catalogue/", "dark", 1440, 1000),
    "request": ("engineer", REQUEST, "light", 1440, 1000),
    "claim": ("engineer", "claim:sam2-finetune", "light", 1440, 1200),
    "check": ("admin", "/profiles/lint/", "light", 1440, 760),
    "approvals": ("lead", "/approvals/", "light", 1440, 900),
    "fleet-dark": ("admin", "/fleet/", "dark", 1440, 1000),
    "report": ("admin", "/report/?range=7d", "light", 1440, 1000),
}


def take(browser: Browser, url: str, folder: Path, name: str) -> None:
    who, address, theme, width, height = PICTURES[name]
    person = Person(browser, url, who, color_scheme=theme, device_scale_factor=1).sign_in()
    person.page.set_viewport_size({"width": width, "height": height})
    if address.startswith("claim:"):
        person.open_claim(address.removeprefix("claim:"))
    else:
        person.page.goto(address)
    person.page.wait_for_load_state("networkidle")
    person.page.screenshot(path=folder / f"{name}.png")
    person.leaves()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dragoman-pictures-") as home:
        Path(home).chmod(0o755)  # the embedded PostgreSQL runs as another user when root takes the pictures
        demo = RunningDemo(Path(home), "sim")
        demo.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
                for name in PICTURES:
                    take(browser, demo.url, folder, name)
        finally:
            demo.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
