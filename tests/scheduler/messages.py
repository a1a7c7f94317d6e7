"""The recorded messages of the scheduler about waiting pods, in messages.jsonl."""

from __future__ import annotations

import json
import re
from pathlib import Path

RECORDING = Path(__file__).parent / "messages.jsonl"

type Message = tuple[str, str]  # (reason, message)


def recorded() -> dict[str, Message]:
    """Return the messages by scenario. Each line is an object with `situation`, `reason` and `message`."""
    lines = map(json.loads, RECORDING.read_text().splitlines())
    return {line["situation"]: (line["reason"], line["message"]) for line in lines}


def normalized(scheduled_condition: Message) -> Message:
    """Leave out what depends on the nodes of other scenarios: how many there are, and which are cordoned."""
    reason, message = scheduled_condition
    message = re.sub(r"\d+ node\(s\) were unschedulable, ", "", message)
    others = r"\b\d+(?= node\(s\)| Preemption)|(?<=\b0/)\d+"
    return reason, re.sub(others, "N", message)
