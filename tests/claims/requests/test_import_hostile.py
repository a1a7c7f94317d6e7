"""A manifest that no reader of YAML can read is said to be wrong."""

import pytest

from claims.requests.manifest_import import read_documents
from core.errors import Invalid
from tests.factories import make_team, make_user

PAGE = "/claims/request/import/"


@pytest.mark.parametrize("text", ["2026-02-31", "spec: {since: 2026-13-01}"])
def test_a_date_that_there_is_not(text):
    with pytest.raises(Invalid, match="The text cannot be read: "):
        read_documents(text, "The text")


@pytest.mark.django_db
def test_the_box_that_clears_a_file_is_no_file(client):
    alice = make_user("alice")
    make_team("vision", members=(alice,))
    client.force_login(alice)
    assert client.post(PAGE, {"text": "kind: Pod", "file-clear": "on"}).status_code == 422
