"""The request form with alternatives and additional profiles, and the form for a manifest."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db.models import BooleanField, ExpressionWrapper, OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from claims.models import Claim, Profile, ProfileWaits, Quota, TeamNamespace
from claims.models.limits import MAX_DEVICES, Delivery
from claims.requests.cluster_choice import ClusterFit, cluster_fits
from claims.requests.manifest_specs import MAX_FILE_LENGTH
from core.inputs import DurationText
from core.prepared import PreparedObjects
from core.times import parse_duration, spell_duration
from core.yaml_documents import text_in
from inventory.models import Cluster
from teams.access import memberships_of, team_rows_where, teams_where
from teams.models import Role, Team, User


class KeyedField(forms.Field):
    """One of `rows`, which the form has read, by its text in the address; cleaned, the row."""

    rows: Mapping[str, Any] = {}

    def to_python(self, value: Any) -> Any:
        return None if value in self.empty_values else self.row(value)

    def row(self, value: Any) -> Any:
        if (row := self.rows.get(str(value))) is None:
            message = self.error_messages["invalid_choice"]
            raise ValidationError(message, code="invalid_choice", params={"value": value})
        return row


class OrderedProfilesField(KeyedField):
    """Profiles by slug in the order in which they were sent; cleaned, a list without duplicates."""

    def to_python(self, value: Any) -> list[Profile]:
        return [self.row(slug) for slug in dict.fromkeys(value or ())]


class ProfileCountsWidget(forms.MultipleHiddenInput):
    """Reads all values of `name` and `name_devices` as pairs of texts (slug, number)."""

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> list[tuple[str, str]]:
        if not isinstance(data, MultiValueDict):
            return []
        return profile_counts(data, name)


class ProfileCountsField(KeyedField):
    """Profiles, each with a number of devices; cleaned, a list of (profile, number)."""

    widget = ProfileCountsWidget

    def to_python(self, value: Any) -> list[tuple[Profile, int]]:
        rows = [(self.row(slug), count) for slug, count in value or ()]
        return [(profile, self.number(profile, count)) for profile, count in rows]

    def number(self, profile: Profile, text: str) -> int:
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_DEVICES:
            return int(text)
        raise ValidationError(
            f"{profile.title}: enter a number of devices from 1 to {MAX_DEVICES}, not “{text[:20]}”."
        )


def sent_profiles(data: QueryDict) -> set[str]:
    """Return the slugs of all profiles that a request names."""
    return {slug for name in ("profile", "alternatives", "together") for slug in data.getlist(name)}


def profile_counts(data: MultiValueDict[str, str], name: str) -> list[tuple[str, str]]:
    """Return (slug, number) of each row with a profile; a missing number is 1."""
    counts = data.getlist(f"{name}_devices")
    return [
        (slug, counts[place] if place < len(counts) else "1")
        for place, slug in enumerate(data.getlist(name))
        if slug
    ]


PRESETS = ("4h", "24h", "3d", "7d")
BEFORE_UNIT = re.compile(r"(?<=\d)(?=[a-z])")
CUSTOM = "other"
SELECTED = mark_safe(" selected")  # a constant
UNKNOWN_PROFILE = {
    "invalid_choice": "“%(value)s” cannot be requested: the profile does not exist, is retired, or is "
    "not open to your teams."
}
# RFC 1123 label: what the API server accepts as the name of the object.
DNS_LABEL = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "Use lower-case letters, digits and hyphens, at most 63, starting and ending with a letter or digit.",
)


@dataclass(frozen=True, slots=True)
class FormChoices:
    """What a person may select for a request, in three queries; read once for all forms of a page."""

    teams: Mapping[str, Team]  # in which they are a member, by slug
    profiles: Mapping[str, Profile]  # that are open to one of their teams, by slug; with their versions
    clusters: Mapping[str, Cluster]  # that are enabled and have a namespace of one of the teams, by name
    places: Collection[tuple[UUID, UUID]]  # of a team and a cluster where it has a namespace
    # Classes with quota by team, if they were read with the teams.
    classes: Mapping[UUID, Collection[str]] | None = None

    @classmethod
    def of(
        cls, user: User, teams: Iterable[Team] | None = None, *, slugs: Collection[str] | None = None
    ) -> FormChoices:
        """
        `teams` are those of which `user` is a member, if the caller has read them; only profiles with these
        `slugs` are read, all without.
        """
        classes = None
        if teams is None and slugs is None and user.is_superuser:
            teams = ALL_TEAMS.objects()
            classes = {team.pk: team.quota_classes for team in teams}  # type: ignore[attr-defined]
        elif teams is None:
            teams = teams_where(user, at_least=Role.MEMBER)
        if slugs is None:
            profiles = _profiles(is_admin=user.is_superuser).objects(user.pk)
        else:
            profiles = _profiles(is_admin=user.is_superuser, named=True).objects(user.pk, list(slugs))
        for profile in profiles:
            if profile.current is not None:
                profile.current.profile = profile
        clusters: list[Any] = _clusters(is_admin=user.is_superuser).objects(user.pk)
        return cls(
            {team.slug: team for team in teams},
            {profile.slug: profile for profile in profiles},
            {cluster.name: cluster for cluster in clusters if cluster.team_ids},
            {(team, cluster.pk) for cluster in clusters for team in cluster.team_ids},
            classes,
        )

    def team_clusters(self, team: Team) -> list[Cluster]:
        """Return the clusters in which the team has a namespace, by name."""
        return [cluster for cluster in self.clusters.values() if (team.pk, cluster.pk) in self.places]


def _all_teams() -> QuerySet[Team]:
    """Return the teams for which a platform admin may request, with the classes of their quotas."""
    quotas = Quota.objects.filter(team=OuterRef("pk"), devices__gt=0).exclude(device_class="").order_by()
    return Team.objects.active().annotate(quota_classes=ArraySubquery(quotas.values("device_class")))


ALL_TEAMS: PreparedObjects[Team] = PreparedObjects(_all_teams)


@cache
def _profiles(*, is_admin: bool, named: bool = False) -> PreparedObjects[Profile]:
    """
    Return the query of `FormChoices.profiles` for a person, if `named` only with some slugs.

    `allowed` are the teams to which a profile is restricted; `used` is whether a team of the person has live
    claims of it; `typical_wait` is the median time to the first device, and `usual_decision` that to the
    decision of a person, None if it is not known.
    """
    own = Claim.objects.live().order_by().values("profile_version__profile")
    waits = ProfileWaits.objects.filter(profile=OuterRef("pk"))

    def rows(person: UUID, slug: str = "") -> QuerySet[Profile]:
        visible = Profile.objects.visible_to(User(pk=person, is_superuser=is_admin))
        visible = visible.filter(retired_at=None, current__isnull=False)
        if named:
            visible = visible.filter(slug=slug)
        # By id: the rows of versions are too long to be compared with each other.
        by_id = Profile.objects.filter(pk__in=visible.order_by().values("pk")).select_related("current")
        allowed = Profile.teams.through._default_manager.filter(profile=OuterRef("pk")).values("team")
        used = Q(pk__in=own.filter(team__in=memberships_of(person).values("team")))
        return by_id.annotate(
            allowed=ArraySubquery(allowed),
            used=ExpressionWrapper(used, output_field=BooleanField()),
            typical_wait=Subquery(waits.values("device_median")[:1]),
            usual_decision=Subquery(waits.values("decision_median")[:1]),
        )

    if named:
        return PreparedObjects(rows, UUID, str, any_of="slug")
    return PreparedObjects(rows, UUID)


@cache
def _clusters(*, is_admin: bool) -> PreparedObjects[Cluster]:
    """Return the query of enabled clusters; `team_ids` are the teams of a person with a namespace there."""

    def rows(person: UUID) -> QuerySet[Cluster]:
        spaces = TeamNamespace.objects.filter(cluster=OuterRef("pk")).order_by()
        if not is_admin:
            reader = User(pk=person, is_superuser=False)
            spaces = spaces.filter(team__in=team_rows_where(reader, at_least=Role.MEMBER).order_by())
        return Cluster.objects.filter(enabled=True).annotate(team_ids=ArraySubquery(spaces.values("team")))

    return PreparedObjects(rows, UUID)


class RequestForm(forms.Form):
    """
    The fields of a request.

    `duration` is a preset or "other"; then `duration_other` has the duration. Cleaned, it is a timedelta.
    `cluster` is empty for any; cleaned, it is the one where the request fits best now.
    """

    profile = KeyedField(label="Profile", error_messages=UNKNOWN_PROFILE)
    alternatives = OrderedProfilesField(
        required=False,
        widget=forms.MultipleHiddenInput,
        label="Alternatives",
        error_messages=UNKNOWN_PROFILE,
    )
    together = ProfileCountsField(required=False, label="Additional devices", error_messages=UNKNOWN_PROFILE)
    devices = forms.IntegerField(min_value=1, max_value=MAX_DEVICES, initial=1, label="Devices")
    delivery = forms.ChoiceField(choices=Delivery, initial=Delivery.CLAIM, required=False, label="Delivery")
    parallel = forms.IntegerField(
        min_value=1, max_value=MAX_DEVICES, initial=1, required=False, label="Concurrent pods"
    )
    duration = forms.CharField(required=False, label="How long")
    duration_other = DurationText(required=False, label="Custom duration")
    team = KeyedField(
        label="Team", error_messages={"invalid_choice": "You cannot request GPUs for this team."}
    )
    cluster = KeyedField(
        required=False,
        label="Cluster",
        error_messages={"invalid_choice": "Your teams have no namespace in this cluster."},
    )
    name = forms.CharField(required=False, max_length=63, validators=[DNS_LABEL], label="Claim name")
    reason = forms.CharField(required=False, max_length=500, label="Purpose")
    key = forms.CharField(required=False, max_length=80, widget=forms.HiddenInput)
    replaces = forms.ModelChoiceField(
        Claim.objects.none(), required=False, widget=forms.HiddenInput, label="Replaces"
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        user: User,
        prefill: QueryDict | None = None,
        team: str = "",
        choices: FormChoices | None = None,
    ) -> None:
        """`team` is the team that the user has selected, used if the address has none."""
        super().__init__(data)
        self.choices = choices or FormChoices.of(user)
        rows = {
            "profile": self.choices.profiles,
            "alternatives": self.choices.profiles,
            "together": self.choices.profiles,
            "team": self.choices.teams,
            "cluster": self.choices.clusters,
        }
        for name, choice in rows.items():
            cast("KeyedField", self.fields[name]).rows = choice
        if data is None:
            self.initial = self.initial_values(prefill or QueryDict(), team)
        if self["replaces"].value():  # a platform admin has hundreds of teams
            replaceable = Claim.objects.filter(team__in=[row.pk for row in self.choices.teams.values()])
            replaces = cast("forms.ModelChoiceField[Claim]", self.fields["replaces"])
            replaces.queryset = replaceable.select_related("team", "profile_version__profile")

    def initial_values(self, prefill: QueryDict, team: str) -> dict[str, Any]:
        """Return the initial values: from the address, else the most likely value."""
        initial: dict[str, Any] = {name: prefill[name] for name in self.fields if name in prefill}
        if "alternatives" in initial:
            initial["alternatives"] = prefill.getlist("alternatives")
        if "together" in initial:
            initial["together"] = profile_counts(prefill, "together")
        if "team" not in initial and team in self.choices.teams:
            initial["team"] = team
        if "duration" in initial and initial["duration"] not in (*PRESETS, CUSTOM):
            initial |= {"duration_other": initial["duration"], "duration": CUSTOM}
        for first in list(self.choices.teams)[:1]:
            initial.setdefault("team", first)
        if len(self.choices.clusters) == 1:
            initial.setdefault("cluster", next(iter(self.choices.clusters)))
        initial.setdefault("key", str(uuid.uuid4()))
        return initial

    @property
    def team_options(self) -> SafeString:
        """The options of the list of teams; a platform admin has every team."""
        chosen = str(self["team"].value())
        return format_html_join(
            "",
            '<option value="{}"{}>{}</option>',
            (
                (slug, SELECTED if slug == chosen else "", team.title)
                for slug, team in self.choices.teams.items()
            ),
        )

    @property
    def replaced_claim(self) -> Claim | None:
        """The claim that the request replaces, if it belongs to a team of the user."""
        try:
            claim: Claim | None = self.fields["replaces"].clean(self["replaces"].value())
        except ValidationError:
            return None
        return claim

    def clean_delivery(self) -> str:
        return self.cleaned_data["delivery"] or Delivery.CLAIM

    def clean_parallel(self) -> int:
        return int(self.cleaned_data["parallel"] or 1)

    def clean_alternatives(self) -> list[Profile]:
        """Leave out the profile itself, which is tried first anyway."""
        chosen = self.cleaned_data.get("profile")
        return [profile for profile in self.cleaned_data["alternatives"] if profile != chosen]

    def clean_key(self) -> str:
        return self.cleaned_data["key"] or str(uuid.uuid4())

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned["duration"] = self.chosen_duration(cleaned)
        if cleaned.get("delivery") == Delivery.CLAIM:
            cleaned["parallel"] = 1
        team, cluster = cleaned.get("team"), cleaned.get("cluster")
        if team and cluster is None and "cluster" not in self.errors:
            cleaned["cluster"] = self.best_cluster(team, cleaned)
        elif team and cluster and (team.pk, cluster.pk) not in self.choices.places:
            here = ", ".join(
                team.namespaces.order_by("cluster__name").values_list("cluster__name", flat=True)
            )
            self.add_error(
                "cluster",
                f"{team} has no namespace in {cluster}. It works in: {here or 'no cluster yet'}.",
            )
        return cleaned

    def best_cluster(self, team: Team, cleaned: dict[str, Any]) -> Cluster | None:
        """Return the cluster of the team where the request fits best now."""
        clusters = self.choices.team_clusters(team)
        if not clusters:
            self.add_error(
                "cluster", f"{team} has no namespace in any cluster. Ask a platform admin for one."
            )
            return None
        if len(clusters) == 1 or not cleaned.get("profile"):
            return clusters[0]
        return self.fits[0].cluster

    @cached_property
    def fits(self) -> list[ClusterFit]:
        """The clusters of the team, the one where the request fits best first; none for a single cluster."""
        cleaned = self.cleaned_data
        clusters = self.choices.team_clusters(cleaned["team"])
        if len(clusters) < 2:
            return []
        return cluster_fits(
            clusters,
            first=(cleaned["profile"], cleaned.get("devices") or 1),
            alternatives=cleaned.get("alternatives") or (),
            together=cleaned.get("together") or (),
            claims=cleaned.get("parallel") or 1,
        )

    def chosen_duration(self, cleaned: dict[str, Any]) -> timedelta | None:
        """None means the default of the profile."""
        picked = cleaned.get("duration") or ""
        if picked and picked != CUSTOM:
            try:
                return parse_duration(picked)
            except ValueError:
                self.add_error("duration", "Enter a duration such as 24h, 3d or 1d 12h.")
                return None
        other: timedelta | None = cleaned.get("duration_other")
        if picked == CUSTOM and other is None and "duration_other" not in self.errors:
            self.add_error("duration_other", "Enter a duration, for example 36h or 5d.")
        return other

    def duration_choices(self) -> list[tuple[str, str, bool]]:
        """Return (value, text, is chosen) of each preset, with the default of the chosen profile."""
        chosen = str(self["duration"].value() or "")
        values = list(PRESETS)
        profile = self.chosen_profile()
        if profile is not None and profile.current is not None:
            default, longest = profile.current.default_duration, profile.current.max_duration
            values = [value for value in values if parse_duration(value) <= longest]
            if spell_duration(default) not in values:
                values.append(spell_duration(default))
            chosen = chosen or spell_duration(default)
        values.sort(key=parse_duration)
        rows = [(value, BEFORE_UNIT.sub(" ", value), value == chosen) for value in values]
        return [*rows, (CUSTOM, "Custom…", chosen not in values and bool(chosen))]

    def chosen_profile(self) -> Profile | None:
        """Return the selected profile, even if the form is invalid."""
        return self.choices.profiles.get(str(self["profile"].value()))


NOT_FIELDS = (
    "together_devices",
    "help",
    "draft",
    "more",
    "drop",
)  # parameters of the address that are not fields


def prefill_problems(prefill: QueryDict, *, user: User, choices: FormChoices | None = None) -> list[str]:
    """Return a sentence for each name and value of the address that the form cannot use."""
    form = RequestForm(prefill, user=user, choices=choices)
    form.is_valid()
    problems = [
        f"The form has no field “{name[:40]}”, which is in the address."
        for name in prefill
        if name not in form.fields and name not in NOT_FIELDS
    ]
    for name, errors in form.errors.items():
        if any(prefill.getlist(name)):
            problems += [f"{form.fields[name].label}: {error}" for error in errors]
    return problems


MAX_FILE_BYTES = 4 * MAX_FILE_LENGTH  # of UTF-8, in the worst case


class ManifestForm(forms.Form):
    """Cleaned, `manifest` is the text of the field or file, and `source` its name for a sentence."""

    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "dg-code"}),
        label="Manifest",
        help_text="Claims, templates, and pods of any kind, such as Job, Deployment or PyTorchJob.",
    )
    file = forms.FileField(required=False, label="Or a file")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        upload = cleaned.get("file")
        if not upload:  # False if the checkbox that clears the file was sent
            cleaned |= {"manifest": cleaned.get("text", ""), "source": "The text"}
        elif upload.size > MAX_FILE_BYTES:
            raise forms.ValidationError(
                f"{upload.name} has {upload.size} bytes; the limit is {MAX_FILE_BYTES}."
            )
        else:
            cleaned |= {"manifest": self._decoded(upload), "source": upload.name}
        if not str(cleaned["manifest"]).strip():
            raise forms.ValidationError("Paste a manifest or choose a file.")
        return cleaned

    def _decoded(self, upload: Any) -> str:
        try:
            return text_in(upload.read())
        except UnicodeDecodeError:
            raise forms.ValidationError(f"{upload.name} is not a text file.") from None
