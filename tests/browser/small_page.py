"""A small page with everything that page.js works on, made of the real styles, scripts and words."""

from __future__ import annotations

from analyzer.language import current
from analyzer.report.assets import report_assets
from analyzer.report.render import environment
from analyzer.resources import templates_dir

STYLES = ("base.css", "charts.css", "page.css", "print.css")

BODY = """
<header class="top"><p>A report</p></header>
<main>
<p><a id="to-q2" href="#i1-q02">question 2</a> <a id="to-plain" href="#deep">deep</a></p>
<section id="explore"><h2>Explore</h2></section>
<p><a class="moment" id="m1" href="#i1-timeline" data-from="1000" data-to="5000" data-instance="i1">when</a>
<a class="moment" id="m2" href="#i1-timeline" data-from="" data-to="" data-instance="i1">no time</a></p>
<section id="i1-timeline"><h2>Timeline</h2></section>
<section id="i1-checklist"><h2>Checklist</h2>
  <details class="help"><summary>How to read this</summary><p>Help.</p></details>
  <article class="question" id="i1-q01"><h3>1</h3><details id="d1"><summary>Evidence</summary>
    <pre class="sql" tabindex="0"><code>SELECT 1
FROM &lt;b&gt;</code></pre></details></article>
  <article class="question" id="i1-q02"><h3>2</h3><details id="d2"><summary>Evidence</summary><p id="deep">deep</p></details></article>
</section>
<div class="scroll" role="region" aria-label="Events" tabindex="0">
<table class="sortable filterable" id="events">
  <thead><tr><th scope="col">Name</th><th scope="col" class="num">Wait</th><th scope="col"></th></tr></thead>
  <tbody>
  <tr data-from="1000" data-to="2000"><th scope="row">pod-10</th><td class="num" data-v="1000">1,000</td><td>a</td></tr>
  <tr data-from="3000"><th scope="row">pod-9</th><td class="num" data-v="9.5">9.5\u00a0s</td><td>b</td></tr>
  <tr class="row-notes"><td colspan="3">a note below nine</td></tr>
  <tr><th scope="row">Pod-2</th><td class="num">–</td><td>c</td></tr>
  <tr data-from="9000" data-to="9500"><th scope="row">pod-1</th><td class="num" data-v="20">20</td><td>d</td></tr>
  <tr class="total"><th scope="row">All</th><td class="num">1,029.5</td><td></td></tr>
  </tbody>
</table></div>
<table class="sortable filterable" id="single"><thead><tr><th scope="col">One</th></tr></thead><tbody><tr><td>row</td></tr></tbody></table>
</main>
"""


def small_page(body: str = BODY) -> str:
    """The page in the language of the moment."""
    assets = report_assets(explore=False)
    styles = "\n".join((templates_dir() / "style" / name).read_text(encoding="utf-8") for name in STYLES)
    words = environment().get_template("page_words.html.j2").render()
    return (
        f'<!doctype html>\n<html lang="{current()}"><head><meta charset="utf-8"><title>A page</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{assets.policy}"><style>{styles}</style>{assets.tags(early=True)}</head>'
        f"<body>{body}{words}{assets.tags(early=False)}</body></html>"
    )
