from importlib import import_module

from django.apps import AppConfig


class ClaimsConfig(AppConfig):
    name = "claims"

    def ready(self) -> None:
        import_module("claims.receivers")  # connects itself; models must be loaded first
        for subject in ("approvals", "delivery", "lifecycle", "quotas", "requests"):
            import_module(f"claims.{subject}.tasks")  # Celery looks into an app's own `tasks` alone
