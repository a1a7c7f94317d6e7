"""The client with `await`. `dragoman/_sync` is made from it by `python clients/python/make_sync.py`."""
