"""
Addresses of SCIM, below /scim/v2/, without a slash at their end (RFC 7644 §3.2); `endpoint` leads here.
"""

from django.urls import URLPattern, path

from teams.scim import views

urlpatterns: list[URLPattern] = [
    path("ServiceProviderConfig", views.config, name="scim-config"),
    path("ResourceTypes", views.resource_types, name="scim-resource-types"),
    path("ResourceTypes/<str:key>", views.resource_types, name="scim-resource-type"),
    path("Schemas", views.schemas, name="scim-schemas"),
    path("Schemas/<str:key>", views.schemas, name="scim-schema"),
    path("Users/.search", views.not_implemented),
    path("Groups/.search", views.not_implemented),
    path("Users", views.users, name="scim-users"),
    path("Users/<str:key>", views.user, name="scim-user"),
    path("Groups", views.groups, name="scim-groups"),
    path("Groups/<str:key>", views.group, name="scim-group"),
    *(path(rest, views.not_implemented) for rest in (".search", "Bulk", "Me")),
    path("<path:rest>", views.unknown, name="scim-unknown"),
]
