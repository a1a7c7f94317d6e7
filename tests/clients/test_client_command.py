"""The command `dragoman` as it is installed: output for people and programs, and its exit codes."""

import json
import re
import shlex
import signal

import pytest
import yaml

from tests import patience


@pytest.fixture
def signed_in(shell, simulated, client_of):
    """Return a function that runs a command as an engineer who has signed in."""
    token = client_of(simulated, "engineer").settings.token
    done = shell(f"dragoman login {simulated.url} --token-stdin <<< {token}")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"Signed in to {simulated.url} as engineer.")
    return shell


def test_a_table_has_a_row_for_each_profile(signed_in):
    lines = signed_in("dragoman profiles --free --mine").stdout.splitlines()
    assert lines[0].split()[:2] == ["PROFILE", "TITLE"]
    assert any(line.startswith("notebook-24g ") for line in lines)
    assert not any("…" in line for line in lines)  # in a pipe nothing is cut


def test_json_and_yaml_have_all_that_the_portal_sent(signed_in):
    as_json = json.loads(signed_in("dragoman profiles notebook -o json").stdout)
    as_yaml = yaml.safe_load(signed_in("dragoman profiles notebook -o yaml").stdout)
    assert [one["slug"] for one in as_json] == [one["slug"] for one in as_yaml]
    assert "approval_of_teams" in as_json[0]


def test_why_says_who_acts(signed_in):
    first, titles, *steps = signed_in("dragoman why lidar-seg-2").stdout.splitlines()
    assert re.search("(decides|act) next", first)
    assert titles.split() == ["STEP", "WHEN", "WHO", "NOTE"]
    assert steps[0].startswith("Requested ")


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("dragoman nothing", 2, "No such command"),
        ("DRAGOMAN_URL=http://127.0.0.1:9 DRAGOMAN_TOKEN= dragoman --context none me", 3, "no context none"),
        ("dragoman export", 4, "platform admin"),
        ("dragoman why nothing-of-this-name", 5, "no live claim"),
        ("dragoman request train-80g --cluster fra-1 --devices 8 --template --parallel 8", 6, "needs 64"),
        ("dragoman request train-80g --cluster fra-1 --devices 0", 7, "devices: "),
        ("dragoman request train-80g --cluster nowhere", 5, "Clusters: "),
        ("dragoman request nowhere --cluster fra-1", 5, "no profile nowhere"),
        ("dragoman match train-80g --team nowhere --cluster fra-1", 5, "no team nowhere, or you are not in"),
        ("dragoman release nothing-of-this-name", 5, "no claim nothing-of-this-name"),
        ("dragoman release nothing-of-this-name --ignore-not-found", 0, "Nothing to release."),
        ("dragoman contexts use nowhere", 3, "no context nowhere. There are: default."),
        ("dragoman approve sam2-finetune", 4, ""),
        ("dragoman extend sam2-finetune", 2, "--hours or --until"),
    ],
)
def test_the_exit_code_says_what_kind_of_failure_it_is(signed_in, line, code, sentence):
    done = signed_in(line)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line]
    assert not any(line in other for line in lines for other in lines if other != line)  # said once


def test_release_of_what_has_ended_is_no_error(signed_in):
    name = json.loads(signed_in("dragoman request train-80g --cluster fra-1 --hours 1 -o json").stdout)[
        "name"
    ]
    assert signed_in(f"dragoman release {name}").returncode == 0
    again = signed_in(f"dragoman release {name}")
    assert again.returncode == 0
    assert f"{name} has ended already: withdrawn" in again.stderr


def test_the_key_of_an_ended_claim_never_passes_for_a_new_one(signed_in):
    line = "dragoman request train-80g --cluster fra-1 --hours 1 --key of-an-ended-claim"
    name = json.loads(signed_in(f"{line} -o json").stdout)["name"]
    assert signed_in(f"dragoman release {name}").returncode == 0
    again = signed_in(f"{line} -o json")
    assert again.returncode in (0, 6, 7, 9), again.stderr
    if again.returncode == 0:
        assert json.loads(again.stdout)["name"] != name
        assert signed_in(f"dragoman release {json.loads(again.stdout)['name']}").returncode == 0
    else:
        assert "key" in again.stderr


