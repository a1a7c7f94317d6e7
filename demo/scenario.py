"""
The claims of the demo as data, in order: who requests what, who decides, and what happens later.

Some exist only with simulated clusters; `demo.actions` changes those later.
"""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Scene:
    """
    A claim: requester, size, decision, number of pods, and how long ago it began.

    `together` are further profiles of the claim, each with its devices. `activity` is the mean that telemetry
    shows of its devices, None for no telemetry.
    """

    name: str
    by: str
    profile: str
    reason: str
    cluster: str = "fra-1"
    devices: int = 1
    together: tuple[tuple[str, int], ...] = ()
    parallel: int = 1
    delivery: str = "claim"
    hours: int = 24
    decision: str = ""  # "approve" or a reason to deny
    pods: int = 0
    then: str = ""  # release or withdraw
    ago: timedelta = timedelta(0)
    activity: float | None = None


DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


SCENES = (
    Scene(
        "sam2-finetune",
        "engineer",
        "train-80g",
        "Fine-tune SAM 2 on the October drive set; two devices because the batch does not fit on one.",
        devices=2,
        hours=120,
        decision="approve",
        pods=1,
        ago=2 * DAY + 3 * HOUR,
        activity=0.74,
    ),
    Scene(
        "notebook-mira",
        "engineer",
        "notebook-24g",
        "Look at the failures of the last run.",
        hours=36,
        pods=1,
        ago=DAY + HOUR,
        activity=0.03,
    ),
    Scene(
        "depth-sweep",
        "engineer",
        "slice-20g",
        "Sweep over learning rates, four at a time.",
        cluster="lab-2",
        parallel=4,
        delivery="template",
        hours=48,
        ago=HOUR / 3,
    ),
    Scene(
        "occ-pretrain",
        "engineer",
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
        "train-48g",
        "Ablation of the BEV encoder for the review.",
        devices=3,
        hours=48,
        ago=HOUR,
    ),
    Scene(
        "nerf-capture",
        "engineer",
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
        "small-16g",
        "Zero-shot evaluation.",
        cluster="lab-2",
        then="withdraw",
        ago=5 * DAY,
    ),
    Scene(
        "dataset-embed",
        "jonas",
        "train-48g",
        "Embeddings of the new data set.",
        pods=1,
        then="release",
        ago=9 * HOUR,
        activity=0.61,
    ),
    Scene(
        "mt-70b",
        "ines",
        "mi300x",
        "Evaluate the 70B translation model.",
        cluster="lab-2",
        devices=2,
        hours=72,
        ago=5 * HOUR,
    ),
    Scene(
        "mt-large",
        "outsider",
        "train-80g",
        "Train the adapters of eight languages.",
        devices=8,
        hours=168,
        decision="approve",
        pods=1,
        ago=4 * DAY,
        activity=0.81,
    ),
    Scene(
        "asr-large",
        "sofia",
        "train-80g",
        "Conformer on the telephone corpus.",
        devices=2,
        hours=96,
        decision="approve",
        pods=1,
        ago=DAY,
        activity=0.66,
    ),
    Scene("grasp-sim", "kenji", "small-16g", "Simulated grasps.", cluster="lab-2", hours=12),
    Scene(
        "old-request",
        "sofia",
        "train-80g",
        "Asked for before the corpus was ready.",
        ago=7 * DAY,  # the longest wait of a request: the next check expires it
    ),
)


TURNS = (
    Scene(
        "scene-flow",
        "engineer",
        "train-80g",
        "Scene flow of the night drives, one day.",
        decision="approve",
        pods=1,
        ago=DAY + 35 * MINUTE,  # expired, in its grace period
        activity=0.7,
    ),
    Scene(
        "attention-maps",
        "engineer",
        "notebook-24g",
        "Attention maps for the talk.",
        hours=8,
        pods=1,
        ago=7 * HOUR + 20 * MINUTE,  # expires within the hour
        activity=0.34,
    ),
    Scene(
        "lidar-seg",
        "engineer",
        "train-80g",
        "Segmentation of the new lidar, first on one device.",
        hours=72,
        decision="approve",
        pods=1,
        ago=20 * HOUR,
        activity=0.93,
    ),
    Scene(
        "tracker-serve",
        "jonas",
        "notebook-24g",
        "The tracker behind the labelling tool: three small servers on one device.",
        hours=96,
        pods=3,
        ago=2 * DAY + 2 * HOUR,
        activity=0.41,
    ),
    Scene(
        "teach-pair",
        "engineer",
        "slice-40g",
        "Teacher on the large slice, student on the small one, in one pod.",
        cluster="lab-2",
        together=(("slice-10g", 1),),
        hours=48,
        pods=1,
        ago=5 * HOUR,
        activity=0.58,
    ),
    Scene(
        "lane-eval",
        "engineer",
        "slice-20g",
        "Evaluate the lane detector on the old data set; no hurry.",
        cluster="lab-2",
        hours=96,
        ago=6 * DAY + 3 * HOUR,  # stops reserving within a day
    ),
    Scene(
        "pose-distill",
        "jonas",
        "train-48g",
        "Distil the pose network for the car; five days in one piece.",
        hours=120,
        ago=31 * HOUR,  # longer than the time before escalation
    ),
    Scene(
        "eval-nightly",
        "jonas",
        "notebook-24g",
        "Nightly evaluation of the main branch.",
        hours=120,
        ago=3 * HOUR,
    ),
    Scene(
        "thumb-index",
        "engineer",
        "small-16g",
        "Index of thumbnails for the search.",
        cluster="lab-2",
        hours=72,
        ago=2 * HOUR,
    ),
    Scene(
        "mt-serve",
        "outsider",
        "mi300x",
        "Serve the translation model to the pilot customers.",
        cluster="lab-2",
        devices=2,
        hours=240,
        ago=8 * HOUR,
    ),
    Scene(
        "mt-distill",
        "lena",
        "train-80g",
        "Distil the translation model to a tenth of its size.",
        devices=2,
        hours=96,
        ago=4 * HOUR,  # Theo decides as delegate of Ines
    ),
    Scene(
        "arm-policy",
        "kenji",
        "train-48g",
        "Policy of the second arm.",
        devices=2,
        hours=60,
        pods=1,
        ago=6 * HOUR,
        activity=0.66,
    ),
    *(
        # Whole nodes of other teams, which continue the runs of `demo.past` until today.
        Scene(
            name,
            by,
            profile,
            reason,
            devices=devices,
            hours=240,
            decision="approve",
            pods=1,
            ago=2 * DAY + 2 * HOUR,
            activity=activity,
        )
        for name, by, profile, devices, activity, reason in (
            ("mt-pretrain-d", "lena", "train-80g", 8, 0.86, "Fourth stage of the pretraining."),
            ("mt-retrieval", "lena", "train-80g", 8, 0.64, "Embed the corpus for retrieval."),
            ("conformer-xxl", "sofia", "train-80g", 8, 0.72, "The conformer, twice as wide."),
            ("mt-lora-bank", "outsider", "train-48g", 4, 0.78, "Adapters for forty customers."),
            ("asr-distill-2", "sofia", "train-48g", 4, 0.6, "Distil the recognizer for cars."),
        )
    ),
)
