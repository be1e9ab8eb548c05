"""`sglang.bench_serving --output-file --output-details`: one JSON object a run, appended."""

from __future__ import annotations

from typing import Any

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.arrays import engine_of, request_of, requests_in
from analyzer.parsers.request_records.jsonlines import Document, glance, json_records
from analyzer.parsers.request_records.rows import Rows


def _is_record(document: Document) -> bool:
    return {"backend", "dataset_name", "request_rate"} <= document.keys() and "model_id" not in document and "date" not in document


class SglangBench:
    """Reads the requests of each run. They have neither ids nor times of arrival, only their order."""

    name = "sglang_bench"

    def claims(self, head: str, name: str) -> bool:
        """True for objects with `backend`, `dataset_name` and `request_rate`."""
        return glance(head).mostly(_is_record)

    def read(self, given: Given) -> SourceRead:
        """One row a request; server arguments of `server_info` become facts."""
        rows = Rows(given, self.name, "client")
        bare = 0
        for number, (record, run) in enumerate(json_records(given.chunks, rows.read.counts, _is_record), 1):
            engine = engine_of(run["backend"])
            info = run.get("server_info")
            if isinstance(info, dict):
                self._server(rows, record, engine, info)
            bare += not requests_in(run)
            for index in range(requests_in(run)):
                row = request_of(rows.values, run, index, keep_text=rows.keep_text)
                row["extra"] = {"run": str(number)}
                rows.add(rows.added + 1, engine, row)
        if bare and rows.added:
            rows.read.notes.append(f"{bare} runs have totals only (--output-details stores the requests)")
        return rows.result("totals of a benchmark without its requests; run it with --output-details")

    @staticmethod
    def _server(rows: Rows, record: int, engine: str, info: dict[str, Any]) -> None:
        engine = engine if engine != "client" else "sglang"
        rows.arguments(record, engine, info)
        stream = rows.stream("")
        stream.engines.add(engine)
        rows.read.engines.add(engine)
        host, port = info.get("host"), info.get("port")
        if isinstance(port, int) and 0 < port < 65536 and (str(host or ""), port) not in stream.addresses:
            stream.addresses.append((str(host or ""), port))
        version = info.get("version")
        if isinstance(version, str) and version[:1].isdigit() and len(version) < 40:
            rows.read.versions.state(version)
