"""Request records: what clients, front ends and traces tell of single requests, one file for each format.

docs/requests.md says what is read of each.
"""

from __future__ import annotations

from analyzer.parsers.reader import Given, Reader
from analyzer.parsers.request_records.aiperf import Aiperf
from analyzer.parsers.request_records.client import ClientRecords
from analyzer.parsers.request_records.generic import GenericRecords, has_column
from analyzer.parsers.request_records.guidellm import Guidellm
from analyzer.parsers.request_records.otlp import OtlpTraces
from analyzer.parsers.request_records.sglang_bench import SglangBench
from analyzer.parsers.request_records.sglang_metrics_file import SglangMetricsFile
from analyzer.parsers.request_records.sglang_request_log import SglangRequestLog
from analyzer.parsers.request_records.vllm_bench import VllmBench
from analyzer.parsers.request_records.workloads import AzureTrace, BurstGpt, Mooncake

READERS: tuple[Reader, ...] = (
    SglangMetricsFile(),
    SglangRequestLog(),
    OtlpTraces(),
    SglangBench(),
    VllmBench(),
    Guidellm(),
    Aiperf(),
    Mooncake(),
    AzureTrace(),
    BurstGpt(),
    ClientRecords(),
)
"""Every reader of request records; the least particular is last."""


def generic_reader() -> Reader:
    """The reader for `--map`: it takes any records, so it is asked only when columns were named."""
    return GenericRecords()


def is_mapped(reader: Reader, given: Given) -> bool:
    """True for records known only by the guess at their keys, where `--map` names one of those: what is told goes before it."""
    return isinstance(reader, ClientRecords) and has_column(given.head, given.options.columns.values())
