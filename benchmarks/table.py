"""Tables in Markdown, laid out so that they can be read as they are; and the table of runs read back."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.contest import Bar, Row

RUNS = ("input", "reader", "MB", "found", "CPU s", "wall s", "MB per CPU s", "peak MB", "kvpm to it")
BARS = ("bar", "wanted", "measured", "met")
FAILED = "failed"


def runs_table(rows: Sequence[Row]) -> str:
    """What each run took."""
    return _laid_out(RUNS, [_cells(row) for row in rows], left=2)


def bars_table(bars: Sequence[Bar]) -> str:
    """What the tool has to be."""
    return _laid_out(BARS, [(bar.what, bar.wanted, bar.measured, "yes" if bar.met else "**no**") for bar in bars], left=1)


def _cells(row: Row) -> tuple[str, ...]:
    rate = None if row.mb is None or row.cpu_s is None else row.mb / row.cpu_s
    return (
        row.input,
        row.reader,
        _number(row.mb, ",.1f"),
        _number(row.found, ",d"),
        FAILED if row.cpu_s is None else f"{row.cpu_s:.3f}",
        _number(row.wall_s, ".3f"),
        _number(rate, ",.4g"),
        _number(row.peak_mb, ",.0f"),
        _number(row.ratio, ".3g"),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _laid_out(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Columns after the first `left` are numbers, and to the right."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (w + 2) if i < left else "-" * (w + 1) + ":" for i, w in enumerate(widths))
    return "\n".join([line(head), f"|{rule}|", *map(line, rows)])


def read_runs(text: str) -> list[Row]:
    """The rows of the table of runs in a page. Raises ValueError if there is no such table, or a row of it cannot be read."""
    lines = iter(text.splitlines())
    if not any(_split(line) == RUNS for line in lines):
        raise ValueError(f"there is no table with the columns {', '.join(RUNS)}")
    next(lines, "")
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = _split(line)
        if len(cells) != len(RUNS):
            raise ValueError(f"{len(cells)} cells where {len(RUNS)} are wanted: {line}")
        name, reader, mb, found, cpu, wall, _, peak, ratio = cells
        count = _read(found)
        rows.append(Row(name, reader, _read(mb), None if count is None else int(count), _read(cpu), _read(wall), _read(peak), _read(ratio)))
    return rows


def _split(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def _read(cell: str) -> float | None:
    return None if cell in ("", FAILED) else float(cell.replace(",", ""))
