"""Portals that answer as a test says, for what a real one does rarely: lost answers, limits."""

import asyncio
import inspect
import json

import httpx
from dragoman import AsyncClient, Client

URL = "http://portal.test"


class Scripted:
    """Answers requests one after the other; `asked` has the requests. An exception is raised instead."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        # A new one, since a response is read once.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    @property
    def keys(self):
        return [request.headers.get("Idempotency-Key") for request in self.asked]

    def bodies(self):
        return [json.loads(request.content) for request in self.asked if request.method == "POST"]


def answer(status=200, headers=None, **body):
    return httpx.Response(status, json=body, headers=headers)


def problem(status, code="refused", detail="It is not possible.", headers=None, **more):
    body = {"type": "about:blank", "status": status, "code": code, "detail": detail} | more
    return httpx.Response(
        status, json=body, headers={"Content-Type": "application/problem+json"} | (headers or {})
    )


class Synchronous:
    """Calls the client without `await`."""

    def __init__(self, script, **options):
        http = httpx.Client(transport=httpx.MockTransport(script))
        self.client = Client(URL, "drg_test", http=http, **options)

    def call(self, name, *args, **options):
        found = getattr(self.client, name)(*args, **options)
        return list(found) if inspect.isgenerator(found) else found


class Asynchronous:
    """Calls the client with `await`, in an event loop per call."""

    def __init__(self, script, **options):
        self.script, self.options = script, options

    def call(self, name, *args, **options):
        async def run():
            http = httpx.AsyncClient(transport=httpx.MockTransport(self.script))
            async with AsyncClient(URL, "drg_test", http=http, **self.options) as client:
                found = getattr(client, name)(*args, **options)
                if inspect.isasyncgen(found):
                    return [row async for row in found]
                return await found

        return asyncio.run(run())
