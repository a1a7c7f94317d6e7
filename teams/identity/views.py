"""
Pages of identity providers and group rules, for platform admins; and what people do in their profile.

`services` and `people` decide and record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from allauth.socialaccount.models import SocialAccount
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.validators import slug_re
from django.db.models import Count, OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from cluster.checkup import by_verdict
from core.attempt import Attempt, posted, refusal_as_message
from core.errors import Invalid, PortalError
from core.models import Installation
from core.text import counted
from teams.access import require_admin, user_of
from teams.identity import people, services
from teams.identity.checkup import check_provider
from teams.identity.forms import (
    SECRETS,
    ClientSecretForm,
    GroupRuleForm,
    NameForm,
    NewProviderForm,
    ProviderForm,
)
from teams.identity.models import ExternalGroup, GroupRule, IdentityProvider
from teams.identity.rules import AccessChange
from teams.models import Team, recorded_changes

CHANGES = 10
SHOWN = 50  # changes of a preview
MAX_GROUPS = 200  # offered while one types


@login_not_required
def elsewhere(request: HttpRequest, rest: str = "") -> HttpResponse:
    """allauth has pages for what the profile and the sign-in page do here."""
    return redirect("teams:profile" if request.user.is_authenticated else "account_login")


def provider_for(request: HttpRequest, slug: str) -> IdentityProvider:
    """Return the provider; 403 for anybody but platform admins."""
    require_admin(user_of(request))
    return get_object_or_404(IdentityProvider.objects.defer("sealed"), slug=slug)


@dataclass(frozen=True, slots=True)
class ProviderAddresses:
    """What the provider has to know of the portal."""

    redirect_uri: str
    logout_uri: str
    post_logout_uri: str
    home: str


def addresses_of(request: HttpRequest, slug: str) -> ProviderAddresses:
    return ProviderAddresses(
        request.build_absolute_uri(reverse("openid_connect_callback", args=[slug])),
        request.build_absolute_uri(reverse("identity_logout", args=[slug])),
        request.build_absolute_uri(reverse("account_login")),
        request.build_absolute_uri("/"),
    )


@require_safe
def providers(request: HttpRequest) -> HttpResponse:
    """List the providers, and say who may sign in with a password."""
    require_admin(user_of(request))
    linked = SocialAccount.objects.filter(provider=OuterRef("slug")).order_by().values("provider")
    rows = IdentityProvider.objects.defer("sealed").annotate(
        people=Subquery(linked.annotate(number=Count("*")).values("number"))
    )
    page = {
        "providers": rows,
        "rules": GroupRule.objects.count(),
        "passwords": Installation.load().password_sign_in,
    }
    return render(request, "teams/identity/providers.html", page)


@require_POST
def passwords(request: HttpRequest) -> HttpResponse:
    """Allow everybody to sign in with a password, or only platform admins."""
    allowed = request.POST.get("allowed") == "on"
    try:
        services.set_password_sign_in(by=user_of(request), allowed=allowed)
    except PortalError as refusal:
        if refusal.status == 403:
            raise
        messages.error(request, refusal.message)
    else:
        who = "Everybody signs" if allowed else "Only platform admins sign"
        messages.success(request, f"{who} in with a password now.")
    return redirect("teams:identity")


@sensitive_post_parameters(*SECRETS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def provider_new(request: HttpRequest) -> HttpResponse:
    """Ask for a name, show the addresses that the provider must know, then take what it gives."""
    by = user_of(request)
    require_admin(by)
    name_form = NameForm(request.GET if request.GET.get("name") else None)
    chosen = name_form.cleaned_data["name"] if name_form.is_bound and name_form.is_valid() else ""
    slug: str = request.POST.get("slug", "") or chosen
    has_form = slug or request.method == "POST"
    form = NewProviderForm(posted(request), initial={"slug": slug}) if has_form else None
    with Attempt(form or name_form) as attempt:
        if form is not None and form.is_valid():
            saved = services.add_provider(by=by, **form.cleaned_data)
            messages.success(request, f"{saved.title} is saved. Test it, then enable it.")
            return redirect("teams:provider", saved.slug)
    page = {
        "form": form,
        "name_form": name_form,
        "slug": slug,
        "addresses": addresses_of(request, slug) if slug_re.match(slug) else None,
    }
    return render(request, "teams/identity/provider_new.html", page, status=attempt.status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def provider(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a provider; POST changes it."""
    row = provider_for(request, slug)
    form = ProviderForm(posted(request), provider=row)
    with Attempt(form) as attempt:
        if form.is_valid():
            services.change_provider(by=user_of(request), provider=row, **form.cleaned_data)
            messages.success(request, "Saved.")
            return redirect("teams:provider", slug)
    page = {
        "provider": row,
        "form": form,
        "secret_form": ClientSecretForm(),
        "use": services.provider_use(row),
        "addresses": addresses_of(request, slug),
        "changes": recorded_changes(row)[:CHANGES],
    }
    return render(request, "teams/identity/provider.html", page, status=attempt.status)


