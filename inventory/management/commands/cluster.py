"""`manage.py cluster add|check|list|reseal|remove|set|telemetry|rbac|policies`: clusters, from a terminal."""

import shutil
import sys
from argparse import BooleanOptionalAction
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.views.decorators.debug import sensitive_variables
from rich.console import Console
from rich.table import Table

from cluster.checkup import CheckupFinding, CheckupVerdict, manifest
from cluster.credentials import IN_CLUSTER, Credentials, from_kubeconfig
from cluster.policies import ACCOUNT, POLICIES, PolicyAction, to_yaml
from core.errors import Invalid, PortalError
from core.text import counted
from core.yaml_documents import text_in
from inventory.clusters import (
    add_cluster,
    change_cluster,
    check_cluster,
    find_cluster,
    remove_cluster,
    renew_credentials,
    reseal_credentials,
    write_quotas,
)
from inventory.models import Cluster, TelemetryAccess
from inventory.states import EndPolicy
from inventory.telemetry_access import NO_SECRET, TelemetrySecret, change_telemetry, reseal_secrets

# State is a word and a sign, never colour alone.
SIGNS = {
    CheckupVerdict.GOOD: "[green]✓ {}[/]",
    CheckupVerdict.NOTE: "[yellow]! {}[/]",
    CheckupVerdict.BAD: "[red]✗ {}[/]",
}


