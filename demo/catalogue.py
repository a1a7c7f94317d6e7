"""Profiles, quotas and prices of the demo. Prices are invented; their titles say so."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.presets import presets
from claims.catalogue.services import add_profiles, retire_profile, save_profile
from claims.models import Approval, Profile, ProfileLimits, ProfileVersion, Purpose, Quota
from teams.models import Team, User
from usage.models import Rate

NVIDIA = 'device.attributes["gpu.nvidia.com"]'
HOURS = timedelta(hours=1)


def memory_condition(driver: str, at_least: str) -> str:
    """Headroom below the round number: an "80 GB" H100 publishes 81559Mi."""
    return (
        f'device.capacity["{driver}"].?memory.orValue(quantity("0")).compareTo(quantity("{at_least}")) >= 0'
    )


def product(start: str) -> str:
    return f'{NVIDIA}.?productName.orValue("").startsWith("{start}")'


def mig_condition(profile: str) -> str:
    return f'{NVIDIA}.?profile.orValue("") == "{profile}"'


def one_device_spec(device_class: str, *expressions: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": selectors,
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


CATALOGUE: list[dict[str, Any]] = [
    {
        "slug": "train-80g",
        "title": "Train 80 GB",
        "use": "Fine-tune 7B to 13B models, train vision models with large batches.",
        "purpose": Purpose.TRAINING,
        "spec": one_device_spec("gpu.nvidia.com", memory_condition("gpu.nvidia.com", "79Gi")),
        "max_devices": 8,
        "approval": Approval.LEAD,
        "extension": 24 * HOURS,
        "grace": 2 * HOURS,
        # The version until twelve days ago: the H100 by name, no extension, no grace.
        "before": {
            "spec": one_device_spec("gpu.nvidia.com", product("NVIDIA H100")),
            "max_devices": 4,
            "extension": 0 * HOURS,
            "grace": 0 * HOURS,
        },
    },
    {
        "slug": "train-48g",
        "title": "Train 48 GB",
        "use": "LoRA of 7B models, diffusion, rendering.",
        "purpose": Purpose.TRAINING,
        "spec": one_device_spec("gpu.nvidia.com", product("NVIDIA L40S")),
        "max_devices": 4,
        "approval": Approval.LEAD,
        "automatic_devices": 2,
        "automatic_duration": 72 * HOURS,
    },
    {
        # An L40S publishes 46068Mi, a little less than 45Gi: the catalogue check finds that.
        "slug": "any-48g",
        "title": "Any GPU from 48 GB",
        "use": "Batch jobs that take whichever large GPU is free first.",
        "purpose": Purpose.INFERENCE,
        "spec": one_device_spec("gpu.nvidia.com", memory_condition("gpu.nvidia.com", "45Gi")),
        "max_devices": 4,
        "approval": Approval.LEAD,
    },
    {
        "slug": "notebook-24g",
        "title": "Notebook 24 GB",
        "use": "Interactive work, evaluation, small models.",
        "purpose": Purpose.NOTEBOOKS,
        "spec": one_device_spec("gpu.nvidia.com", f'{NVIDIA}.?productName.orValue("") == "NVIDIA L4"'),
        "max_devices": 2,
        "approval": Approval.AUTOMATIC,
    },
    {
        "slug": "small-16g",
        "title": "Small 16 GB",
        "use": "Tests in CI, classic models, teaching.",
        "purpose": Purpose.TESTS,
        "spec": one_device_spec("gpu.nvidia.com", product("Tesla T4")),
        "max_devices": 4,
        "approval": Approval.AUTOMATIC,
    },
    {
        "slug": "slice-40g",
        "title": "Slice 40 GB",
        "use": "Half an A100 with its own memory and engines.",
        "purpose": Purpose.INFERENCE,
        "spec": one_device_spec("mig.nvidia.com", mig_condition("3g.40gb")),
        "max_devices": 2,
        "approval": Approval.AUTOMATIC,
    },
    {
        "slug": "slice-20g",
        "title": "Slice 20 GB",
        "use": "Sweeps of small models: many at once, each isolated.",
        "purpose": Purpose.INFERENCE,
        "spec": one_device_spec("mig.nvidia.com", mig_condition("1g.20gb")),
        "max_devices": 4,
        "approval": Approval.LEAD,
        "automatic_devices": 4,
        "automatic_duration": 48 * HOURS,
    },
    {
        "slug": "slice-10g",
        "title": "Slice 10 GB",
        "use": "Notebooks that mostly wait for their author.",
        "purpose": Purpose.NOTEBOOKS,
        "spec": one_device_spec("mig.nvidia.com", mig_condition("1g.10gb")),
        "max_devices": 4,
        "approval": Approval.AUTOMATIC,
    },
    {
        "slug": "mi300x",
        "title": "MI300X 192 GB",
        "use": "Inference of 70B models on one device, ROCm images only.",
        "purpose": Purpose.INFERENCE,
        "spec": one_device_spec("gpu.amd.com", memory_condition("gpu.amd.com", "180Gi")),
        "max_devices": 8,
        "approval": Approval.ADMIN,
    },
    {
        "slug": "train-32g",
        "title": "Train 32 GB",
        "use": "The V100 nodes, which left in summer. Ask for Train 48 GB instead.",
        "purpose": Purpose.TRAINING,
        "spec": one_device_spec("gpu.nvidia.com", product("Tesla V100")),
        "max_devices": 8,
        "approval": Approval.LEAD,
        "retired": True,
    },
]
OLD, CHANGED = timedelta(days=60), timedelta(days=12)  # how long ago profiles were made, and one changed

# Included presets that show alternatives, several requests of one claim,
# settings of a driver, whole nodes and admin access.
PRESETS = frozenset(("any-large", "mig-mix", "mps", "whole-node", "gpu-monitoring"))

QUOTAS = {  # vision is nearly full; only nlp may use MI300X
    "vision": {"gpu.nvidia.com": 16, "mig.nvidia.com": 12},
    "nlp": {"gpu.nvidia.com": 48, "mig.nvidia.com": 8, "gpu.amd.com": 16},
    "speech": {"gpu.nvidia.com": 24, "mig.nvidia.com": 12},
    "robotics": {"gpu.nvidia.com": 8},
}

PRICES = {
    "H100": "2.90",
    "A100-SXM4-80GB": "1.80",
    "L40S": "1.10",
    "L4": "0.55",
    "T4": "0.32",
    "AMD Instinct MI300X": "2.60",
}


SPOT = 'device.capacityType == "spot"'


def load_catalogue(by: User) -> None:
    for entry in CATALOGUE:
        if not Profile.objects.filter(slug=entry["slug"]).exists():
            load_profile(by, **entry)
    add_profiles(by=by, definitions=[preset for preset in presets() if preset.slug in PRESETS])
    for slug, limits in QUOTAS.items():
        for device_class, devices in limits.items():
            Quota.objects.get_or_create(
                team=Team.objects.get(slug=slug), device_class=device_class, defaults={"devices": devices}
            )
    prices = [(name, "", price) for name, price in PRICES.items()]
    for name, expression, price in [*prices, ("L4", SPOT, "0.28")]:
        Rate.objects.get_or_create(
            product=name,
            expression=expression,
            defaults={
                "title": f"{name}{' on spot' if expression else ''} (sample price)",
                "per_hour": Decimal(price),
                "valid_from": datetime(2026, 1, 1, tzinfo=UTC),
            },
        )


def load_profile(
    by: User, *, before: dict[str, Any] | None = None, retired: bool = False, **entry: Any
) -> None:
    """Create a profile, with the older version `before` if there is one."""
    first = save_profile(by=by, profile=None, definition=definition(entry | (before or {})))
    ProfileVersion.objects.filter(pk=first.pk).update(created_at=timezone.now() - OLD)
    if before:
        second = save_profile(by=by, profile=first.profile, definition=definition(entry))
        ProfileVersion.objects.filter(pk=second.pk).update(created_at=timezone.now() - CHANGED)
    if retired:
        retire_profile(by=by, profile=first.profile)


def definition(entry: dict[str, Any]) -> ProfileDefinition:
    """Return an entry of CATALOGUE; limits that it does not name have their defaults."""
    page = {name: entry[name] for name in ("slug", "title", "use", "purpose", "spec")}
    return ProfileDefinition(**page, limits=ProfileLimits.among({"scalable": "gpu"} | entry))
