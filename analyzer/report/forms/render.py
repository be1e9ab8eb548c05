"""One report, one of its forms."""

from __future__ import annotations

from dataclasses import replace

from analyzer.report.forms.choice import Form
from analyzer.report.forms.data_json import render_json
from analyzer.report.forms.markdown import render_markdown
from analyzer.report.forms.pdf import render_pdf
from analyzer.report.model import ReportData
from analyzer.report.render import render_html


def render_report(report: ReportData, form: Form, *, picture: str = "") -> str | bytes:
    """The report in the language of the moment: text, and bytes for PDF. `picture` is what Markdown gives as its picture's address.

    Raises:
        KvpmError: a PDF was asked for, and there is no browser to print it, or it could not.
    """
    if form == "md":
        return render_markdown(report, picture=picture)
    if form == "json":
        return render_json(report)
    if form == "pdf":
        # What is there to be explored with a mouse is not for paper.
        return render_pdf(render_html(replace(report, explore=None)))
    return render_html(report)
