"""
How long tests wait for what happens in its own time, in seconds.

A wait ends when its condition holds: these limits only say when a test gives up. DRAGOMAN_PATIENCE multiplies
them, for a machine that does much else.
"""

import os

SCALE = float(os.environ.get("DRAGOMAN_PATIENCE", "1"))

DEMO_READY = 400 * SCALE  # from nothing to a demo that has told its story
COMMAND = 120 * SCALE  # a program that does one thing and ends
EXIT = 60 * SCALE  # from a signal to the end of a program and all that it has started
PROGRAM_READY = 90 * SCALE  # a part of a control plane, or a simulator, answers
CONTROLLERS = 240 * SCALE  # they look for a restarted API server once a minute, each time anew
SCHEDULER = 120 * SCALE  # the real one says of a pod what is expected
EVENT = 30 * SCALE  # a change is told to who watches
PAGE = 60 * SCALE  # what somebody waits for in front of a page, without reloading it
LOCK = 60 * SCALE  # one of two threads, until the other has gone on
