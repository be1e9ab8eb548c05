"""Text as Markdown that shows it and does nothing else.

What comes from a log must not become markup, HTML, a link, a picture, a table's border, nor what issue trackers make of plain
text after the Markdown is read: a mention that writes to somebody (`@name`), a reference that leaves a trace in another
issue (`#12`, `!12`), an emoji, a command at the beginning of a line (`/close`). Backslashes do not stop trackers, so there a
zero-width space is put in, as the entity that says so. A word that happens to be the hash of a commit is left alone.
"""

from __future__ import annotations

import re

from markupsafe import Markup

_BREAK = "&#8203;"
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_SPECIAL = re.compile(
    r"""
    (?P<scheme>:)(?=//)                                     # http://
  | (?P<www>www)(?=\.)
  | (?P<at>@)
  | (?P<issue>\bGH-)(?=\d)
  | (?P<emoji>:)(?=[\w+-]*[A-Za-z_+-][\w+-]*:|100:|1234:)   # :tada:, but not the minutes of 07:05:00
  | (?P<number>[\#!])(?=\d)
  | (?P<name>[%^])(?=[\w"'])
  | (?P<entity>[<>&])
  | (?P<markup>[\\`*\[\]{}|~$])
  | (?P<underscore>(?<![^\W_])_|_(?![^\W_]))                # not within a word: max_running_requests
    """,
    re.VERBOSE | re.IGNORECASE,
)
# What would be a heading, a list, a rule, a table's second line or a command at the beginning of a line.
_LEADING = re.compile(r"\d*(?=[.)](?:\s|$))|(?=[-+=:/#])")
_BLANKS = re.compile(r"[ \t\n\r\f\v\x85\u2028\u2029]+")
_BACKTICKS = re.compile(r"`+")


def escaped(value: object) -> Markup:
    """Text for a paragraph, a list, a heading or a table's cell; it stays on one line. `Markup` is Markdown already."""
    if isinstance(value, Markup):
        return value
    text = _BLANKS.sub(" ", str(value)).strip(" ")
    begins = _LEADING.match(text)
    if begins is None:
        return Markup(_SPECIAL.sub(_harmless, text))
    end = begins.end()
    rest = _SPECIAL.sub(_harmless, text[end + 1 :])
    return Markup(f"{text[:end]}\\{text[end]}{_BREAK if text[end] in '#:' else ''}{rest}")


def _harmless(match: re.Match[str]) -> str:
    found = match.group()
    kind = match.lastgroup
    following = match.string[match.end() : match.end() + 1]
    if kind == "entity":
        return _ENTITIES[found] + (_BREAK if found == "&" and following.isdigit() else "")
    if kind in ("markup", "underscore"):
        # ~label and $12 are references, too.
        return f"\\{found}" + (_BREAK if found in "~$" and (following.isalnum() or following in ('"', "'")) else "")
    return found + _BREAK


def code(value: object) -> Markup:
    """Text as a code span, where trackers look for nothing; empty text gives none."""
    text = _BLANKS.sub(" ", str(value)).strip(" ")
    if not text:
        return Markup("")
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    room = " " if "`" in (text[0], text[-1]) else ""
    return Markup(f"{fence}{room}{text}{room}{fence}")


def cell_code(value: object) -> Markup:
    """The same in a table, where a bar ends the cell even inside of code."""
    if "\\|" in str(value):
        # Inside of code a backslash cannot be escaped: whether the one before a bar counts is read in two ways.
        return escaped(str(value))
    return Markup(code(value).replace("|", "\\|"))
