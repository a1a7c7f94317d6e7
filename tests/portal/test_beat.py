"""What beat starts while no worker runs must not be done a thousand times when one comes back."""

import pytest

from portal.celery import app


@pytest.mark.parametrize("name", app.conf.beat_schedule)
def test_what_is_due_again_is_void(name):
    entry = app.conf.beat_schedule[name]
    assert entry["options"] == {"expires": entry["schedule"]}
    app.loader.import_default_modules()
    assert entry["task"] in app.tasks
