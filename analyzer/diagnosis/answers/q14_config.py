"""Question 14: was the configuration asking for it?"""

from __future__ import annotations

from analyzer.diagnosis import say
from analyzer.diagnosis.case import Case
from analyzer.diagnosis.model import Answer, Answered, Evidence
from analyzer.diagnosis.numbers import whole
from analyzer.diagnosis.questions import questions
from analyzer.diagnosis.settings import bad_settings
from analyzer.language import _


def answer(case: Case) -> Answered:
    q = questions()["config_asked_for_it"]
    r = case.row("config_asked_for_it")
    if r["args_source"] is None and r["capacity_tokens"] is None and r["cap"] is None:
        return q.answer(
            case.instance, "cannot_tell", _("No start-up lines are in the capture: the server's arguments are unknown."),
            missing=q.missing(case.engine),
        )  # fmt: skip
    bad = bad_settings(case)
    told = (
        Evidence(_("capacity"), whole(r["capacity_tokens"]), "tokens", source=r["capacity_source"] or ""),
        Evidence(_("cap on running requests"), whole(r["cap"]), "requests", source=r["cap_source"] or ""),
        Evidence(_("step budget"), whole(r["max_num_batched_tokens"] or r["chunk_tokens"]), "tokens"),
        Evidence(_("longest request allowed"), whole(r["max_len_tokens"]), "tokens"),
        Evidence("schedule_conservativeness", r["schedule_conservativeness"], "", source=r["args_source"] or ""),
    )
    # what is bad comes first, and is not told twice
    names = {b.evidence.name for b in bad}
    evidence = (*(b.evidence for b in bad), *(e for e in told if e.name not in names))
    if bad:
        verdict: Answer = "yes" if any(b.setting.answer == "yes" for b in bad) else "partly"
        return q.answer(case.instance, verdict, say.sentences(b.sentence for b in bad), evidence)
    if r["args_source"] is None and r["cap"] is None:
        return q.answer(
            case.instance, "cannot_tell", _("Nothing bad in what is known of the pool, but the server's arguments are not in the capture."),
            evidence, q.missing(case.engine),
        )  # fmt: skip
    return q.answer(case.instance, "no", _("None of the known bad settings is in the start-up lines."), evidence)
