"""Many profiles at once, from a file or from those that come with the portal: all of them or none."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from claims.catalogue.files import Entry
from claims.catalogue.plan import RETIRED, Change, digest_of, plan_of
from claims.models import Profile
from claims.services.profiles import problems_of, write_profile
from core.errors import Conflict, Invalid
from teams.access import require_admin
from teams.models import Team, User


def plan_import(*, by: User, entries: Sequence[Entry], prune: bool = False) -> list[Change]:
    """
    Return what `import_profiles` would do; write nothing.

    Raises Forbidden, and Invalid whose `problems` each name file and line.
    """
    require_admin(by)
    problems = [
        f"{entry.place()}: {problem}"
        for entry in entries
        for problem in problems_of(entry.slug, entry.title, entry.spec, entry.limits)
    ]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)
    return plan_of(entries, prune=prune)


def import_profiles(
    *, by: User, entries: Sequence[Entry], prune: bool = False, seen: str = ""
) -> list[Change]:
    """
    Make the catalogue what the file says, and return the plan as carried out; twice is once.

    Another spec or limit makes a version. With `prune` profiles that the file does not have are retired.
    `seen` is the digest of the plan that somebody agreed to. Raises Forbidden, Invalid with all problems, and
    Conflict if the catalogue is no longer the one of that plan.
    """
    return _import(by, entries, prune=prune, seen=seen, only_new=False)


def add_profiles(*, by: User, entries: Sequence[Entry]) -> list[Change]:
    """
    Add the profiles whose short names nobody has used yet, and return those; others stay as they are.

    Raises Forbidden, Invalid with all problems, Conflict.
    """
    return _import(by, entries, prune=False, seen="", only_new=True)


def _import(by: User, entries: Sequence[Entry], *, prune: bool, seen: str, only_new: bool) -> list[Change]:
    try:
        with transaction.atomic(durable=True):
            known = Profile.objects.select_for_update(no_key=True).order_by("pk")
            taken = set(known.values_list("slug", flat=True))
            wanted = [entry for entry in entries if not only_new or entry.slug not in taken]
            changes = plan_import(by=by, entries=wanted, prune=prune)
            if seen and digest_of(changes) != seen:
                raise Conflict(
                    _("The catalogue has changed since you looked. Look again at what the import does.")
                )
            _write(changes, by)
    except IntegrityError as error:
        raise Conflict(_("Somebody else made one of these profiles meanwhile. Try again.")) from error
    return changes


def _write(changes: Sequence[Change], by: User) -> None:
    teams = {team.slug: team for team in Team.objects.all()}
    for change in changes:
        if change.kind == RETIRED:
            Profile.objects.filter(slug=change.slug, retired_at=None).update(retired_at=Now())
        elif change.entry and change.changes_something:
            write_profile(
                by=by,
                profile=change.profile,
                slug=change.entry.slug,
                title=change.entry.title,
                use=change.entry.use,
                teams=[teams[slug] for slug in change.entry.teams],
                spec=change.entry.spec,
                limits=change.entry.limits,
            )
