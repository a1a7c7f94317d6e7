"""Pages of `teams`."""

from django.urls import URLPattern, URLResolver, path

from teams import views

app_name = "teams"
urlpatterns: list[URLPattern | URLResolver] = [
    path("me/", views.profile, name="profile"),
    path("me/theme", views.theme, name="theme"),
    path("me/team", views.switch_team, name="switch"),
    path("me/team/choose/", views.choose_team, name="choose"),
    path("me/tokens/", views.tokens, name="tokens"),
    path("me/tokens/<uuid:token_id>/revoke", views.revoke, name="token-revoke"),
    path("teams/<slug:slug>/people/", views.members, name="people"),
    path("teams/<slug:slug>/people/<uuid:user_id>/role", views.change_role, name="role"),
    path("teams/<slug:slug>/people/<uuid:user_id>/remove", views.remove_member, name="remove"),
]
