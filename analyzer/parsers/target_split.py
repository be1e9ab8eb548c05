"""Two servers behind one target name: told apart by the start times of their processes, named by the label that differs.

A pod name in two namespaces, `localhost:8000` of two hosts, or two servers behind one federating server look like
one target. Two Prometheus servers that scrape the same process look like two, and see the same start time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyzer.parsers.one_series import Series

_SAME_S = 0.005
# The label that names a server best, where several differ.
_PREFERRED = ("cluster", "namespace", "exported_namespace", "kubernetes_namespace", "host", "node", "job", "exported_job", "instance")


def split_targets(all_series: Sequence[Series], started: Mapping[int, Sequence[float]]) -> None:
    """Rename the streams of targets that are several servers; `started` has the start times by number of their series."""
    by_stream: dict[str, list[int]] = {}
    for number in started:
        by_stream.setdefault(all_series[number].stream, []).append(number)
    for stream, numbers in by_stream.items():
        groups = _processes(numbers, started)
        label = _told_by(all_series, groups) if len(groups) > 1 else None
        if label is None:
            continue
        for series in all_series:
            if series.stream == stream and label in series.labels:
                series.stream = f"{series.labels[label]}/{stream}"


def _processes(numbers: Sequence[int], started: Mapping[int, Sequence[float]]) -> list[list[int]]:
    """Numbers of start-time series, grouped by server: readings of one process have a start time in common."""
    groups: list[list[int]] = []
    for number in numbers:
        same = [g for g in groups if any(abs(a - b) < _SAME_S for o in g for a in started[o] for b in started[number])]
        groups = [g for g in groups if g not in same] + [[n for g in same for n in g] + [number]]
    return groups


def _told_by(all_series: Sequence[Series], groups: Sequence[Sequence[int]]) -> str | None:
    """A label that has other values in each group; None when no label tells them apart."""
    values = [{k: {all_series[n].labels.get(k) for n in group} for k in _labels(all_series, group)} for group in groups]
    common = set.intersection(*(set(v) for v in values))
    telling = [
        k
        for k in common
        if not any(a[k] & b[k] for i, a in enumerate(values) for b in values[i + 1 :]) and None not in set().union(*(v[k] for v in values))
    ]
    return min(telling, key=lambda k: (_PREFERRED.index(k) if k in _PREFERRED else len(_PREFERRED), k), default=None)


def _labels(all_series: Sequence[Series], group: Sequence[int]) -> set[str]:
    return {k for n in group for k in all_series[n].labels}