def test_a_wait_that_is_interrupted_says_that_the_request_goes_on(signed_in, simulated):
    line = "dragoman request train-80g --cluster fra-1 --hours 1 --name interrupted --wait"
    with signed_in.start(line) as command:
        assert "decides next" in command.stderr.readline()
        command.send_signal(signal.SIGINT)
        _shown, said = command.communicate(timeout=patience.COMMAND)
    assert command.returncode == 130
    assert "interrupted goes on, and counts against the quota." in said
    assert "dragoman release interrupted" in said
    assert signed_in("dragoman release interrupted").returncode == 0


def test_the_current_portal_is_chosen_and_contexts_are_documents(signed_in, simulated, client_of):
    token = client_of(simulated, "engineer").settings.token
    assert (
        signed_in(f"dragoman login {simulated.url} --context lab --token-stdin <<< {token}").returncode == 0
    )
    assert signed_in("dragoman contexts use default").returncode == 0
    listed = json.loads(signed_in("dragoman contexts -o json").stdout)
    assert {one["name"]: one["current"] for one in listed} == {"default": True, "lab": False}


def test_me_says_what_the_token_may_do(signed_in):
    facts = dict(line.split(maxsplit=1) for line in signed_in("dragoman me").stdout.splitlines())
    assert facts["may"] == "read, request, approve, admin"
    assert facts["token"] == "Test"


def test_a_portal_that_does_not_answer_has_a_code_of_its_own(shell):
    done = shell("dragoman me", DRAGOMAN_URL="http://127.0.0.1:9", DRAGOMAN_TOKEN="drg_x")
    assert done.returncode == 8
    assert done.stderr.startswith("Error: http://127.0.0.1:9 does not answer")


def test_without_a_portal_it_says_how_to_sign_in(shell):
    done = shell("dragoman me")
    assert done.returncode == 3
    assert "dragoman login URL" in done.stderr


def test_a_token_that_does_not_work_is_not_stored(shell, simulated):
    done = shell(f"dragoman login {simulated.url} --token-stdin <<< drg_wrong")
    assert done.returncode == 3
    assert shell("dragoman contexts").stdout.splitlines()[1:] == []


def test_a_wait_that_is_too_long_and_a_denial_have_codes(signed_in, simulated, client_of):
    requested = json.loads(signed_in("dragoman request train-80g --cluster fra-1 --hours 1 -o json").stdout)
    name = requested["name"]
    late = signed_in(f"dragoman wait {name} --timeout 1")
    assert late.returncode == 10
    assert f"End it: dragoman release {name}" in late.stderr
    client_of(simulated, "lead").deny(requested["id"], "Not today.")
    done = signed_in(f"dragoman wait {requested['id']}")
    assert done.returncode == 9
    assert "Not today." in done.stderr


def test_a_lead_approves_with_a_note(signed_in, simulated, client_of):
    requested = json.loads(signed_in("dragoman request train-80g --cluster fra-1 --hours 1 -o json").stdout)
    lead = {"DRAGOMAN_URL": simulated.url, "DRAGOMAN_TOKEN": client_of(simulated, "lead").settings.token}
    assert requested["id"] in signed_in("dragoman approvals", **lead).stdout
    approved = signed_in(f"dragoman approve {requested['id']} --note Fine. -o json", **lead)
    assert json.loads(approved.stdout)["decision_note"] == "Fine."
    assert signed_in(f"dragoman wait {requested['id']} --timeout 120").returncode == 0
    assert signed_in(f"dragoman release {requested['id']}").returncode == 0


def test_utilization_and_the_cost_of_a_team_are_shown(signed_in):
    facts = dict(
        line.split(maxsplit=1) for line in signed_in("dragoman usage sam2-finetune").stdout.splitlines()
    )
    assert re.fullmatch(r"\d+%", facts["busy"])
    points = json.loads(signed_in("dragoman usage sam2-finetune --range 1h -o json").stdout)["points"]
    assert len(points) > 10
    head, *rows, total = signed_in("dragoman cost --team vision --by person").stdout.splitlines()
    assert head.split() == ["PERSON", "COST"]
    assert rows
    assert re.match(r"vision \d{4}-\d\d: \S", total)


