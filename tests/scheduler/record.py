"""Record the messages of the scheduler about waiting pods again: `python -m tests.scheduler.record`."""

import json

from demo.controlplane.harness import ControlPlane
from tests.scheduler.messages import RECORDING
from tests.scheduler.runner import condition, run_scenarios
from tests.scheduler.situations import all_scenarios


def main() -> None:
    with ControlPlane() as plane:
        outcomes_by_scenario = run_scenarios(plane.client(), list(all_scenarios().values()))
    lines = []
    for name, outcomes in sorted(outcomes_by_scenario.items()):
        for outcome in outcomes:
            if outcome.expected.waits:
                pod_condition = condition(outcome.pod)
                line = {
                    "situation": name,
                    "reason": pod_condition["reason"],
                    "message": pod_condition["message"],
                }
                lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    RECORDING.write_text("".join(lines))


if __name__ == "__main__":
    main()
