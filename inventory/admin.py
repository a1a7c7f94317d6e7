"""
Django admin for platform admins, read-only: mirrored rows, because the cluster is the truth, and clusters,
because their settings page checks and records what is changed.
"""

from django.contrib import admin

from inventory.models import (
    Cluster,
    Device,
    DeviceClass,
    DeviceTaintRule,
    Freshness,
    Mirrored,
    Namespace,
    Node,
    ObjectEvent,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from teams.admin import ReadOnly


class MirroredAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "cluster", "seen_at", "gone_at")
    list_filter = ("cluster",)
    list_select_related = ("cluster",)
    search_fields = ("name", "uid")
    show_full_result_count = False


class NamespacedAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "namespace", "cluster", "seen_at", "gone_at")
    list_filter = ("cluster",)
    list_select_related = ("cluster",)
    search_fields = ("name", "namespace", "uid")
    show_full_result_count = False


@admin.register(Device)
class DeviceAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "node_name", "product", "cluster", "condition", "gone_at")
    list_filter = ("cluster", "condition", "product")
    list_select_related = ("cluster",)
    search_fields = ("name", "node_name", "pool", "uuid")
    show_full_result_count = False


@admin.register(Freshness)
class FreshnessAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("resource", "cluster", "seen_at", "listed_at", "failures", "error")
    list_filter = ("cluster",)


@admin.register(ObjectEvent)
class ObjectEventAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("at", "change", "kind", "name", "cluster")
    list_filter = ("cluster", "kind", "change")
    list_select_related = ("cluster",)
    search_fields = ("name",)
    show_full_result_count = False


@admin.register(Cluster)
class ClusterAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    """Without the addresses of telemetry, which may contain a password."""

    list_display = ("name", "title", "version", "enabled", "read_only", "halt_reason")
    fields = (
        *("name", "title", "enabled", "read_only", "write_quotas", "end_policy", "simulated"),
        *("uid", "version", "halt_reason", "checked_at"),
    )


CLUSTER_WIDE: tuple[type[Mirrored], ...] = (Namespace, Node, DeviceClass, ResourceSlice, DeviceTaintRule)
NAMESPACED: tuple[type[Mirrored], ...] = (ResourceClaim, ResourceClaimTemplate, Pod)
admin.site.register(CLUSTER_WIDE, MirroredAdmin)
admin.site.register(NAMESPACED, NamespacedAdmin)
