"""A browser, and people who sit in front of it."""

import pytest
import pytest_socket
from playwright.sync_api import expect, sync_playwright

from tests.e2e.chromium import ARGUMENTS, executable
from tests.e2e.person import WAIT, Person


@pytest.fixture(autouse=True)
def _patient():
    """What a page says is waited for, however slow the machine is."""
    expect.set_options(timeout=WAIT)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="package")
def browser():
    pytest_socket.enable_socket()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def signed_in(simulated, browser):
    """Return a function that gives the cookies of somebody who has signed in, once for all tests."""
    cookies = {}

    def of(name):
        if name not in cookies:
            person = Person(browser, simulated.url, name).sign_in()
            cookies[name] = person.context.storage_state()
            person.leaves()
        return cookies[name]

    return of


@pytest.fixture
def people(simulated, browser, signed_in):
    """Return a function that seats somebody of the demo, signed in, at a browser of their own."""
    seated = []

    def seat(name, **options):
        seated.append(Person(browser, simulated.url, name, storage_state=signed_in(name), **options))
        return seated[-1]

    yield seat
    for person in seated:
        person.gives_back()
    for person in seated:
        person.leaves()
