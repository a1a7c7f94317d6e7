"""What a page can do, the API can do, by the same services."""

from tests.portal.service_calls import by_api, by_pages, services

# What only pages do: why.
ONLY_PAGES = {
    (
        "claims.catalogue.services",
        "replace_spec",
    ): "saves a fix of the check; PUT /profiles/{slug}/ saves any spec",
    ("claims.requests.services", "save_draft"): "a draft is what stands in a form; a program keeps its own",
    ("claims.requests.services", "delete_draft"): "a draft is what stands in a form",
    ("teams.invitations", "accept_as"): "a person accepts in a browser, where the sign-in follows",
    ("teams.identity.people", "unlink"): "a person links a provider in a browser, and ends it there",
    ("teams.identity.groups", "set_groups_of"): "called when somebody signs in, in a browser",
    ("teams.identity.groups", "save_group"): "SCIM, which is an API of its own",
    ("teams.identity.groups", "set_members"): "SCIM, which is an API of its own",
    ("teams.identity.groups", "change_members"): "SCIM, which is an API of its own",
    ("teams.identity.groups", "remove_group"): "SCIM, which is an API of its own",
    ("teams.device_login", "find_waiting"): "a person reads in a browser what a program asks for",
    ("teams.device_login", "decide"): "a person allows it in a browser; a program must not allow another one",
}
# What only the API and commands do.
NO_PAGE = {
    (
        "claims.quotas.services",
        "remove_quota",
    ): "a page sets a limit to 0; configuration as code and API remove it",
    ("claims.lifecycle.keep_alive", "renew"): "a program does it, a person keeps the claim instead",
    ("claims.requests.services", "resize"): "the page sends the request form, which replaces the claim",
    ("teams.identity.suspension", "change_person"): "pages have a form for each thing that it does",
    ("portal.configuration.plan", "apply_plan"): "`manage.py config apply`",
    ("portal.configuration.plan", "read_plan"): "`manage.py config diff`",
    ("teams.audit.retention", "remove"): "`manage.py audit remove`, which the owner of the tables runs",
}
NO_API = {
    ("portal.configuration.plan", "apply_plan"),
    ("portal.configuration.plan", "read_plan"),
    ("teams.audit.retention", "remove"),
}


def test_services_are_found():
    assert len(services()) > 80
    assert ("claims.approvals.decide", "approve") in services() & by_pages() & by_api()


def test_the_api_calls_every_service_that_a_page_calls():
    assert (services() & by_pages()) - by_api() == set(ONLY_PAGES)


def test_every_service_is_called_by_a_page_or_has_its_reason():
    assert services() - by_pages() == set(NO_PAGE)


def test_the_api_calls_every_service_or_there_is_a_reason():
    assert services() - by_api() == set(ONLY_PAGES) | NO_API
