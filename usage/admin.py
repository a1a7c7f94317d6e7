"""Rates and telemetry, read-only. Prices are changed on the rates page, which protects billed prices."""

from django.contrib import admin

from teams.admin import ReadOnly
from usage.models import Collection, Rate


@admin.register(Rate)
class RateAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = (
        "title",
        "product",
        "driver",
        "cluster",
        "per_hour",
        "currency",
        "valid_from",
        "valid_until",
    )
    list_select_related = ("cluster",)


@admin.register(Collection)
class CollectionAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("cluster", "succeeded_at", "devices", "attributed", "failed_at", "error")
    list_select_related = ("cluster",)
