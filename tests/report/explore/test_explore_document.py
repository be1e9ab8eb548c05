"""What the page carries for its charts: the same bytes each time, nothing that could end a script element, no value lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_fakes import fleet, hostile, l1_incident

from analyzer.language import use
from analyzer.report.data import build_report
from analyzer.report.explore.document import ExplorePage, explore_page, packed, script_json
from analyzer.report.explore.figures import CHARTS, charts_of
from analyzer.report.explore.model import Column
from analyzer.report.explore.whole import Explore
from analyzer.report.render import render_html

BASE = (Path(__file__).resolve().parents[3] / "templates" / "style" / "base.css").read_text(encoding="utf-8")
_TWICE = "import sys; sys.path[:0] = sys.argv[1:]; from report_fakes import fleet; from analyzer.report.data import build_report\n"
_TWICE += "from analyzer.report.explore.document import explore_page\n"
_TWICE += "page = explore_page(build_report(*fleet()).explore); print(hash('a')); print(page.document, page.data, page.words)"


def explore_of(fake: Any) -> Explore:
    explore = build_report(*fake()).explore
    assert explore is not None
    return explore


@pytest.fixture(scope="module")
def page() -> ExplorePage:
    return explore_page(explore_of(l1_incident))


def unpack(column: Any) -> list[Any]:
    """What the page's script makes of a packed column."""
    if isinstance(column, list):
        return column
    numbers = np.frombuffer(b64decode(column["d"]), dtype="<" + column["k"])
    if column["k"] != "u2":
        return list(numbers)
    return [np.nan if n == 65535 else column["b"] + column["s"] * int(n) for n in numbers]


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 2, np.nan, 40_000], dtype=np.float32),
        np.array([0.83, 0.5, np.nan], dtype=np.float32),
        np.array([0.123456, 1e9], dtype=np.float32),
        np.array([np.inf, 1.0], dtype=np.float32),
        np.array([-1.0, 2.0], dtype=np.float32),
        np.array([np.nan], dtype=np.float32),
        np.array([], dtype=np.float32),
        np.array([70_000, 0], dtype=np.float32),
        np.array([1.7e12, 1.7e12 + 86_400e3], dtype=np.float64),
        np.array([1.7e12, 1.7e12 + 1, 1.7e12 + 9e8], dtype=np.float64),
        np.array([1.7e12 + 0.5, 1.7e12], dtype=np.float64),
        np.array([-3, 2_000_000_000], dtype=np.int32),
        ["a", "", "\u6587"],
    ],
)
def test_a_packed_column_loses_nothing(column: Column) -> None:
    back = unpack(json.loads(script_json(packed(column))))
    if isinstance(column, list):
        assert back == column
    else:
        np.testing.assert_array_equal(np.array(back, dtype=column.dtype), column)


def test_whole_and_short_numbers_take_two_bytes() -> None:
    kinds = [packed(c) for c in (np.array([1, 2], dtype=np.float32), np.array([0.83], dtype=np.float32), np.array([1.7e12 + 5e3]))]
    assert [k["k"] for k in kinds if isinstance(k, dict)] == ["u2", "u2", "u2"]


def test_nothing_in_a_block_can_end_it() -> None:
    assert script_json({"</script>": "<!--", "n": 1}) == '{"\\u003c/script>":"\\u003c!--","n":1}'
    page = explore_page(explore_of(hostile))
    assert "<" not in page.document + page.data + page.words


def test_a_value_that_json_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_a_second_document_of_the_same_process_is_the_same(page: ExplorePage) -> None:
    again = explore_page(explore_of(l1_incident))
    assert (again.document, again.data, again.words) == (page.document, page.data, page.words)


def test_processes_with_other_hash_seeds_write_the_same() -> None:
    def run(seed: str) -> list[str]:
        folders = [str(Path(__file__).resolve().parents[1])]
        done = subprocess.run(
            [sys.executable, "-c", _TWICE, *folders], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    one, other = run("1"), run("2")
    assert one[0] != other[0]
    assert one[1:] == other[1:]


def test_ids_count_up_in_the_order_of_appearance(page: ExplorePage) -> None:
    first = dict.fromkeys(re.findall(r'"id":"([^"]+)"', page.document))
    assert list(first) == [f"m{n}" for n in range(len(first))]


def test_the_words_find_their_models_and_colours(page: ExplorePage) -> None:
    ids = set(re.findall(r'"id":"([^"]+)"', page.document))
    words = json.loads(page.words)
    assert set(words["roots"].values()) <= ids
    assert {i for found in words["named"].values() for i in found} <= ids
    assert {i for i, _tags in words["coloured"]} <= ids
    assert {len(words["named"][line["key"]]) for chart in words["charts"] for line in chart["lines"]} == {1}
    for _model, tags in words["coloured"]:
        for tag in tags:
            assert f"--{tag.split(':')[1]}:" in BASE, tag


def test_figures_hold_no_data_and_run_no_code(page: ExplorePage) -> None:
    document = json.loads(page.document)
    assert "CustomJS" not in page.document

    def columns(value: Any) -> list[Any]:
        if isinstance(value, dict):
            own = [value["attributes"]["data"]["entries"]] if value.get("name") == "ColumnDataSource" else []
            return own + [found for part in value.values() for found in columns(part)]
        return [found for part in value for found in columns(part)] if isinstance(value, list) else []

    sources = columns(document)
    assert sources
    assert all(content == [] for entries in sources for _name, content in entries)


def test_every_instance_has_its_own_data() -> None:
    explore = explore_of(fleet)
    data = json.loads(explore_page(explore).data)
    assert [anchor for anchor in data if anchor] == [one.anchor for one in explore.charted]
    for one in explore.charted:
        assert set(one.curves) <= set(data[one.anchor])
        curve = one.curves["requests-waiting"]
        np.testing.assert_array_equal(np.array(unpack(data[one.anchor]["requests-waiting"]["y"]), dtype=np.float32), curve.y)


def test_charts_without_data_are_not_made() -> None:
    explore = explore_of(fleet)
    keys = {key for one in explore.charted for key in (*one.curves, *one.bars)}
    made = charts_of(explore)
    assert {line.key for chart in made for line in chart.lines} <= keys
    assert len(made) < len(CHARTS)


def test_the_page_speaks_the_readers_language() -> None:
    explore = explore_of(l1_incident)
    with use("zh"):
        words = json.loads(explore_page(explore).words)
    labels = [line["label"] for chart in words["charts"] for line in chart["lines"] if line["key"] == "requests-waiting"]
    assert labels == ["\u6392\u961f"]


def test_what_was_thinned_out_is_said() -> None:
    html = render_html(build_report(*l1_incident()))
    explore = explore_of(l1_incident)
    assert (explore.drawn == explore.points) == ("Every bucket is drawn" in html)
    assert "the lowest and the highest of each stretch are kept" not in html
