"""
Examples of the description of the API: what the sample requests send, and what the demo answers.

`RECORD_API_EXAMPLES=1 make test ARGS="tests/api -k succeeds"` writes them to portal/openapi_examples.json.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from portal.openapi import EXAMPLES

MAX_ROWS, MAX_TEXT = 1, 300
OWN = re.compile(r"http://localhost(?=/)")
SECRETS = re.compile(r"\b(drg_|whsec_)[\w+/=-]+|(?<=/join/)[\w:.-]+")


class Examples:
    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def keep(self, label: str, body: Any, answer: Any) -> None:
        kept: dict[str, Any] = {"status": answer.status_code}
        if body is not None:
            kept["request"] = short(body)
        if answer.headers.get("content-type", [""])[0].startswith("application/json") and answer.content:
            kept["response"] = short(answer.json())
        self.found[label] = kept

    def write(self) -> None:
        if "RECORD_API_EXAMPLES" in os.environ:
            text = json.dumps(dict(sorted(self.found.items())), indent=1, ensure_ascii=False)
            EXAMPLES.write_text(f"{text}\n")


def short(value: Any) -> Any:
    """Return a value with the first rows of its lists, the begin of its texts, and none of its secrets."""
    if isinstance(value, dict):
        return {name: short(one) for name, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value[:MAX_ROWS]]
    if isinstance(value, str):
        text = SECRETS.sub(lambda found: f"{found[1] or ''}…", OWN.sub("https://portal.example.org", value))
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return value
