"""
`manage.py recompute [SUBJECT …]`: compute stored rows again, and repair those that differ.

With `--check` nothing is changed, and the exit code is 1 if rows differ.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from claims.approvals import pending
from claims.catalogue import availability, waits
from claims.models import ClaimCharge, DailyWaits, PendingDecision, ProfileAvailability
from claims.observation import ownership
from claims.quotas import class_use
from core.models import RowDifferences
from core.text import counted
from inventory import counts, device_search
from inventory.models import Cluster, Device
from usage import daily


class Comparison(NamedTuple):
    compared: str  # such as "6 undecided requests"
    differences: RowDifferences | int


def _fleet(*, check: bool) -> Comparison:
    differing = counts.find_differences() if check else counts.store_counts(changed_only=False)
    return Comparison(counted(Cluster.objects.count(), "cluster"), differing)


def _search(*, check: bool) -> Comparison:
    differences = device_search.find_differences() if check else device_search.refresh()
    return Comparison(counted(Device.objects.present().count(), "device"), differences)


def _ownership(*, check: bool) -> Comparison:
    differences = ownership.find_differences() if check else ownership.refresh()
    objects = sum(model._default_manager.filter(gone_at=None).count() for model in ownership.MODELS)
    return Comparison(counted(objects, "object"), differences)


def _availability(*, check: bool) -> Comparison:
    differences = availability.find_differences() if check else availability.recompute()
    rows = ProfileAvailability.objects.count()
    return Comparison(counted(rows, "profile in a cluster", "profiles in clusters"), differences)


def _waits(*, check: bool) -> Comparison:
    differences = waits.find_differences() if check else waits.refresh()
    days = DailyWaits.objects.count()
    return Comparison(
        counted(days, "day of a profile in a cluster", "days of profiles in clusters"), differences
    )


def _charges(*, check: bool) -> Comparison:
    return Comparison(counted(ClaimCharge.objects.count(), "charge"), class_use.repair(check=check))


def _decisions(*, check: bool) -> Comparison:
    differences = pending.find_differences() if check else pending.refresh()
    return Comparison(counted(PendingDecision.objects.count(), "undecided request"), differences)


def _spend(*, check: bool) -> Comparison:
    """Compare the days that have rows; without `check`, also store the past days that have none."""
    differences = daily.refresh_all(check=check)
    if not check:
        daily.store_days(now=timezone.now())
    until = daily.stored_until()
    return Comparison(f"days before {until}" if until else "no days", differences)


SUBJECTS: dict[str, tuple[Callable[..., Comparison], str]] = {
    "fleet": (_fleet, "devices of each cluster, counted"),
    "search": (_search, "the words of devices, by ResourceSlice"),
    "ownership": (_ownership, "whether a mirrored object is of a claim of the portal"),
    "availability": (_availability, "what each cluster has for each profile"),
    "waits": (_waits, "how long requests for each profile waited in the past 30 days"),
    "charges": (_charges, "which charges are live, and their sums per class"),
    "decisions": (_decisions, "who decides on each undecided request"),
    "spend": (_spend, "use and cost of past days"),
}


class Command(BaseCommand):
    help = "Compute stored rows again, and repair those that differ: " + "; ".join(
        f"{name} ({text})" for name, (_recompute, text) in SUBJECTS.items()
    )

    def add_arguments(self, parser: CommandParser) -> None:
        names = ", ".join(SUBJECTS)
        parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"{names}; default: all of them")
        parser.add_argument("--check", action="store_true", help="Only compare; exit code 1 if rows differ.")

    def handle(self, *args: Any, **options: Any) -> None:
        subjects: list[str] = options["subjects"] or list(SUBJECTS)
        if unknown := [name for name in subjects if name not in SUBJECTS]:
            raise CommandError(f"Unknown: {', '.join(unknown)}. Subjects are {', '.join(SUBJECTS)}.")
        differing = [name for name in subjects if self._recompute(name, check=options["check"])]
        if options["check"] and differing:
            raise CommandError(f"Stored rows differ. Repair them: manage.py recompute {' '.join(differing)}")

    def _recompute(self, name: str, *, check: bool) -> int:
        """Repair or only compare the rows of one subject, print the result, and return how many differ."""
        recompute, _text = SUBJECTS[name]
        compared, differences = recompute(check=check)
        if isinstance(differences, int):
            total, kinds = differences, ""
        else:
            total, kinds = differences.total, f": {differences}" if differences.total else ""
        rows = f"{counted(total, 'row')} {'to repair' if check else 'repaired'}"
        self.stdout.write(f"{name}: {compared}, {rows}{kinds}.")
        return total
