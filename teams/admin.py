"""
Django's admin, for emergencies: what has a page is read-only, because the page checks and records what is
changed. It has the portal's rate-limited sign-in.
"""

from typing import Any

from allauth.account.admin import EmailAddress
from allauth.account.decorators import secure_admin_login
from allauth.mfa.admin import Authenticator, AuthenticatorAdmin
from allauth.socialaccount.admin import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest

from teams.access import user_of
from teams.models import ApiToken, Membership, Team, User, record_change

admin.site.site_header = admin.site.site_title = "Dragoman"
setattr(admin.site, "login", secure_admin_login(admin.site.login))  # noqa: B010 - mypy forbids the assignment
# The portal uses no groups; the mail is the account's; who signs in through a provider links it themselves.
admin.site.unregister((Group, EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken))


class ReadOnly:
    """Look, do not touch: its page, its service or the cluster decides."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Recorded:
    """What is done here is recorded with everything else, beside Django's own history."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        entry = super().log_change(request, obj, message)  # type: ignore[misc]
        record_change(by=user_of(request), of=obj, change=entry.get_change_message() or "changed")
        return entry

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        for obj in queryset:
            record_change(by=user_of(request), of=obj, change="removed")
        return super().log_deletions(request, queryset)  # type: ignore[misc]


@admin.register(User)
class PersonAdmin(Recorded, UserAdmin):  # type: ignore[type-arg]  # Django's admin is not generic while it runs
    """A new password, where no mail can be sent; everything else has pages."""

    list_display = ("username", "email", "first_name", "last_name", "is_active", "is_superuser", "last_login")
    fieldsets = ((None, {"fields": ("password", *list_display)}),)
    readonly_fields = list_display

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class MembershipInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    model = Membership


@admin.register(Team)
class TeamAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("slug", "title", "series", "archived_at")
    search_fields = ("slug", "title")
    inlines = (MembershipInline,)


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Read and revoke: people create their own tokens, and revoked ones stay for the record."""

    list_display = ("start", "title", "user", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("title", "user__username", "start")
    fields = readonly_fields = list_display
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[ApiToken]) -> None:
        ApiToken.objects.filter(pk__in=tokens).revoke(by=user_of(request))


@admin.register(Authenticator)
class SecondFactorAdmin(Recorded, AuthenticatorAdmin):
    """Delete the second factor of a person who has lost it."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
