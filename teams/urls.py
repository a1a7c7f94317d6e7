"""Pages of `teams`."""

from django.urls import URLPattern, URLResolver, path

from teams.views import notices, people, preferences, profile, tokens

app_name = "teams"
urlpatterns: list[URLPattern | URLResolver] = [
    path("me/", profile.profile, name="profile"),
    path("me/theme", preferences.theme, name="theme"),
    path("me/team", preferences.switch, name="switch"),
    path("me/notices/", notices.notices, name="notices"),
    path("me/notices/bell/", notices.bell, name="bell"),
    path("me/notices/read/", notices.read, name="notices_read"),
    path("me/notices/<uuid:notice_id>/", notices.follow, name="notice"),
    path("me/tokens/", tokens.tokens, name="tokens"),
    path("me/tokens/<uuid:token_id>/revoke", tokens.revoke, name="token-revoke"),
    path("teams/", people.teams, name="list"),
    path("teams/<slug:slug>/people/", people.people, name="people"),
    path("teams/<slug:slug>/people/<uuid:user_id>/role", people.role, name="role"),
    path("teams/<slug:slug>/people/<uuid:user_id>/remove", people.remove, name="remove"),
]
