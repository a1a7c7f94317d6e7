"""
Let what holds devices in a simulated cluster look as old as the story says.

Only a simulated cluster lets anybody rewrite when it allocated; on a real one the story keeps the true times.
"""

from datetime import datetime, timedelta
from pathlib import Path

import httpx

from claims.models import Claim
from cluster.kinds import RESOURCE_CLAIM
from portal.demo.clusters import read_credentials

MERGE = {"Content-Type": "application/merge-patch+json"}


def age_in_cluster(claim: Claim, by: timedelta, folder: Path) -> None:
    """Move the allocation of a named claim into the past."""
    who = read_credentials(folder, f"{claim.cluster.name}.people")
    address = RESOURCE_CLAIM.path(claim.namespace, claim.name)
    headers = {"Authorization": f"Bearer {who.token}"}
    with httpx.Client(base_url=who.server, headers=headers, timeout=60) as api:
        status = api.get(address).raise_for_status().json().get("status", {})
        if "allocation" not in status:
            return
        then = datetime.fromisoformat(status["allocation"]["allocationTimestamp"]) - by
        body = {"status": {"allocation": {"allocationTimestamp": then.strftime("%Y-%m-%dT%H:%M:%SZ")}}}
        api.patch(f"{address}/status", json=body, headers=MERGE).raise_for_status()
