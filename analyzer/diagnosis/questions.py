"""The checklist's questions as data (`questions.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from analyzer.diagnosis.model import Answer, Answered, Evidence, MissingSignal
from analyzer.language import N_, _

# What a signal is called, by its name in the file.
_LABELS = {
    "ttft": N_("TTFT"),
    "request_stages": N_("request stages"),
    "kv_usage": N_("KV usage"),
    "kv_capacity": N_("KV capacity"),
    "cap": N_("cap"),
    "preemptions": N_("preemptions"),
    "l2_traffic": N_("L2 traffic"),
    "hit_rate": N_("hit rate"),
    "prompt_throughput": N_("prompt throughput"),
    "ranks": N_("ranks"),
    "pd_queues": N_("prefill/decode queues"),
    "lifecycle": N_("lifecycle"),
    "server_arguments": N_("server arguments"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """One question: its stable id, the view behind it, its texts in English, and the flags that record its signals."""

    number: int
    id: str
    view: str
    title: str
    read: str
    why: str
    advice: str
    signals: dict[str, dict[str, str]]

    def missing(self, engine: str | None, *names: str) -> tuple[MissingSignal, ...]:
        """The signals called `names` (all of them without names), with this engine's flag for each."""
        wanted = names or tuple(self.signals)
        return tuple(MissingSignal(_(_LABELS[name]), _flag(self.signals[name], engine)) for name in wanted)

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
            title=_(self.title),
            answer=answer,
            sentence=sentence,
            evidence=evidence,
            missing=missing,
            sql=f"SELECT * FROM {self.view} WHERE instance = '{quoted}'",
            read=_(self.read),
            why=_(self.why),
            advice=_(self.advice),
        )


def _flag(flags: dict[str, str], engine: str | None) -> str:
    """What to record for this engine; for each, where it is unknown."""
    if engine in flags:
        return _(flags[engine])
    return _("; ").join(_("{engine}: {flag}", engine=name, flag=_(flag)) for name, flag in flags.items())


@lru_cache(maxsize=1)
def questions() -> dict[str, Question]:
    """All questions by id, in order."""
    text = resources.files("analyzer.diagnosis").joinpath("questions.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["question"]
    return {entry["id"]: Question(number=n, **entry) for n, entry in enumerate(entries, 1)}