def test_an_admin_exports_the_cost_of_all_claims(signed_in, simulated, client_of, home):
    admin = {"DRAGOMAN_URL": simulated.url, "DRAGOMAN_TOKEN": client_of(simulated, "admin").settings.token}
    assert signed_in("dragoman export --file focus.csv", **admin).returncode == 0
    written = (home / "work" / "focus.csv").read_text()
    assert "BilledCost" in written.splitlines()[0]
    assert signed_in("dragoman export", **admin).stdout.splitlines()[0] == written.splitlines()[0]


def test_the_shell_completes_commands_and_names(signed_in):
    def complete(*words):
        line = f"COMP_WORDS='dragoman {' '.join(words)}' COMP_CWORD={len(words)} dragoman"
        return signed_in(f"_DRAGOMAN_COMPLETE=bash_complete {line}").stdout.split()

    assert "plain,release" in complete("rel")
    assert "plain,notebook-24g" in complete("request", "note")
    assert "plain,sam2-finetune" in complete("why", "sam")


def test_a_terminal_shows_one_line_that_moves_and_keeps_what_was_reached(signed_in):
    request = "dragoman request notebook-24g --cluster fra-1 --hours 1 --name in-a-terminal --wait"
    with_a_terminal = "import pty, shlex, sys; sys.exit(pty.spawn(shlex.split(sys.argv[1])) >> 8)"
    line = f"python -c {shlex.quote(with_a_terminal)} {shlex.quote(request)} < /dev/null"
    done = signed_in(line, TERM="xterm", COLUMNS="300")
    assert signed_in("dragoman release in-a-terminal").returncode == 0
    assert done.returncode == 0, done.stdout
    assert "✓" in done.stdout
    assert "in-a-terminal: Ready for a pod. You act next." in done.stdout
    assert "\x1b[?25h" in done.stdout  # the cursor is back


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(shell, name):
    done = shell(f"dragoman completion {name}")
    assert done.returncode == 0
    assert "_DRAGOMAN_COMPLETE" in done.stdout


def test_signing_out_removes_the_token(signed_in, home):
    assert "drg_" in (home / "config" / "dragoman" / "config.toml").read_text()
    assert signed_in("dragoman logout").returncode == 0
    assert "drg_" not in (home / "config" / "dragoman" / "config.toml").read_text()


def test_a_login_is_allowed_in_a_browser_and_its_token_works(shell, simulated):
    """Device login (RFC 8628): the command shows a code, a person allows it, the command gets a token."""
    with shell.start(f"dragoman login {simulated.url} --no-browser") as command:
        code = re.search(r"confirm the code (\S+)\.", command.stderr.readline())[1]
        with simulated.client("engineer") as browser:
            page = browser.get("/device/", params={"code": code}).text
            assert "dragoman CLI on" in page
            fields = dict(re.findall(r'name="(csrfmiddlewaretoken|code)" value="([^"]+)"', page))
            allowed = {**fields, "scopes": ["request"], "team": "", "days": "7", "decision": "allow"}
            answer = browser.post("/device/", data=allowed, headers={"Referer": simulated.url})
            token = re.search(r'csrfmiddlewaretoken" value="([^"]+)', answer.text)[1]
            password = {"csrfmiddlewaretoken": token, "password": "demo", "next": "/device/"}
            again = "/accounts/reauthenticate/?next=%2Fdevice%2F"
            answer = browser.post(again, data=password, headers={"Referer": simulated.url})
            assert "The program has its token in a few seconds" in answer.text
        _shown, said = command.communicate(timeout=patience.PAGE)
        assert command.returncode == 0, said
        assert "as engineer" in said
    assert json.loads(shell("dragoman me -o json").stdout)["username"] == "engineer"
    assert shell("dragoman approve occ-pretrain").returncode == 4  # without the scope
