"""What the hooks of JupyterHub do where a server cannot start, against a running portal."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from dragoman import AsyncClient
from dragoman.jupyterhub import GpuProfiles, SpawnRefused, pod_config, server_option
from dragoman.results import LIVE, Profile


def server(profile, **more):
    """Return what the hooks read of a spawner."""
    facts = {"pod_name": "jupyter-hooks", "namespace": "vision", "environment": {}} | more
    user = SimpleNamespace(name="mira")
    options = {"profile": profile} | facts.pop("options", {})
    return SimpleNamespace(user=user, user_options=options, log=logging.getLogger("hub"), **facts)


@pytest.fixture
def mira(client_of, simulated):
    client = client_of(simulated, "engineer")
    yield client
    for claim in client.claims(state=LIVE, mine=True):
        if claim.name.startswith("jupyter-"):
            claim.release()


@pytest.fixture
def run(mira):
    """Return a function that calls a hook as the hub does."""

    def call(hook, spawner, **options):
        async def inside():
            async with AsyncClient(mira.settings.url, mira.settings.token) as client:
                profiles = GpuProfiles(team="vision", cluster="fra-1", client=client, hours=1, **options)
                return await getattr(profiles, hook)(spawner)

        return asyncio.run(inside())

    return call


@pytest.fixture
def live(mira):
    return lambda: [
        claim.name for claim in mira.claims(state=LIVE, mine=True) if claim.name.startswith("jupyter-")
    ]


def test_a_server_gets_a_claim_and_the_variables_of_it(run, mira, live):
    spawner = server("notebook-24g")
    run("pre_spawn_hook", spawner)
    assert live() == [spawner.dragoman_claim.name]
    assert pod_config(spawner) == {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": spawner.dragoman_claim.name}]
    }
    assert spawner.environment["CLAIM_ID"] == spawner.dragoman_claim.id
    run("post_stop_hook", server("notebook-24g"))  # of a hub that was restarted: it knows the pod's name only
    assert live() == []


def test_a_server_whose_end_was_not_seen_gives_its_claim_back_before_the_next_one(run, live):
    run("pre_spawn_hook", server("notebook-24g"))
    (first,) = live()
    run("pre_spawn_hook", server("notebook-24g"))
    assert len(live()) == 1
    assert live() != [first]


def test_claims_of_other_servers_are_left_alone(run, live):
    run("pre_spawn_hook", server("notebook-24g", pod_name="jupyter-hooks-abcdef"))
    run("post_stop_hook", server("notebook-24g"))
    assert len(live()) == 1


def test_another_namespace_is_a_sentence_and_the_claim_is_given_back(run, live):
    with pytest.raises(SpawnRefused, match=r"in namespace vision, but this server starts in hub") as error:
        run("pre_spawn_hook", server("notebook-24g", namespace="hub"))
    assert error.value.jupyterhub_message == str(error.value)
    assert live() == []


def test_a_request_that_nobody_approves_is_withdrawn_and_says_who_could_have(run, live):
    with pytest.raises(SpawnRefused, match="Aylin"):
        run("pre_spawn_hook", server("train-80g"), with_approval=True, timeout=1)
    assert live() == []


def test_what_needs_approval_is_not_offered_and_cannot_be_chosen(run, live):
    offered = [option["slug"] for option in run("profile_list", server(""))]
    assert offered[0] == "without-gpu"
    assert "notebook-24g" in offered
    assert "train-80g" not in offered
    spawner = server("train-80g")
    run("pre_spawn_hook", spawner)
    assert spawner.dragoman_claim is None
    assert live() == []


def test_the_first_profile_is_the_default_of_a_hub_without_an_option_without_gpu(run):
    spawner = server("", options={})
    run("pre_spawn_hook", spawner, profiles=["notebook-24g"], without_gpu=False)
    assert spawner.dragoman_claim.profile == "notebook-24g"


@pytest.mark.parametrize("devices", ["many", "-1", "1.5"])
def test_a_number_of_devices_that_is_none_is_refused(run, live, devices):
    with pytest.raises(SpawnRefused, match="is a number, not"):
        run("pre_spawn_hook", server("notebook-24g", options={"devices": devices}))
    assert live() == []


def test_a_pod_is_never_made_without_its_claim():
    with pytest.raises(SpawnRefused, match="There is no claim for this server"):
        pod_config(server("notebook-24g"))


def test_texts_of_the_catalogue_are_no_html():
    option = server_option(Profile(slug="x", title="<b>Big</b>", use="<script>", max_devices=2))
    assert "<" not in option["display_name"] + option["description"]
    assert list(option["profile_options"]["devices"]["choices"]) == ["1", "2"]
