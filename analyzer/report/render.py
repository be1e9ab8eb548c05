"""From the report's data to one self-contained HTML page.

The same data in the same language gives the same bytes: nothing here reads a clock, an environment or a random number.
"""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analyzer import language
from analyzer.language import _
from analyzer.report import charts, fmt, parts, source_words
from analyzer.report.assets import report_assets
from analyzer.report.explore.whole import Explore
from analyzer.report.model import ReportData
from analyzer.report.replay import draw
from analyzer.resources import templates_dir


def _text(message: str, /, **fields: object) -> Markup:
    """`_` for templates: the text is ours and may hold tags, what is filled in is escaped."""
    return Markup(_(message)).format(**fields) if fields else Markup(_(message))


def _ntext(singular: str, plural: str, n: float, /, **fields: object) -> Markup:
    """The same for `ngettext`."""
    return Markup(language.ngettext(singular, plural, n)).format(**fields)


def _explore_page(explore: Explore) -> object:
    """What the explore section carries; loaded only where there is one, since the chart library takes its time."""
    from analyzer.report.explore.document import explore_page

    return explore_page(explore)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The one environment of all HTML pages: everything is escaped, whatever a template is called."""
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
        epoch_ms=fmt.epoch_ms,
        listed=fmt.listed,
        plural=fmt.plural,
        sentences=fmt.sentences,
        totals=source_words.totals,
    )
    env.globals.update(
        # One environment for all languages: these look for the language when they are called.
        _=_text,
        ngettext=_ntext,
        language=language.current,
        svg_definitions=charts.definitions,
        svg_axis=charts.render_axis,
        svg_panel=charts.render_panel,
        svg_lane=charts.render_lane,
        svg_swatch=charts.swatch,
        svg_parts=parts.render_parts,
        svg_part_swatch=parts.part_swatch,
        explore_page=_explore_page,
        svg_ladder=draw.render_ladder,
        svg_rung=draw.rung_swatch,
    )
    return env


def render_html(report: ReportData, *, title: str | None = None, assets_beside: str | None = None) -> str:
    """The page in the language of the moment. `title` replaces the title that browsers show in the tab.

    `assets_beside` is the folder of shared scripts as the page's address for it; without one the page carries them.
    """
    heading = title or _("{verdict}: {trace} (kvpm)", verdict=report.verdict.finding.short, trace=report.trace or _("trace"))
    assets = report_assets(explore=report.explore is not None, beside=assets_beside)
    return environment().get_template("report.html.j2").render(r=report, title=fmt.clean(heading, 120), assets=assets)


def render_template(name: str, **values: object) -> str:
    """Another page of ours, with the same filters and functions."""
    return environment().get_template(name).render(**values)
