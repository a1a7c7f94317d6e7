"""
Answers of the portal as typed, immutable objects.

Unknown fields are ignored and stay in `raw`, so a newer portal never breaks an older client; a field that an
older portal does not send has its default. None means unknown or not measured, never 0.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from functools import cache
from html import escape
from typing import Any, TypeVar

from dragoman.text import ago

R = TypeVar("R", bound="Result")

REQUESTED, APPROVED, PROVISIONED, ALLOCATED = "requested", "approved", "provisioned", "allocated"
USABLE = (PROVISIONED, ALLOCATED)  # the object is in the cluster: pods may use it
LIVE = (REQUESTED, APPROVED, *USABLE)


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 does not read the Z


def convert(kind: Any, value: Any) -> Any:
    """Return `value` of a JSON document as the type of a field."""
    if value is None:
        return None
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return convert(kind, value)
    if origin is tuple:
        return tuple(convert(arguments[0], item) for item in value)
    if isinstance(kind, type) and issubclass(kind, Result):
        return kind.of(value)
    if kind is datetime:
        return parse_time(value)
    if kind is Decimal:
        return Decimal(str(value))
    return value


@cache
def field_types(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {one.name: hints[one.name] for one in fields(cls) if one.name != "raw"}


@dataclass(frozen=True, kw_only=True)
class Result:
    """`raw` is the answer as it was sent."""

    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls: type[R], raw: Mapping[str, Any]) -> R:
        """Read an answer. A null for a field with a default of another type has that default."""
        known = field_types(cls)  # type: ignore[arg-type]  # classes are hashable
        values = {name: convert(known[name], raw[name]) for name in known if raw.get(name) is not None}
        return cls(raw=raw, **values)


@dataclass(frozen=True, kw_only=True)
class Membership(Result):
    team: str
    title: str = ""
    role: str = ""


@dataclass(frozen=True, kw_only=True)
class TokenInfo(Result):
    """The token of this client; `team` is the one to which it is limited."""

    title: str = ""
    scopes: tuple[str, ...] = ()
    team: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Me(Result):
    username: str
    name: str = ""
    email: str = ""
    platform_admin: bool = False
    timezone: str = ""
    teams: tuple[Membership, ...] = ()
    token: TokenInfo | None = None


@dataclass(frozen=True, kw_only=True)
class Cluster(Result):
    name: str
    title: str = ""
    version: str = ""
    enabled: bool = True
    halt_reason: str = ""
    read_only: bool = False
    devices: int = 0
    devices_held: int = 0


@dataclass(frozen=True, kw_only=True)
class Profile(Result):
    """A profile of the catalogue. Durations are seconds, `memory` is bytes, `price` per device and hour."""

    slug: str
    title: str = ""
    use: str = ""
    purpose: str = ""
    version: int = 0
    spec: Mapping[str, Any] = field(default_factory=dict, repr=False)
    approval_sentence: str = ""
    free: int | None = None
    total: int | None = None
    nodes: int | None = None
    most: int | None = None
    computed_at: datetime | None = None
    products: tuple[str, ...] = ()
    memory: int | None = None
    sharing: tuple[str, ...] = ()
    price: Decimal | None = None
    may_request: bool = False
    reason: str = ""
    max_devices: int | None = None
    default_duration: int | None = None
    max_duration: int | None = None


@dataclass(frozen=True, kw_only=True)
class Device(Result):
    """A device that a claim holds now."""

    device: str
    driver: str = ""
    pool: str = ""
    request: str = ""
    node_name: str = ""
    product: str = ""
    partition: str = ""
    uuid: str = ""
    memory_bytes: int | None = None
    fraction: Decimal | None = None
    capacity_type: str = ""
    object_name: str = ""
    started_at: datetime | None = None

    def __str__(self) -> str:
        parts = (self.product or self.device, self.partition, self.uuid, f"on {self.node_name}")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class ClaimInfo(Result):
    """A claim as it was when it was read. `duration` is seconds, `devices` are those of one claim."""

    id: str
    state: str
    version: int
    name: str = ""
    team: str = ""
    cluster: str = ""
    namespace: str = ""
    kind: str = ""
    profile: str = ""
    profiles: tuple[str, ...] = ()
    requested_by: str = ""
    delivery: str = ""
    devices: int = 0
    parallel: int = 1
    duration: int = 0
    reason: str = ""
    state_since: datetime | None = None
    created_at: datetime | None = None
    decide_by: datetime | None = None
    decided_by: str = ""
    decided_at: datetime | None = None
    decision_note: str = ""
    expires_at: datetime | None = None
    spec_hash: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str = ""
    problem_code: str = ""
    end_policy: str = ""
    keep_alive: int | None = None  # seconds that its program may be silent
    ends_unless_renewed_at: datetime | None = None
    allocations: tuple[Device, ...] = ()

    @property
    def is_usable(self) -> bool:
        return self.state in USABLE

    @property
    def is_live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True, kw_only=True)
class Step(Result):
    key: str = ""
    label: str = ""
    status: str = ""
    at: datetime | None = None
    by: str = ""
    note: str = ""
    actor: str = ""
    next: str = ""


@dataclass(frozen=True, kw_only=True)
class PodGroup(Result):
    names: tuple[str, ...] = ()
    count: int = 0
    stage: str = ""
    label: str = ""
    since: datetime | None = None
    nodes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Explanation(Result):
    """
    Who acts next on a claim, and why: `headline` and `sentence` are those of its page. `version` is that of
    the claim that it is about.
    """

    version: int | None = None
    actor: str = ""
    who: str = ""
    headline: str = ""
    sentence: str = ""
    problem: str = ""
    steps: tuple[Step, ...] = ()
    pods: tuple[PodGroup, ...] = ()
    lost: tuple[PodGroup, ...] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (self.headline, self.sentence, self.problem)))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<li><b>{escape(step.label)}</b> {escape(step.note or step.next)} {ago(step.at)}</li>"
            for step in self.steps
            if step.status in ("done", "now", "bad")
        )
        return f"<p><b>{escape(self.headline)}</b> {escape(self.sentence)}</p><ol>{rows}</ol>"


@dataclass(frozen=True, kw_only=True)
class MatchStep(Result):
    label: str = ""
    count: int = 0
    dropped: int = 0
    kind: str = ""
    detail: str = ""
    request: str = ""


@dataclass(frozen=True, kw_only=True)
class DeviceMatch(Result):
    fits: bool = False
    matching: int | None = None
    free: int | None = None
    nodes_that_fit: int | None = None
    claims_that_fit: int | None = None
    problem: str = ""
    reason: str = ""
    steps: tuple[MatchStep, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImportedProfile(Result):
    """A profile for a claim of a file; `differences` say what the file has instead."""

    profile: str
    devices: int = 1
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImportFinding(Result):
    message: str = ""
    selector: str = ""


@dataclass(frozen=True, kw_only=True)
class ClusterVerdict(Result):
    """What a claim of a file would meet in a cluster."""

    cluster: str
    fits: bool = False
    matching: int | None = None
    free: int | None = None
    sentence: str = ""
    findings: tuple[ImportFinding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImportedClaim(Result):
    """A claim that a file requests; `parallel` pods use it at once."""

    title: str
    name: str = ""
    delivery: str = "claim"
    parallel: int = 1
    note: str = ""
    problems: tuple[str, ...] = ()
    exact: tuple[ImportedProfile, ...] = ()
    nearest: tuple[ImportedProfile, ...] = ()
    clusters: tuple[ClusterVerdict, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Import(Result):
    """What a file of manifests requests; `converted` are its objects as they should be, as YAML."""

    claims: tuple[ImportedClaim, ...] = ()
    remarks: tuple[str, ...] = ()
    converted: str = ""


@dataclass(frozen=True, kw_only=True)
class QuotaLine(Result):
    label: str = ""
    before: int = 0
    needs: int = 0
    after: int = 0
    limit: int = 0
    fits: bool = True
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class BudgetLine(Result):
    label: str = ""
    at_limit: str = ""
    fits: bool = True
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Approval(Result):
    automatic: bool = False
    sentence: str = ""
    rule: str = ""
    who: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Suggestion(Result):
    profile: str = ""
    title: str = ""
    devices: int = 0
    free: int = 0
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Help(Result):
    kind: str = ""
    change: str = ""
    current: str = ""
    proposed: str = ""
    fits: bool = False
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict(Result):
    """Devices, quota, budget and policy in one. `outcome` is refused, fits, waits, never or unknown."""

    outcome: str = ""
    accepted: bool = False
    fits: bool = False
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Match(Result):
    """The preview of a request at one moment; nothing is reserved. `manifest` is YAML."""

    name: str = ""
    devices: int = 0
    match: DeviceMatch = DeviceMatch()
    verdict: Verdict = Verdict()
    quota: tuple[QuotaLine, ...] = ()
    fits_quota: bool = True
    budget: tuple[BudgetLine, ...] = ()
    fits_budget: bool = True
    approval: Approval = Approval()
    manifest: str = ""
    problems: tuple[str, ...] = ()
    help: tuple[Help, ...] = ()
    alternatives: tuple[Suggestion, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether such a claim would be accepted and fits now: devices, quota, budget and policy."""
        return self.verdict.fits

    def __str__(self) -> str:
        free, matching = self.match.free, self.match.matching
        figures = "" if free is None else f"{free} of {matching} matching devices are free now."
        notes = [line.sentence for line in self.quota if not line.fits]
        notes += [line.sentence for line in self.budget if not line.fits]
        problem = "" if self.match.fits else self.match.problem
        said = (self.verdict.sentence, problem, figures, *notes, *self.problems, self.approval.sentence)
        return " ".join(dict.fromkeys(filter(None, said)))


