"""The JSON of a diagnosis as JSON Schema, made from the dataclasses of `model.py`, with the meaning of every field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from analyzer.diagnosis.model import SCHEMA_VERSION, Diagnosis

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

# What each field means; a field without words fails the tests.
MEANING = {
    "Diagnosis": {
        "schema_version": "Version of this form.",
        "tool_version": "Version of kvpm.",
        "trace": "Name of the trace.",
        "verdict": "The verdict of the worst instance.",
        "findings": "All findings of all instances, the verdict first.",
        "window": "Time range of the verdict.",
        "peaks": "Highest values of the worst instance.",
        "checklist": "The fourteen answers of the worst instance.",
        "instances": "The same for each instance, the worst first.",
        "facts": "What start-up lines and metrics told of each process: columns of the view `fact`.",
        "sources": "What each input gave: columns of the table `sources`.",
        "notes": "What a reader of the diagnosis should know, one sentence or remark each.",
        "warnings": "What may break next, one sentence each, of the worst instance.",
        "cut": "True when an input could not be read to its end.",
        "thresholds": "Thresholds that differ from the shipped ones, by name.",
    },
    "InstanceDiagnosis": {
        "instance": "Name of the server.",
        "engine": "`sglang` or `vllm`.",
        "versions": "Engine versions in words, stated or inferred.",
        "runs": "Process lifetimes in the capture.",
        "verdict": "The first of its findings.",
        "findings": "Its findings, ranked.",
        "window": "Time range of the verdict.",
        "peaks": "Its highest values.",
        "checklist": "Its answers, about its worst incident.",
        "incidents": "Its incidents, the worst first; empty when nothing broke.",
        "warnings": "What may break next, one sentence each.",
    },
    "IncidentDiagnosis": {
        "number": "1 is the worst.",
        "window": "Its time range.",
        "findings": "Why it happened, the likeliest first.",
        "checklist": "The answers about it.",
    },
    "Finding": {
        "cause": "The cause.",
        "confidence": "How sure.",
        "sentence": "What happened.",
        "instance": "The server it is about.",
        "window": "When.",
        "rests_on": "Ids of the questions it rests on.",
        "reasons": "Why this cause, one sentence each.",
        "advice": "What to do, the most useful first.",
        "leave_alone": "What would not help, and why.",
    },
    "Advice": {
        "id": "Stable name.",
        "action": "What to do.",
        "flag": "The engine's flag, or the setting; empty for advice without one.",
        "current": "Its present value, as far as the capture tells.",
        "moves": "Which number it moves, and by how much where the case tells; may be empty.",
        "cost": "What it costs; may be empty.",
        "versions": "Versions that have the flag; empty where this one is known to.",
    },
    "Window": {"start": "First moment.", "end": "The moment after the last."},
    "Evidence": {
        "name": "What the number is.",
        "value": "The number or word.",
        "unit": "Its unit; `share` is 0 to 1, `s` seconds.",
        "start": "Beginning of what it is about.",
        "end": "End of it.",
        "source": "`path:line` of what it was read from, several with commas; empty for what was computed.",
    },
    "MissingSignal": {"signal": "What would have been needed.", "flag": "How to record it next time."},
    "Answered": {
        "id": "Stable name of the question.",
        "number": "1 to 14.",
        "title": "The question.",
        "answer": "The answer.",
        "sentence": "The answer in words.",
        "evidence": "The numbers behind it.",
        "missing": "What was missing for an answer, or for a better one.",
        "sql": "The query that gives the numbers again with `kvpm sql`.",
        "read": "How the answer's chart and numbers are read.",
        "why": "Why the question matters.",
        "advice": "What to do in general when the answer is yes.",
    },
    "Peaks": {
        "running": "Requests running at once.",
        "waiting": "Requests waiting at once.",
        "kv_usage": "Usage of the KV pool, a share of 0 to 1.",
        "retraction_events": "Times SGLang retracted.",
        "retracted_requests": "Requests it retracted.",
        "preemptions": "Preemptions of vLLM.",
        "notes": "By name of a peak: where it is from, or why it is unknown.",
    },
}


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `Diagnosis.to_dict` gives."""
    definitions = {cls.__name__: _object(cls) for cls in classes()}
    top = definitions.pop("Diagnosis")
    top["properties"]["schema_version"] |= {"const": SCHEMA_VERSION}
    return {"$schema": DIALECT, "title": "Diagnosis of kvpm", **top, "$defs": dict(sorted(definitions.items()))}


def classes() -> list[type]:
    """The dataclasses of the JSON, the whole first, each before its parts."""
    found: list[type] = []

    def visit(cls: type) -> None:
        if cls not in found:
            found.append(cls)
            for hint in get_type_hints(cls).values():
                for part in _parts(hint):
                    visit(part)

    visit(Diagnosis)
    return found


def type_words(hint: Any) -> str:
    """A field's type for people: `string or null`, `list of Finding`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(type_words(a) for a in arguments)
    if origin is Literal:
        return ", ".join(f"`{a}`" for a in arguments)
    if origin is tuple:
        return f"list of {type_words(arguments[0])}"
    if origin is dict:
        return "object" if arguments[1] is Any else f"object of {type_words(arguments[1])}"
    if hint is datetime:
        return "time"
    return _PLAIN.get(hint) or str(hint.__name__)


def _parts(hint: Any) -> Iterator[type]:
    if is_dataclass(hint) and isinstance(hint, type):
        yield hint
    for argument in get_args(hint):
        yield from _parts(argument)


def _object(cls: type) -> dict[str, Any]:
    """All fields are always there; what is not known is null."""
    assert is_dataclass(cls)
    hints = get_type_hints(cls)
    meaning = MEANING.get(cls.__name__, {})
    names = [f.name for f in fields(cls)]
    if "schema_version" in names:
        names.remove("schema_version")
        names.insert(0, "schema_version")
    properties = {name: _typed(hints[name]) | ({"description": meaning[name]} if name in meaning else {}) for name in names}
    return {
        "description": " ".join((cls.__doc__ or "").split("\n\n")[0].split()),
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


def _typed(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        plain = [_PLAIN[a] for a in arguments if a in _PLAIN]
        if len(plain) == len(arguments):
            # every integer is a number
            return {"type": [p for p in plain if p != "integer" or "number" not in plain]}
        return {"anyOf": [_typed(a) for a in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _typed(arguments[0])}
    if origin is dict:
        return {"type": "object"} if arguments[1] is Any else {"type": "object", "additionalProperties": _typed(arguments[1])}
    if hint is datetime:
        return {"type": "string", "format": "date-time", "pattern": _MOMENT}
    if is_dataclass(hint) and isinstance(hint, type):
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": _PLAIN[hint]}
