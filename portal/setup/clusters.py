"""
Pages of platform admins for a cluster: check it, its telemetry, its credentials, pause and remove it.
`portal.setup.cluster_add` adds one.

`inventory.clusters` decides and records; `manage.py cluster` calls the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.core.validators import MaxLengthValidator
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.models import Claim, TeamNamespace, WrittenQuota
from claims.states import DELIVERED, UNDELIVERED
from cluster.checkup import by_verdict, manifest
from cluster.credentials import FLATTEN, Credentials, from_kubeconfig, from_token
from core.attempt import Attempt, posted
from core.errors import Invalid, PortalError
from core.text import as_options
from inventory.clusters import (
    change_cluster,
    check_cluster,
    remove_cluster,
    renew_credentials,
    set_enabled,
)
from inventory.models import Cluster, Device, Node
from inventory.secret_form import SECRETS as TELEMETRY_SECRETS
from inventory.secret_form import SecretText
from inventory.states import EndPolicy
from inventory.telemetry_access import change_telemetry
from portal.setup.telemetry_form import TelemetryForm
from teams.access import require_admin, user_of
from teams.models import recorded_changes
from usage.models import Collection, Rate
from usage.source_report import SourceReport, check_source
from usage.sources import source_of

CHANGES = 10
MAX_KUBECONFIG = 256 * 1024  # characters
SECRETS = ("kubeconfig", "token")


@dataclass(frozen=True, slots=True)
class ClusterRights:
    """What the portal may do in a cluster."""

    label: str
    text: str
    read_only: bool = False
    write_quotas: bool = False
    evict_pods: bool = False

    @property
    def manifest(self) -> str:
        return self.manifest_with()

    def manifest_with(self, *, review_tokens: bool = False) -> str:
        """Return the YAML, with the right to ask whose token a pod has sent where that is wanted."""
        return manifest(
            read_only=self.read_only,
            write_quotas=self.write_quotas,
            evict_pods=self.evict_pods,
            review_tokens=review_tokens,
        )

    @property
    def modes(self) -> dict[str, str | bool]:
        """Return the columns of a new cluster; nobody is evicted before an admin has chosen that."""
        policy = EndPolicy.ASK if self.evict_pods else EndPolicy.RUN
        return {
            "read_only": self.read_only,
            "write_quotas": self.write_quotas,
            "end_policy": policy.value,
        }


SCOPES = {
    "full": ClusterRights("Full", "Creates and deletes claims. Reads no secrets, writes no pods."),
    "quotas": ClusterRights(
        "Full, with quotas",
        "Also writes a ResourceQuota to the namespace of each team, so that the limits hold for kubectl too.",
        write_quotas=True,
    ),
    "evict": ClusterRights(
        "Full, with eviction",
        "Also evicts pods that hold devices after the end of their claim, once an admin has agreed.",
        evict_pods=True,
    ),
    "quotas-evict": ClusterRights(
        "Full, with both", "Writes quotas and evicts pods.", write_quotas=True, evict_pods=True
    ),
    "read-only": ClusterRights(
        "Read-only", "Shows devices, claims and cost. Creates nothing.", read_only=True
    ),
}


def scope_of(cluster: Cluster) -> str:
    """Return the key of the permissions that the settings of a cluster need."""
    needed = (cluster.read_only, cluster.write_quotas, cluster.end_policy != EndPolicy.RUN)
    scopes = ((key, (scope.read_only, scope.write_quotas, scope.evict_pods)) for key, scope in SCOPES.items())
    return "read-only" if cluster.read_only else next(key for key, modes in scopes if modes == needed)


class CredentialsForm(forms.Form):
    """
    A kubeconfig as text or file, or address, CA and token of a service account.

    Empty fields mean the credentials that are `kept`, if any are.
    """

    kept: Credentials | None = None
    kubeconfig = forms.CharField(
        label="Kubeconfig",
        required=False,
        validators=[MaxLengthValidator(MAX_KUBECONFIG)],
        widget=SecretText({"rows": 6, "spellcheck": "false", "autocomplete": "off"}),
        help_text=f"Of “{FLATTEN}”. It is stored encrypted and not shown again.",
    )
    file = forms.FileField(label="Or its file", required=False, widget=forms.FileInput)
    context = forms.CharField(
        label="Context",
        required=False,
        max_length=253,
        help_text="Of the kubeconfig. Empty: its current one.",
    )
    server = forms.CharField(
        label="API server", required=False, max_length=400, help_text="Such as https://10.40.0.10:6443."
    )
    authority = forms.CharField(
        label="CA certificate",
        required=False,
        max_length=64 * 1024,
        widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
        help_text="PEM or base64. Empty: the certificates that this server trusts.",
    )
    token = forms.CharField(
        label="Token",
        required=False,
        max_length=16 * 1024,
        widget=forms.PasswordInput({"autocomplete": "off"}),
        help_text="Of “kubectl create token”. It is stored encrypted and not shown again.",
    )

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        fields = dict(super().clean() or {})
        try:
            fields["credentials"] = self.read_credentials(fields)
        except Invalid as refusal:
            problem = refusal.message
        else:
            return fields
        self.add_error(
            "token" if fields.get("token") else "kubeconfig", problem
        )  # outside: no trace of a secret
        return fields

    @sensitive_variables()
    def read_credentials(self, fields: dict[str, Any]) -> Credentials:
        text = fields.get("kubeconfig") or read_upload(fields.get("file"))
        token = fields.get("token", "")
        if text and token:
            raise Invalid("Give either a kubeconfig or a token, not both.")
        if token:
            return from_token(fields.get("server", ""), token, authority=fields.get("authority", ""))
        if not text and self.kept is not None:
            return self.kept
        if not text:
            raise Invalid("Paste a kubeconfig, choose its file, or give an API server with a token.")
        return from_kubeconfig(text, context=fields.get("context", ""))


@sensitive_variables()
def read_upload(file: UploadedFile | None) -> str:  # type: ignore[type-arg]  # not generic while it runs
    """Return the text of a file; empty without one. Raises Invalid."""
    if file is None:
        return ""
    if (file.size or 0) > MAX_KUBECONFIG:
        raise Invalid(f"The file is larger than {MAX_KUBECONFIG // 1024} KiB, so it is no kubeconfig.")
    try:
        return str(file.read(), "utf-8")
    except UnicodeDecodeError:
        pass  # left before raising: the error holds the text
    raise Invalid("The file is not text.")


def title_field() -> forms.CharField:
    return forms.CharField(
        label="Title",
        max_length=80,
        required=False,
        help_text="Shown beside the name, such as “Frankfurt, hall 2”.",
    )


class AboutForm(forms.Form):
    title = title_field()
    read_only = forms.BooleanField(
        label="Read-only",
        required=False,
        help_text="Shows devices, claims and cost. New requests for this cluster are refused.",
    )
    end_policy = forms.ChoiceField(
        label="End policy",
        choices=as_options(EndPolicy.choices),
        help_text="What happens to pods that still hold devices when their claim ends. A profile may say "
        "otherwise. Evicting needs a permission that the checks show.",
    )
    grams_per_kwh = forms.IntegerField(
        label="Grams of CO₂ per kWh",
        required=False,
        min_value=1,
        max_value=5000,
        help_text="Of its electricity, with cooling if you count it. Empty: no CO₂ is shown. A change counts "
        "for months that are open.",
    )


def about_form(cluster: Cluster, data: QueryDict | None = None) -> AboutForm:
    names = ("title", "read_only", "end_policy", "grams_per_kwh")
    return AboutForm(data, initial={name: getattr(cluster, name) for name in names})


def cluster_for(request: HttpRequest, name: str) -> Cluster:
    """Return the cluster; 403 for anybody but platform admins."""
    require_admin(user_of(request))
    return get_object_or_404(Cluster.objects.defer("credentials"), name=name)


@require_http_methods(["GET", "HEAD", "POST"])
def cluster_settings(request: HttpRequest, name: str) -> HttpResponse:
    """Show everything that an admin can change of a cluster; POST changes title and mode."""
    cluster = cluster_for(request, name)
    form = about_form(cluster, posted(request))
    with Attempt(form) as attempt:
        if form.is_valid():
            change_cluster(name=name, by=user_of(request), **form.cleaned_data)
            messages.success(request, f"{name} saved.")
            return redirect("setup:cluster", name)
    return settings_page(request, cluster, about=form, status=attempt.status)


def settings_page(
    request: HttpRequest,
    cluster: Cluster,
    *,
    about: AboutForm | None = None,
    telemetry: TelemetryForm | None = None,
    test: SourceReport | None = None,
    status: int = 200,
) -> HttpResponse:
    about = about or about_form(cluster)
    scope = scope_of(cluster)
    page = {
        "cluster": cluster,
        "about": about,
        "telemetry": telemetry or TelemetryForm(cluster),
        "test": test,
        "collection": Collection.objects.filter(cluster=cluster).first(),
        "rbac": SCOPES[scope].manifest,
        "scope": scope,
        "namespaces": TeamNamespace.objects.filter(cluster=cluster).count(),
        "changes": recorded_changes(cluster)[:CHANGES],
    }
    return render(request, "setup/cluster.html", page, status=status)


@never_cache
@require_safe
def cluster_checks(request: HttpRequest, name: str) -> HttpResponse:
    """Connect to the cluster and show what works; the settings page fetches it once it is open."""
    cluster_row = cluster_for(request, name)
    try:
        findings, problem = check_cluster(cluster_row), ""
    except PortalError as refusal:
        findings, problem = [], refusal.message
    page = by_verdict(findings, problem) | {"cluster": cluster_row}
    part = "#checks" if request.headers.get("HX-Request") == "true" else ""
    return render(request, f"setup/cluster_checks.html{part}", page)


@sensitive_post_parameters(*TELEMETRY_SECRETS)
@never_cache
@require_POST
def cluster_telemetry(request: HttpRequest, name: str) -> HttpResponse:
    """Save the source of telemetry; with `test` read it now as typed and save nothing."""
    cluster = cluster_for(request, name)
    form = TelemetryForm(cluster, request.POST)
    with Attempt(form) as attempt:
        if form.is_valid():
            if "test" in request.POST:
                return settings_page(request, cluster, telemetry=form, test=telemetry_test(form))
            change_telemetry(name=name, by=user_of(request), **form.changes())
            messages.success(request, f"Telemetry of {name} saved.")
            return redirect("setup:cluster", name)
    return settings_page(request, cluster, telemetry=form, status=attempt.status)


@sensitive_variables()
def telemetry_test(form: TelemetryForm) -> SourceReport:
    """Read the source that the form names, with the stored secret unless one was typed."""
    cluster, access = form.typed()
    if not cluster.telemetry_url:
        return SourceReport(problem="Give an address to test.")
    try:
        source = source_of(cluster, access, form.cleaned_data["secret"])
    except Invalid as refusal:
        return SourceReport(problem=refusal.message)
    return check_source(cluster, source)


@sensitive_post_parameters(*SECRETS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def cluster_credentials(request: HttpRequest, name: str) -> HttpResponse:
    """Replace the credentials; the old ones are forgotten once the new ones have reached the same cluster."""
    cluster, form = cluster_for(request, name), CredentialsForm(posted(request), request.FILES or None)
    with Attempt(form) as attempt:
        if form.is_valid():
            renew_credentials(name=name, credentials=form.cleaned_data["credentials"], by=user_of(request))
            messages.success(request, f"The credentials of {name} were replaced.")
            return redirect("setup:cluster", name)
    page = {"form": form, "cluster": cluster}
    return render(request, "setup/cluster_credentials.html", page, status=attempt.status)


def cluster_use(cluster: Cluster) -> dict[str, int]:
    """Count what depends on a cluster; `claims` are all ever made, `holding` those not yet over."""
    claims = Claim.objects.filter(cluster=cluster)
    written_quotas = WrittenQuota.objects.filter(team_namespace__cluster=cluster).exclude(observed_hard={})
    return {
        "devices": Device.objects.present().filter(cluster=cluster).count(),
        "nodes": Node.objects.filter(cluster=cluster, gone_at=None).count(),
        "claims": claims.count(),
        "holding": claims.filter(state__in=DELIVERED).count(),
        "undelivered": claims.filter(state__in=UNDELIVERED).count(),
        "teams": TeamNamespace.objects.filter(cluster=cluster).count(),
        "rates": Rate.objects.filter(cluster=cluster).count(),
        "written_quotas": written_quotas.count(),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def cluster_pause(request: HttpRequest, name: str) -> HttpResponse:
    """Say what a pause means, then pause."""
    cluster = cluster_for(request, name)
    if request.method == "POST":
        set_enabled(name=name, enabled=False, by=user_of(request))
        messages.success(request, f"{name} is paused.")
        return redirect("setup:cluster", name)
    return render(request, "setup/cluster_pause.html", {"cluster": cluster, "use": cluster_use(cluster)})


@require_POST
def cluster_resume(request: HttpRequest, name: str) -> HttpResponse:
    cluster_for(request, name)
    set_enabled(name=name, enabled=True, by=user_of(request))
    messages.success(request, f"{name} is followed again within a minute.")
    return redirect("setup:cluster", name)


@require_http_methods(["GET", "HEAD", "POST"])
def cluster_remove(request: HttpRequest, name: str) -> HttpResponse:
    """Say what is lost, then remove the cluster if its name was typed."""
    cluster, attempt = cluster_for(request, name), Attempt()
    if request.method == "POST":
        with attempt:
            if request.POST.get("name", "").strip() != name:
                raise Invalid(f"Type {name} to remove it.")
            remove_cluster(name=name, by=user_of(request))
            messages.success(request, f"{name} was removed. Nothing was changed in the cluster itself.")
            return redirect("inventory:clusters")
    page = {"cluster": cluster, "use": cluster_use(cluster), "problem": attempt.problem}
    return render(request, "setup/cluster_remove.html", page, status=attempt.status)
