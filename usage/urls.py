"""Pages of `usage`."""

from django.urls import URLPattern, URLResolver, path

from usage.views import claim, rates, team

app_name = "usage"
urlpatterns: list[URLPattern | URLResolver] = [
    path("claims/<uuid:claim_id>/usage/", claim.fragment, name="claim_fragment"),
    path("teams/<slug:slug>/cost/", team.team, name="team"),
    path("teams/<slug:slug>/cost.csv", team.team_csv, name="team_csv"),
    path("rates/", rates.rates, name="rates"),
    path("rates/new/", rates.rate_new, name="rate_new"),
    path("rates/<uuid:rate_id>/", rates.rate_edit, name="rate_edit"),
    path("rates/<uuid:rate_id>/remove/", rates.rate_remove, name="rate_remove"),
]
