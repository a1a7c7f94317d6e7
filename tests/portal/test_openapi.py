"""docs/openapi.yaml: up to date, valid, with examples, and nothing that clients rely on goes away."""

import json
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from time import sleep

import jsonschema
import pytest
from django.core.management import CommandError, call_command
from openapi_spec_validator import validate

from claims.api_types import SpelledDuration
from notify.webhooks.kinds import EventKind
from portal import openapi
from portal.openapi import METHODS, breaking_changes, description, kinds, resolved, stored, without_nullable


@pytest.fixture(scope="module")
def described():
    return description()


def test_the_file_is_as_the_code_says(described):
    assert openapi.FILE.read_text() == openapi.as_text(described), "Run manage.py openapi."


def test_nothing_that_clients_rely_on_is_gone(described):
    assert breaking_changes(stored(), described) == []


def test_it_is_openapi_31(described):
    assert described["openapi"] == "3.1.0"
    assert "nullable" not in str(described["components"]["schemas"])


def operations(described):
    for path, item in described["paths"].items():
        for method in METHODS:
            if method in item:
                yield f"{method.upper()} {path}", item[method]


def test_examples_are_as_described(described):
    found, wrong = 0, []
    for label, operation in operations(described):
        contents = [operation.get("requestBody", {})]
        contents += [answer for status, answer in operation["responses"].items() if status < "300"]
        for part in contents:
            for content in part.get("content", {}).values():
                if "example" in content:
                    found += 1
                    schema = {**content["schema"], "components": described["components"]}
                    try:
                        jsonschema.Draft202012Validator(schema).validate(content["example"])
                    except jsonschema.ValidationError as error:
                        wrong.append((label, error.message[:200], list(error.path)))
    assert wrong == []
    assert found > 30


def test_it_is_valid(described):
    validate(described)


def test_every_operation_has_words_and_a_tag_that_is_described(described):
    tags = {one["name"] for one in described["tags"] if one["description"].endswith(".")}
    poor = [
        label
        for label, one in operations(described)
        if not (0 < len(one["summary"]) < 130 and one["description"] and set(one["tags"]) <= tags)
    ]
    assert poor == []


def test_one_object_is_not_described_as_its_list(described):
    words = {label: one["summary"] for label, one in operations(described)}
    same = [
        label
        for label in words
        if label.startswith("GET ") and label.endswith("}/")
        and words[label] == words.get(f"{label.rpartition('{')[0]}")
    ]  # fmt: skip
    assert same == []


VERBS = {
    "GET": ("_list", "_retrieve"),
    "POST": ("_create", ""),
    "PUT": ("_update",),
    "PATCH": ("_partial_update",),
    "DELETE": ("_destroy",),
}


def test_every_operation_is_named_after_its_address(described):
    seen: set[str] = set()
    odd = []
    for label, one in operations(described):
        method, path = label.split()
        parts = path.removeprefix("/api/v1/").replace("-", "_").split("/")
        words = "_".join(part for part in parts if part and part[0] != "{") or "resources"
        if one["operationId"] not in {words + verb for verb in VERBS[method]} - seen:
            odd.append((label, one["operationId"]))
        seen.add(one["operationId"])
    assert odd == []


def test_a_thing_has_one_name_in_the_paths(described):
    names = defaultdict(set)
    for path in described["paths"]:
        parts = re.split(r"{(\w+)}", path)
        found = parts[1::2]
        assert len(found) == len(set(found)), path
        for number, name in enumerate(found):
            names["{}".join(parts[: 2 * number + 1 : 2])].add(name)
    assert {before: found for before, found in names.items() if len(found) > 1} == {}


def values_in(part, where=""):
    """Yield each schema with a default or an example, and that value."""
    if isinstance(part, list):
        for number, one in enumerate(part):
            yield from values_in(one, f"{where}/{number}")
    elif isinstance(part, dict):
        given = [
            part[name]
            for name in ("default", "example")
            if name in part and ("type" in part or "enum" in part)
        ]
        yield from ((where, part, value) for value in [*given, *(part.get("examples") or ())])
        for name, one in part.items():
            if name not in ("example", "examples"):
                yield from values_in(one, f"{where}/{name}")


def test_defaults_and_examples_are_taken_by_their_schemas(described):
    wrong, found = [], 0
    for where, schema, value in values_in({name: described[name] for name in ("paths", "components")}):
        found += 1
        if not jsonschema.Draft202012Validator(schema | {"components": described["components"]}).is_valid(
            value
        ):
            wrong.append((where, value))
        elif "36h" in schema.get("examples", ()):
            SpelledDuration().run_validation(value)
            assert ":" not in value, where
    assert wrong == []
    assert found > 50


def test_durations_are_texts(described):
    found = [
        (name, member)
        for name, schema in described["components"]["schemas"].items()
        for member, one in schema.get("properties", {}).items()
        if {"string", "integer"} <= kinds(described, one)
    ]
    assert found == []


OWN = re.compile(r"(^|\.)example(\.org)?$|^127\.0\.0\.1$|^wandb\.ai$")


def test_addresses_of_examples_are_own_ones(described):
    text = str([one for _label, one in operations(described)])
    hosts = {found for found in re.findall(r"https?://([\w.-]+)", text) if not OWN.search(found)}
    assert hosts == set()


