from importlib import import_module

from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "usage"

    def ready(self) -> None:
        # Models must be loaded first.
        import_module("claims.catalogue.listing").register(import_module("usage.rates").dearest)
        import_module("claims.inbox.impact").register(import_module("usage.past").activity_of)
