from importlib import import_module

from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "usage"

    def ready(self) -> None:
        import_module("usage.receivers")  # connects signals; models must be loaded first