class Command(BaseCommand):
    help = "Adds, checks, lists and removes clusters, and prints the role that the portal needs in one."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        add = actions.add_parser("add", help="enrol a cluster, or give it new credentials")
        add.add_argument("name", help="short name: lower-case letters, digits and hyphens")
        add.add_argument(
            "--kubeconfig", default="-", metavar="FILE", help="“-”, the default, reads standard input"
        )
        add.add_argument("--context", default="", help="which context of it; the current one by default")
        add.add_argument("--in-cluster", action="store_true", help="the service account of this pod")
        add.add_argument("--title", default="")
        add.add_argument("--read-only", action="store_true", help="show it, and never deliver claims there")
        add.add_argument(
            "--write-quotas", action="store_true", help="keep the teams' quotas there as ResourceQuota"
        )
        add.add_argument(
            "--end-policy",
            choices=EndPolicy.values,
            default=EndPolicy.RUN.value,
            help="what happens to pods that still run when a claim ends; a profile may say otherwise",
        )
        add.add_argument("--prometheus-url", default="")
        add.add_argument("--metrics-url", default="", help="of a dcgm-exporter, where there is no Prometheus")
        add.add_argument("--renew", action="store_true", help="new credentials for a cluster that is known")
        check = actions.add_parser("check", help="what works, and what permission is missing")
        check.add_argument("name")
        actions.add_parser("list", help="the clusters that the portal knows")
        actions.add_parser("reseal", help="encrypt all credentials with the newest of CREDENTIAL_KEYS")
        remove = actions.add_parser("remove", help="forget a cluster and its mirror")
        remove.add_argument("name")
        remove.add_argument("--yes", action="store_true", help="do not ask")
        self.add_rbac(actions.add_parser("rbac", help="print what a cluster admin applies"))
        change = actions.add_parser("set", help="change how the portal treats a cluster")
        change.add_argument("name")
        change.add_argument("--write-quotas", action=BooleanOptionalAction)
        change.add_argument("--end-policy", choices=EndPolicy.values, help="what happens to pods at the end")
        telemetry = actions.add_parser("telemetry", help="set where telemetry is read, and how")
        telemetry.add_argument("name")
        telemetry.add_argument("--prometheus-url", help="empty: no Prometheus")
        telemetry.add_argument("--metrics-url", help="of a dcgm-exporter; empty: none")
        telemetry.add_argument("--ca-file", metavar="FILE", help="the CA to trust, in PEM")
        telemetry.add_argument("--tenant", help="sent as X-Scope-OrgID")
        telemetry.add_argument("--matchers", help='of the series of this cluster, such as cluster="fra-1"')
        telemetry.add_argument("--timeout", type=int, metavar="SECONDS", help="per query, 1 to 60")
        telemetry.add_argument("--token-file", metavar="FILE", help="a bearer token; “-” is standard input")
        telemetry.add_argument("--user", default="", help="of basic authentication")
        telemetry.add_argument("--password-file", metavar="FILE", help="“-” is standard input")
        telemetry.add_argument("--certificate-file", metavar="FILE", help="of a client, in PEM")
        telemetry.add_argument("--key-file", metavar="FILE", help="its key")
        telemetry.add_argument("--no-secret", action="store_true", help="forget token, password, certificate")
        policies = actions.add_parser("policies", help="print what a cluster admin applies")
        policies.add_argument("--only", action="append", choices=list(POLICIES), help="some of them")
        policies.add_argument("--warn", action="store_true", help="warn and let pass, to try them out")
        policies.add_argument("--account", default=ACCOUNT, help="user name of the portal in the cluster")

    def add_rbac(self, rbac: CommandParser) -> None:
        rights = rbac.add_mutually_exclusive_group()
        rights.add_argument("--read-only", action="store_true", help="to show what there is")
        rights.add_argument("--full", action="store_true", help="to deliver claims as well; the default")
        rbac.add_argument("--write-quotas", action="store_true", help="to write ResourceQuotas as well")
        rbac.add_argument(
            "--evict-pods", action="store_true", help="to evict pods at the end of a claim as well"
        )
        rbac.add_argument(
            "--review-tokens",
            action="store_true",
            help="so that pods get API tokens with their service account",
        )
        rbac.add_argument("--name", default="dragoman", help="of the service account and its role")
        rbac.add_argument("--namespace", default="dragoman")

    def handle(self, *args: Any, **options: Any) -> None:
        problem = ""
        try:
            getattr(self, f"do_{options['action']}")(options)
        except PortalError as refusal:
            problem = refusal.message
        except ValidationError as errors:
            problem = " ".join(errors.messages)
        if problem:  # outside the except: nothing of the refused credentials hangs on to it
            raise CommandError(problem)

    def do_add(self, options: dict[str, Any]) -> None:
        credentials = read_credentials(options)
        if options["renew"]:
            cluster = renew_credentials(name=options["name"], credentials=credentials)
        else:
            wanted = ("title", "read_only", "write_quotas", "end_policy", "prometheus_url", "metrics_url")
            fields = {key: options[key] for key in wanted}
            cluster = add_cluster(name=options["name"], credentials=credentials, **fields)
        self.report(cluster)

    def do_check(self, options: dict[str, Any]) -> None:
        missing = self.report(find_cluster(options["name"]))
        if missing:
            raise Invalid(f"{options['name']}: {missing} of the checks failed.")

    def do_list(self, options: dict[str, Any]) -> None:
        clusters = list(Cluster.objects.all())
        table = Table("Name", "Title", "Kubernetes", "uid of kube-system", "State")
        for cluster in clusters:
            table.add_row(cluster.name, cluster.title, cluster.version, cluster.uid, cluster_state(cluster))
        if clusters:
            self.show(table)
        else:
            self.stdout.write("No clusters yet. Add one: manage.py cluster add NAME --kubeconfig FILE")

    def do_reseal(self, _options: dict[str, Any]) -> None:
        clusters, secrets = counted(reseal_credentials(), "cluster"), counted(reseal_secrets(), "secret")
        self.stdout.write(
            f"Credentials of {clusters} and {secrets} of telemetry and tracking encrypted with the newest "
            "key. Older keys are needed for older backups only."
        )

    def do_remove(self, options: dict[str, Any]) -> None:
        name = find_cluster(options["name"]).name
        question = f"Forget {name}, all that is known of its devices and their history? Type its name: "
        if not options["yes"] and input(question).strip() != name:
            raise Invalid("Nothing was removed.")
        remove_cluster(name=name)
        self.stdout.write(f"{name} is forgotten. Nothing was changed in the cluster itself.")

    def do_rbac(self, options: dict[str, Any]) -> None:
        wanted = ("read_only", "write_quotas", "evict_pods", "review_tokens", "name", "namespace")
        self.stdout.write(manifest(**{key: options[key] for key in wanted}), ending="")

    def do_set(self, options: dict[str, Any]) -> None:
        if options["write_quotas"] is None and options["end_policy"] is None:
            raise Invalid("Name what to change: --write-quotas, --no-write-quotas or --end-policy.")
        if options["end_policy"] is not None:
            changed = change_cluster(name=options["name"], end_policy=options["end_policy"])
            label = EndPolicy(changed.end_policy).label
            self.stdout.write(f"When a claim in {changed.name} ends: {label}. A profile may say otherwise.")
        if options["write_quotas"] is None:
            return
        cluster = write_quotas(name=options["name"], write=options["write_quotas"])
        self.stdout.write(
            f"Quotas are written to {cluster.name} within a minute."
            if cluster.write_quotas
            else f"The portal's quotas are removed from {cluster.name} within a minute."
        )

    @sensitive_variables()
    def do_telemetry(self, options: dict[str, Any]) -> None:
        columns = {"authority": read_file(options["ca_file"]), "tenant": options["tenant"]}
        columns["matchers"] = options["matchers"]
        columns["timeout_seconds"] = options["timeout"]
        addresses = {key: options[key] for key in ("prometheus_url", "metrics_url")}
        secret = TelemetrySecret(
            token=read_file(options["token_file"]) or "",
            user=options["user"],
            password=read_file(options["password_file"]) or "",
            certificate=read_file(options["certificate_file"]) or "",
            key=read_file(options["key_file"]) or "",
        )
        if options["no_secret"] and secret != NO_SECRET:
            raise Invalid("Give either a secret or --no-secret, not both.")
        cluster = change_telemetry(
            name=options["name"],
            addresses={key: value for key, value in addresses.items() if value is not None},
            secret=secret if secret != NO_SECRET or options["no_secret"] else None,
            fields={key: value for key, value in columns.items() if value is not None},
        )
        access = TelemetryAccess.objects.filter(cluster=cluster).first() or TelemetryAccess(cluster=cluster)
        source = cluster.telemetry_url or "no source"
        self.stdout.write(f"Telemetry of {cluster.name}: {source}, {access.get_kind_display().lower()}.")

    def do_policies(self, options: dict[str, Any]) -> None:
        action = PolicyAction.WARN if options["warn"] else PolicyAction.DENY
        names = options["only"] or list(POLICIES)
        self.stdout.write(to_yaml(names, account=options["account"], action=action), ending="")

    def report(self, cluster: Cluster) -> int:
        """Show the findings as a table while they are made; return how many are bad."""
        findings = check_cluster(cluster)
        table = Table("", "What", "Finding", title=cluster.name)
        for finding in findings:
            detail = ". ".join(filter(None, (finding.detail, finding.remedy)))
            table.add_row(finding_sign(finding), finding.subject, detail)
        self.show(table)
        return sum(finding.verdict == CheckupVerdict.BAD for finding in findings)

    def show(self, table: Table) -> None:
        page = StringIO()
        width = shutil.get_terminal_size((120, 40)).columns
        Console(file=page, width=max(width, 80), force_terminal=self.stdout.isatty()).print(table)
        self.stdout.write(page.getvalue(), ending="")


