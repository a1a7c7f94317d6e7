from importlib import import_module

from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "portal"
    verbose_name = "Dragoman"

    def ready(self) -> None:
        import_module("portal.checks")
        import_module("portal.setup.member_requests")  # its receiver
