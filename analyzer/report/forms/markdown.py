"""The report as Markdown for a ticket: the verdict, one picture, the checklist, what to do and what is missing.

Templates write Markdown; whatever they fill in is escaped unless it is Markdown already, see `markdown_text`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analyzer import language
from analyzer.language import _
from analyzer.report import fmt, source_words
from analyzer.report.forms.markdown_text import cell_code, code, escaped
from analyzer.report.model import ReportData
from analyzer.resources import templates_dir

# Lists of a ticket are shorter than those of the page; what is left out is said.
MAX_ROWS = 12
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")


def _text(message: str, /, **fields: object) -> Markup:
    """`_` for templates: the text is ours and may hold markup, what is filled in is escaped."""
    text = _(message)
    return Markup(text.format(**{name: escaped(value) for name, value in fields.items()}) if fields else text)


def _ntext(singular: str, plural: str, n: float, /, **fields: object) -> Markup:
    """The same for `ngettext`."""
    return Markup(language.ngettext(singular, plural, n).format(**{name: escaped(value) for name, value in fields.items()}))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    env = Environment(
        loader=FileSystemLoader(templates_dir()),
        # Only to know text that is Markdown already; `finalize` escapes all other before HTML's rules could.
        autoescape=True,
        finalize=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters.update(
        code=code,
        cell_code=cell_code,
        number=fmt.number,
        share=fmt.share,
        duration=fmt.duration,
        span=lambda window: fmt.span(window.start, window.end),
        sentences=fmt.sentences,
        listed=fmt.listed,
        totals=source_words.totals,
        plural=fmt.plural,
        numbers=lambda numbers: _(", ").join(map(str, numbers)),
    )
    env.globals.update(_=_text, ngettext=_ntext, max_rows=MAX_ROWS)
    return env


def render_markdown(report: ReportData, *, picture: str = "") -> str:
    """The Markdown in the language of the moment. `picture` is the address of the picture: a `data:` URL or a path; without one
    there is none.
    """
    address = picture if picture.startswith("data:") else quote(picture)
    text = _environment().get_template("report.md.j2").render(r=report, picture=Markup(address))
    # Parts that have nothing to say leave their blank lines behind.
    return _BLANK_LINES.sub("\n\n", text).strip("\n") + "\n"
