"""Addresses of SCIM, below /scim/v2/, without a slash at their end (RFC 7644 §3.2)."""

from django.urls import URLPattern, path

from teams.scim import views

app_name = "scim"
urlpatterns: list[URLPattern] = [
    path("ServiceProviderConfig", views.config, name="config"),
    path("ResourceTypes", views.resource_types, name="resource-types"),
    path("ResourceTypes/<str:key>", views.resource_types, name="resource-type"),
    path("Schemas", views.schemas, name="schemas"),
    path("Schemas/<str:key>", views.schemas, name="schema"),
    path("Users/.search", views.not_implemented),
    path("Groups/.search", views.not_implemented),
    path("Users", views.users, name="users"),
    path("Users/<str:key>", views.user, name="user"),
    path("Groups", views.groups, name="groups"),
    path("Groups/<str:key>", views.group, name="group"),
    *(path(rest, views.not_implemented) for rest in (".search", "Bulk", "Me")),
    path("<path:rest>", views.unknown, name="unknown"),
]
