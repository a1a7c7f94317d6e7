from importlib import import_module

from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "usage"

    def ready(self) -> None:
        # Models must be loaded first.
        import_module("claims.catalogue.pricing").register(import_module("usage.pricing").dearest)
        import_module("claims.approval.past_use").register(import_module("usage.past").activity_of)
