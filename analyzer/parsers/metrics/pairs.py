"""Lines of two numbers each, read by column: what is left of many samples of one series when all else is taken off."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

WORTH_IT = 1000
"""Fewer lines than this are read sooner one by one."""

_CHARACTERS = b"0123456789.eE+-nNaAiIfFtTyY\n"


def read_pairs(text: bytes, delimiter: str, count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """The two columns of `count` lines with one `delimiter` each; None when they are anything else, or not surely that.

    Numbers are read as Python reads them. A sign before a positive one is not read.
    """
    if text.count(delimiter.encode()) != count or text.translate(None, _CHARACTERS + delimiter.encode()):
        return None
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(text),
            read_options=pa_csv.ReadOptions(column_names=["a", "b"], use_threads=False, block_size=max(1, len(text))),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            convert_options=pa_csv.ConvertOptions(column_types={"a": pa.float64(), "b": pa.float64()}, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    first, second = (np.asarray(table.column(name).to_numpy(), np.float64) for name in ("a", "b"))
    return (first, second) if len(first) == count else None
