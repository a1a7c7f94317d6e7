"""
The API answers as it is described: schemathesis makes requests of the description, each role of the demo
sends them, and every answer is held to it.

What a parameter or a field may be and may not be is gone through in turn. SCHEMATHESIS_EXAMPLES=50 sends as
many well-formed requests to each operation as each role, and as many of values at random, right and wrong.
"""

import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from random import Random
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.config import SchemathesisConfig
from schemathesis.core import NOT_SET
from schemathesis.core.failures import FailureGroup
from schemathesis.core.media_types import YAML_MEDIA_TYPES
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.generation import GenerationMode
from schemathesis.generation.drivers import CoverageGenerator
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.overrides import Override
from schemathesis.specs.openapi import checks

from claims.models import LIMITS
from claims.models.limits import Duration
from notify.webhooks.sending import Answer
from teams.models import User
from tests.api import story
from tests.api.asking import in_process
from tests.api.examples import Examples
from tests.api.sample_requests import READS, REFUSED, WRITES, sample_request
from tests.factories import make_token
from tests.fakes import FakeGateway

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "8"))
DEEPER = "SCHEMATHESIS_EXAMPLES" in os.environ  # values at random cost five times as much to make
ROLES = ("engineer", "lead", "viewer", "admin", "outsider")
PEOPLE = {"viewer": "emil"}  # of the demo, who are not called as their role
CONFIG = {
    "generation": {
        "allow-x00": False,  # no column keeps it: tests/security/test_hostile_addresses.py
        "with-security-parameters": False,
        "deterministic": True,
    }
}
CONDITIONS = ("If-Match", "If-None-Match")
P, N = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


@pytest.fixture
def api(demo_database, db, monkeypatch):
    """The portal over the demo's data with clusters in memory."""
    fake = FakeGateway()
    fake.tokens = story.POD_TOKENS

    @contextmanager
    def connected(cluster: object) -> Iterator[FakeGateway]:
        yield fake

    for module in (
        "claims.delivery.deliver",
        "claims.quotas.resource_quota_rounds",
        "claims.workloads.services",
        "inventory.sync.list_watch",
        "inventory.tasks",
    ):
        monkeypatch.setattr(f"{module}.gateway_for", connected)
    monkeypatch.setattr("inventory.clusters.KubeGateway", lambda _credentials: fake)
    monkeypatch.setattr("notify.webhooks.delivery.post", lambda *_sent, **_how: Answer(200, 12, "", "thanks"))
    monkeypatch.setattr("claims.claim_page.api.MAX_WAIT", 0)
    with in_process() as app:
        yield app


@schemathesis.deserializer(*YAML_MEDIA_TYPES)
def documents(_context: Any, response: Any) -> Any:
    """Several documents in one file, which the portal writes and reads itself, are a text."""
    return response.text


@pytest.fixture
def described(api):
    config = SchemathesisConfig.from_dict(CONFIG)
    return schemathesis.openapi.from_wsgi("/api/v1/schema/?format=json", api, config=config)


@pytest.fixture
def known(demo_database, db):
    return story.read(User.objects.get(username="admin"))


def sent_by(role: str) -> dict[str, str]:
    person = User.objects.get(username=PEOPLE.get(role, role))
    _row, token = make_token(person, "Test")
    return {"Authorization": f"Bearer {token}"}


def covering(operation: Any, mode: GenerationMode) -> list[Any]:
    """Return the cases that go through the values of each parameter and field in turn, of each."""
    generator = CoverageGenerator(
        operation=operation,
        generation_modes=[mode],
        generation_config=operation.schema.config.generation_for(operation=operation, phase="coverage"),
        auth_storage=None,
        override=Override(query={}, headers={}, cookies={}, path_parameters={}, body={}),
        feedback=FeedbackSources(),
    )
    return [*generator]


