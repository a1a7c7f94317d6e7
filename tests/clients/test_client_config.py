"""Where the portal is and who is calling: arguments, the environment, the file."""

import stat

import pytest
from dragoman import ConfigurationError
from dragoman.config import Context, config_path, find_settings, read_config, remove_context, save_context

WORK, HOME = "https://gpu.example.org", "https://home.example.org"


@pytest.fixture
def contexts():
    save_context("home", Context(HOME, "drg_home"))
    save_context("work", Context(WORK, "drg_work", "vision"))


def chosen(**arguments):
    settings = find_settings(**arguments)
    return settings.url, settings.token


def test_arguments_come_before_the_environment_before_the_file(contexts, monkeypatch):
    assert chosen() == (WORK, "drg_work")
    monkeypatch.setenv("DRAGOMAN_TOKEN", "drg_environment")
    assert chosen() == (WORK, "drg_environment")
    monkeypatch.setenv("DRAGOMAN_URL", "https://other.example.org")
    assert chosen() == ("https://other.example.org", "drg_environment")
    assert chosen(url=HOME, token="drg_argument") == (HOME, "drg_argument")


def test_the_team_of_the_environment_comes_before_that_of_the_file(contexts, monkeypatch):
    assert find_settings().team == "vision"
    monkeypatch.setenv("DRAGOMAN_TEAM", "nlp")
    assert find_settings().team == "nlp"


def test_a_token_of_the_file_goes_only_to_its_own_portal(contexts, monkeypatch):
    assert chosen(url=HOME) == (HOME, "drg_home")
    monkeypatch.setenv("DRAGOMAN_URL", "https://evil.example.org")
    with pytest.raises(ConfigurationError, match=r"no token for https://evil\.example\.org"):
        find_settings()


def test_a_named_context_is_taken_whole_whatever_the_environment_says(contexts, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_URL", WORK)
    monkeypatch.setenv("DRAGOMAN_TOKEN", "drg_environment")
    assert chosen(context="home") == (HOME, "drg_home")
    monkeypatch.setenv("DRAGOMAN_CONTEXT", "home")
    assert chosen() == (HOME, "drg_home")


def test_an_unknown_context_names_the_known_ones(contexts):
    with pytest.raises(ConfigurationError, match=r"no context lab. It has: home, work"):
        find_settings(context="lab")


def test_without_anything_it_says_what_to_do():
    with pytest.raises(ConfigurationError, match="Set DRAGOMAN_URL, pass url=…, or run: dragoman login URL"):
        find_settings()


@pytest.mark.parametrize("url", [f"{WORK}/", f"{WORK}/api/v1", f" {WORK}/api/v1/ "])
def test_the_address_may_be_that_of_the_api(url):
    assert find_settings(url, "drg_x").url == WORK


@pytest.mark.parametrize("url", ["gpu.example.org", "ftp://gpu.example.org", "https://"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError, match="begins with https://"):
        find_settings(url, "drg_x")


def test_only_the_owner_can_read_the_file(contexts):
    assert stat.S_IMODE(config_path().stat().st_mode) == 0o600
    assert [file.name for file in config_path().parent.iterdir()] == ["config.toml"]


def test_a_file_that_others_can_read_is_warned_about(contexts):
    config_path().chmod(0o644)
    with pytest.warns(UserWarning, match="chmod 600"):
        read_config()


def test_what_is_written_is_read_again():
    odd = Context("https://gpu.example.org", 'drg_"quoted"\\é', "vision")
    save_context("odd-1", odd)
    assert read_config().contexts == {"odd-1": odd}


def test_a_removed_context_leaves_the_others(contexts):
    remove_context("work")
    assert (read_config().current, list(read_config().contexts)) == ("home", ["home"])


@pytest.mark.parametrize("name", ["a.b", "", "a]b", "ä ö"])
def test_a_name_that_the_file_cannot_have_is_refused(name):
    with pytest.raises(ConfigurationError, match="letters, digits"):
        save_context(name, Context(WORK))


def test_a_broken_file_is_named():
    config_path().parent.mkdir(parents=True)
    config_path().write_text("contexts = [")
    with pytest.raises(ConfigurationError, match=r"config\.toml cannot be read"):
        find_settings()


def test_the_token_is_never_printed(contexts):
    assert "drg_" not in repr(find_settings())
    assert "drg_" not in repr(read_config())
