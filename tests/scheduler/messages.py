"""What the scheduler said of pods that wait, as recorded in messages.jsonl."""

from __future__ import annotations

import json
import re
from pathlib import Path

RECORDING = Path(__file__).parent / "messages.jsonl"

type Words = tuple[str, str]  # (reason, message)


def recorded() -> dict[str, Words]:
    """Return the words by situation. Each line is an object with `situation`, `reason` and `message`."""
    lines = map(json.loads, RECORDING.read_text().splitlines())
    return {line["situation"]: (line["reason"], line["message"]) for line in lines}


def alike(words: Words) -> Words:
    """Take out what depends on what else is in the cluster: how many nodes there are."""
    reason, message = words
    return reason, re.sub(r"\b\d+(?= node\(s\))|(?<=\b0/)\d+", "N", message)
