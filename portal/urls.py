"""Addresses of pages and of the API; probes of a load balancer are in `portal.health`."""

from django.contrib import admin
from django.urls import include, path

from core import saved_filters
from portal import home, search
from portal.help import reference as help_reference
from portal.help import views as help_views
from portal.openapi import DescriptionView
from portal.team_page import team_page
from teams.identity.logout import SignOut
from teams.identity.views import elsewhere
from teams.scim.endpoint import scim
from teams.views import password_reset

handler404 = "core.problems.not_found"
handler500 = "core.problems.server_error"

urlpatterns = [
    path("", home.home, name="home"),
    path("home/live/", home.live, name="home_live"),
    path("search/", search.search_page, name="search"),
    path("help/", help_views.help_contents, name="help"),
    path("help/terms/", help_views.terms, name="help_terms"),
    path("help/reference/", help_reference.reference, name="help_reference"),
    path("help/reference/<slug:name>/", help_reference.resource, name="help_resource"),
    path("help/<slug:slug>/", help_views.help_page, name="help_page"),
    path("teams/<slug:slug>/", team_page, name="team"),
    path("me/filters/", saved_filters.saved_filters, name="saved_filters"),
    path("me/filters/new", saved_filters.save, name="saved_filter_new"),
    path("me/filters/<uuid:saved_id>", saved_filters.change, name="saved_filter"),
    path("accounts/password/reset/", password_reset, name="account_reset_password"),  # before allauth's
    path("accounts/email/", elsewhere),  # the profile changes the address, with the password
    path("accounts/3rdparty/<path:rest>", elsewhere),  # no pages of allauth: one links in the profile
    path("accounts/3rdparty/", elsewhere),
    path("accounts/social/<path:rest>", elsewhere),
    path("accounts/logout/", SignOut.as_view(), name="account_logout"),
    path("accounts/", include("allauth.urls")),
    path("", include("portal.setup.urls")),
    path("", include("portal.activity.urls")),
    path("", include("portal.audit.urls")),
    path("", include("teams.urls")),
    path("", include("notify.urls")),
    path("", include("inventory.urls")),
    path("", include("claims.urls")),
    path("", include("usage.urls")),
    path("scim/v2/<path:rest>", scim, name="scim"),
    path("api/v1/", include("portal.api_urls")),
    path("api/v1/schema/", DescriptionView.as_view(), name="api-schema"),
    path("admin/", admin.site.urls),
]
