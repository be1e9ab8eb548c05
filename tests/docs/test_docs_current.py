"""The generated pages say what the code says, and every command has its page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from analyzer import docs
from analyzer.cli.group import cli
from analyzer.diagnosis.questions import questions
from analyzer.trace.reader import sql_files
from analyzer.trace.schema import TABLES

ROOT = Path(__file__).parents[2]
PAGES = docs.pages()


def test_pages_are_current() -> None:
    assert docs.outdated(ROOT / "docs") == [], "run: make docs"


def test_pages_do_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert docs.pages() == PAGES


def test_check_names_what_is_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(docs, "docs_dir", lambda: tmp_path)
    monkeypatch.setattr(docs, "pages", lambda: PAGES)
    assert docs.main(["--check"]) == 1
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    (tmp_path / "views.md").write_text("old", encoding="utf-8")
    capsys.readouterr()
    assert docs.main(["--check"]) == 1
    assert capsys.readouterr().err == "out of date: docs/views.md; run: make docs\n"


def test_wrong_use_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "analyzer.docs", "--chekc"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_every_command_is_documented() -> None:
    headings = set(re.findall(r"^## (.+)$", PAGES["commands.md"], re.MULTILINE))
    paths = {path for path, _ in docs.commands(cli, "kvpm")}
    assert paths == headings
    assert {f"kvpm {name}" for name in cli.list_commands(click.Context(cli))} < paths


def test_the_list_of_commands_says_what_they_say_of_themselves() -> None:
    context = click.Context(cli)
    formatter = click.HelpFormatter(width=400)
    cli.format_commands(context, formatter)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        assert f"{name} {command.get_short_help_str(limit=300)}\n" in re.sub(" +", " ", formatter.getvalue())


def test_every_option_has_words() -> None:
    for path, page in docs.commands(cli, "kvpm"):
        for line in page.splitlines():
            assert not re.fullmatch(r"  (?:-\w, )?--[\w-]+(?: [A-Z=]+)?", line.rstrip()) or path == "", f"{path}: {line}"


def test_every_table_view_and_question_is_documented() -> None:
    assert set(re.findall(r"^## (\w+)$", PAGES["tables.md"], re.MULTILINE)) == set(TABLES)
    made = {v for f in sql_files() for v in docs.view_comments(f.text) if not v.startswith("_")}
    assert set(re.findall(r"^### (\w+)$", PAGES["views.md"], re.MULTILINE)) == made
    for q in questions().values():
        assert f"## {q.number}. {q.title}" in PAGES["checklist.md"]
        assert f"### {q.view}\n" in PAGES["views.md"]


def test_every_public_view_has_words_and_columns() -> None:
    for file in sql_files():
        for view, comment in docs.view_comments(file.text).items():
            assert view.startswith("_") or comment, f"{file.path.name}: nothing above {view} says what it is"
    for section in re.split(r"^### ", PAGES["views.md"], flags=re.MULTILINE)[1:]:
        assert "| `instance` |" in section, section.splitlines()[0]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("-- 3. Was it\n-- full?\n", ["", "3\\. Was it full?"]),
        ("-- States.\n--\n-- a    one\n--      more\n-- bb   two\n", ["", "States.", "", "```text\na    one\n     more\nbb   two\n```"]),
    ],
)
def test_comments_become_markdown(comment: str, expected: list[str]) -> None:
    found = docs.view_comments(f"-- of another\n\n{comment}CREATE OR REPLACE VIEW v AS\n-- inside\nSELECT 1;\n")
    assert list(docs._paragraphs(found["v"])) == expected
