"""
The limits of a profile, defined once.

`ProfileLimits` is their value object. The defaults of the columns, the fields of the editor and of the API,
the keys of the YAML file, the comparison of versions and the pages are derived from it through `LIMITS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum
from typing import Annotated, Any, get_type_hints

from django.db import models

from core.times import duration
from inventory.states import EndPolicy

MAX_DEVICES = 1024  # that any limit can name
IDLE_PERCENT = 10  # below it a device is idle, if the profile says nothing
IDLE_AFTER = timedelta(minutes=30)  # and after this time
IDLE_STEP = timedelta(minutes=5)  # what is measured of a device is stored in these steps
IDLE_LONGEST = timedelta(hours=24)


class Delivery(models.TextChoices):
    CLAIM = "claim", "Named claim"
    TEMPLATE = "template", "Template"


class Approval(models.TextChoices):
    AUTOMATIC = "automatic", "automatic"
    LEAD = "lead", "lead"
    ADMIN = "admin", "platform admin"
    BOTH = "both", "lead, then platform admin"


class ProfileEndPolicy(models.TextChoices):
    """The end policy of a profile: that of the cluster, or one of `inventory.states.EndPolicy`."""

    CLUSTER = "cluster", "as the cluster"
    RUN = EndPolicy.RUN.value, EndPolicy.RUN.label
    ASK = EndPolicy.ASK.value, EndPolicy.ASK.label
    EVICT = EndPolicy.EVICT.value, EndPolicy.EVICT.label


@dataclass(frozen=True, slots=True)
class Text:
    max_length: int


@dataclass(frozen=True, slots=True)
class Number:
    min_value: int
    max_value: int


@dataclass(frozen=True, slots=True)
class Duration:
    pass


@dataclass(frozen=True, slots=True)
class Choice:
    """One of `choices`."""

    choices: type[models.TextChoices]


@dataclass(frozen=True, slots=True)
class Choices:
    """At least one of `choices`, in their order."""

    choices: type[models.TextChoices]


type LimitKind = Text | Number | Duration | Choice | Choices


class Group(IntEnum):
    """Limits of one group share a row of the editor; the rows have this order."""

    SIZE = 1
    DURATION = 2
    END = 3
    APPROVAL = 4
    DELIVERY = 5
    IDLE = 6


@dataclass(frozen=True, slots=True)
class Limit:
    """
    One limit, as forms, serializers, files and pages read it.

    `key` is its path in the YAML file. `name` and `default` are those of the field of `ProfileLimits`.
    `unset` says what holds without a value, `unit` stands behind one.
    """

    kind: LimitKind
    label: str
    key: str
    group: Group
    help_text: str = ""
    unset: str = "—"
    unit: str = ""
    name: str = ""
    default: Any = None

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.key.split("."))

    @property
    def required(self) -> bool:
        """Whether an empty value is refused; where it is not, it means the default, which is empty too."""
        return bool(self.default)

    def in_words(self, value: Any) -> str:
        if isinstance(value, timedelta):
            return duration(value) if value else "none"
        if isinstance(self.kind, Choice):
            return str(self.kind.choices(value).label)
        if isinstance(self.kind, Choices):
            return ", ".join(str(self.kind.choices(choice).label) for choice in value)
        return self.unset if value in (None, "") else f"{value}{self.unit}"


@dataclass(frozen=True, kw_only=True)
class ProfileLimits:
    """The limits of a profile version, each with its default, in the order of the YAML file."""

    scalable: Annotated[
        str,
        Limit(
            Text(max_length=63),
            "Scalable request",
            key="scalable",
            group=Group.SIZE,
            help_text="Name of the request whose device count people choose. Empty: the count is fixed.",
        ),
    ] = ""
    max_devices: Annotated[
        int,
        Limit(
            Number(1, MAX_DEVICES),
            "Max devices",
            key="limits.maxDevices",
            group=Group.SIZE,
            help_text="Per claim, all of its requests together.",
        ),
    ] = 1
    default_duration: Annotated[
        timedelta,
        Limit(Duration(), "Default duration", key="limits.defaultDuration", group=Group.DURATION),
    ] = timedelta(hours=24)
    max_duration: Annotated[
        timedelta,
        Limit(Duration(), "Max duration", key="limits.maxDuration", group=Group.DURATION),
    ] = timedelta(days=14)
    grace: Annotated[
        timedelta,
        Limit(
            Duration(),
            "Grace period",
            key="limits.grace",
            group=Group.END,
            help_text="How long after its end a claim is released. Its owner is notified at the end.",
        ),
    ] = timedelta(0)
    extension: Annotated[
        timedelta,
        Limit(
            Duration(),
            "Extension without approval",
            key="limits.extension",
            group=Group.END,
            help_text="At a time, within the max duration. Empty: every extension needs approval.",
        ),
    ] = timedelta(0)
    end_policy: Annotated[
        str,
        Limit(
            Choice(ProfileEndPolicy),
            "End policy",
            key="limits.endPolicy",
            group=Group.END,
            help_text="What happens to pods that still use a claim after its end. Evictions are announced.",
        ),
    ] = ProfileEndPolicy.CLUSTER
    deliveries: Annotated[
        tuple[str, ...],
        Limit(Choices(Delivery), "Delivery", key="limits.deliveries", group=Group.DELIVERY),
    ] = tuple(Delivery.values)
    approval: Annotated[
        str,
        Limit(
            Choice(Approval),
            "Approval",
            key="limits.approval",
            group=Group.APPROVAL,
            help_text="An approval rule for the team or for this profile takes precedence.",
        ),
    ] = Approval.LEAD
    automatic_devices: Annotated[
        int,
        Limit(
            Number(0, MAX_DEVICES),
            "Approved automatically up to",
            key="limits.automatic.devices",
            group=Group.APPROVAL,
            help_text="Devices of all pods together. 0: every request needs approval.",
        ),
    ] = 0
    automatic_duration: Annotated[
        timedelta | None,
        Limit(
            Duration(),
            "Approved automatically for at most",
            key="limits.automatic.duration",
            group=Group.APPROVAL,
            help_text="Empty: any duration.",
        ),
    ] = None
    idle_percent: Annotated[
        int | None,
        Limit(
            Number(1, 100),
            "Idle below",
            key="limits.idle.percent",
            group=Group.IDLE,
            help_text=f"Utilization in percent; every sample stays below it. Empty: {IDLE_PERCENT} %.",
            unset=f"{IDLE_PERCENT} % (default)",
            unit=" %",
        ),
    ] = None
    idle_after: Annotated[
        timedelta | None,
        Limit(
            Duration(),
            "Idle after",
            key="limits.idle.after",
            group=Group.IDLE,
            help_text="In steps of 5 minutes, up to 24 hours; a gap in the telemetry is never idle. "
            f"Empty: {duration(IDLE_AFTER)}.",
            unset=f"{duration(IDLE_AFTER)} (default)",
        ),
    ] = None

    def __post_init__(self) -> None:
        chosen = tuple(choice for choice in Delivery.values if choice in self.deliveries)
        object.__setattr__(self, "deliveries", chosen)

    @classmethod
    def among(cls, values: Mapping[str, Any]) -> ProfileLimits:
        """Return the limits that `values` has by name, beside other things; the others have their default."""
        return cls(**{limit.name: values[limit.name] for limit in LIMITS if limit.name in values})

    def columns(self) -> dict[str, Any]:
        """Return the limits as columns of `ProfileVersion`."""
        return vars(self) | {"deliveries": list(self.deliveries)}

    def problems(self) -> dict[str, str]:
        """Return a sentence for each limit that is out of bounds, by name."""
        problems = {}
        if self.default_duration <= timedelta(0):
            problems["default_duration"] = "The default duration must be longer than 0."
        elif self.default_duration > self.max_duration:
            problems["default_duration"] = (
                f"The default duration, {duration(self.default_duration)}, is longer than the max duration, "
                f"{duration(self.max_duration)}."
            )
        idle_after = self.idle_after
        if idle_after is not None and (not IDLE_STEP <= idle_after <= IDLE_LONGEST or idle_after % IDLE_STEP):
            problems["idle_after"] = (
                f"A device is idle after {duration(IDLE_STEP)} to {duration(IDLE_LONGEST)}, in steps of "
                f"{duration(IDLE_STEP)}; {duration(idle_after)} was sent."
            )
        for name, label in (("grace", "grace period"), ("extension", "extension without approval")):
            if getattr(self, name) < timedelta(0):
                problems[name] = f"The {label} must not be negative."
        if not self.deliveries:
            problems["deliveries"] = "A profile needs at least one kind of delivery."
        if self.approval not in Approval.values:
            problems["approval"] = f"“{self.approval}” is not a kind of approval."
        if self.end_policy not in ProfileEndPolicy.values:
            problems["end_policy"] = f"“{self.end_policy}” is not an end policy."
        return problems


LIMITS: tuple[Limit, ...] = tuple(
    replace(hint.__metadata__[0], name=name, default=getattr(ProfileLimits, name))
    for name, hint in get_type_hints(ProfileLimits, include_extras=True).items()
)
