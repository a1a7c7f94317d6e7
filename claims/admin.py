"""
Django admin for platform admins. Claims and their history are read-only here: the services change them.

Profiles, quotas, rules, reasons and namespaces are changed on their pages, which check what is saved.
"""

from django.contrib import admin

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
from teams.admin import ReadOnly


class TransitionInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    model = Transition
    fields = ("at", "old", "new", "by", "reason")


class ChargeInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    model = ClaimCharge


class VersionInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    model = ProfileVersion
    fk_name = "profile"
    fields = ("number", "spec_hash", "approval", "max_devices", "max_duration", "created_by", "created_at")


@admin.register(Claim)
class ClaimAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
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
class AllocationAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("device", "pool", "product", "claim", "started_at", "ended_at")
    list_select_related = ("claim",)
    search_fields = ("device", "pool", "uuid", "claim__name")


@admin.register(Profile)
class ProfileAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("slug", "title", "current", "retired_at")
    list_select_related = ("current__profile",)
    search_fields = ("slug", "title")
    inlines = (VersionInline,)


@admin.register(Quota)
class QuotaAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("team", "device_class", "profile", "devices")
    list_filter = ("team",)
    list_select_related = ("team", "profile")


@admin.register(TeamNamespace)
class TeamNamespaceAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("team", "cluster", "namespace")
    list_filter = ("cluster", "team")
    list_select_related = ("team", "cluster")
