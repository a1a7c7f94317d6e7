"""
The installation as a whole: the steps until teams can request, its settings, and a test email.

Name, logo, currency and time zone are changed here. The other settings come from the environment; the page
shows them with their variables, and no secret.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.postgres.aggregates import ArrayAgg
from django.contrib.postgres.expressions import ArraySubquery
from django.core.files.uploadedfile import UploadedFile
from django.core.validators import RegexValidator
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.catalogue.presets.matches import PresetMatch, preset_matches
from claims.models import Profile, Quota, TeamNamespace
from core.models import Installation
from core.prepared import Prepared
from core.text import counted
from core.times import duration
from core.transactions import service
from inventory.models import Cluster, Device, DeviceClass
from notify.mail import send_now
from teams.access import require_admin, user_of
from teams.identity.services import set_password_sign_in
from teams.models import Invitation, Team, User, record_change, recorded_changes
from teams.sessions import installation_for
from teams.views import redirect_back
from teams.zones import zone_choices

CHANGES = 10
CHOSEN = ("name", "currency", "timezone", "second_factor")
NAMES = {"second_factor": "second factor required of"}  # in the record of changes
NAMED = 4  # clusters that are read to name three
PNG = b"\x89PNG\r\n\x1a\n"
MAX_LOGO, MAX_PIXELS = 64 * 1024, 1024  # bytes, and pixels of a side


@dataclass(frozen=True, slots=True)
class SetupStep:
    """
    One step. `fact` is what there is, "" while the step is not done; `url` is the page on which it is taken,
    or changed once it is done. `minutes` is how long it takes.
    """

    key: str
    title: str
    text: str
    action: str
    url: str
    fact: str
    minutes: int
    skipped: bool = False

    @property
    def is_done(self) -> bool:
        return bool(self.fact)


@dataclass(frozen=True, slots=True)
class Setup:
    steps: list[SetupStep]

    @property
    def done(self) -> int:
        return sum(step.is_done for step in self.steps)

    @property
    def left(self) -> list[SetupStep]:
        """The steps that are neither done nor skipped."""
        return [step for step in self.steps if not step.is_done and not step.skipped]

    @property
    def is_done(self) -> bool:
        return not self.left

    @property
    def skipped(self) -> int:
        return sum(step.skipped and not step.is_done for step in self.steps)

    @property
    def minutes(self) -> int:
        return sum(step.minutes for step in self.left)

    @property
    def next(self) -> SetupStep | None:
        return next(iter(self.left), None)


def _state(person: UUID) -> QuerySet[User, Any]:
    """Return the query of one row with what each step depends on."""
    clusters = Cluster.objects.order_by("name")
    teams = Team.objects.active().order_by("slug")
    placed = teams.filter(Exists(TeamNamespace.objects.filter(team=OuterRef("pk"))))
    limited = placed.filter(Exists(Quota.objects.filter(team=OuterRef("pk"), devices__gt=0)))
    return User.objects.filter(pk=person).values_list(
        ArraySubquery(clusters.values("name")[:NAMED]),
        ArraySubquery(clusters.exclude(prometheus_url="", metrics_url="").values("name")[:NAMED]),
        number_of(Profile.objects.filter(retired_at=None, current__isnull=False)),
        Subquery(teams.values("slug")[:1]),
        Subquery(placed.values("slug")[:1]),
        number_of(limited),
        number_of(User.objects.filter(is_active=True).exclude(pk=person)),
        number_of(Invitation.objects.open()),
        Subquery(Installation.objects.values("skipped_steps")[:1]),
    )


def number_of(rows: QuerySet[Any]) -> Subquery:
    """Return the number of rows as an expression; NULL for none."""
    return Subquery(
        rows.order_by().annotate(all=Value(1)).values("all").annotate(number=Count("*")).values("number")
    )


STATE = Prepared(_state, UUID)


def setup_of(user: User) -> Setup:
    """Return the steps with their state, in one query."""
    ((names, measured, profiles, team, team_with_namespace, ready_teams, people, invited, skipped),) = (
        STATE.rows(user.pk)
    )
    return Setup(
        [
            replace(step, skipped=step.key in (skipped or ()))
            for step in (
                SetupStep(
                    "cluster",
                    "Cluster",
                    "Permissions, credentials, and a check of each permission.",
                    "Add a cluster",
                    reverse("inventory:clusters") if names else reverse("setup:cluster_add"),
                    named(names),
                    3,
                ),
                SetupStep(
                    "telemetry",
                    "Telemetry",
                    "Prometheus or dcgm-exporter: without it nobody sees which devices are idle.",
                    "Set the address",
                    reverse("setup:cluster", args=names[:1]) if names else reverse("setup:cluster_add"),
                    named(measured),
                    2,
                ),
                SetupStep(
                    "profiles",
                    "Profiles",
                    "What people request instead of YAML; presets are compared with your devices.",
                    "Choose presets",
                    reverse("claims:profiles" if profiles else "claims:presets"),
                    counted(profiles, "profile") if profiles else "",
                    2,
                ),
                team_step(team, team_with_namespace, ready_teams or 0),
                SetupStep(
                    "people",
                    "People",
                    "Invite them by email; they choose their own password.",
                    "Invite",
                    reverse("setup:people" if people or invited else "setup:person_invite"),
                    ", ".join(
                        filter(
                            None,
                            (
                                people and counted(people, "other person", "other people"),
                                invited and f"{invited} invited",
                            ),
                        )
                    ),
                    1,
                ),
            )
        ]
    )


def named(names: list[str]) -> str:
    """Return "fra-1, lab-2", or "fra-1, lab-2, lab-3 and more"."""
    *first, last = names if len(names) == NAMED else [*names, ""]
    return f"{', '.join(first)}{' and more' if last else ''}"


def team_step(team: str | None, placed: str | None, ready: int) -> SetupStep:
    """Return the step of the first team, which leads to what it lacks: namespace, then quota."""
    action, url = "Create a team", reverse("setup:team_new")
    if ready:
        action, url = "Show the teams", reverse("setup:teams")
    elif placed:
        action, url = "Set a quota", f"{reverse('claims:quotas')}?team={placed}"
    elif team:
        action, url = "Give it a namespace", reverse("setup:team", args=[team])
    return SetupStep(
        "team",
        "Team",
        "Its namespace in each cluster, and how many devices it may hold.",
        action,
        url,
        f"{counted(ready, 'team')} with namespace and quota" if ready else "",
        2,
    )


@require_safe
def setup_page(request: HttpRequest) -> HttpResponse:
    """Show the steps, one of them open: the next, or that of `?step=`."""
    user = user_of(request)
    require_admin(user)
    setup, wanted = setup_of(user), request.GET.get("step", "")
    opened = next((step for step in setup.steps if step.key == wanted), setup.next)
    page = {
        "setup": setup,
        "opened": opened,
        "presets": preset_choices() if opened and opened.key == "profiles" else None,
    }
    return render(request, "setup/setup.html", page)


@dataclass(frozen=True, slots=True)
class PresetChoices:
    """The presets that match devices, those of most devices first, and how many match nothing."""

    matching: list[tuple[PresetMatch, int]]
    unmatched: int
    devices: int

    @property
    def number(self) -> int:
        return len(self.matching) + self.unmatched


def preset_choices() -> PresetChoices:
    """Compare the presets with the devices; only for a portal without profiles, so rarely."""
    matches = [(match, sum(filter(None, match.counts.values()))) for match in preset_matches()]
    matching = sorted(
        ((match, count) for match, count in matches if count), key=lambda row: (-row[1], row[0].preset.slug)
    )
    devices = Device.objects.present().count()
    return PresetChoices(matching, len(matches) - len(matching), devices)


@require_POST
def setup_skip(request: HttpRequest) -> HttpResponse:
    """Leave a step out, or with `skip` "0" take it up again; for all platform admins."""
    user, step = user_of(request), request.POST.get("step", "")
    require_admin(user)
    if step not in {one.key for one in setup_of(user).steps}:
        raise Http404
    skips = request.POST.get("skip") != "0"
    with transaction.atomic():
        row = _locked_installation()
        steps = [key for key in row.skipped_steps if key != step] + [step] * skips
        if sorted(steps) != sorted(row.skipped_steps):
            Installation.objects.filter(pk=1).update(skipped_steps=steps)
            record_change(by=user, of=row, change=f"setup: {step} {'skipped' if skips else 'taken up again'}")
    return redirect_back(request, reverse("setup:setup"))


@require_POST
def setup_hide(request: HttpRequest) -> HttpResponse:
    """Show the steps on Home no more; the settings lead to them."""
    user = user_of(request)
    require_admin(user)
    User.objects.filter(pk=user.pk).update(hides_setup=True)
    messages.success(request, "Hidden. Settings → Setup shows the steps again.")
    return redirect("home")


class InstallationForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic while it runs
    """What platform admins choose; a logo that is not given stays as it is."""

    currency = forms.CharField(
        label="Currency",
        min_length=3,
        max_length=3,
        validators=[RegexValidator("^[A-Za-z]{3}$", "Three letters, such as EUR (ISO 4217).")],
        help_text="Offered for a new rate. Rates keep the currency that they have.",
    )
    timezone = forms.ChoiceField(
        label="Time zone",
        required=False,
        choices=lambda: zone_choices(f"{settings.TIME_ZONE} (TIME_ZONE)"),
        help_text="For readers who chose none and whose browser sends none.",
    )
    file = forms.FileField(
        label="Logo",
        required=False,
        widget=forms.FileInput({"accept": "image/png"}),
        help_text=f"A PNG of at most {MAX_LOGO // 1024} KiB. It is shown 20 pixels high.",
    )
    removes_logo = forms.BooleanField(label="Show the logo of Dragoman again", required=False)

    class Meta:
        model = Installation
        fields = ("name", "currency", "timezone", "second_factor")
        labels = {"name": "Name", "second_factor": "Require two-factor for"}
        help_texts = {
            "name": "In the sidebar, in titles of pages and in invitations.",
            "second_factor": "Of people who sign in with a password of this portal. Whoever lacks one sets "
            "it up before anything else. API tokens keep working.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not self.instance.logo_digest:
            del self.fields["removes_logo"]

    def clean_currency(self) -> str:
        return str(self.cleaned_data["currency"]).upper()

    def clean_file(self) -> bytes | None:
        upload: UploadedFile[bytes] | None = self.cleaned_data["file"]
        return None if upload is None else read_logo(upload)


def read_logo(upload: UploadedFile[bytes]) -> bytes:
    """Return a PNG, after its size and its header (RFC 2083 §3.1, §4.1.1). Raises forms.ValidationError."""
    if (upload.size or 0) > MAX_LOGO:
        raise forms.ValidationError(f"The file is larger than {MAX_LOGO // 1024} KiB.")
    image = bytes(upload.read())
    if not image.startswith(PNG) or image[12:16] != b"IHDR" or len(image) < 24:
        raise forms.ValidationError("The file is not a PNG.")
    width, height = struct.unpack(">II", image[16:24])
    if not 0 < max(width, height) <= MAX_PIXELS:
        raise forms.ValidationError(
            f"It has {width} × {height} pixels; at most {MAX_PIXELS} a side are stored."
        )
    return image


def _locked_installation() -> Installation:
    """Lock the row, so that what is recorded as the old value is what was there."""
    row, _created = Installation.objects.select_for_update().defer("logo").get_or_create(pk=1)
    return row


def save_installation(
    *,
    by: User,
    name: str | None = None,
    currency: str | None = None,
    timezone: str | None = None,
    logo: bytes | None = None,
    second_factor: str | None = None,
    password_sign_in: bool | None = None,
) -> None:
    """Save the settings and record what changes; what is None stays, an empty logo is removed."""
    values: dict[str, Any] = {
        "name": name, "currency": currency, "timezone": timezone, "second_factor": second_factor
    }  # fmt: skip
    values = {key: value for key, value in values.items() if value is not None}
    if logo is not None:
        values["logo_digest"] = hashlib.sha256(logo).hexdigest()[:16] if logo else ""
    with service:
        if password_sign_in is not None:
            set_password_sign_in(by=by, allowed=password_sign_in)
        old = _locked_installation()
        changed = {key: value for key, value in values.items() if getattr(old, key) != value}
        if not changed:
            return
        rows = [
            (NAMES.get(key, key), getattr(old, key) or "none", value or "none")
            for key, value in changed.items()
            if key != "logo_digest"
        ]
        changes = [f"{key} {before} → {after}" for key, before, after in rows]
        changes += ["logo"] if "logo_digest" in changed else []
        if logo is not None:
            values["logo"] = logo
        Installation.objects.filter(pk=1).update(**values)
        record_change(by=by, of=old, change=", ".join(changes), values=rows)


@login_not_required
@require_safe
def logo(request: HttpRequest) -> HttpResponse:
    """Return the logo, which the page of the sign-in shows too; its address has its digest."""
    image = Installation.objects.exclude(logo_digest="").values_list("logo", flat=True).first()
    if image is None:
        raise Http404
    response = HttpResponse(bytes(image), content_type="image/png")
    response["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@dataclass(frozen=True, slots=True)
class Setting:
    label: str
    value: str
    variable: str
    text: str = ""


def shown_settings() -> list[Setting]:
    """Return the settings that people ask about, without secrets; docs/deployment.md has them all."""
    mail = urlsplit(settings.MAIL_URL)
    return [
        Setting("Address", settings.PORTAL_URL, "PORTAL_URL", "The base of links in emails."),
        Setting("Grafana", settings.GRAFANA_URL, "GRAFANA_URL", "Pages link to its dashboards."),
        Setting(
            "Email server",
            mail.hostname or "",
            "EMAIL_URL",
            "Without it, notices are only in the portal.",
        ),
        Setting("Email from", settings.DEFAULT_FROM_EMAIL, "EMAIL_FROM"),
        Setting(
            "Undecided requests expire",
            f"after {duration(settings.REQUEST_TTL)}",
            "REQUEST_TTL_DAYS",
            "Until then they reserve quota.",
        ),
        Setting(
            "A cluster is stale", f"after {settings.STALE_AFTER.total_seconds():.0f} s", "STALE_AFTER_SECONDS"
        ),
        Setting(
            "Requests per person",
            f"{settings.PAGE_RATE} pages, {settings.API_RATE} API",
            "PAGE_RATE, API_RATE",
        ),
        Setting("Requests per API token", settings.API_TOKEN_RATE, "API_TOKEN_RATE"),
    ]


def device_classes() -> list[dict[str, Any]]:
    """Return each DeviceClass with its clusters, extended resources and number of quotas; two queries."""
    classes = (
        DeviceClass.objects.filter(gone_at=None)
        .order_by("name")
        .values("name")
        .annotate(
            clusters=ArrayAgg("cluster__name", distinct=True, order_by="cluster__name"),
            resources=ArrayAgg(
                "extended_resource", distinct=True, filter=~Q(extended_resource=""), default=[]
            ),
        )
    )
    quotas = dict(
        Quota.objects.exclude(device_class="").order_by().values_list("device_class").annotate(Count("pk"))
    )
    return [{**row, "quotas": quotas.get(row["name"], 0)} for row in classes]


@require_http_methods(["GET", "HEAD", "POST"])
def settings_page(request: HttpRequest) -> HttpResponse:
    """Show the settings and the device classes; POST changes what platform admins choose."""
    by = user_of(request)
    require_admin(by)
    installation = Installation.load()
    form = InstallationForm(request.POST or None, request.FILES or None, instance=installation)
    if request.method == "POST" and form.is_valid():
        values = {name: form.cleaned_data[name] for name in CHOSEN}
        image = b"" if form.cleaned_data.get("removes_logo") else form.cleaned_data["file"]
        save_installation(by=by, logo=image, **values)
        messages.success(request, "Settings saved.")
        return redirect("setup:settings")
    page = {
        "form": form,
        "settings": shown_settings(),
        "classes": device_classes(),
        "sends_mail": bool(settings.MAIL_URL),
        "changes": recorded_changes(installation)[:CHANGES],
    }
    return render(request, "setup/settings.html", page, status=422 if form.errors else 200)


@require_POST
def send_test_mail(request: HttpRequest) -> HttpResponse:
    """Send a mail to the reader, and say what the server answered."""
    user = user_of(request)
    require_admin(user)
    problem = "Your account has no email address."
    if user.email:
        name = installation_for(request).name
        body = f"{user.label} has sent this from the settings of {name}. Email works."
        problem = send_now(to=user.email, subject=f"Test email of {name}", body=body)
    if problem:
        messages.error(request, problem)
    else:
        messages.success(request, f"The email server accepted a test email to {user.email}.")
    return redirect("setup:settings")
