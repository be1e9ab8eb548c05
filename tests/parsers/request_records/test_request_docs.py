"""What docs/requests.md says of the fields is so."""

from __future__ import annotations

import re
from pathlib import Path

from record_reading import claimant, read

from analyzer.parsers.request_records.fields import SYNONYMS, canonical
from analyzer.trace.schema import REQUESTS

PAGE = (Path(__file__).parents[3] / "docs/requests.md").read_text(encoding="utf-8")
FIELDS = re.findall(r"(?m)^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|$", PAGE)


def test_every_field_is_listed_with_names_it_has() -> None:
    assert [field for field, _, _ in FIELDS] == list(SYNONYMS)
    for field, names, columns in FIELDS:
        for name in re.findall(r"\w+", re.sub(r"\(.*\)", "", names)):
            assert canonical(name) == (field, None), name
        for column in re.findall(r"`(\w+)`", columns):
            assert column in {c.name for c in REQUESTS.columns}, column


def test_the_example_is_read() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert claimant(example) == "client"
    assert [(r["rid"], r["status"]) for r in read(example, "client").requests] == [("r1", "finished"), ("r2", "unfinished")]
