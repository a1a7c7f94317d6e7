#!/usr/bin/env python3
"""Delete the data of the demo: remove DEMO_HOME, unless a demo still runs in it."""

import fcntl
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
home = os.path.normpath(os.path.join(ROOT, os.environ.get("DEMO_HOME") or ".demo"))
kinds = [os.path.join(home, kind) for kind in ("sim", "real", "sim-empty", "real-empty")]

for folder in kinds:
    lock = os.path.join(folder, "lock")
    if os.path.exists(lock):
        with open(lock, "w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                sys.exit("A demo is running in %s. Stop it with Ctrl-C first." % folder)
gone = [folder for folder in kinds if os.path.isdir(folder)]
for folder in gone:
    shutil.rmtree(folder)
print("Forgotten: %s" % ", ".join(gone) if gone else "Nothing to delete in %s." % home)
