"""What scim2-tester finds: every check of RFC 7643 and RFC 7644 that it has, against the portal."""

import pytest
from scim2_client.engines.wsgi import WSGISCIMClient
from scim2_tester import Status, check_server

from portal.wsgi import application

pytestmark = pytest.mark.django_db(transaction=True)
FINE = {Status.SUCCESS, Status.COMPLIANT, Status.ACCEPTABLE, Status.SKIPPED}


def test_every_check_of_scim_tester_passes(okta):
    client = WSGISCIMClient(
        application,
        base_url="http://localhost/scim/v2",
        headers={"Authorization": f"Bearer {okta.text}"},
    )
    results = check_server(client)
    failed = [one for one in results if one.status not in FINE]
    found = [f"{one.status.name} {one.title}: {one.reason}" for one in failed]
    assert "\n".join(found) == ""
    assert sum(one.status == Status.SUCCESS for one in results) > 40
