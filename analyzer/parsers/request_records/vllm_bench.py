"""`vllm bench serve --save-result --save-detailed`: one JSON object a run, in a file of its own or appended."""

from __future__ import annotations

import re

from analyzer.parsers.reader import Given, SourceRead
from analyzer.parsers.request_records.arrays import array, at, engine_of, request_of, requests_in
from analyzer.parsers.request_records.jsonlines import Document, glance, json_records
from analyzer.parsers.request_records.rows import Rows

_DATE = re.compile(r"\d{8}-\d{6}")


def _is_record(document: Document) -> bool:
    return {"date", "num_prompts"} <= document.keys() and not {"model_id", "tokenizer_id"}.isdisjoint(document)


class VllmBench:
    """Reads the requests of each run. Their times are those of a clock that begins anywhere."""

    name = "vllm_bench"

    def claims(self, head: str, name: str) -> bool:
        """True for objects with `date`, `num_prompts` and a model or tokenizer id."""
        return glance(head).mostly(_is_record)

    def read(self, given: Given) -> SourceRead:
        """One row a request."""
        rows = Rows(given, self.name, "client")
        bare = 0
        for number, (_, run) in enumerate(json_records(given.chunks, rows.read.counts, _is_record), 1):
            engine = engine_of(run.get("backend"), run.get("endpoint_type"))
            requests = requests_in(run)
            bare += not requests
            starts, latencies, queued = (array(run, k) for k in ("start_times", "latencies", "server_queue_times"))
            for index in range(requests):
                row = request_of(rows.values, run, index, keep_text=rows.keep_text)
                row["arrival_rel_s"] = rows.values.number(at(starts, index))
                row["queue_s"] = rows.values.seconds(at(queued, index))
                # some versions list latencies of answered requests only: then they belong to nobody in particular
                if len(latencies) == requests and row["error"] is None:
                    row["e2e_s"] = rows.values.seconds(latencies[index])
                row["extra"] = {"run": str(number)}
                rows.add(rows.added + 1, engine, row)
            if requests and _DATE.fullmatch(str(run["date"])):
                rows.read.notes.append(f"run {number} ended at about {run['date']}, local time; its requests are on a clock of its own")
        if bare and rows.added:
            rows.read.notes.append(f"{bare} runs have totals only (--save-detailed stores the requests)")
        return rows.result("totals of a benchmark without its requests; run it with --save-detailed")