@dataclass(frozen=True, kw_only=True)
class Snippet(Result):
    key: str
    title: str = ""
    language: str = ""
    text: str = ""
    group: str = ""
    filename: str = ""
    image: str = ""


@dataclass(frozen=True, kw_only=True)
class Manifest(Result):
    """The object that the portal creates (`yaml`, `manifest`), and snippets that use it."""

    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    yaml: str = field(default="", repr=False)
    snippets: tuple[Snippet, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Extension(Result):
    """A request for a later end; `status` is `waiting` until somebody decides."""

    id: str
    claim: str = ""
    until: datetime | None = None
    previous_end: datetime | None = None
    status: str = ""
    reason: str = ""
    decision_note: str = ""


@dataclass(frozen=True, kw_only=True)
class Point(Result):
    """One bin of a series; None is not measured, never 0."""

    at: datetime
    presence: str = ""
    activity: float | None = None
    activity_max: float | None = None
    sm_activity: float | None = None
    tensor_activity: float | None = None
    memory_activity: float | None = None
    memory_bytes: int | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    pcie_bytes: float | None = None
    nvlink_bytes: float | None = None
    temperature: float | None = None
    samples: int = 0
    expected: int = 0


@dataclass(frozen=True, kw_only=True)
class UseNow(Result):
    use: str = ""
    activity: float | None = None
    idle_since: datetime | None = None
    measured_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Usage(Result):
    """Utilization of a claim over time; `frame()` is a pandas DataFrame of it."""

    range: str = ""
    start: datetime | None = None
    end: datetime | None = None
    step_seconds: int = 0
    now: UseNow = UseNow()
    mean_activity: float | None = None
    peak_memory_bytes: int | None = None
    unmeasured_seconds: int = 0
    points: tuple[Point, ...] = ()

    def frame(self) -> Any:
        """Return a DataFrame with a row per bin, by time. Raises ImportError without pandas."""
        columns = [name for name in field_types(Point) if name != "at"]
        rows = [[getattr(point, name) for name in columns] for point in self.points]
        frame = data_frame(rows, columns, index=[point.at for point in self.points], name="at")
        return frame.astype(
            {name: float for name in columns if name not in ("presence", "samples", "expected")}
        )

    def _repr_html_(self) -> str:
        mean = "not measured" if self.mean_activity is None else f"{self.mean_activity:.0%} busy"
        try:
            return f"<p>{mean}</p>{self.frame()._repr_html_()}"
        except ImportError:
            return f"<p>{mean}, {len(self.points)} points; install pandas to see them as a table</p>"


@dataclass(frozen=True, kw_only=True)
class Money(Result):
    amount: Decimal
    currency: str


@dataclass(frozen=True, kw_only=True)
class Cost(Result):
    """Device hours and their price. Hours without amounts: no rate matches; they are not free."""

    device_hours: Decimal = Decimal(0)
    hours_without_rate: Decimal = Decimal(0)
    amounts: tuple[Money, ...] = ()

    def __str__(self) -> str:
        if not self.device_hours and not self.amounts:
            return "0 GPU-hours"
        money = " + ".join(f"{one.amount} {one.currency}" for one in self.amounts)
        without = f", {self.hours_without_rate} h without a rate" if self.hours_without_rate else ""
        return f"{money or 'no rate'} ({self.device_hours} GPU-hours{without})"


@dataclass(frozen=True, kw_only=True)
class Energy(Result):
    kilowatt_hours: float = 0.0
    estimated_kilowatt_hours: float = 0.0
    kilograms_co2: float | None = None


@dataclass(frozen=True, kw_only=True)
class ClaimCost(Result):
    """`per_hour` is of the devices held now, `projected` at the end of the claim; None if that is unknown."""

    so_far: Cost = Cost()
    per_hour: Cost = Cost()
    projected: Cost | None = None
    energy: Energy | None = None


@dataclass(frozen=True, kw_only=True)
class CostRow(Result):
    key: str = ""
    label: str = ""
    cost: Cost = Cost()
    corrects: str | None = None


@dataclass(frozen=True, kw_only=True)
class TeamCost(Result):
    """The month of a team (UTC); each of the three groupings adds up to `total`."""

    team: str = ""
    month: str = ""
    until: datetime | None = None
    total: Cost = Cost()
    corrections: Cost = Cost()
    closed_at: datetime | None = None
    energy: Energy | None = None
    by_claim: tuple[CostRow, ...] = ()
    by_person: tuple[CostRow, ...] = ()
    by_product: tuple[CostRow, ...] = ()

    def frame(self, by: str = "claim") -> Any:
        """Return a DataFrame by `claim`, `person` or `product`. Raises ImportError without pandas."""
        rows: tuple[CostRow, ...] = getattr(self, f"by_{by}")
        table = [
            [row.label, float(row.cost.device_hours), one and float(one.amount), one and one.currency]
            for row in rows
            for one in row.cost.amounts or (None,)
        ]
        return data_frame(
            table,
            ["label", "device_hours", "amount", "currency"],
            index=[row.key for row in rows for _one in row.cost.amounts or (None,)],
            name=by,
        )


@dataclass(frozen=True, kw_only=True)
class Pending(Result):
    """One request of the inbox."""

    id: str
    kind: str = ""
    title: str = ""
    summary: str = ""
    team: str = ""
    requested_by: str = ""
    requested_at: datetime | None = None
    age: str = ""
    mine: bool = False
    decision: str = ""
    claim: ClaimInfo | None = None


def data_frame(rows: list[list[Any]], columns: list[str], *, index: list[Any], name: str) -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("pandas is not installed: pip install 'dragoman-client[pandas]'") from None
    return pandas.DataFrame(rows, columns=columns, index=pandas.Index(index, name=name))
