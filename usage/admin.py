"""Rates and telemetry, read-only. Prices are changed on the rates page, which protects billed prices."""

from django.contrib import admin
from django.http import HttpRequest

from usage.models import Collection, Rate


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's admin is not generic while it runs
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Rate)
class RateAdmin(ReadOnly):
    list_display = ("title", "product", "driver", "cluster", "per_hour", "currency", "valid_from")
    list_select_related = ("cluster",)


@admin.register(Collection)
class CollectionAdmin(ReadOnly):
    list_display = ("cluster", "succeeded_at", "devices", "attributed", "failed_at", "error")
    list_select_related = ("cluster",)
