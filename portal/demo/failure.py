class DemoFailure(Exception):
    """Why the demo cannot start or go on, as one sentence that says what to do."""
