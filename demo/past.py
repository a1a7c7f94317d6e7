"""The claims of the demo's past, as data: who held what, when, and how busy it was. All of it is invented."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q


@dataclass(frozen=True, slots=True)
class FinishedClaim:
    """
    One claim: began `days` ago, lasted `hours` of `requested_hours`, with mean `activity`, None for none.

    A person decided after `decided`, None for automatic; its pod got the devices `started` after that.
    """

    name: str
    models: str  # of `DEVICES`
    by: str
    days: float
    hours: float
    requested_hours: float
    activity: float | None
    decided: timedelta | None
    started: timedelta
    devices: int = 1

    @property
    def profile(self) -> str:
        return PROFILES.get(self.models, self.models)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


ENDED = (
    FinishedClaim("bev-train", "train-80g", "engineer", 17, 61, 72, 0.83, minutes(95), minutes(12)),
    FinishedClaim("panoptic-v2", "train-80g", "jonas", 9, 44, 72, 0.77, minutes(38), minutes(7)),
    FinishedClaim("mt-adapters", "train-80g", "ines", 13, 72, 96, 0.69, minutes(310), minutes(55)),
    FinishedClaim("asr-tune", "train-80g", "sofia", 20, 14, 24, 0.74, minutes(22), minutes(190)),
    FinishedClaim("occ-probe", "train-80g", "jonas", 24, 12, 24, 0.52, minutes(17), minutes(4)),
    FinishedClaim("pose-base", "train-80g", "engineer", 27, 19, 24, 0.88, minutes(1270), minutes(31)),
    FinishedClaim("lidar-voxels", "train-48g", "jonas", 15, 30, 96, 0.64, minutes(47), minutes(9)),
    FinishedClaim("gan-restore", "train-48g", "engineer", 6, 19, 24, 0.58, None, minutes(3)),
    FinishedClaim("asr-small", "train-48g", "sofia", 8, 36, 48, 0.71, None, minutes(15)),
    FinishedClaim("speaker-id", "train-48g", "sofia", 11, 22, 96, 0.62, minutes(26), minutes(6)),
    FinishedClaim("map-tiles", "train-48g", "engineer", 19, 28, 120, 0.79, minutes(180), minutes(21)),
    FinishedClaim("night-gan", "train-48g", "jonas", 22, 16, 96, 0.35, minutes(64), minutes(2)),
    FinishedClaim("grasp-net", "train-48g", "kenji", 26, 11, 96, 0.67, minutes(540), minutes(48)),
    FinishedClaim("clip-probe", "notebook-24g", "engineer", 12, 9, 12, 0.22, None, minutes(4)),
    FinishedClaim("label-notebook", "notebook-24g", "noor", 4, 26, 36, None, None, minutes(2)),
    FinishedClaim("loss-curves", "notebook-24g", "jonas", 7, 5, 8, 0.18, None, minutes(11)),
    FinishedClaim("mt-probe", "notebook-24g", "outsider", 10, 7, 24, 0.26, None, minutes(1)),
    FinishedClaim("phone-corpus", "notebook-24g", "sofia", 18, 8, 12, 0.14, None, minutes(6)),
    FinishedClaim("grasp-look", "notebook-24g", "kenji", 23, 4, 8, 0.31, None, minutes(35)),
    FinishedClaim("svm-baseline", "small-16g", "jonas", 5, 3, 8, 0.44, None, minutes(3)),
    FinishedClaim("ci-weekly", "small-16g", "engineer", 9, 2, 4, 0.51, None, minutes(1)),
    FinishedClaim("grasp-unit", "small-16g", "kenji", 14, 5, 8, 0.37, None, minutes(8)),
    FinishedClaim("teach-week-1", "small-16g", "ravi", 16, 6, 8, 0.2, None, minutes(2)),
    FinishedClaim("teach-week-2", "small-16g", "ravi", 21, 6, 8, 0.25, None, minutes(19)),
    FinishedClaim("seed-sweep", "slice-20g", "engineer", 8, 13, 24, 0.72, None, minutes(5)),
    FinishedClaim("aug-sweep", "slice-20g", "jonas", 11, 9, 96, 0.69, minutes(33), minutes(14)),
    FinishedClaim("token-grid", "slice-20g", "outsider", 15, 17, 24, 0.81, None, minutes(2)),
    FinishedClaim("vocoder-grid", "slice-20g", "sofia", 19, 12, 24, 0.66, None, minutes(27)),
    FinishedClaim("depth-grid", "slice-20g", "engineer", 25, 8, 24, 0.59, None, minutes(4)),
    FinishedClaim("slides-demo", "slice-10g", "noor", 3, 2, 4, 0.08, None, minutes(1)),
    FinishedClaim("mt-scratch", "slice-10g", "outsider", 6, 7, 24, 0.12, None, minutes(3)),
    FinishedClaim("asr-scratch", "slice-10g", "sofia", 13, 5, 8, 0.17, None, minutes(2)),
    FinishedClaim("onboarding", "slice-10g", "jonas", 20, 3, 8, 0.06, None, minutes(9)),
    FinishedClaim("reading-group", "slice-10g", "engineer", 28, 4, 8, 0.11, None, minutes(5)),
    FinishedClaim("vae-half", "slice-40g", "engineer", 7, 11, 24, 0.63, None, minutes(6)),
    FinishedClaim("mt-half", "slice-40g", "outsider", 10, 15, 24, 0.71, None, minutes(18)),
    FinishedClaim("tts-half", "slice-40g", "sofia", 14, 9, 24, 0.55, None, minutes(3)),
    FinishedClaim("seg-half", "slice-40g", "jonas", 18, 8, 24, 0.6, None, minutes(72)),
    FinishedClaim("pose-half", "slice-40g", "engineer", 26, 6, 24, 0.48, None, minutes(4)),
)

# Whole nodes, most of the month, so that the fleet has the use of a fleet.
RUNS = (
    FinishedClaim("world-model-1", "train-80g", "engineer", 29, 240, 264, 0.84, minutes(125), minutes(9), 16),
    FinishedClaim("mt-pretrain-a", "train-80g", "ines", 29, 288, 312, 0.88, minutes(310), minutes(22), 24),
    FinishedClaim("conformer-xl", "train-80g", "sofia", 27, 288, 336, 0.71, minutes(48), minutes(6), 8),
    FinishedClaim("policy-mix", "train-80g", "kenji", 24, 240, 240, 0.62, minutes(75), minutes(41), 8),
    FinishedClaim("occ-base", "train-80g", "jonas", 18.5, 168, 192, 0.79, minutes(36), minutes(5), 16),
    FinishedClaim(
        "mt-pretrain-b", "train-80g", "outsider", 16.5, 204, 240, 0.86, minutes(190), minutes(64), 24
    ),
    FinishedClaim("world-model-2", "train-80g", "engineer", 11, 211, 240, 0.81, minutes(52), minutes(8), 16),
    FinishedClaim("conformer-clean", "train-80g", "sofia", 13, 257, 264, 0.58, minutes(21), minutes(15), 8),
    FinishedClaim("mt-eval-suite", "train-80g", "lena", 7.5, 129, 144, 0.47, minutes(84), minutes(7), 8),
    FinishedClaim("mt-pretrain-c", "train-80g", "outsider", 8, 141, 168, 0.83, minutes(57), minutes(13), 24),
    FinishedClaim("video-tokens", "a100-80g", "jonas", 29, 336, 336, 0.77, minutes(63), minutes(12), 16),
    FinishedClaim("tts-voices", "a100-80g", "sofia", 25, 288, 312, 0.64, minutes(29), minutes(4), 8),
    FinishedClaim("sim-to-real", "a100-80g", "kenji", 13.5, 273, 312, 0.55, minutes(17), minutes(33), 8),
    FinishedClaim("retrieval-index", "a100-80g", "lena", 12, 235, 240, 0.31, minutes(140), minutes(3), 8),
    FinishedClaim("render-night", "train-48g", "engineer", 29, 312, 336, 0.92, minutes(15), minutes(2), 8),
    FinishedClaim("grasp-render", "train-48g", "kenji", 19, 216, 240, 0.88, minutes(230), minutes(18), 4),
    FinishedClaim("diffusion-lora", "train-48g", "jonas", 14, 283, 312, 0.76, minutes(44), minutes(5), 4),
    FinishedClaim("asr-distill", "train-48g", "sofia", 22, 240, 240, 0.6, minutes(31), minutes(9), 4),
    FinishedClaim("lab-course", "notebook-24g", "ravi", 26, 336, 336, 0.09, None, minutes(2), 8),
    FinishedClaim("label-tool", "notebook-24g", "jonas", 20, 425, 480, 0.17, None, minutes(3), 4),
    FinishedClaim("ci-pool", "small-16g", "engineer", 28, 600, 600, 0.42, None, minutes(1), 4),
    FinishedClaim("mt-70b-eval", "mi300x", "ines", 28, 240, 264, 0.83, minutes(380), minutes(16), 8),
    FinishedClaim("mt-70b-serve", "mi300x", "ines", 15, 310, 336, 0.52, minutes(95), minutes(11), 8),
)

REASONS = {
    "bev-train": "Train the BEV encoder for the October release.",
    "panoptic-v2": "Panoptic segmentation, second version.",
    "mt-adapters": "Adapters for the 7B translation model.",
    "asr-tune": "Fine-tune speech recognition on the call recordings.",
    "occ-probe": "Does the occupancy network fit on one device?",
    "pose-base": "Baseline of the pose network.",
    "lidar-voxels": "Voxel size of the lidar network.",
    "gan-restore": "Restore the old camera images.",
    "asr-small": "Small model for the phone.",
    "speaker-id": "Speaker identification for the meeting notes.",
    "map-tiles": "Rasterize the map tiles again.",
    "night-gan": "Night images from day images.",
    "grasp-net": "Grasp network on the new gripper.",
    "clip-probe": "Linear probes on CLIP features.",
    "label-notebook": "Check the labels of the night drives.",
    "loss-curves": "Plot the losses of last week's runs.",
    "mt-probe": "Look at the attention of the translation model.",
    "phone-corpus": "Listen through the phone corpus.",
    "grasp-look": "Look at failed grasps.",
    "svm-baseline": "Baseline without a network.",
    "ci-weekly": "Weekly test run on a GPU.",
    "grasp-unit": "Unit tests of the grasp kernels.",
    "teach-week-1": "Exercises of the first week.",
    "teach-week-2": "Exercises of the second week.",
    "seed-sweep": "Ten seeds of the small detector.",
    "aug-sweep": "Which augmentation helps?",
    "token-grid": "Vocabulary sizes of the tokenizer.",
    "vocoder-grid": "Grid over vocoder settings.",
    "depth-grid": "Grid over depth losses.",
    "slides-demo": "Live demo for the quarterly talk.",
    "mt-scratch": "Try the new tokenizer.",
    "asr-scratch": "Try the new front end.",
    "onboarding": "First steps of a new colleague.",
    "reading-group": "Reproduce the paper of the reading group.",
    "vae-half": "Train a small VAE.",
    "mt-half": "Distil the translation model.",
    "tts-half": "Train a small voice.",
    "seg-half": "Segmentation at half resolution.",
    "pose-half": "Pose network at half resolution.",
    "world-model-1": "World model of the highway set, on two nodes.",
    "mt-pretrain-a": "Pretrain the translation model, first half of the corpus.",
    "conformer-xl": "The largest Conformer, for the benchmark.",
    "policy-mix": "One policy for all arms.",
    "occ-base": "Base weights of the occupancy network.",
    "mt-pretrain-b": "Pretrain the translation model, second half.",
    "mt-pretrain-c": "Pretrain the translation model on the new corpus.",
    "world-model-2": "World model with the rain set.",
    "conformer-clean": "Again on the cleaned corpus.",
    "mt-eval-suite": "All benchmarks of the translation model.",
    "video-tokens": "Tokenizer for video.",
    "tts-voices": "Twelve voices of the navigation.",
    "sim-to-real": "Transfer of the simulated grasps.",
    "retrieval-index": "Embed the documents of the search.",
    "render-night": "Render the synthetic night drives.",
    "grasp-render": "Render grasps of 4,000 objects.",
    "diffusion-lora": "LoRA of the diffusion model for damaged signs.",
    "asr-distill": "Distil the speech model for the car.",
    "lab-course": "Notebooks of the summer course.",
    "label-tool": "Models behind the labelling tool.",
    "ci-pool": "Tests on a GPU for each merge.",
    "mt-70b-eval": "Evaluate the 70B model in eight languages.",
    "mt-70b-serve": "Serve the 70B model to the pilot.",
}

# What the clusters have of each profile, so that the past is plausible.
DEVICES = {
    "train-80g": Q(product__startswith="NVIDIA H100", partition=""),
    "a100-80g": Q(product__startswith="NVIDIA A100", partition=""),
    "mi300x": Q(product__contains="MI300X"),
    "train-48g": Q(product="NVIDIA L40S"),
    "notebook-24g": Q(product="NVIDIA L4"),
    "small-16g": Q(product="Tesla T4"),
    "slice-40g": Q(product__startswith="NVIDIA A100", partition="3g.40gb"),
    "slice-20g": Q(product__startswith="NVIDIA A100", partition="1g.20gb"),
    "slice-10g": Q(product__startswith="NVIDIA A100", partition="1g.10gb"),
}
PROFILES = {"a100-80g": "train-80g"}  # where it is not the name of the models
