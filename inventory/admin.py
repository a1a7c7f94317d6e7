"""
Django admin for platform admins: mirrored rows are read-only, because the cluster is the truth.

Settings of a Cluster can be changed; its credentials are neither shown nor entered here (`manage.py cluster
add` reads them).
"""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

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


class ReadOnly(admin.ModelAdmin[Any]):
    """Look, do not touch."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class MirroredAdmin(ReadOnly):
    list_display = ("name", "cluster", "seen_at", "gone_at")
    list_filter = ("cluster",)
    list_select_related = ("cluster",)
    search_fields = ("name", "uid")
    show_full_result_count = False


class NamespacedAdmin(ReadOnly):
    list_display = ("name", "namespace", "cluster", "seen_at", "gone_at")
    list_filter = ("cluster",)
    list_select_related = ("cluster",)
    search_fields = ("name", "namespace", "uid")
    show_full_result_count = False


@admin.register(Device)
class DeviceAdmin(ReadOnly):
    list_display = ("name", "node_name", "product", "cluster", "condition", "gone_at")
    list_filter = ("cluster", "condition", "product")
    list_select_related = ("cluster",)
    search_fields = ("name", "node_name", "pool", "uuid")
    show_full_result_count = False


@admin.register(Freshness)
class FreshnessAdmin(ReadOnly):
    list_display = ("resource", "cluster", "seen_at", "listed_at", "failures", "error")
    list_filter = ("cluster",)


@admin.register(ObjectEvent)
class ObjectEventAdmin(ReadOnly):
    list_display = ("at", "change", "kind", "name", "cluster")
    list_filter = ("cluster", "kind", "change")
    list_select_related = ("cluster",)
    search_fields = ("name",)
    show_full_result_count = False


@admin.register(Cluster)
class ClusterAdmin(ReadOnly):
    list_display = ("name", "title", "version", "enabled", "read_only", "halt_reason")
    fields = (
        "name",
        "title",
        "enabled",
        "read_only",
        "prometheus_url",
        "metrics_url",
        "simulated",
        "uid",
        "version",
        "halt_reason",
        "checked_at",
    )
    readonly_fields = ("name", "simulated", "uid", "version", "halt_reason", "checked_at")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_change_permission(self, request, obj)

    def save_model(self, request: HttpRequest, obj: Cluster, form: Any, change: bool) -> None:  # noqa: FBT001
        """Update only the changed columns: the sync writes other columns of the row meanwhile."""
        obj.save(update_fields=form.changed_data)


CLUSTER_WIDE: tuple[type[Mirrored], ...] = (Namespace, Node, DeviceClass, ResourceSlice, DeviceTaintRule)
NAMESPACED: tuple[type[Mirrored], ...] = (ResourceClaim, ResourceClaimTemplate, Pod)
admin.site.register(CLUSTER_WIDE, MirroredAdmin)
admin.site.register(NAMESPACED, NamespacedAdmin)
