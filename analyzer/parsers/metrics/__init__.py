"""Readers of metric dumps, in the order in which they are asked whether a source is theirs."""

from __future__ import annotations

from analyzer.parsers.metrics.long_table import LongTable
from analyzer.parsers.metrics.prometheus_json import PrometheusJson
from analyzer.parsers.metrics.prometheus_text import PrometheusText
from analyzer.parsers.metrics.tsdb_dump import TsdbDump
from analyzer.parsers.metrics.victoriametrics_json import VictoriaMetricsJson
from analyzer.parsers.reader import Reader

READERS: tuple[Reader, ...] = (TsdbDump(), PrometheusText(), PrometheusJson(), VictoriaMetricsJson(), LongTable())
