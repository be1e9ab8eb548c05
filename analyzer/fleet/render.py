"""From a batch to its index: one HTML page beside the reports. The same batch gives the same bytes."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment

from analyzer import __version__
from analyzer.fleet.index import build_index, pool_text, sort_time
from analyzer.fleet.model import Fleet
from analyzer.fleet.pictures import cause_swatch, count_bar, render_fleet_lane
from analyzer.language import ngettext
from analyzer.report import fmt, words
from analyzer.report.assets import Assets, script
from analyzer.report.render import environment


@lru_cache(maxsize=1)
def _index_environment() -> Environment:
    env = environment().overlay()
    env.globals = {
        **env.globals,
        "svg_fleet_lane": render_fleet_lane,
        "svg_cause": cause_swatch,
        "svg_count": count_bar,
        "pool": pool_text,
        "sort_time": sort_time,
        "cause_short": lambda cause: words.cause_words(cause)[1],
    }
    return env


def render_index(fleet: Fleet) -> str:
    """The page in the language of the moment."""
    data = build_index(fleet)
    hit = data.counts["incident"]
    title = ngettext("{n} capture, {hit} with an incident (kvpm)", "{n} captures, {hit} with an incident (kvpm)", data.total,
                     n=fmt.number(data.total), hit=fmt.number(hit))  # fmt: skip
    # two small scripts: not worth a file that a page sent on without its folder would miss
    assets = Assets((script("theme.js", early=True), script("page.js")))
    return _index_environment().get_template("batch/index.html.j2").render(d=data, title=title, version=__version__, assets=assets)
