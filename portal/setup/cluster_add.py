"""
Add a cluster: permissions, credentials, check, telemetry and namespaces, four steps on one page.

"Check" keeps what was typed as a draft in the session of the admin, with the credentials encrypted as those
of a cluster are, and shows what works. "Add" checks once more, and adds the cluster if nothing has failed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.datastructures import MultiValueDict
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from claims.quotas.namespaces import set_namespace
from cluster.checkup import CheckupFinding, CheckupVerdict
from cluster.credentials import Credentials, seal, unseal
from core.errors import Conflict, Invalid, PortalError
from core.inputs import validate_name
from core.text import counted
from core.transactions import service
from inventory.clusters import ClusterPreview, add_cluster, preview_cluster
from portal.setup.clusters import SCOPES, SECRETS, CredentialsForm, title_field
from portal.setup.telemetry_form import source_address
from teams.access import require_admin, user_of
from teams.models import Team, User

DRAFT = "cluster_draft"  # in the session
SHOWN_TEAMS = 20
READ_ONLY = "read-only"


@dataclass(slots=True)
class ClusterDraft:
    """A cluster that was checked and is not added; `sealed` are its credentials as a cluster has them."""

    name: str
    title: str
    scope: str
    prometheus_url: str
    sealed: str
    checked_at: datetime
    findings: list[CheckupFinding]
    preview: ClusterPreview
    namespaces: dict[str, str] = field(default_factory=dict)  # by team

    @classmethod
    def load(cls, request: HttpRequest) -> ClusterDraft | None:
        """Return the draft of this session; None without one, or if an earlier version has stored it."""
        stored = request.session.get(DRAFT)
        try:
            return stored and cls(
                **{
                    **stored,
                    "checked_at": datetime.fromisoformat(stored["checked_at"]),
                    "findings": [
                        CheckupFinding(CheckupVerdict(row[0]), *row[1:]) for row in stored["findings"]
                    ],
                    "preview": ClusterPreview(**stored["preview"]),
                }
            )
        except (KeyError, TypeError, ValueError):
            return None

    def store(self, request: HttpRequest) -> None:
        request.session[DRAFT] = asdict(self) | {
            "checked_at": self.checked_at.isoformat(),
            "findings": [(row.verdict, row.subject, row.detail, row.remedy) for row in self.findings],
        }

    @property
    @sensitive_variables()
    def credentials(self) -> Credentials | None:
        """Return the credentials, None if the key that encrypted them is gone."""
        try:
            return unseal(base64.b64decode(self.sealed))
        except Invalid:
            return None

    @property
    def failed(self) -> list[CheckupFinding]:
        return [row for row in self.findings if row.verdict == CheckupVerdict.BAD]

    @property
    def notes(self) -> list[CheckupFinding]:
        return [row for row in self.findings if row.verdict == CheckupVerdict.NOTE]

    @property
    def passed(self) -> list[CheckupFinding]:
        return grouped(row for row in self.findings if row.verdict == CheckupVerdict.GOOD)

    @property
    def numbers(self) -> str:
        """Return "34 passed, 1 failed, 2 notes"."""
        parts = [f"{len(self.findings) - len(self.failed) - len(self.notes)} passed"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [counted(len(self.notes), "note")] if self.notes else []
        return ", ".join(parts)

    @property
    def lacks_permissions(self) -> bool:
        return any(row.detail == "missing" for row in self.failed)

    @property
    def has_permissions(self) -> bool:
        return not self.lacks_permissions and any(row.detail == "allowed" for row in self.findings)

    @property
    def may_be_read_only(self) -> bool:
        """Whether all that failed is needed only to write."""
        verbs = ("create ", "patch ", "delete ")
        return bool(self.failed) and all(
            row.detail == "missing" and row.subject.startswith(verbs) for row in self.failed
        )


def grouped(findings: Iterable[CheckupFinding]) -> list[CheckupFinding]:
    """Return the findings with one row for the permissions that have the same verbs."""
    verbs: dict[str, list[str]] = {}
    others = []
    for row in findings:
        verb, _space, resource = row.subject.partition(" ")
        if row.detail == "allowed":
            verbs.setdefault(resource, []).append(verb)
        else:
            others.append(row)
    resources: dict[str, list[str]] = {}
    for resource, of_resource in verbs.items():
        resources.setdefault(", ".join(of_resource), []).append(resource)
    return others + [
        CheckupFinding(CheckupVerdict.GOOD, subject, ", ".join(names)) for subject, names in resources.items()
    ]


class ClusterForm(CredentialsForm):
    """Everything that is typed; credentials may be left out once a draft has them."""

    field_order = ("name", "title", "scope")

    name = forms.CharField(
        label="Name",
        max_length=40,
        validators=[validate_name],
        help_text="Lower-case letters, digits and hyphens. It cannot be changed later.",
    )
    title = title_field()
    scope = forms.ChoiceField(choices=[(key, scope.label) for key, scope in SCOPES.items()], required=False)
    prometheus_url = source_address(
        "Prometheus", "Such as http://prometheus.monitoring:9090. Empty: set it later."
    )

    def clean_scope(self) -> str:
        return str(self.cleaned_data["scope"]) or "full"


def form_of(
    draft: ClusterDraft | None,
    data: QueryDict | None = None,
    files: MultiValueDict[str, Any] | None = None,
    *,
    scope: str = "",
) -> ClusterForm:
    names = ("name", "title", "scope", "prometheus_url")
    initial = {name: getattr(draft, name) for name in names} if draft else {"scope": scope or "full"}
    form = ClusterForm(data, files, initial=initial)
    form.kept = draft.credentials if draft else None
    return form


@sensitive_post_parameters(*SECRETS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def cluster_add(request: HttpRequest) -> HttpResponse:
    """Show the steps; POST checks, adds, or discards the draft, as `do` says; without it, it adds."""
    by = user_of(request)
    require_admin(by)
    if "download" in request.GET:
        return manifest_file(request.GET.get("scope", ""), review_tokens="tokens" in request.GET)
    draft, do = ClusterDraft.load(request), request.POST.get("do", "add")
    if request.method != "POST":
        return add_page(request, form_of(draft, scope=request.GET.get("scope", "")), draft)
    if do == "discard":
        request.session.pop(DRAFT, None)
        return redirect("setup:cluster_add")
    form = form_of(draft, request.POST, request.FILES)
    if not form.is_valid():
        return add_page(request, form, draft, status=422)
    scope = READ_ONLY if do == READ_ONLY else form.cleaned_data["scope"]
    checked = check(form, scope, namespaces_of(request.POST))
    checked.store(request)
    if do == "check":
        return redirect(f"{reverse('setup:cluster_add')}#check")
    problem = add(checked, form, by)
    if problem is not None:
        form = form_of(checked)
        return add_page(request, form, checked, refusal=problem.message, status=problem.status)
    request.session.pop(DRAFT, None)
    messages.success(request, f"{checked.name} is connected. Its devices appear within a minute.")
    return redirect("setup:cluster", checked.name)


def manifest_file(scope: str, *, review_tokens: bool) -> HttpResponse:
    scope = scope if scope in SCOPES else "full"
    content = SCOPES[scope].manifest_with(review_tokens=review_tokens)
    response = HttpResponse(content, content_type="application/yaml")
    name = f"dragoman-{scope}{'-tokens' if review_tokens else ''}.yaml"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@sensitive_variables()
def check(form: ClusterForm, scope: str, namespaces: dict[str, str]) -> ClusterDraft:
    """Connect, and return the draft with what was found."""
    fields, wanted = form.cleaned_data, SCOPES[scope]
    credentials: Credentials = fields["credentials"]
    findings, preview = preview_cluster(
        credentials,
        read_only=wanted.read_only,
        write_quotas=wanted.write_quotas,
        evict_pods=wanted.evict_pods,
    )
    return ClusterDraft(
        fields["name"],
        fields["title"],
        scope,
        fields["prometheus_url"],
        base64.b64encode(seal(credentials)).decode(),
        timezone.now(),
        findings,
        preview,
        namespaces,
    )


@sensitive_variables()
def add(draft: ClusterDraft, form: ClusterForm, by: User) -> PortalError | None:
    """Add the cluster of a draft; return why not, None if it was added."""
    if draft.failed:
        first = draft.failed[0]
        return Conflict(f"{counted(len(draft.failed), 'check')} failed: {first.subject}: {first.detail}")
    credentials = form.cleaned_data["credentials"]
    columns = {"title": draft.title, "prometheus_url": draft.prometheus_url} | SCOPES[draft.scope].modes
    try:
        add_with_namespaces(draft, credentials, by, columns)
    except PortalError as refusal:
        return refusal
    except ValidationError as refusal:
        return Invalid(" ".join(refusal.messages))
    return None


def namespaces_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the namespaces that were typed, by team."""
    prefix = "namespace-"
    return {
        key.removeprefix(prefix): str(value).strip()
        for key, value in data.items()
        if key.startswith(prefix) and str(value).strip()
    }