def test_it_says_where_the_api_is_and_who_answers_for_it(described, settings):
    assert described["servers"] == [
        {"url": "https://portal.example.org", "description": "The address of your portal"}
    ]
    assert described["info"]["contact"].keys() == {"name", "url"}
    assert described["info"]["license"]["identifier"] == "Apache-2.0"
    settings.PORTAL_URL = "https://gpus.example"
    openapi.rendered.cache_clear()
    try:
        told = openapi.rendered("application/vnd.oai.openapi+json")
    finally:
        openapi.rendered.cache_clear()
    assert json.loads(told)["servers"] == [{"url": "https://gpus.example"}]


def test_every_event_of_webhooks_has_its_message(described):
    assert list(described["webhooks"]) == EventKind.values
    for kind, item in described["webhooks"].items():
        schema = item["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]["type"]["const"] == kind
        assert resolved(described, schema["properties"]["data"])["properties"]


def test_examples_have_no_secret():
    assert re.findall(r"(?:drg_|whsec_)(?!…)", openapi.EXAMPLES.read_text()) == []


def changed(described, change):
    copy = deepcopy(described)
    change(copy)
    return breaking_changes(described, copy)


CLAIMS = "/api/v1/claims/"


def body_of(described, path, method):
    schema = described["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    return resolved(described, schema)


def drop_operation(described):
    del described["paths"][CLAIMS]["post"]


def drop_parameter(described):
    operation = described["paths"][CLAIMS]["get"]
    operation["parameters"] = [one for one in operation["parameters"] if one["name"] != "team"]


def need_parameter(described):
    for one in described["paths"][CLAIMS]["get"]["parameters"]:
        one["required"] = one["name"] == "team"


def drop_status(described):
    del described["paths"][CLAIMS]["post"]["responses"]["409"]


def drop_field(described):
    del described["components"]["schemas"]["ClaimOut"]["properties"]["state"]


def need_field(described):
    body = body_of(described, CLAIMS, "post")
    body["required"] = [*body["required"], "reason"]


def narrow_type(described):
    body_of(described, CLAIMS, "post")["properties"]["devices"]["type"] = "string"


def shorten(described):
    body_of(described, CLAIMS, "post")["properties"]["team"]["maxLength"] = 5


def return_null(described):
    described["components"]["schemas"]["ClaimOut"]["properties"]["name"]["type"] = ["string", "null"]


def drop_value(described):
    for one in described["paths"][CLAIMS]["get"]["parameters"]:
        if one["name"] == "state":
            one["schema"]["items"]["enum"].pop()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_operation, "POST /api/v1/claims/: removed"),
        (drop_parameter, "parameter team removed"),
        (need_parameter, "parameter team is required now"),
        (drop_status, "status 409 removed"),
        (drop_field, "field state removed"),
        (need_field, "field reason is required now"),
        (narrow_type, "devices: no longer takes integer"),
        (shorten, "team: maxLength 40 → 5"),
        (return_null, "name: may be null"),
        (drop_value, "removed"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_what_breaks_clients_is_found(described, change, words):
    found = changed(described, change)
    assert any(words in one for one in found), found


def add_operation(described):
    described["paths"]["/api/v1/new/"] = {"get": described["paths"][CLAIMS]["get"]}


def add_field(described):
    described["components"]["schemas"]["ClaimOut"]["properties"]["new"] = {"type": "string"}


def add_optional(described):
    body_of(described, CLAIMS, "post")["properties"]["new"] = {"type": "string"}


def lengthen(described):
    body_of(described, CLAIMS, "post")["properties"]["team"]["maxLength"] = 500


def rename_parameter(described):
    described["paths"]["/api/v1/claims/{claim}/"] = described["paths"].pop("/api/v1/claims/{id}/")
    for one in described["paths"]["/api/v1/claims/{claim}/"].values():
        for parameter in one["parameters"]:
            if parameter["in"] == "path":
                parameter["name"] = "claim"


@pytest.mark.parametrize(
    "change", [rename_parameter, add_operation, add_field, add_optional, lengthen, lambda _same: None]
)
def test_what_is_added_breaks_nobody(described, change):
    assert changed(described, change) == []


def test_the_command_refuses_to_write_a_breaking_change(described, tmp_path, monkeypatch):
    copy = deepcopy(described)
    copy["paths"]["/api/v1/gone/"] = {"get": copy["paths"][CLAIMS]["get"]}
    file = tmp_path / "openapi.yaml"
    file.write_text(openapi.as_text(copy))
    for module in ("portal.openapi", "portal.management.commands.openapi"):
        monkeypatch.setattr(f"{module}.FILE", file)
    monkeypatch.setattr("portal.management.commands.openapi.description", lambda: described)
    with pytest.raises(CommandError, match="GET /api/v1/gone/: removed"):
        call_command("openapi")
    call_command("openapi", "--breaking")
    call_command("openapi", "--check")
    file.write_text("# older\n" + file.read_text())
    with pytest.raises(CommandError, match="not up to date"):
        call_command("openapi", "--check")


def test_null_is_a_type():
    assert without_nullable({"type": "string", "nullable": True}) == {"type": ["string", "null"]}
    assert without_nullable({"$ref": "#/x", "nullable": True}) == {
        "oneOf": [{"$ref": "#/x"}, {"type": "null"}]
    }
    named = {"properties": {"nullable": {"type": "boolean"}}}
    assert without_nullable(named) == named


def test_two_threads_make_the_description_one_after_the_other(monkeypatch):
    inside, most = [], []

    class Generator:
        def get_schema(self, **_options):
            inside.append(1)
            most.append(len(inside))
            sleep(0.1)
            inside.pop()
            return {}

    monkeypatch.setattr(openapi, "SchemaGenerator", Generator)
    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(lambda _number: description(), range(2))] == [{}, {}]
    assert most == [1, 1]
