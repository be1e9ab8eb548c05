"""What follows from other columns of request rows: times, durations, `clock` and `ts`, for many rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.trace.schema import TABLES

_SCHEMA = TABLES["requests"].arrow
Columns = dict[str, pa.Array]
Numbers = npt.NDArray[np.float64]
"""NaN where there is none."""
Moments = npt.NDArray[np.datetime64]
"""In microseconds, NaT where there is none."""
_Where = npt.NDArray[np.bool_]

_CLOCKS = ["wall", "monotonic", "order"]
# A product this near to a half may lie on its other side; one this large is not known so well.
_UNSURE, _LARGE = 1e-3, 1e12


def completed(columns: Mapping[str, pa.Array], rows: int) -> Columns:
    """`columns` of the table `requests`, of `rows` rows each, and what follows from them."""
    done = dict(columns)

    def moments(name: str) -> Moments:
        array = columns.get(name)
        return np.full(rows, "NaT", "datetime64[us]") if array is None else array.to_numpy(zero_copy_only=False)

    def numbers(name: str) -> Numbers:
        array = columns.get(name)
        return np.full(rows, np.nan) if array is None else array.to_numpy(zero_copy_only=False)

    def put(name: str, values: Any) -> None:
        done[name] = as_array(name, values)

    arrival, first_token, finish = moments("arrival_ts"), moments("first_token_ts"), moments("finish_ts")
    ttft, e2e, decode, itl = numbers("ttft_s"), numbers("e2e_s"), numbers("decode_s"), numbers("itl_mean_s")
    ended = ~_has(columns, "status", "unfinished", rows)
    if not np.isnat(arrival).all():
        first_token, ttft = _pair(arrival, first_token, ttft, np.ones(rows, np.bool_))
        finish, e2e = _pair(arrival, finish, e2e, ended)
        put("first_token_ts", first_token)
        put("ttft_s", ttft)
        put("finish_ts", finish)
        put("e2e_s", e2e)
    where = np.isnan(decode) & _has(columns, "status", "finished", rows) & (e2e >= ttft)
    decode = _filled(decode, where, e2e - ttft)
    put("decode_s", decode)
    if "output_tokens" in columns:
        tokens = columns["output_tokens"].fill_null(0).to_numpy()
        where = np.isnan(itl) & ~np.isnan(decode) & (tokens >= 2)
        put("itl_mean_s", _filled(itl, where, decode / np.maximum(tokens - 1, 1)))
    aborted = _has(columns, "status", "aborted", rows)
    if aborted.any():
        errors = columns["error"] if "error" in columns else pa.nulls(rows, pa.string())
        done["error"] = pc.if_else(pa.array(aborted), errors.fill_null("abort"), errors)
    ts = np.where(np.isnat(arrival), finish, arrival)
    put("ts", ts)
    clock = np.where(~np.isnat(ts), 0, np.where(~np.isnan(numbers("arrival_rel_s")), 1, 2)).astype(np.int8)
    done["clock"] = pa.DictionaryArray.from_arrays(clock, _CLOCKS)
    return done


def as_array(name: str, values: Any) -> pa.Array:
    """A column of the table `requests` from its values: a list, or a numpy array with NaN or NaT where there is none."""
    return pa.array(values, _SCHEMA.field(name).type, from_pandas=isinstance(values, np.ndarray))


def as_microseconds(seconds: Numbers) -> npt.NDArray[np.timedelta64]:
    """As `timedelta(seconds=s)` of each; NaT of NaN."""
    known = np.nan_to_num(seconds)
    part, whole = np.modf(known)
    micros = (whole.astype(np.int64) * 1_000_000 + np.rint(part * 1e6).astype(np.int64)).astype("timedelta64[us]")
    return np.where(np.isnan(seconds), np.timedelta64("NaT", "us"), micros)


def rounded(seconds: Numbers) -> Numbers:
    """As `round(s, 9)` of each."""
    nanos = seconds * 1e9
    whole = np.rint(nanos)
    sure = (np.abs(np.abs(nanos - whole) - 0.5) > _UNSURE) & (np.abs(nanos) < _LARGE)
    result = whole / 1e9
    result[~sure] = [round(s, 9) for s in seconds[~sure].tolist()]
    return result


def _has(columns: Mapping[str, pa.Array], name: str, value: str, rows: int) -> _Where:
    """Where the column has that value."""
    if name not in columns:
        return np.zeros(rows, np.bool_)
    same: _Where = pc.fill_null(pc.equal(columns[name], value), False).to_numpy(zero_copy_only=False)
    return same


def _filled(values: Numbers, where: _Where, others: Numbers) -> Numbers:
    """`values`, but `others` rounded at the places of `where`."""
    filled = values.copy()
    filled[where] = rounded(others[where])
    return filled


def _pair(arrival: Moments, moment: Moments, duration: Numbers, where: _Where) -> tuple[Moments, Numbers]:
    """(moment, duration since the arrival), the missing one of both filled in at the places of `where`."""
    later = np.where(where & np.isnat(moment), arrival + as_microseconds(duration), moment)
    apart = (moment - arrival).astype(np.int64) / 1e6
    return later, np.where(where & np.isnan(duration) & (moment >= arrival), apart, duration)
