"""
The same rows as `usage.focus`, as a Parquet file: numbers are decimals and times are instants in UTC.

The file is written as it is sent, a group of rows at a time. It needs pyarrow, an optional dependency
(decision 25).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from itertools import batched
from typing import Any

from usage.fleet_report import Period
from usage.focus import COLUMNS, focus_rows

GROUP = 5_000  # rows held in memory
DIGITS, SCALE = 38, 14  # ten of a quantity and four of a price
NUMBERS = frozenset(
    name for name in COLUMNS if name.endswith(("Cost", "UnitPrice", "Quantity")) and not name.startswith("x_")
)
MOMENTS = frozenset(name for name in COLUMNS if name.endswith(("PeriodStart", "PeriodEnd")))
UNAVAILABLE = (
    "This installation cannot write Parquet: pyarrow is not installed. Ask for CSV, or have the extra "
    "“parquet” of the portal installed."
)


def is_available() -> bool:
    return find_spec("pyarrow") is not None


class _Sink:
    """A file that is written once from its beginning to its end, and taken away piece by piece."""

    closed = False

    def __init__(self) -> None:
        self._written, self._place = bytearray(), 0

    def write(self, data: bytes) -> int:
        self._written += data
        self._place += len(data)
        return len(data)

    def tell(self) -> int:
        return self._place

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        data, self._written = bytes(self._written), bytearray()
        return data


def focus_parquet(period: Period, *, now: datetime) -> Iterator[bytes]:
    """Yield the file in pieces. Requires `is_available`."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    schema = arrow.schema([(name, _type(arrow, name)) for name in COLUMNS])
    sink = _Sink()
    with parquet.ParquetWriter(arrow.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        for rows in batched(focus_rows(period, now=now), GROUP):
            columns = zip(*rows, strict=True)
            arrays = [
                arrow.array([_value(name, cell) for cell in cells], schema.field(name).type)
                for name, cells in zip(COLUMNS, columns, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


def _type(arrow: Any, name: str) -> Any:
    if name in NUMBERS:
        return arrow.decimal128(DIGITS, SCALE)
    return arrow.timestamp("us", tz="UTC") if name in MOMENTS else arrow.string()


def _value(name: str, cell: str) -> Decimal | datetime | str | None:
    """Return a cell of the CSV in the type of its column; an empty one is null."""
    if not cell:
        return None
    if name in NUMBERS:
        return Decimal(cell)
    return datetime.fromisoformat(cell) if name in MOMENTS else cell
