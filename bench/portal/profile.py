"""Where the time of one path goes: its functions, and its queries by time."""

from __future__ import annotations

import cProfile
import pstats

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import set_script_prefix
from rich.console import Console

from bench.portal.addresses import addresses
from bench.portal.pages import request, signed_in

FUNCTIONS, QUERIES = 40, 10  # lines that are shown
WIDTH = 400  # characters of a query that are shown


def show(path: str) -> None:
    """Print the profile of each page whose name is `path`, as each of its readers."""
    set_script_prefix("/")
    console = Console(highlight=False, markup=False)
    name = path.removeprefix("pages: ")
    for address in addresses():
        for reader in address.readers if address.name == name else ():
            client = signed_in(reader)
            headers = {"HX-Request": "true"} if address.fragment else {}
            request(client, address, headers)
            with CaptureQueriesContext(connection) as queries:
                request(client, address, headers)
                slowest = sorted(queries.captured_queries, key=lambda query: -float(query["time"]))
            console.print(f"\n{path} as {reader}: {len(slowest)} queries")
            for query in slowest[:QUERIES]:
                console.print(f"{query['time']} s  {query['sql'][:WIDTH]}")
            profile = cProfile.Profile()
            profile.runcall(request, client, address, headers)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(FUNCTIONS)
