"""Claims of the demo that ended before it began: an invented past, and its reason says so."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Ended:
    """
    One claim of one device: began `days` ago, lasted `hours` of the `asked` ones, busy by `activity`.

    Somebody decided after `decided`, None where a rule did; its pod had the device `started` after that.
    """

    name: str
    profile: str
    by: str
    days: float
    hours: float
    asked: float
    activity: float | None
    decided: timedelta | None
    started: timedelta


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


ENDED = (
    Ended("bev-train", "train-80g", "engineer", 17, 61, 72, 0.83, minutes(95), minutes(12)),
    Ended("panoptic-v2", "train-80g", "jonas", 9, 44, 72, 0.77, minutes(38), minutes(7)),
    Ended("mt-adapters", "train-80g", "ines", 13, 72, 96, 0.69, minutes(310), minutes(55)),
    Ended("asr-tune", "train-80g", "sofia", 20, 14, 24, 0.74, minutes(22), minutes(190)),
    Ended("occ-probe", "train-80g", "jonas", 24, 12, 24, 0.52, minutes(17), minutes(4)),
    Ended("pose-base", "train-80g", "engineer", 27, 19, 24, 0.88, minutes(1270), minutes(31)),
    Ended("lidar-voxels", "train-48g", "jonas", 15, 30, 96, 0.64, minutes(47), minutes(9)),
    Ended("gan-restore", "train-48g", "engineer", 6, 19, 24, 0.58, None, minutes(3)),
    Ended("asr-small", "train-48g", "sofia", 8, 36, 48, 0.71, None, minutes(15)),
    Ended("speaker-id", "train-48g", "sofia", 11, 22, 96, 0.62, minutes(26), minutes(6)),
    Ended("map-tiles", "train-48g", "engineer", 19, 28, 120, 0.79, minutes(180), minutes(21)),
    Ended("night-gan", "train-48g", "jonas", 22, 16, 96, 0.35, minutes(64), minutes(2)),
    Ended("grasp-net", "train-48g", "kenji", 26, 11, 96, 0.67, minutes(540), minutes(48)),
    Ended("clip-probe", "notebook-24g", "engineer", 12, 9, 12, 0.22, None, minutes(4)),
    Ended("label-notebook", "notebook-24g", "noor", 4, 26, 36, None, None, minutes(2)),
    Ended("loss-curves", "notebook-24g", "jonas", 7, 5, 8, 0.18, None, minutes(11)),
    Ended("mt-probe", "notebook-24g", "outsider", 10, 7, 24, 0.26, None, minutes(1)),
    Ended("phone-corpus", "notebook-24g", "sofia", 18, 8, 12, 0.14, None, minutes(6)),
    Ended("grasp-look", "notebook-24g", "kenji", 23, 4, 8, 0.31, None, minutes(35)),
    Ended("svm-baseline", "small-16g", "jonas", 5, 3, 8, 0.44, None, minutes(3)),
    Ended("ci-weekly", "small-16g", "engineer", 9, 2, 4, 0.51, None, minutes(1)),
    Ended("grasp-unit", "small-16g", "kenji", 14, 5, 8, 0.37, None, minutes(8)),
    Ended("teach-week-1", "small-16g", "ravi", 16, 6, 8, 0.2, None, minutes(2)),
    Ended("teach-week-2", "small-16g", "ravi", 21, 6, 8, 0.25, None, minutes(19)),
    Ended("seed-sweep", "slice-20g", "engineer", 8, 13, 24, 0.72, None, minutes(5)),
    Ended("aug-sweep", "slice-20g", "jonas", 11, 9, 96, 0.69, minutes(33), minutes(14)),
    Ended("token-grid", "slice-20g", "outsider", 15, 17, 24, 0.81, None, minutes(2)),
    Ended("vocoder-grid", "slice-20g", "sofia", 19, 12, 24, 0.66, None, minutes(27)),
    Ended("depth-grid", "slice-20g", "engineer", 25, 8, 24, 0.59, None, minutes(4)),
    Ended("slides-demo", "slice-10g", "noor", 3, 2, 4, 0.08, None, minutes(1)),
    Ended("mt-scratch", "slice-10g", "outsider", 6, 7, 24, 0.12, None, minutes(3)),
    Ended("asr-scratch", "slice-10g", "sofia", 13, 5, 8, 0.17, None, minutes(2)),
    Ended("onboarding", "slice-10g", "jonas", 20, 3, 8, 0.06, None, minutes(9)),
    Ended("reading-group", "slice-10g", "engineer", 28, 4, 8, 0.11, None, minutes(5)),
    Ended("vae-half", "slice-40g", "engineer", 7, 11, 24, 0.63, None, minutes(6)),
    Ended("mt-half", "slice-40g", "outsider", 10, 15, 24, 0.71, None, minutes(18)),
    Ended("tts-half", "slice-40g", "sofia", 14, 9, 24, 0.55, None, minutes(3)),
    Ended("seg-half", "slice-40g", "jonas", 18, 8, 24, 0.6, None, minutes(72)),
    Ended("pose-half", "slice-40g", "engineer", 26, 6, 24, 0.48, None, minutes(4)),
)
