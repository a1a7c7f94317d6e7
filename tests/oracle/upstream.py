"""What Kubernetes itself answers."""

import json
import subprocess
import tempfile
from collections.abc import Sequence

from tests.oracle.build import ensure


class Asked:
    """Cases that upstream works on, in a process of its own, while the caller does something else."""

    def __init__(self, cases: Sequence[dict], mode: str = "allocate") -> None:
        # Files instead of pipes: neither side ever waits for the other to read.
        self.count = len(cases)
        self.answered = tempfile.TemporaryFile()  # noqa: SIM115
        with tempfile.TemporaryFile() as asked:
            for case in cases:
                asked.write(json.dumps(case).encode() + b"\n")
            asked.seek(0)
            self.process = subprocess.Popen([ensure(), mode], stdin=asked, stdout=self.answered)

    def answers(self) -> list[dict]:
        """Wait for the answers, one per case and in their order. Raise `RuntimeError` if some are missing."""
        with self.answered:
            code = self.process.wait()
            self.answered.seek(0)
            answers = [json.loads(line) for line in self.answered]
        if code or len(answers) != self.count:
            raise RuntimeError(f"Upstream ended with {code} after {len(answers)} of {self.count} answers.")
        return answers


def ask(cases: Sequence[dict], mode: str = "allocate") -> list[dict]:
    return Asked(cases, mode).answers()
