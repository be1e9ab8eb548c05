"""From the report's data to one self-contained HTML page.

The same data gives the same bytes: nothing here reads a clock, an environment or a random number.
"""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analyzer.report import charts, fmt
from analyzer.report.model import ReportData
from analyzer.resources import templates_dir


@lru_cache(maxsize=1)
def _environment() -> Environment:
    env = Environment(
        loader=FileSystemLoader(templates_dir()),
        # Always, whatever a template is called: all text comes from other people's logs.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        number=fmt.number,
        measure=fmt.measure,
        share=fmt.share,
        duration=fmt.duration,
        size=fmt.size,
        instant=fmt.instant,
        instant_ms=lambda value: fmt.instant(value, fraction=True),
        span=lambda window: fmt.span(window.start, window.end),
        plural=fmt.plural,
    )
    env.globals.update(
        svg_definitions=charts.definitions,
        svg_axis=charts.render_axis,
        svg_panel=charts.render_panel,
        svg_lane=charts.render_lane,
        svg_swatch=charts.swatch,
    )
    return env


def render_html(report: ReportData, *, title: str | None = None) -> str:
    """The page. `title` replaces the title that browsers show in the tab."""
    heading = title or f"{report.verdict.finding.short}: {report.trace or 'trace'} (kvpm)"
    return _environment().get_template("report.html.j2").render(r=report, title=fmt.clean(heading, 120))
