"""That the next test finds nothing of one that commits: `tests.emptying`."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command

from tests.emptying import KEPT
from tests.portal.every_address import one_of_everything


@pytest.mark.django_db(transaction=True)
def test_a_flush_leaves_content_types_and_permissions_alone():
    """It empties tables that refer to each other, and those that triggers keep or fill."""
    kept = [set(model.objects.values_list("pk", flat=True)) for model in (ContentType, Permission)]
    assert all(kept)
    one_of_everything()

    def rows() -> set[str]:
        return {
            one._meta.db_table
            for one in apps.get_models(include_auto_created=True)
            if one._base_manager.exists()
        }

    assert len(rows()) > 40
    call_command("flush", interactive=False)
    assert rows() == KEPT
    assert [set(model.objects.values_list("pk", flat=True)) for model in (ContentType, Permission)] == kept
