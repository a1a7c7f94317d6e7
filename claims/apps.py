from importlib import import_module

from django.apps import AppConfig


class ClaimsConfig(AppConfig):
    name = "claims"

    def ready(self) -> None:
        import_module("claims.receivers")  # connects signals; models must be loaded first
        import_module("claims.tasks")  # Celery looks there by itself, but only in a worker
