"""Create the claims of the demo and its invented past. Needs running workers; skips what exists."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from claims.approvals import pending
from claims.catalogue import waits
from core.origin import Source, came_from
from demo import actions, backdate, budgets, story
from inventory.counts import store_uses
from inventory.models import Cluster
from usage.alerts import services as alerts
from usage.daily import store_days
from usage.hourly import store_past
from usage.idle import escalation
from usage.oversized import check_sizes
from usage.telemetry import device_uses


class Command(BaseCommand):
    help = "Fill the demo with claims in every state."

    def handle(self, *args: Any, **options: Any) -> None:
        folder = Path(os.environ["DEMO_KUBECONFIGS"])
        came_from(Source.WEB)  # people act on pages
        actions.make_room()
        story.play(folder, self.stdout.write)
        actions.lay_out(folder)
        actions.do(folder)
        backdate.load_past()
        backdate.backdate_fleet()
        waits.refresh()  # of the past
        pending.refresh()  # requests were moved into the past
        store_days(now=timezone.now())
        store_past(timezone.now())
        budgets.set_budgets()
        budgets.set_goal()
        for cluster in Cluster.objects.all():
            store_uses(cluster.pk, device_uses(cluster.pk, now=timezone.now()))
        escalation.follow(timezone.now())
        check_sizes(timezone.now())
        alerts.follow(timezone.now())