def spread(cases: list[Any], most: int) -> list[Any]:
    """Return as many cases, with equal steps between them."""
    return cases[:: max(1, -(-len(cases) // most))]


def random_cases(operation: Any, mode: GenerationMode, count: int) -> list[Any]:
    """Return cases that hypothesis makes, the same in each run."""
    found = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        verbosity=Verbosity.quiet, suppress_health_check=[*HealthCheck],
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def keep(case: Any) -> None:
        found.append(case)

    with suppress(Unsatisfiable):  # nothing of it can be made wrong
        keep()
    return found[:count]


def of_the_story(case: Any, known: story.Story, random: Random) -> Any:
    """Send the case to an object there is, with names that there are; what was made wrong stays wrong."""
    if not case.meta.is_negative_at(ParameterLocation.PATH) and case.path_parameters:
        case.path_parameters = known.place(case.path, random)
    for name in CONDITIONS:  # tests/core/test_conditional.py
        case.headers.pop(name, None)
    if case.query:
        case.query = known.told(case.query, random)
    if case.body is not NOT_SET:
        case.body = known.told(case.body, random)
    return case


def has_seconds(case: Any) -> bool:
    """Whether a duration is sent as a number, which is taken although it is described as a text."""
    body = case.body if isinstance(case.body, dict) else {}
    return any(isinstance(body.get(name), int | float) for name in DURATIONS)


class Findings:
    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)

    def hold(self, case: Any, headers: dict[str, str], excluded: list[Any]) -> Any:
        response = case.call(headers=headers)
        label = case.operation.label
        self.statuses[label][response.status_code] += 1
        try:
            case.validate_response(response, headers=headers, excluded_checks=excluded)
        except FailureGroup as group:
            for one in group.exceptions:
                self.found[label, type(one).__name__, one.message].append(
                    f"{case.as_curl_command()}\n      {response.status_code} {response.text[:300]}"
                )
        return response

    def are_none(self) -> None:
        if self.found:
            pytest.fail(str(self), pytrace=False)

    def __str__(self) -> str:
        return "\n".join(
            f"{label}: {kind} ({len(cases)} times)\n    {message}\n    {cases[0]}".replace("\n\n", "\n")
            for (label, kind, message), cases in sorted(self.found.items())
        )


DURATIONS = {
    *("duration", "keep_alive", "by", "automatic_duration", "escalate_after", "notify_owner_after"),
    *("snooze_for", "notify_leads_after", "release_after"),
    *(limit.name for limit in LIMITS if isinstance(limit.kind, Duration)),
}
# Parameters: a name that the reader does not see is refused.
OF_READER = {"team", "cluster", "profile", "who"}
# What is well formed is refused with 422 all the same, since it means nothing as a whole.
MEANINGLESS = {
    "POST /api/v1/approval-rules/": "a rule is for a team or for a profile, and both may be empty",
    "POST /api/v1/approvals/decide/": "a denial needs a note, an approval none",
    "POST /api/v1/budgets/": "money or GPU-hours are above 0; a name and a last day belong together",
    "PUT /api/v1/budgets/{id}/": "money or GPU-hours are above 0; a last day needs a name",
    "POST /api/v1/claims/": "not every profile can be asked for in every cluster, nor beside every other",
    "POST /api/v1/claims/bulk/": "what an extension and what handing over needs is optional for the others",
    "POST /api/v1/claims/unmanaged/{uid}/adopt/": "the profile has to fit the object, the owner its team",
    "POST /api/v1/claims/{id}/approve/": "with changes, less has to be left than was asked for",
    "POST /api/v1/claims/{id}/extend/": "the instant has to be after the end of the claim",
    "POST /api/v1/claims/{id}/resize/": "something has to change, to what the profile allows",
    "POST /api/v1/claims/{id}/shorten/": "the instant has to be before the end of the claim",
    "POST /api/v1/claims/{id}/transfer/": "the heir has to be a member of the team of the claim",
    "POST /api/v1/rates/": "a rate ends after it begins; its expression is a condition in CEL",
    "POST /api/v1/rates/preview/": "the expression is a condition in CEL",
    "PUT /api/v1/rates/{id}/": "a rate ends after it begins; its expression is a condition in CEL",
    "POST /api/v1/rates/{id}/retire/": "a rate ends now or later",
    "POST /api/v1/delegations/": "the deputy has to be a member of the team, the end after the start",
    "POST /api/v1/clusters/": "credentials are a kubeconfig, or an address with a token",
    "POST /api/v1/clusters/check/": "credentials are a kubeconfig, or an address with a token",
    "PUT /api/v1/clusters/{name}/credentials/": "credentials are a kubeconfig, or an address with a token",
    "PATCH /api/v1/me/": "a time zone has to be one of the IANA database",
    "PATCH /api/v1/settings/": "a time zone has to be one of the IANA database",
    "POST /api/v1/me/filters/": "the path has to be that of a list, the name printable",
    "PATCH /api/v1/me/filters/{id}/": "the name has to be printable",
    "POST /api/v1/teams/": "the owner has to have an account, the slug is a name of Kubernetes",
    "POST /api/v1/teams/{slug}/members/": "the person has to have an account",
    "PUT /api/v1/teams/{slug}/namespaces/{cluster}/": "a namespace is a label of RFC 1123",
    "POST /api/v1/invitations/": "the address has to be one of mail, the team has to exist",
    "POST /api/v1/claims/import/": "the text has to be a manifest that requests devices",
    "POST /api/v1/profiles/import/": "the text has to be a file of profiles",
    "POST /api/v1/profiles/presets/": "the presets have to exist",
    "POST /api/v1/webhooks/": "the address has to be a public one with https://",
    "PATCH /api/v1/webhooks/{id}/": "the address has to be a public one with https://",
    "POST /api/v1/identity-providers/": "the issuer has to be an address, the slug a name of Kubernetes",
    "PATCH /api/v1/identity-providers/{slug}/": "the issuer has to be an address",
    "POST /api/v1/identity-providers/{slug}/secret/": "a secret is no blanks",
    "POST /api/v1/group-rules/": "provider and team have to exist, and a role belongs to a team",
    "PUT /api/v1/group-rules/{id}/": "provider and team have to exist, and a role belongs to a team",
    "POST /api/v1/group-rules/preview/": "provider and team have to exist, and a role belongs to a team",
    "POST /api/v1/tracking-servers/": "one secret, for the server that is set; URLs, PEM",
    "PATCH /api/v1/tracking-servers/{id}/": "one secret, for the server that is set; URLs, PEM",
    "PUT /api/v1/tracking-servers/runs-links/": "the address is one of the web",
    "PUT /api/v1/waste/policy/": "the times have to follow one another",
    "GET /api/v1/claims/{id}/manifest/": "an option may not fit the claim, its devices or another option",
    "POST /api/v1/login/device/token/": "a code has to be one that the portal gave",
    "POST /api/v1/teams/{slug}/service-accounts/{name}/workloads/": "the team has a namespace in the cluster",
    "POST /api/v1/tokens/": "whose token it is has to be in the team",
    "GET /api/v1/audit/": "an address is one of IP, a time one of the calendar",
    "GET /api/v1/costs/": "a month has to be one of the calendar",
    "GET /api/v1/budgets/past/": "a month has to be over",
    "GET /api/v1/costs/allocation/": "window and step are whole days, an aggregate is a known property",
    "GET /api/v1/costs/report/": "a range has at most 366 days, which follow one another",
    "POST /api/v1/costs/saved-reports/": "the query has to be one of a report, the name printable",
    "PATCH /api/v1/clusters/{name}/telemetry/": "one secret, for the server that is set; URLs, PEM, matchers",
    "POST /api/v1/clusters/{name}/telemetry/test/": "one secret, for the server that is set; URLs, PEM",
    "POST /api/v1/costs/closed-months/": "a month has to be one of the calendar",
    "GET /api/v1/costs/focus/": "a month has to be one of the calendar",
    "GET /api/v1/costs/reconciliation/": "a month has to be one of the calendar",
    "GET /api/v1/match/": "as POST /api/v1/claims/; and the match has to have that step",
    "POST /api/v1/match/": "as POST /api/v1/claims/; and the match has to have that step",
    "POST /api/v1/profiles/": "the spec has to be one of resource.k8s.io/v1, and the slug free",
    "PUT /api/v1/profiles/{slug}/": "the spec has to be one of resource.k8s.io/v1",
    "POST /api/v1/quotas/": "a quota is of a device class or of a profile, or counts claims",
    "POST /api/v1/quotas/requests/": "as POST /api/v1/quotas/; and it has to be more than there is",
    "POST /api/v1/budgets/requests/": "it is above 0, of what the budget limits",
    "POST /api/v1/budgets/requests/{id}/approve/": "it is above 0, of what the budget limits",
    "POST /api/v1/quotas/requests/{id}/approve/": "the grant may not be more than was asked for",
}


@pytest.mark.security(
    "injection", "thousands of malformed requests to every operation, as every role: none may break it"
)
@pytest.mark.parametrize("role", ROLES)
def test_every_answer_is_as_described(role, described, known):
    """What is wrong with a request is sent as the admin, whom no missing role hides its refusal from."""
    headers, findings = sent_by(role), Findings()
    for made in described.get_all_operations():
        operation = made.ok()
        random = Random(zlib.crc32(operation.label.encode()))
        cases = spread(covering(operation, P), EXAMPLES)
        if role == "admin":
            cases += covering(operation, N)
        for mode in (P, N) if DEEPER else ():
            cases += random_cases(operation, mode, EXAMPLES)
        unfit = [checks.positive_data_acceptance] if operation.label in MEANINGLESS else []
        for case in cases:
            told = of_the_story(case, known, random)
            taken = [checks.negative_data_rejection] if has_seconds(told) else []
            unseen = [checks.positive_data_acceptance] if OF_READER & {*(told.query or ())} else []
            findings.hold(told, headers, [checks.ignored_auth, *unfit, *taken, *unseen])
    findings.are_none()


def test_exceptions_are_operations_that_there_are(described):
    labels = {made.ok().label for made in described.get_all_operations()}
    assert {*MEANINGLESS, *WRITES} - labels == set()


def test_every_operation_succeeds_for_somebody(described, known):
    """Each is answered with 2xx, as described, and refused to who sends no token or a wrong one."""
    findings, examples = Findings(), Examples()
    failed: dict[str, Any] = {}
    for made in described.get_all_operations():
        operation = made.ok()
        request_body = sample_request(operation)
        if request_body is None:
            failed[operation.label] = "is not in WRITES"
            continue
        answers = []
        for place in known.places(operation.path):
            of = next(iter(place.values()), "")
            for body in request_body.bodies(of):
                sent = {} if body is None else {"body": body, "media_type": "application/json"}
                case = operation.Case(path_parameters=place, query=request_body.query, **sent)
                answers.append(findings.hold(case, sent_by(request_body.user_of(of)), []))
                if answers[-1].status_code < 300:
                    examples.keep(operation.label, body, answers[-1])
                    break
            if answers and answers[-1].status_code < 300:
                break
        if not answers or answers[-1].status_code >= 300:
            failed[operation.label] = {f"{one.status_code} {one.text[:200]}" for one in answers}
    examples.write()
    assert (failed, str(findings)) == ({}, "")


# These are about several objects, each of which is done or refused on its own: the answer says which.
OF_SEVERAL = {"POST /api/v1/approvals/decide/", "POST /api/v1/claims/bulk/"}


def samples(described, known, labels):
    """Yield label, case and headers of requests that should succeed, to three objects of each operation."""
    for label in sorted(labels):
        method, path = label.split()
        operation = described[path][method]
        wish = sample_request(operation)
        assert wish is not None
        for place in known.places(path)[:3]:
            of = next(iter(place.values()), "")
            for body in wish.bodies(of):
                sent = {} if body is None else {"body": body, "media_type": "application/json"}
                yield label, operation.Case(path_parameters=place, **sent), sent_by(wish.user_of(of))


def test_a_write_refused_at_its_last_statement_leaves_nothing(described, known, api):
    """`Portal` compares the rows; without this a request may have one transaction after another."""
    tried, left = 0, {}
    for label, case, headers in samples(described, known, WRITES.keys() - OF_SEVERAL):
        api.fail_at = 0
        if case.call(headers=headers).status_code < 300 and (count := len(api.writes)) > 1:
            api.fail_at, tried = count, tried + 1
            try:
                assert case.call(headers=headers).status_code >= 400, label
            except AssertionError as found:
                left[label] = str(found)
    api.fail_at = 0
    assert left == {}
    assert tried > 60


def test_an_error_after_the_write_never_says_that_nothing_was_saved(described, known, api):
    wrong, tried, api.answers = {}, 0, False
    for label, case, headers in samples(described, known, WRITES):
        answer = case.call(headers=headers)
        if answer.status_code >= 500 and api.left:
            tried += 1
            if "was saved before" not in answer.text or "No change was saved" in answer.text:
                wrong[label] = api.left
    api.answers = True
    assert wrong == {}
    assert tried > 60


def misspelt(body):
    """Yield a body and its name of too much, for each object in the body."""
    if isinstance(body, dict):
        name = next(iter(body), "reason")
        yield {**body, f"{name}x": body.get(name, "")}, f"{name}x"
    if isinstance(body, dict | list):
        for key, part in body.items() if isinstance(body, dict) else enumerate(body):
            if key != "spec":  # of Kubernetes
                for changed, name in misspelt(part):
                    whole = copy(body)
                    whole[key] = changed
                    yield whole, name


def test_an_unknown_member_is_refused_with_the_nearest_name(described, known):
    """In each object of each body, and where there is no body."""
    accepted = {}
    for label in sorted(WRITES):
        method, path = label.split()
        operation = described[path][method]
        wish = sample_request(operation)
        assert wish is not None
        place = known.places(path)[0]
        of = next(iter(place.values()), "")
        body = wish.bodies(of)[0]
        for sent, name in misspelt(body or {}):
            case = operation.Case(path_parameters=place, body=sent, media_type="application/json")
            answer = case.call(headers=sent_by(wish.user_of(of)))
            near = f"Did you mean “{name[:-1]}”?" if body else ""
            if answer.status_code != 422 or f"Unknown member “{name}”. {near}" not in answer.text:
                accepted[label, name] = (answer.status_code, answer.text[:200])
    assert accepted == {}


@pytest.mark.parametrize("label", REFUSED)
def test_a_change_whose_last_field_is_refused_changes_nothing(label, described, known):
    method, path = label.split()
    operation, statuses = described[path][method], set()
    for place in known.places(path):
        for body in REFUSED[label].bodies(next(iter(place.values()), "")):
            case = operation.Case(path_parameters=place, body=body, media_type="application/json")
            statuses.add(case.call(headers=sent_by("admin")).status_code)
    assert statuses & {409, 422}


@pytest.mark.security("access", "every operation of the API without a token and with a made-up one")
def test_nobody_is_told_to_sign_in(described, known):
    findings, random = Findings(), Random(0)
    for made in described.get_all_operations():
        operation = made.ok()
        if "/login/" in operation.path:
            continue
        case = operation.Case(path_parameters=known.place(operation.path, random))
        for headers in ({}, {"Authorization": "Bearer drg_unknown"}):
            findings.hold(case, headers, [])
    findings.are_none()
    assert {*sum(findings.statuses.values(), Counter())} == {401}


@pytest.mark.security(
    "access",
    "each operation of the API about an object of another team, with well-formed bodies and every edge",
)
def test_outsiders_never_get_an_object_of_another_team(described, known):
    """Whoever asks well is told 404, as of what there is not; nothing that is sent gets 2xx."""
    headers, random = sent_by("outsider"), Random(0)
    theirs = story.of_others("vision", User.objects.get(username="outsider"))
    wrong: list[Any] = []
    asked: Counter[str] = Counter()
    for made in described.get_all_operations():
        operation = made.ok()
        collection, name = story.collection_of(operation.path)
        for private in theirs.get(collection, ())[:2]:
            request_body = sample_request(operation)
            cases = [
                operation.Case(path_parameters={name: private}, media_type="application/json", body=body)
                if body is not None
                else operation.Case(path_parameters={name: private})
                for body in request_body.bodies(private)[:1]
            ]
            for case in covering(operation, P)[:3]:
                case.body = case.body if case.body is NOT_SET else known.told(case.body, random)
                case.path_parameters = {name: private}
                cases.append(case)
            statuses = [case.call(headers=headers).status_code for case in cases]
            asked[collection] += 1
            if statuses[0] != 404 or not {404, 422}.issuperset(statuses):
                wrong.append((operation.label, private, statuses))
    assert wrong == []
    assert {*theirs} - {*asked} == set()


@pytest.mark.security(
    "access", "every list of the API, and actions on several objects at once, for the ids of another team"
)
def test_lists_and_answers_on_several_name_nothing_of_other_teams(described, api):
    headers = sent_by("outsider")
    theirs = story.of_others("vision", User.objects.get(username="outsider"))
    private = {one for name in ("claims", "extensions", "quotas", "quotas/requests") for one in theirs[name]}
    claims = theirs["claims"][:20]
    answers = {}
    for made in described.get_all_operations():
        operation = made.ok()
        query = {} if operation.path not in READS else {**READS[operation.path].query, "team": "nlp"}
        if operation.method.upper() == "GET" and "{" not in operation.path:
            answers[operation.label] = operation.Case(query=query).call(headers=headers)
    several = {
        "/api/v1/claims/bulk/": {"action": "release", "claims": claims},
        "/api/v1/approvals/decide/": {
            "decision": "deny", "note": "No.", "requests": [{"kind": "claim", "id": one} for one in claims]
        },
    }  # fmt: skip
    for path, body in several.items():
        case = described[path]["POST"].Case(body=body, media_type="application/json")
        answers[path] = case.call(headers=headers)
        assert answers[path].status_code == 200
    assert len(answers) > 20
    assert {
        path: found for path, one in answers.items() if (found := [key for key in private if key in one.text])
    } == {}


MADE_AND_REMOVED = {
    "/api/v1/approval-reasons/": ("lead", "id"),
    "/api/v1/approval-rules/": ("admin", "id"),
    "/api/v1/claims/": ("engineer", "id"),
    "/api/v1/profiles/": ("admin", "slug"),
    "/api/v1/quotas/requests/": ("lead", "id"),
    "/api/v1/rates/": ("admin", "id"),
}


@pytest.mark.parametrize("path", MADE_AND_REMOVED)
def test_what_is_made_is_there_until_it_is_removed(path, described, api):
    role, key = MADE_AND_REMOVED[path]
    headers, one, past = sent_by(role), f"{path}{{{key}}}/", ScenarioRecorder(label=path)
    api.keeping = True

    def send(case: Any, parent: Any = None) -> int:
        past.record_case(
            case=case, parent_id=parent and parent.id, transition=None, is_transition_applied=False
        )
        response = case.call(headers=headers)
        past.record_response(case_id=case.id, response=response)
        case.validate_response(response, headers=headers, recorder=past)
        found.update(response.json() if response.content else {})
        return response.status_code

    def about_it(method: str) -> Any:
        case = described[one][method].Case()
        case.path_parameters = {key: found[key]}  # taken from an answer, not made up
        return case

    found: dict[str, Any] = {}
    body = WRITES[f"POST {path}"].bodies("")[0]
    made = described[path]["POST"].Case(body=body, media_type="application/json")
    assert send(made) == 201
    assert send(about_it("GET"), made) == 200
    if "delete" in {method.lower() for method in described[one]}:
        removed = about_it("DELETE")
        assert send(removed, made) == 204
        assert send(about_it("GET"), removed) == 404