def read_credentials(options: dict[str, Any]) -> Credentials:
    if options["in_cluster"]:
        return IN_CLUSTER
    source = options["kubeconfig"]
    try:
        text = sys.stdin.read() if source == "-" else text_in(Path(source).expanduser().read_bytes())
    except (OSError, UnicodeDecodeError) as problem:
        raise Invalid(f"{source} cannot be read: {problem}.") from None
    return from_kubeconfig(text, context=options["context"])


@sensitive_variables()
def read_file(name: str | None) -> str | None:
    """Return the text of a file without white space around it, "-" for standard input; None without one."""
    if name is None:
        return None
    try:
        return (sys.stdin.read() if name == "-" else text_in(Path(name).expanduser().read_bytes())).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise Invalid(f"{name} cannot be read: {type(problem).__name__}.") from None


def finding_sign(finding: CheckupFinding) -> str:
    words = {CheckupVerdict.GOOD: "good", CheckupVerdict.NOTE: "note", CheckupVerdict.BAD: "bad"}
    return SIGNS[finding.verdict].format(words[finding.verdict])


def cluster_state(cluster: Cluster) -> str:
    if cluster.halt_reason:
        return cluster.halt_reason
    if not cluster.enabled:
        return "not in use"
    words = ["in use"]
    if cluster.read_only:
        words.append("read-only")
    if cluster.simulated:
        words.append("simulated")
    return ", ".join(words)
