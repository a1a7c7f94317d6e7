"""Pages of `teams`."""

from django.urls import URLPattern, URLResolver, path

from teams import account_views, device_views, session_views, token_views, views
from teams.identity import views as identity_views
from teams.scim import pages as scim_pages

app_name = "teams"
urlpatterns: list[URLPattern | URLResolver] = [
    path("settings/sign-in/", identity_views.providers, name="identity"),
    path("settings/sign-in/passwords", identity_views.passwords, name="identity_passwords"),
    path("settings/sign-in/new/", identity_views.provider_new, name="provider_new"),
    path("settings/sign-in/rules/", identity_views.rules, name="group_rules"),
    path("settings/sign-in/rules/new/", identity_views.rule_new, name="group_rule_new"),
    path("settings/sign-in/rules/<uuid:rule_id>/", identity_views.rule_edit, name="group_rule"),
    path(
        "settings/sign-in/rules/<uuid:rule_id>/remove/",
        identity_views.rule_remove,
        name="group_rule_remove",
    ),
    path("settings/sign-in/providers/<slug:slug>/", identity_views.provider, name="provider"),
    path(
        "settings/sign-in/providers/<slug:slug>/test/",
        identity_views.provider_checks,
        name="provider_checks",
    ),
    path(
        "settings/sign-in/providers/<slug:slug>/secret",
        identity_views.provider_secret,
        name="provider_secret",
    ),
    path(
        "settings/sign-in/providers/<slug:slug>/switch",
        identity_views.provider_switch,
        name="provider_switch",
    ),
    path(
        "settings/sign-in/providers/<slug:slug>/remove/",
        identity_views.provider_remove,
        name="provider_remove",
    ),
    path("settings/sign-in/providers/<slug:slug>/scim/", scim_pages.provider_scim, name="provider_scim"),
    path(
        "settings/sign-in/providers/<slug:slug>/scim/remove",
        scim_pages.provider_scim_remove,
        name="provider_scim_remove",
    ),
    path("me/providers/<slug:slug>/unlink", identity_views.unlink, name="provider_unlink"),
    path("me/", views.profile, name="profile"),
    path("me/theme", views.theme, name="theme"),
    path("me/team", views.switch_team, name="switch"),
    path("me/team/choose/", views.choose_team, name="choose"),
    path("me/tokens/", token_views.tokens, name="tokens"),
    path("me/tokens/<uuid:token_id>/rotate", token_views.rotate, name="token-rotate"),
    path("me/tokens/<uuid:token_id>/revoke", token_views.revoke, name="token-revoke"),
    path("me/sessions/", session_views.sessions, name="sessions"),
    path("me/sessions/others/", session_views.end_others, name="sessions-end"),
    path("me/sessions/<uuid:session_id>/end", session_views.end, name="session-end"),
    path("teams/<slug:slug>/service-accounts/new", account_views.create, name="account-new"),
    path("teams/<slug:slug>/service-accounts/<uuid:account_id>/", account_views.account, name="account"),
    path(
        "teams/<slug:slug>/service-accounts/<uuid:account_id>/switch",
        account_views.switch,
        name="account-switch",
    ),
    path(
        "teams/<slug:slug>/service-accounts/<uuid:account_id>/delete/",
        account_views.delete,
        name="account-delete",
    ),
    path(
        "teams/<slug:slug>/service-accounts/<uuid:account_id>/tokens/<uuid:token_id>/rotate",
        account_views.rotate_token,
        name="account-token-rotate",
    ),
    path(
        "teams/<slug:slug>/service-accounts/<uuid:account_id>/tokens/<uuid:token_id>/revoke",
        account_views.revoke_token,
        name="account-token-revoke",
    ),
    path("device/", device_views.device, name="device"),
    path("teams/<slug:slug>/people/", views.members, name="people"),
    path("teams/<slug:slug>/people/<uuid:user_id>/role", views.change_role, name="role"),
    path("teams/<slug:slug>/people/<uuid:user_id>/remove", views.remove_member, name="remove"),
]
