"""People, teams and tokens in Django's admin, with the portal's rate-limited sign-in."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest

from teams.access import user_of
from teams.models import ApiToken, Membership, Team, User

admin.site.site_header = admin.site.site_title = "Dragoman"
setattr(admin.site, "login", secure_admin_login(admin.site.login))  # noqa: B010 - mypy forbids the assignment


@admin.register(User)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]  # Django's admin is not generic while it runs
    list_display = ("username", "email", "first_name", "last_name", "is_active", "is_superuser", "last_login")
    fieldsets = (*(UserAdmin.fieldsets or ()), ("Portal", {"fields": ("timezone", "theme")}))


class MembershipInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Membership
    autocomplete_fields = ("user",)
    extra = 1


@admin.register(Team)
class TeamAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("slug", "title", "series")
    search_fields = ("slug", "title")
    inlines = (MembershipInline,)


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Read and revoke only: people create their own tokens."""

    list_display = ("start", "title", "user", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("title", "user__username", "start")
    fields = readonly_fields = list_display
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[ApiToken]) -> None:
        ApiToken.objects.filter(pk__in=tokens).revoke(by=user_of(request))
