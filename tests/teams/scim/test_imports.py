"""What a process imports that serves no SCIM."""

import subprocess
import sys


def test_the_addresses_of_the_portal_do_not_import_the_models_of_scim():
    """20 MiB in each worker and web process that no provider asks."""
    code = "import sys, django; django.setup(); import portal.urls; print('scim2_models' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
