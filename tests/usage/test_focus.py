"""The export of costs in the format of FOCUS 1.2: its columns, its sums, and the official validator."""

import csv
import io
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from django.conf import settings
from pyarrow import parquet

from claims.models import Allocation
from tests.factories import make_claim, make_team, make_user
from tests.usage.conftest import H100, NOON, hold, price
from usage import focus_parquet
from usage.closing import close_month
from usage.cost import CURRENCY_UNIT
from usage.daily import forget_from, store_days
from usage.fleet_report import GroupBy, fleet_report, month_of
from usage.focus import COLUMNS, focus_lines
from usage.reports import Month

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC)
NOVEMBER = month_of(MIDNIGHT.date())
URL = "/api/v1/costs/focus/?month=2026-11"


def rows(now=NOON):
    return list(csv.DictReader(io.StringIO("".join(focus_lines(NOVEMBER, now=now)))))


def test_day_with_a_new_price_has_a_row_per_price(claim, vision):
    price("2.5")
    price("4", since=MIDNIGHT + 6 * HOUR)
    hold(claim, MIDNIGHT + 4 * HOUR, MIDNIGHT + 7 * HOUR, fraction=Decimal("0.5"), partition="3g.40gb")
    found = [(row["PricingQuantity"], row["ContractedUnitPrice"], row["BilledCost"]) for row in rows()]
    assert found == [("1.0", "2.5", "2.5"), ("0.5", "4.0", "2.0")]
    [first, _second] = rows()
    assert first["ChargePeriodStart"] == "2026-11-16T00:00:00Z"
    assert first["ChargePeriodEnd"] == "2026-11-17T00:00:00Z"
    assert first["BillingPeriodEnd"] == "2026-12-01T00:00:00Z"
    assert (first["SubAccountId"], first["ResourceName"]) == (vision.slug, claim.name)
    assert (first["x_GpuModel"], first["x_MigProfile"], first["x_HasRate"]) == (H100, "3g.40gb", "true")


def test_held_time_without_a_rate_costs_nothing_and_says_so(claim):
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR)
    [row] = rows()
    assert (row["BilledCost"], row["PricingQuantity"], row["x_HasRate"]) == ("0.0", "1.0", "false")


def test_what_is_still_held_is_charged_up_to_now(claim):
    price("2")
    hold(claim, NOON - 2 * HOUR)
    assert [row["PricingQuantity"] for row in rows()] == ["2.0"]
    assert sum(Decimal(row["PricingQuantity"]) for row in rows(NOON + DAY)) == 26


def test_sum_is_that_of_the_report_to_the_cent(claim, vision, alice, fra):
    price("2.4999")
    price("3.3333", since=MIDNIGHT + 7 * HOUR + timedelta(minutes=7, seconds=13))
    others = [make_claim(vision, by=alice, cluster=fra, held=False) for _ in range(3)]
    for number, one in enumerate([claim, *others]):
        for part in range(5):
            start = MIDNIGHT - part * DAY + number * timedelta(minutes=37, microseconds=333)
            share = Decimal("0.142857") if part % 2 else Decimal(1)
            hold(one, start, min(start + 20 * HOUR, MIDNIGHT + DAY), fraction=share)
    store_days(now=NOON)
    found = rows()
    exact = fleet_report(NOVEMBER, GroupBy.TEAM, now=NOON).parts.allocated.exact["EUR"]
    billed = sum(Decimal(row["BilledCost"]) for row in found)
    assert billed == Decimal(exact) / CURRENCY_UNIT
    for row in found:
        difference = Decimal(row["BilledCost"]) - Decimal(row["ListCost"])
        assert abs(difference) <= Decimal("0.005")
        assert Decimal(row["PricingQuantity"]) * Decimal(row["ListUnitPrice"]) == Decimal(row["ListCost"])


def test_month_without_a_charge_has_the_heads():
    assert list(csv.reader(focus_lines(NOVEMBER, now=NOON))) == [list(COLUMNS)]


def test_file_is_for_platform_admins(client, root, alice, claim):
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR)
    client.force_login(alice)
    assert client.get(URL).status_code == 403
    client.force_login(root)
    response = client.get(URL)
    assert response["Content-Disposition"] == 'attachment; filename="focus-2026-11.csv"'
    assert len(response.getvalue().decode().splitlines()) == 2
    assert client.get("/api/v1/costs/focus/?month=2026-31").status_code == 422


CRITERIA = (
    *("ACCOUNT_NAMING", "MULTIPLE_PRICING_CATEGORIES", "MULTIPLE_SUB_ACCOUNT_TYPES"),
    *("MULTIPLE_BILLING_ACCOUNT_TYPES", "NEGOTIATED_PRICING", "PUBLIC_PRICE_LIST", "USAGE_MEASUREMENT"),
    *("UNIT_PRICING", "SUB_ACCOUNT", "BILLING_BASED_ON_PROVISIONED_RESOURCES", "RESOURCE_TYPE_ASSIGNMENT"),
    *("REGION", "TAGGING", "PRICING_BILLING_CURRENCY_DIFFERENCES"),
)


# InvoiceId must be null while a charge is not invoiced, and must not be null for a usage charge: no value
# meets both rules of the validator's model 1.2.0.1.
CONTRADICTION = "InvoiceId"


