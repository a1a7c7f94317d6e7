"""What happens in the demo: who asks for what, and what becomes of it."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Scene:
    """One claim: who asks for what, who decides how, whether its pod starts, how long ago it began."""

    name: str
    by: str
    team: str
    cluster: str
    profile: str
    reason: str
    devices: int = 1
    parallel: int = 1
    delivery: str = "claim"
    hours: int = 24
    decision: str = ""  # "approve" or a reason to deny
    pod: bool = False
    then: str = ""  # release, withdraw or expire
    ago: timedelta = timedelta(0)
    activity: float | None = None


DAY, HOUR = timedelta(days=1), timedelta(hours=1)
SCENES = (
    Scene(
        "sam2-finetune",
        "engineer",
        "vision",
        "fra-1",
        "train-80g",
        "Fine-tune SAM 2 on the October drive set; two devices because the batch does not fit on one.",
        devices=2,
        hours=120,
        decision="approve",
        pod=True,
        ago=2 * DAY + 3 * HOUR,
        activity=0.74,
    ),
    Scene(
        "notebook-mira",
        "engineer",
        "vision",
        "fra-1",
        "notebook-24g",
        "Look at the failures of the last run.",
        hours=36,
        pod=True,
        ago=DAY + HOUR,
        activity=0.03,
    ),
    Scene(
        "depth-sweep",
        "engineer",
        "vision",
        "lab-2",
        "slice-20g",
        "Sweep over learning rates, four at a time.",
        parallel=4,
        delivery="template",
        hours=48,
        ago=HOUR / 3,
    ),
    Scene(
        "occ-pretrain",
        "engineer",
        "vision",
        "fra-1",
        "train-80g",
        "Pretraining of the occupancy network: 40 k steps, "
        "5.5 h per 1 k steps on four devices, checkpoint every hour.",
        devices=4,
        hours=240,
        ago=17 * HOUR,
    ),
    Scene(
        "bev-ablate",
        "jonas",
        "vision",
        "fra-1",
        "train-48g",
        "Ablation of the BEV encoder for the review.",
        devices=3,
        hours=48,
        ago=HOUR,
    ),
    Scene(
        "nerf-capture",
        "engineer",
        "vision",
        "fra-1",
        "train-80g",
        "Reconstruction of the new test track.",
        devices=2,
        hours=336,
        decision="Two weeks are too long for a capture. Ask for three days and extend.",
        ago=3 * DAY,
    ),
    Scene(
        "clip-eval",
        "engineer",
        "vision",
        "lab-2",
        "small-16g",
        "Zero-shot evaluation.",
        then="withdraw",
        ago=5 * DAY,
    ),
    Scene(
        "dataset-embed",
        "jonas",
        "vision",
        "fra-1",
        "train-48g",
        "Embeddings of the new data set.",
        pod=True,
        then="release",
        ago=9 * HOUR,
        activity=0.61,
    ),
    Scene(
        "mt-70b",
        "ines",
        "nlp",
        "lab-2",
        "mi300x",
        "Evaluate the 70B translation model.",
        devices=2,
        hours=72,
        ago=5 * HOUR,
    ),
    Scene(
        "mt-large",
        "outsider",
        "nlp",
        "fra-1",
        "train-80g",
        "Train the adapters of eight languages.",
        devices=8,
        hours=168,
        decision="approve",
        pod=True,
        ago=4 * DAY,
        activity=0.81,
    ),
    Scene(
        "asr-large",
        "sofia",
        "speech",
        "fra-1",
        "train-80g",
        "Conformer on the telephone corpus.",
        devices=2,
        hours=96,
        decision="approve",
        pod=True,
        ago=DAY,
        activity=0.66,
    ),
    Scene("grasp-sim", "kenji", "robotics", "lab-2", "small-16g", "Simulated grasps.", hours=12),
    Scene(
        "old-request",
        "sofia",
        "speech",
        "fra-1",
        "train-80g",
        "Asked for before the corpus was ready.",
        then="expire",
        ago=9 * DAY,
    ),
)
