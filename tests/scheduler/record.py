"""Record anew what the scheduler says of pods that wait: `python -m tests.scheduler.record`."""

import json

from demo.controlplane.harness import ControlPlane
from tests.scheduler.messages import RECORDING
from tests.scheduler.play import condition, play
from tests.scheduler.situations import every


def main() -> None:
    with ControlPlane() as plane:
        played = play(plane.client(), list(every().values()))
    lines = []
    for name, acts in sorted(played.items()):
        for act in acts:
            if act.expected.waits:
                said = condition(act.pod)
                line = {"situation": name, "reason": said["reason"], "message": said["message"]}
                lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    RECORDING.write_text("".join(lines))


if __name__ == "__main__":
    main()