def test_official_validator_finds_nothing_but_its_own_contradiction(
    claim, vision, alice, fra, root, tmp_path, validator
):
    price("2.4999")
    hold(claim, MIDNIGHT - 3 * DAY, MIDNIGHT, fraction=Decimal("0.142857"), partition="1g.10gb")
    nlp = make_team("nlp", members=(make_user("nina"),))
    hold(make_claim(nlp, by=alice, cluster=fra, held=False), MIDNIGHT, MIDNIGHT + 10 * HOUR)
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR, capacity_type="spot")
    correct_october(claim, root)
    assert {row["ChargeClass"] for row in rows()} == {"", "Correction"}
    data = tmp_path / "focus.csv"
    data.write_text("".join(focus_lines(NOVEMBER, now=NOON)))
    failed, passed = validated(data, validator)
    assert passed > 200
    assert {rule for rule in failed if CONTRADICTION not in rule} == set()


def correct_october(claim, root):
    """Close October, then learn that a device was given back earlier, and another one later."""
    october = datetime(2026, 10, 20, tzinfo=UTC)
    shorter, longer = (hold(claim, october, october + 10 * HOUR, partition=part) for part in ("", "1g.10gb"))
    store_days(now=NOON)
    close_month(by=root, month=Month.of(october.date()))
    Allocation.objects.filter(pk=shorter.pk).update(ended_at=october + 7 * HOUR)
    Allocation.objects.filter(pk=longer.pk).update(ended_at=october + 12 * HOUR)
    forget_from(october, now=NOON)
    store_days(now=NOON)


def test_corrections_of_a_closed_month_are_rows_of_the_next(claim, root):
    price("2.4999")
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR, capacity_type="spot")
    correct_october(claim, root)
    corrections = [row for row in rows() if row["ChargeClass"] == "Correction"]
    found = {(row["PricingQuantity"], row["BilledCost"]) for row in corrections}
    assert found == {("-3.0", "-7.5"), ("2.0", "5.0")}
    assert {row["ChargePeriodStart"] for row in corrections} == {"2026-10-20T00:00:00Z"}
    assert {row["BillingPeriodStart"] for row in corrections} == {"2026-11-01T00:00:00Z"}


def test_parquet_has_the_rows_of_the_csv_with_numbers_and_times(claim, root, client):
    price("2.4999")
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR, capacity_type="spot")
    correct_october(claim, root)
    client.force_login(root)
    response = client.get(URL + "&format=parquet")
    assert response["Content-Type"] == "application/vnd.apache.parquet"
    assert response["Content-Disposition"] == 'attachment; filename="focus-2026-11.parquet"'
    table = parquet.read_table(io.BytesIO(response.getvalue()))
    assert table.schema.names == list(COLUMNS)
    found, expected = table.to_pylist(), rows()
    assert len(found) == len(expected) == 3
    for row, cells in zip(found, expected, strict=True):
        for name, value in row.items():
            if value is None:
                assert cells[name] == ""
            elif isinstance(value, Decimal):
                assert value == Decimal(cells[name])
            elif isinstance(value, datetime):
                assert value == datetime.fromisoformat(cells[name])
            else:
                assert value == cells[name]
    assert {type(row["BilledCost"]) for row in found} == {Decimal}
    assert found[0]["PricingCategory"] == "Dynamic"


def test_parquet_of_many_rows_is_written_in_groups(claim, monkeypatch):
    monkeypatch.setattr(focus_parquet, "GROUP", 2)
    for day in range(5):
        hold(claim, MIDNIGHT - day * DAY, MIDNIGHT - day * DAY + HOUR)
    pieces = list(focus_parquet.focus_parquet(NOVEMBER, now=NOON))
    assert len(pieces) == 4
    assert parquet.read_table(io.BytesIO(b"".join(pieces))).num_rows == 5


def test_month_without_a_charge_is_an_empty_parquet_file():
    pieces = focus_parquet.focus_parquet(NOVEMBER, now=NOON)
    assert parquet.read_table(io.BytesIO(b"".join(pieces))).num_rows == 0


def test_installation_without_pyarrow_says_so_and_unknown_formats_are_422(client, root, monkeypatch):
    monkeypatch.setattr(focus_parquet, "is_available", lambda: False)
    client.force_login(root)
    refused = client.get(URL + "&format=parquet")
    assert refused.status_code == 406
    assert "pyarrow is not installed" in refused.json()["detail"]
    unknown = client.get(URL + "&format=xlsx")
    assert unknown.status_code == 422
    assert "A format is csv or parquet" in unknown.json()["detail"]


@pytest.fixture(scope="module")
def validator() -> Path:
    """The folder of an environment with focus-validator, whose old numpy is not for ours; installed once."""
    uv = shutil.which("uv") or str(settings.BASE_DIR / ".tools/uv/bin/uv")
    folder: Path = settings.BASE_DIR / ".tools/focus-validator"
    if not (folder / "bin/focus-validator").exists():
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        python = folder / "bin/python"
        packages = ["focus_validator==2.2.1", "pyarrow<22"]
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    return folder


def validated(data: Path, validator: Path) -> tuple[Counter[str], int]:
    """Return the rules that fail, and how many pass. The exit status of the validator says nothing."""
    # It reads this file of its own relative to the working directory.
    [codes] = validator.glob("lib/python*/site-packages/focus_validator/rules/currency_codes.csv")
    copy = data.parent / "focus_validator/rules"
    copy.mkdir(parents=True)
    shutil.copy(codes, copy)
    report = data.parent / "report.xml"
    run = subprocess.run(
        [
            *(validator / "bin/focus-validator", "--validate-version", "1.2", "--block-download"),
            *("--data-file", str(data), "--output-type", "unittest", "--output-destination", str(report)),
            *("--applicability-criteria", ",".join(f"{name}_SUPPORTED" for name in CRITERIA)),
        ],
        cwd=data.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert report.exists(), run.stdout + run.stderr
    failed: Counter[str] = Counter()
    passed = 0
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed[case.get("name", "")] += 1
        elif case.find("skipped") is None:
            passed += 1
    return failed, passed
