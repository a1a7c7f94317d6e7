"""Whether the static files are collected, by a stamp beside them; Django takes seconds to start."""

from pathlib import Path

from demo.supervisor import ROOT

COLLECTED = Path("staticfiles", "collected.txt")


def are_collected(root: Path = ROOT) -> bool:
    """Return whether these very files were collected."""
    stamp = root / COLLECTED
    return stamp.exists() and stamp.read_text() == _listing(root)


def note_collected(root: Path = ROOT) -> None:
    (root / COLLECTED).write_text(_listing(root))


def _listing(root: Path) -> str:
    files = [root / "uv.lock", *sorted((root / "static").rglob("*"))]
    stats = [(str(path.relative_to(root)), path.stat()) for path in files if path.is_file()]
    return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)