@require_safe
def provider_checks(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask the provider, and show what was found with its remedies."""
    require_admin(user_of(request))
    row = get_object_or_404(IdentityProvider, slug=slug)
    findings = check_provider(row, redirect_uri=addresses_of(request, slug).redirect_uri)
    page = by_verdict(findings) | {"provider": row}
    template = "teams/identity/checks.html"
    return render(request, f"{template}#checks" if request.headers.get("HX-Request") else template, page)


@sensitive_post_parameters(*SECRETS)
@require_POST
def provider_secret(request: HttpRequest, slug: str) -> HttpResponse:
    """Replace the client secret."""
    row = provider_for(request, slug)
    with refusal_as_message(request):
        services.set_secret(by=user_of(request), provider=row, secret=request.POST.get("secret", "")[:1000])
        messages.success(request, "The client secret is replaced. Test it.")
    return redirect("teams:provider", slug)


@require_POST
def provider_switch(request: HttpRequest, slug: str) -> HttpResponse:
    """Enable or disable the provider."""
    row, enabled = provider_for(request, slug), request.POST.get("enabled") == "on"
    with refusal_as_message(request):
        services.set_enabled(by=user_of(request), provider=row, enabled=enabled)
        done = "is on the sign-in page now" if enabled else "is disabled; who came through it is signed out"
        messages.success(request, f"{row.title} {done}.")
    return redirect("teams:provider", slug)


@require_http_methods(["GET", "HEAD", "POST"])
def provider_remove(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what is lost, then remove the provider if its name was typed."""
    row, attempt = provider_for(request, slug), Attempt()
    if request.method == "POST":
        with attempt:
            if request.POST.get("name", "").strip() != slug:
                raise Invalid(f"Type {slug} to remove it.")
            changes = services.remove_provider(by=user_of(request), provider=row)
            messages.success(request, f"{row.title} was removed. {in_words(changes)}")
            return redirect("teams:identity")
    page = {"provider": row, "use": services.provider_use(row), "problem": attempt.problem}
    return render(request, "teams/identity/provider_remove.html", page, status=attempt.status)


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A line of a preview."""

    person: str
    team: str
    text: str
    reason: str
    icon: str
    refused: str = ""


def shown(changes: Iterable[AccessChange]) -> list[ShownChange]:
    """Return the lines of a preview; what only changes where a role comes from is left out."""
    visible = [change for change in changes if change.is_visible or change.refused]
    teams = Team.objects.in_bulk([change.team_id for change in visible if change.team_id])
    lines = []
    for change in visible:
        old, new = change.old_role, change.new_role
        text = f"becomes {new}" if not old else f"loses the role {old}" if not new else f"{old} → {new}"
        icon = "user-plus" if not old else "user-minus" if not new else "arrow-right"
        lines.append(
            ShownChange(
                change.name,
                teams[change.team_id].slug if change.team_id else "",
                text,
                change.reason,
                icon,
                change.refused,
            )
        )
    return lines


def in_words(changes: Iterable[AccessChange]) -> str:
    """Return "3 people: 2 roles given, 1 taken away"."""
    done = [change for change in changes if change.is_visible and not change.refused]
    given = sum(change.after is not None for change in done)
    people_changed = len({change.person for change in done})
    if not done:
        return "It changes nothing for anybody now."
    parts = [f"{counted(given, 'role')} given"] if given else []
    parts += [f"{counted(len(done) - given, 'role')} taken away"] if len(done) > given else []
    return f"{counted(people_changed, 'person', 'people')}: {', '.join(parts)}."


@require_safe
def rules(request: HttpRequest) -> HttpResponse:
    """List the rules, with what cannot be carried out."""
    require_admin(user_of(request))
    page = {
        "rules": GroupRule.objects.select_related("provider", "team"),
        "held_back": shown(services.held_back()),
        "has_providers": IdentityProvider.objects.exists(),
    }
    return render(request, "teams/identity/rules.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def rule_new(request: HttpRequest) -> HttpResponse:
    require_admin(user_of(request))
    return edit_rule(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
def rule_edit(request: HttpRequest, rule_id: UUID) -> HttpResponse:
    require_admin(user_of(request))
    return edit_rule(
        request, get_object_or_404(GroupRule.objects.select_related("provider", "team"), pk=rule_id)
    )


def edit_rule(request: HttpRequest, rule: GroupRule | None) -> HttpResponse:
    """Show the form; POST shows what the rule changes for whom, and with `save` saves it."""
    form, changes = GroupRuleForm(posted(request), rule=rule), None
    with Attempt(form, names={"group": "pattern", "role": "gives"}) as attempt:
        if form.is_valid():
            fields = form.rule_fields()
            if "save" in request.POST:
                saved, done = services.save_rule(by=user_of(request), rule=rule, **fields)
                messages.success(request, f"{saved.pattern}: saved. {in_words(done)}")
                return redirect("teams:group_rules")
            changes = services.preview(services.sound_rule(rule=rule, **fields))
    groups = ExternalGroup.objects.order_by("name").values_list("name", flat=True)
    page = {
        "form": form,
        "rule": rule,
        "groups": groups.distinct()[:MAX_GROUPS],
        "has_preview": changes is not None,
        "changes": shown(changes or ())[:SHOWN],
        "summary": in_words(changes or ()),
    }
    return render(request, "teams/identity/rule.html", page, status=attempt.status)


@require_http_methods(["GET", "HEAD", "POST"])
def rule_remove(request: HttpRequest, rule_id: UUID) -> HttpResponse:
    """Say who loses what, then remove the rule."""
    by = user_of(request)
    require_admin(by)
    row = get_object_or_404(GroupRule.objects.select_related("provider", "team"), pk=rule_id)
    if request.method == "POST":
        done = services.remove_rule(by=by, rule=row)
        messages.success(request, f"The rule is removed. {in_words(done)}")
        return redirect("teams:group_rules")
    changes = services.preview(row, removes=True)
    page = {"rule": row, "changes": shown(changes)[:SHOWN], "summary": in_words(changes)}
    return render(request, "teams/identity/rule_remove.html", page)


@require_POST
def unlink(request: HttpRequest, slug: str) -> HttpResponse:
    """Sign in through a provider no more; its groups then give nothing."""
    row = get_object_or_404(IdentityProvider.objects.defer("sealed"), slug=slug)
    with refusal_as_message(request):
        people.unlink(by=user_of(request), provider=row)
        messages.success(request, f"You no longer sign in through {row.title}.")
    return redirect("teams:profile")
