"""Everything that the API describes, read by everybody who is in the demo."""

import pytest

from tests.crawl import known
from tests.crawl.api import ApiCrawl, described

EVERYBODY = ("engineer", "lead", "emil", "admin", "outsider")


@pytest.fixture(scope="module")
def read(signed_in):
    """Return what one person has read of the API; nobody reads it twice."""
    crawls: dict[str, ApiCrawl] = {}

    def read_by(who: str) -> ApiCrawl:
        if who not in crawls:
            client = signed_in(who)
            crawls[who] = ApiCrawl(who, client, described(client)).run()
        return crawls[who]

    return read_by


@pytest.mark.parametrize("who", EVERYBODY)
def test_each_answer_is_as_the_schema_describes_it(read, who):
    found = read(who)
    assert not found.faults, "\n".join(found.faults)
    assert len(found.seen) > 100


def test_each_address_of_the_schema_is_read_or_it_is_said_why_not(read):
    seen = set().union(*(read(who).paths for who in EVERYBODY))
    described = {path for path, item in read("admin").schema["paths"].items() if "get" in item}
    assert described - seen == set(known.UNREAD), "the rows that the demo has none of are in known.py"


@pytest.mark.security(
    "access", "everything that an engineer reads of the API, read by somebody of another team"
)
def test_the_outsider_finds_nothing_of_another_team(read, signed_in):
    outsider = signed_in("outsider")
    theirs = [
        address for path, address, _status in read("engineer").seen if path.startswith(known.OF_A_TEAM_API)
    ]
    assert len(theirs) > 30
    found = {address: outsider.get(address).status_code for address in theirs}
    assert {address: status for address, status in found.items() if status != 404} == {}
