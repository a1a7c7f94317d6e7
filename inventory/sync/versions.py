"""Which of two resource versions of one object is newer (KEP 5504: integers, to be compared as such)."""


def is_newer(version: str, than: str) -> bool:
    """Return True where that cannot be told: taking a version twice harms nothing, missing one does."""
    try:
        return int(version) > int(than)
    except ValueError:
        return version != than


def newest(versions: list[str]) -> str:
    """Return the highest, or the last one if they are not integers; "" for none."""
    try:
        return max(versions, key=int, default="")
    except ValueError:
        return versions[-1]