@sensitive_variables()
@service
def add_with_namespaces(
    draft: ClusterDraft, credentials: Credentials, by: User, columns: dict[str, Any]
) -> None:
    """Add the cluster with the namespaces of the teams. Raises as the services do: then there is none."""
    cluster = add_cluster(name=draft.name, credentials=credentials, by=by, **columns)
    for team in Team.objects.active().filter(slug__in=draft.namespaces):
        set_namespace(by=by, team=team, cluster=cluster, namespace=draft.namespaces[team.slug])


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A team and its namespace in the new cluster; `exists` is None before the check."""

    team: Team
    namespace: str
    exists: bool | None


def team_rows(draft: ClusterDraft | None, typed: Mapping[str, str]) -> tuple[list[TeamRow], int]:
    """Return the teams, those first of which the cluster has the namespace, and how many more there are."""
    names = set(draft.preview.namespaces) if draft else set()
    teams = sorted(Team.objects.active(), key=lambda team: (team.slug not in names, team.slug))
    rows = []
    for team in teams[:SHOWN_TEAMS]:
        namespace = typed.get(team.slug, "") or (team.slug if team.slug in names else "")
        rows.append(TeamRow(team, namespace, namespace in names if names else None))
    return rows, len(teams[SHOWN_TEAMS:])


def add_page(
    request: HttpRequest,
    form: ClusterForm,
    draft: ClusterDraft | None,
    *,
    refusal: str = "",
    status: int = 200,
) -> HttpResponse:
    rows, more = team_rows(draft, namespaces_of(request.POST) or (draft.namespaces if draft else {}))
    page = {
        "form": form,
        "draft": draft,
        "credentials": form.kept,
        "refusal": refusal,
        "scope": form["scope"].value() or "full",
        "scopes": SCOPES,
        "rows": rows,
        "more": more,
    }
    return render(request, "setup/cluster_add.html", page, status=status)
