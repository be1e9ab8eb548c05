"""The checklist's questions as data (`questions.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from analyzer.diagnosis.model import Answer, Answered, Evidence, MissingSignal


@dataclass(frozen=True, slots=True)
class Question:
    """One question: its stable id, the view behind it, its texts, and the flags that record its signals."""

    number: int
    id: str
    view: str
    title: str
    why: str
    advice: str
    signals: dict[str, dict[str, str]]

    def missing(self, engine: str | None, *names: str) -> tuple[MissingSignal, ...]:
        """The signals called `names` (all of them without names), with this engine's flag for each."""
        wanted = names or tuple(self.signals)
        return tuple(MissingSignal(_label(name), self.signals[name].get(engine or "", _both(self.signals[name]))) for name in wanted)

    def answer(
        self,
        instance: str,
        answer: Answer,
        sentence: str,
        evidence: tuple[Evidence, ...] = (),
        missing: tuple[MissingSignal, ...] = (),
    ) -> Answered:
        """This question answered for `instance`."""
        quoted = instance.replace("'", "''")
        return Answered(
            id=self.id,
            number=self.number,
            title=self.title,
            answer=answer,
            sentence=sentence,
            evidence=evidence,
            missing=missing,
            sql=f"SELECT * FROM {self.view} WHERE instance = '{quoted}'",
            why=self.why,
            advice=self.advice,
        )


_ACRONYMS = {"ttft": "TTFT", "l2": "L2", "kv": "KV", "pd": "prefill/decode"}


def _label(name: str) -> str:
    return " ".join(_ACRONYMS.get(word, word) for word in name.split("_"))


def _both(flags: dict[str, str]) -> str:
    return "; ".join(f"{engine}: {flag}" for engine, flag in flags.items())


@lru_cache(maxsize=1)
def questions() -> dict[str, Question]:
    """All questions by id, in order."""
    text = resources.files("analyzer.diagnosis").joinpath("questions.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["question"]
    return {q["id"]: Question(n, q["id"], q["view"], q["title"], q["why"], q["advice"], q["signals"]) for n, q in enumerate(entries, 1)}
