"""What a page that shows hostile texts must not hold."""

from __future__ import annotations

import re

# What must reach no page: control characters, overrides of the direction of writing, halves of surrogate pairs.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
DATA = re.compile(r'<script type="application/json"[^>]*>(.*?)</script', re.DOTALL)

# Elements, attributes, addresses and comments that are not of our making.
FOREIGN = """() => {
  const foreign = [];
  const ours = new Set((
    "html head meta title style script body main header footer section article nav h1 h2 h3 h4 h5 p a b i em strong span code pre " +
    "ul ol li dl dt dd div table caption thead tbody tfoot tr th td br details summary figure figcaption noscript button input label " +
    "select option output svg defs path circle line rect text use desc g clippath polyline polygon").split(" "));
  for (const e of document.querySelectorAll("*")) {
    if (!ours.has(e.localName.toLowerCase())) foreign.push(e.localName);
    for (const a of e.attributes) {
      if (/^on|^src$|action$/.test(a.name)) foreign.push(`${e.localName} ${a.name}`);
      if (a.name.endsWith("href") && !a.value.startsWith("#")) foreign.push(`${e.localName} to ${a.value}`);
    }
    if (e.localName === "script" && e.type !== "application/json" && e.type !== "") foreign.push(`script ${e.type}`);
  }
  const comments = document.createTreeWalker(document, NodeFilter.SHOW_COMMENT);
  while (comments.nextNode()) foreign.push(`comment ${comments.currentNode.data.slice(0, 40)}`);
  return foreign;
}"""
SHOWN_TEXT = """() => {
  const copy = document.body.cloneNode(true);
  copy.querySelectorAll("script, style").forEach((e) => e.remove());
  return copy.textContent;
}"""
