"""The SQL library's own rules: every view is described, every file is in its layer's order, layers read downwards only."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import duckdb
import pytest
from sql_case import database

from analyzer.diagnosis.questions import questions
from analyzer.diagnosis.thresholds import thresholds
from analyzer.fleet.dataset.reader import LAYER
from analyzer.resources import sql_dir
from analyzer.trace.reader import _KEPT, LAYERS, create_views, sql_files
from analyzer.trace.schema import TABLES

CREATE = re.compile(r"^CREATE OR REPLACE VIEW (\w+) AS$", re.M)
FILES = list(sql_files())
FLEET = list(sql_files((LAYER,)))
# None so far. An exception is (file, the later view it reads): why.
EXCEPTIONS: dict[tuple[str, str], str] = {}
STABLE = {
    "scheduler_clean", "event", "request_best", "signal_load", "signal_l1", "signal_retract", "signal_ttft", "signal_l2", "timeline",
    *(q.view for q in questions().values()),
}  # fmt: skip


@cache
def views() -> dict[str, Path]:
    return {name: file.path for file in FILES for name in CREATE.findall(file.text)}


def code(text: str) -> str:
    """Without comments and quoted text."""
    return re.sub(r"'(?:[^']|'')*'", "''", re.sub(r"--.*", "", text))


def reads(text: str) -> set[str]:
    return set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", code(text)))


@pytest.mark.parametrize("layer", [*LAYERS, LAYER])
def test_every_file_is_in_its_order(layer: str) -> None:
    order = (sql_dir() / layer / "ORDER").read_text(encoding="utf-8").split()
    assert sorted(order) == sorted(p.stem for p in (sql_dir() / layer).glob("*.sql"))
    assert len(order) == len(set(order))


def test_no_other_folder() -> None:
    # those of a fleet stand on the tables of a dataset, and not on a trace
    assert {p.name for p in sql_dir().iterdir() if p.is_dir()} == {*LAYERS, LAYER}


@pytest.mark.parametrize("file", [*FILES, *FLEET], ids=lambda f: f.name)
def test_every_view_has_a_comment_above_it(file: object) -> None:
    text = file.text  # type: ignore[attr-defined]
    names = CREATE.findall(text)
    assert names, "a file without a view"
    for name in names:
        above = text[: text.index(f"CREATE OR REPLACE VIEW {name} AS\n")].rstrip("\n").splitlines()
        assert above, name
        assert above[-1].startswith("-- "), f"{name} has no comment right above it"
    made = [m for m in re.findall(r"^CREATE .*", text, re.M) if not m.startswith("CREATE OR REPLACE MACRO _")]
    assert len(made) == len(names), "only CREATE OR REPLACE VIEW name AS, and macros of a file's own"


def test_view_names_are_used_once_and_are_no_tables() -> None:
    names = [name for file in FILES for name in CREATE.findall(file.text)]
    assert len(names) == len(set(names))
    assert not set(names) & set(TABLES)
    assert set(names) >= STABLE
    assert set(_KEPT) <= set(names)


def test_a_file_is_named_after_the_first_public_view_or_its_subject() -> None:
    for question in questions().values():
        assert views()[question.view].stem == question.view


def test_nothing_reads_what_comes_later() -> None:
    made: set[str] = set(TABLES)
    for file in FILES:
        for statement in file.text.split("CREATE OR REPLACE VIEW ")[1:]:
            name = statement.split()[0]
            later = (reads(statement) & set(views())) - made - {name}
            later -= {view for path, view in EXCEPTIONS if path == file.name}
            assert not later, f"{file.path.name}: {name} reads {later}, which comes later"
            made.add(name)


def test_layers_are_in_order() -> None:
    layer = {name: LAYERS.index(path.parent.name) for name, path in views().items()}
    for file in FILES:
        for name in reads(file.text) & set(views()):
            assert layer[name] <= LAYERS.index(file.layer) or (file.name, name) in EXCEPTIONS


def test_every_variable_is_a_documented_threshold() -> None:
    used = {name for file in FILES for name in re.findall(r"getvariable\('(\w+)'\)", file.text)}
    # and what bounds and buckets an opened trace
    assert used - {"since", "until", "bucket_s"} <= set(thresholds())


def test_private_views_are_read_by_others_and_public_ones_are_documented() -> None:
    sources = (p.read_text(encoding="utf-8") for p in (sql_dir().parent / "analyzer").rglob("*.py"))
    words = Counter(re.findall(r"\w+", "\n".join([*(code(f.text) for f in FILES), *sources])))
    for name in views():
        if name.startswith("_"):
            assert words[name] > 1, f"{name} is read by nothing"


@cache
def all_made() -> duckdb.DuckDBPyConnection:
    """Every view at once, as an opened trace has them."""
    con = database().con
    create_views(con)
    return con


def test_times_are_called_so() -> None:
    con = all_made()
    for name in views():
        for column, kind, *_ in con.execute(f"DESCRIBE {name}").fetchall():
            assert re.fullmatch(r"[a-z][a-z0-9_]*", column), f"{name}.{column}"
            if kind.startswith("TIMESTAMP"):
                assert column == "ts" or column.endswith("_ts"), f"{name}.{column} is a time"


def test_every_public_view_works_on_an_empty_trace() -> None:
    con = all_made()
    for name in views():
        assert con.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] in (0, 1)


def test_a_view_is_made_with_all_that_it_reads() -> None:
    con, one_by_one = all_made(), database()
    for name in reversed(views()):
        described = f"DESCRIBE {name}"
        assert one_by_one.execute(described).fetchall() == con.execute(described).fetchall()


def test_division_is_never_whole() -> None:
    """DuckDB's // does not cut a fraction off: buckets would be rounded to the nearest."""
    for file in FILES:
        assert "//" not in code(file.text), file.path.name
