"""Pages of `portal.audit`."""

from django.urls import URLPattern, URLResolver, path

from portal.audit import views

app_name = "audit"
urlpatterns: list[URLPattern | URLResolver] = [path("audit/", views.audit_log, name="log")]
