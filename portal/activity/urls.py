"""Pages of `portal.activity`."""

from django.urls import URLPattern, URLResolver, path

from portal.activity import views

app_name = "activity"
urlpatterns: list[URLPattern | URLResolver] = [
    path("activity/", views.platform_activity, name="platform"),
    path("teams/<slug:slug>/activity/", views.team_activity, name="team"),
]
