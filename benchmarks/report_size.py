"""How large a report is and how soon it can be used: a made-up day of an SGLang server with many data-parallel ranks.

    python benchmarks/report_size.py [--ranks 64] [--hours 24] [--every 30] [--page FILE]

Writes a log, reads it, writes its report, and opens that in Chromium. Printed are the seconds of each step, the bytes of the page and of
its parts, and in the browser the time from navigation to the first contentful paint, to the page having been read, and to
the charts being drawn, and how long the main thread was kept from answering (over 50 ms at a time, as browsers count it).
Nothing is asserted. The figures depend on the machine.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from analyzer import diagnose, ingest, open_trace
from analyzer.report.data import build_report
from analyzer.report.render import render_html

START = datetime(2026, 3, 2, tzinfo=UTC)
POOL_TOKENS = 180_000
PARTS = (
    ("the chart library and our scripts", r"<script>.*?</script>"),
    ("data of the charts to explore", r'<script type="application/json".*?</script>'),
    ("static charts", r'<svg class="(?:plot|axis)".*?</svg>'),
)
# Long tasks, from before the first script of the page on.
LISTEN = """
window.blocked = [];
new PerformanceObserver((list) => list.getEntries().forEach((e) => blocked.push(Math.max(0, e.duration - 50))))
  .observe({type: "longtask", buffered: true});
document.addEventListener("kvpm:explore", () => { window.drawn = performance.now(); });
"""


def day(ranks: int, hours: float, every: int) -> Iterator[str]:
    """Lines of a log: each rank reports every few seconds; twice a day demand is more than the pool holds."""
    moment = START
    yield f"[{moment:%Y-%m-%d %H:%M:%S}] The server is fired up and ready to roll!"
    for tick in range(int(hours * 3600 / every)):
        moment = START + timedelta(seconds=tick * every)
        demand = 0.55 + 0.6 * math.sin(tick * every / 43200 * 2 * math.pi) ** 3
        for rank in range(ranks):
            load = max(0.02, demand + 0.1 * math.sin(rank * 1.7 + tick / 11))
            usage = min(1.0, load)
            waiting = round(max(0.0, load - 1) * 120)
            stamp = f"[{moment:%Y-%m-%d %H:%M:%S} DP{rank} TP0]"
            if waiting and (tick + rank) % 97 == 0:
                yield f"{stamp} KV cache pool is full. Retract requests. #retracted_reqs: {1 + rank % 3}, #new_token_ratio: 0.62 -> 0.71"
            yield (
                f"{stamp} Decode batch, #running-req: {round(usage * 48)}, #token: {round(usage * POOL_TOKENS)}, token usage: {usage:.2f}, "
                f"cuda graph: True, gen throughput (token/s): {usage * 900:.2f}, #queue-req: {waiting}"
            )


def timed(page: Page, file: Path) -> dict[str, float]:
    """Milliseconds after navigation at which things have happened, of one visit."""
    page.add_init_script(LISTEN)
    page.goto(file.absolute().as_uri())
    page.wait_for_function("window.drawn", timeout=120_000)
    page.wait_for_timeout(500)
    found: dict[str, float] = page.evaluate("""() => ({
      paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
      read: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
      drawn: window.drawn,
      blocked: blocked.reduce((a, b) => a + b, 0),
    })""")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Bytes of a report of a long capture, and how soon a browser shows it.")
    parser.add_argument("--ranks", type=int, default=64, help="data-parallel ranks (default: 64)")
    parser.add_argument("--hours", type=float, default=24.0, help="length of the capture (default: 24)")
    parser.add_argument("--every", type=int, default=30, help="seconds between two reports of a rank (default: 30)")
    parser.add_argument("--visits", type=int, default=3, help="how often the page is opened (default: 3)")
    parser.add_argument("--page", type=Path, help="measure this report instead of making one")
    options = parser.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser_path is None:
        sys.exit("there is no Chromium to open the page with")
    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        page_file = options.page or made(Path(scratch), options.ranks, options.hours, options.every)
        html = page_file.read_text(encoding="utf-8")
        print(f"{'page':<40} {len(html.encode()):>11,} bytes")
        for name, pattern in PARTS:
            print(f"  {name:<38} {sum(len(m[0].encode()) for m in re.finditer(pattern, html, re.DOTALL)):>11,}")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-background-networking"])
            print(f"{'visit':<7} {'first paint ms':>15} {'page read ms':>13} {'charts drawn ms':>16} {'blocked ms':>11}")
            for visit in range(options.visits):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                at = timed(context.new_page(), page_file)
                print(f"{visit + 1:<7} {at['paint']:>15.0f} {at['read']:>13.0f} {at['drawn']:>16.0f} {at['blocked']:>11.0f}")
                context.close()
            browser.close()


def made(scratch: Path, ranks: int, hours: float, every: int) -> Path:
    """The report of a made-up day, in `scratch`."""
    log, trace, page_file = scratch / "server.log", scratch / "day.kvtrace", scratch / "day.html"
    with log.open("w", encoding="utf-8") as handle:
        lines = sum(handle.write(line + "\n") > 0 for line in day(ranks, hours, every))
    clock = time.process_time()
    ingest([str(log)], trace)
    read = time.process_time()
    with open_trace(trace) as opened:
        diagnosis = diagnose(opened)
        answered = time.process_time()
        report = build_report(opened.con, diagnosis)
        built = time.process_time()
        page_file.write_text(render_html(report), encoding="utf-8")
    written = time.process_time()
    print(f"{lines:,} lines, {log.stat().st_size / 1e6:.0f} MB")
    steps = (("ingest", read - clock), ("diagnosis", answered - read), ("report data", built - answered), ("page", written - built))
    print(", ".join(f"{name} {seconds:.1f} CPU s" for name, seconds in steps))
    return page_file


if __name__ == "__main__":
    main()
