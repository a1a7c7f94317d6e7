"""
Django admin for platform admins. Claims and their history are read-only here: the services change them.

Profiles, quotas, rules and reasons are changed on their pages, which check what is saved. Here is what has no
page.
"""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from claims.models import (
    Allocation,
    Claim,
    ClaimCharge,
    Profile,
    ProfileVersion,
    Quota,
    TeamNamespace,
    Transition,
)


class Looking:
    """Look, do not touch."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class TransitionInline(Looking, admin.TabularInline):  # type: ignore[type-arg]
    model = Transition
    fields = ("at", "old", "new", "by", "reason")


class ChargeInline(Looking, admin.TabularInline):  # type: ignore[type-arg]
    model = ClaimCharge


class VersionInline(Looking, admin.TabularInline):  # type: ignore[type-arg]
    model = ProfileVersion
    fk_name = "profile"
    fields = ("number", "spec_hash", "approval", "max_devices", "max_duration", "created_by", "created_at")


@admin.register(Claim)
class ClaimAdmin(Looking, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = (
        "name",
        "team",
        "cluster",
        "profile_version",
        "requested_by",
        "devices",
        "state",
        "state_since",
    )
    list_filter = ("state", "cluster", "team", "delivery")
    list_select_related = ("team", "cluster", "profile_version__profile", "requested_by")
    search_fields = ("name", "requested_by__username", "reason")
    date_hierarchy = "created_at"
    inlines = (ChargeInline, TransitionInline)


@admin.register(Allocation)
class AllocationAdmin(Looking, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("device", "pool", "product", "claim", "started_at", "ended_at")
    list_select_related = ("claim",)
    search_fields = ("device", "pool", "uuid", "claim__name")


@admin.register(Profile)
class ProfileAdmin(Looking, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("slug", "title", "current", "retired_at")
    list_select_related = ("current__profile",)
    search_fields = ("slug", "title")
    inlines = (VersionInline,)


@admin.register(Quota)
class QuotaAdmin(Looking, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("team", "device_class", "profile", "devices")
    list_filter = ("team",)
    list_select_related = ("team", "profile")


@admin.register(TeamNamespace)
class TeamNamespaceAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The namespaces of teams; they have no other page."""

    list_display = ("team", "cluster", "namespace")
    list_filter = ("cluster", "team")
    list_select_related = ("team", "cluster")
