"""
Let what holds devices in a simulated cluster look as old as the story says.

Only a simulated cluster lets anybody rewrite when it allocated; on a real one the story keeps the true times.
"""

from datetime import datetime, timedelta
from pathlib import Path

from claims.models import Claim
from cluster.kinds import RESOURCE_CLAIM
from portal.demo.clusters import people_get, people_patch


def age_in_cluster(claim: Claim, by: timedelta, folder: Path) -> None:
    """Move the allocation of a named claim into the past."""
    address = RESOURCE_CLAIM.path(claim.namespace, claim.name)
    status = people_get(folder, claim.cluster.name, address).get("status", {})
    if "allocation" not in status:
        return
    then = datetime.fromisoformat(status["allocation"]["allocationTimestamp"]) - by
    body = {"status": {"allocation": {"allocationTimestamp": then.strftime("%Y-%m-%dT%H:%M:%SZ")}}}
    people_patch(folder, claim.cluster.name, f"{address}/status", body)
