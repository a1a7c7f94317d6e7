"""
Make `dragoman/_sync` from `dragoman/_async`: the same code without `await`.

Names are replaced token by token, so that nothing inside of a longer name changes. `_sync` is not in git: it
is made where the package is built (`hatch_build.py`), by `make install` and before tests.
"""

from __future__ import annotations

import io
import os
import re
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "dragoman"
SOURCE, TARGET = PACKAGE / "_async", PACKAGE / "_sync"
NAMES = {
    "AsyncClient": "Client",
    "AsyncClaim": "Claim",
    "AsyncPendingClaim": "PendingClaim",
    "AsyncTransport": "Transport",
    "AsyncIterator": "Iterator",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "asynccontextmanager": "contextmanager",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "asyncio": "time",
    "_async": "_sync",
}
DROPPED = {"async", "await"}
NOTE = "# Made from dragoman/_async/{name} by make_sync.py. Change that file.\n"


def without_await(text: str) -> str:
    """Return the code without its `async` and `await`, with the names of the other side."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token in reversed(tokens):
        (row, begin), (last, end) = token.start, token.end
        if token.type == tokenize.NAME and token.string in DROPPED:
            line = lines[row - 1]
            lines[row - 1] = line[:begin] + line[end:].removeprefix(" ")
        elif token.type == tokenize.NAME and token.string in NAMES:
            line = lines[row - 1]
            lines[row - 1] = line[:begin] + NAMES[token.string] + line[end:]
        elif token.type == tokenize.STRING and last > row:  # a docstring
            for number in range(row - 1, last):
                lines[number] = re.sub(r"\basync with\b", "with", lines[number])
    made = "".join(lines)
    if made.count("import time\n") > 1:
        made = made.replace("import time\n", "", 1)
    return made.replace("  # noqa: ASYNC109", "")


def made_files() -> dict[str, str]:
    """Return the text of each file of `_sync`."""
    texts = {}
    for file in sorted(SOURCE.glob("*.py")):
        if file.name == "__init__.py":
            texts[file.name] = '"""The client without `await`, made from `dragoman/_async`."""\n'
            continue
        texts[file.name] = NOTE.format(name=file.name) + without_await(file.read_text("utf-8"))
    return texts


def main() -> None:
    """Write the files that differ; each is whole at every moment, for tests that run in two processes."""
    TARGET.mkdir(exist_ok=True)
    for name, text in made_files().items():
        file = TARGET / name
        if not file.exists() or file.read_text("utf-8") != text:
            unready = file.with_suffix(f".{os.getpid()}")
            unready.write_text(text, "utf-8")
            unready.replace(file)


if __name__ == "__main__":
    main()
