"""Which server a row belongs to, and which of its process lifetimes.

Works on what all sources of a trace said of themselves, so the answer does not depend on the order in
which they were read. The rules, first match wins:

1. `--instance PATTERN=NAME`, matched against the source's path and the collector's pod or container;
2. the pod or container that the log collector names, the pod or scrape target in the labels of a metric;
3. host:port of the server's own arguments, or of the URL a client called;
4. the folder the source lies in; sources of one folder are one server, unless their ports differ or
   they report for the same ranks at the same time (then they are told apart by file name).

An address that one source gives to a name holds for all of them: the log of 10.0.0.5:8000 and the metrics of
pod vllm-0 with that address are one server. A loopback address holds for its folder and those below only.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatch
from pathlib import PurePath

from analyzer.errors import KvpmError
from analyzer.trace.streams import Mark, Stream

_ANY_HOST = frozenset(("", "0.0.0.0", "::", "[::]"))
_LOOPBACK = re.compile(r"(?:127\.\d+\.\d+\.\d+|localhost|\[?::1\]?):\d+")
# Engines that serve nobody by themselves, and what client records have for one.
_NO_SERVER = frozenset(("lmcache", "client", "process"))
# Ranks of one server start within this of each other, while the others go on; a restart needs at least a model load.
_SAME_START = timedelta(seconds=120)
# Reports of the same rank in two files for longer than this cannot come from one process.
_OVERLAP = timedelta(seconds=5)
# A process exports one start time for life; replicas of a rollout start moments apart.
_SAME_PROCESS = timedelta(milliseconds=5)
# SGLang prints its arguments twice while it starts; a crash loop prints them again later.
_STARTS_AGAIN = timedelta(seconds=20)


@dataclass(slots=True)
class SourceStream:
    """One collector stream of one source, with what identifies it."""

    source_id: str
    path: str
    folder: str
    stream: Stream
    descending: bool = False


@dataclass(slots=True)
class Run:
    """One process lifetime: `start` is None for one that was already up when the capture began."""

    run_id: str
    start: datetime | None
    source_id: str = ""
    record: int = 0
    engine: str = ""
    not_before: datetime | None = None


@dataclass(slots=True)
class Identity:
    """Instance by (source, stream), runs by instance, how each name was found, and which instances have an engine."""

    instance: dict[tuple[str, str], str] = field(default_factory=dict)
    serving: set[str] = field(default_factory=set)
    runs: dict[str, list[Run]] = field(default_factory=dict)
    aliases: list[dict[str, str]] = field(default_factory=list)

    def run_of(self, instance: str, ts: datetime | None) -> str:
        """The run that was up at `ts`; rows without a time belong to the first."""
        runs = self.runs[instance]
        starts = [r.start for r in runs[1:] if r.start is not None]
        if ts is None:
            return runs[0].run_id
        return runs[bisect_right(starts, ts)].run_id


@dataclass(frozen=True, slots=True)
class InstanceRule:
    """One `--instance PATTERN=NAME`."""

    pattern: str
    name: str

    def matches(self, text: str) -> bool:
        """Shell-style, anywhere in the text."""
        return matches(self.pattern, text)


def matches(pattern: str, text: str) -> bool:
    """Shell-style, anywhere in the text."""
    return bool(text) and fnmatch(text, f"*{pattern}*")


def parse_instance_rules(options: tuple[str, ...]) -> list[InstanceRule]:
    """`PATTERN=NAME` options as rules; raises KvpmError for one without both parts."""
    rules = []
    for option in options:
        pattern, equals, name = option.partition("=")
        if not (equals and pattern and name):
            raise KvpmError(f"--instance {option!r} is not PATTERN=NAME", hint="for example --instance 'pod-7*=prefill-0'")
        rules.append(InstanceRule(pattern, name))
    return rules


def identify(streams: list[SourceStream], rules: list[InstanceRule]) -> Identity:
    """Name the instance of every stream and find its runs."""
    identity = Identity()
    waiting: list[SourceStream] = []
    for s in streams:
        rule = next((r for r in rules if r.matches(s.path) or r.matches(s.stream.origin)), None)
        if rule:
            _name(identity, s, rule.name, f"--instance {rule.pattern}")
        elif s.stream.origin:
            _name(identity, s, s.stream.origin, _NAMED_BY[s.stream.kind])
        else:
            waiting.append(s)
    _by_address(identity, streams, waiting)
    _by_folder(identity, streams, waiting)
    _part_loopback(identity, streams)
    _split_engines(identity, streams)
    _find_runs(identity, streams)
    identity.serving = {identity.instance[s.source_id, s.stream.origin] for s in streams if s.stream.engines - {"process"}}
    return identity


_NAMED_BY = {"log": "named by the log collector", "metrics": "scrape target in the labels", "requests": "server in the records"}


def _by_address(identity: Identity, streams: list[SourceStream], waiting: list[SourceStream]) -> None:
    """Streams whose routable address another stream's name is known for."""
    named: dict[tuple[str, int], set[str]] = {}
    for s in streams:
        name = identity.instance.get((s.source_id, s.stream.origin))
        for address in s.stream.addresses:
            if name and address[0] not in _ANY_HOST:
                named.setdefault(address, set()).add(name)
    for s in list(waiting):
        for address in s.stream.addresses:
            names = named.get(address, set())
            if len(names) == 1 and not _LOOPBACK.fullmatch(f"{address[0]}:{address[1]}"):
                _name(identity, s, next(iter(names)), f"address {address[0]}:{address[1]}")
                waiting.remove(s)
                break


def _name(identity: Identity, s: SourceStream, name: str, why: str) -> None:
    identity.instance[s.source_id, s.stream.origin] = name
    identity.aliases.append({"source": s.path, "stream": s.stream.origin, "instance": name, "because": why})


def _by_folder(identity: Identity, streams: list[SourceStream], waiting: list[SourceStream]) -> None:
    folders: dict[str, list[SourceStream]] = {}
    for s in waiting:
        folders.setdefault(s.folder, []).append(s)
    labels = _short_names(list(folders))
    for folder, members in folders.items():
        clients = [s for s in members if s.stream.kind == "requests"]
        servers = [s for s in members if s.stream.kind != "requests"]
        known = {a for s in servers for a in s.stream.addresses} or {a for s in clients for a in s.stream.addresses}
        ports = {port for _, port in known}
        targets = _targets(identity, streams, folder)
        for s in servers:
            own = s.stream.addresses
            shared = [] if own else sorted(known) if len(known) == 1 else []
            routable = [f"{h}:{p}" for h, p in (own or shared) if h not in _ANY_HOST]
            beside = {name for name, found in targets.items() if not own or any(p in {q for _, q in found} for _, p in own)}
            if routable and (own or not targets):
                _name(identity, s, routable[0], "address in the server arguments" if own else "address of a source in the same folder")
            elif len(beside) == 1 and (own or len(known) <= 1):
                _name(identity, s, next(iter(beside)), "the only server named in the same folder")
            elif own and len(ports) > 1:
                _name(identity, s, f"{labels[folder]}:{own[0][1]}", "folder and port in the server arguments")
            else:
                _name(identity, s, labels[folder], "folder of the source")
        _part_overlapping(identity, servers)
    _clients(identity, streams, [s for s in waiting if s.stream.kind == "requests"], labels)


def _clients(identity: Identity, streams: list[SourceStream], clients: list[SourceStream], labels: dict[str, str]) -> None:
    """Client records belong to the server they name; a balancer's address names none, the folder then does."""
    for s in clients:
        own = [f"{h}:{p}" for h, p in s.stream.addresses if h not in _ANY_HOST]
        beside = {
            name
            for o in streams
            if o.stream.kind != "requests"
            and _below(o.folder, s.folder)
            and (name := identity.instance.get((o.source_id, o.stream.origin)))
        }
        if own and own[0] in identity.instance.values():
            _name(identity, s, own[0], "address in the records")
        elif len(beside) == 1:
            _name(identity, s, next(iter(beside)), "the only server in the same folder")
        elif own:
            _name(identity, s, own[0], "address in the records")
        else:
            _name(identity, s, labels[s.folder], "folder of the source")


def _targets(identity: Identity, streams: list[SourceStream], folder: str) -> dict[str, set[tuple[str, int]]]:
    """Servers that sources of this folder or below name by label or collector, with their addresses."""
    found: dict[str, set[tuple[str, int]]] = {}
    for s in streams:
        name = identity.instance.get((s.source_id, s.stream.origin))
        if name and s.stream.origin and _below(s.folder, folder) and s.stream.engines - {"process", "client"}:
            found.setdefault(name, set()).update(s.stream.addresses)
    return found


def _below(folder: str, top: str) -> bool:
    return folder == top or folder.startswith(top.rstrip("/") + "/")


def _part_loopback(identity: Identity, streams: list[SourceStream]) -> None:
    """127.0.0.1:8000 of two hosts is two servers: such a name is shared only along one line of folders."""
    tops: dict[str, set[str]] = {}
    for s in streams:
        name = identity.instance[s.source_id, s.stream.origin]
        if _LOOPBACK.fullmatch(name):
            tops.setdefault(name, set()).add(s.folder)
    for name, folders in tops.items():
        roots = [f for f in folders if not any(f != g and _below(f, g) for g in folders)]
        if len(roots) < 2:
            continue
        labels = _short_names(roots)
        for s in streams:
            if identity.instance[s.source_id, s.stream.origin] == name:
                root = next(r for r in roots if _below(s.folder, r))
                _rename(identity, s, f"{labels[root]}/{name}", "a loopback address in another folder")


def _rename(identity: Identity, s: SourceStream, name: str, why: str) -> None:
    identity.instance[s.source_id, s.stream.origin] = name
    for alias in identity.aliases:
        if alias["source"] == s.path and alias["stream"] == s.stream.origin:
            alias |= {"instance": name, "because": f"{alias['because']}; {why}"}


def _part_overlapping(identity: Identity, members: list[SourceStream]) -> None:
    """Tell apart sources of one folder that report for the same ranks at the same time."""
    by_name: dict[str, list[SourceStream]] = {}
    for s in members:
        by_name.setdefault(identity.instance[s.source_id, s.stream.origin], []).append(s)
    for name, group in by_name.items():
        clash = any(_overlap(a.stream, b.stream) for i, a in enumerate(group) for b in group[i + 1 :])
        if not clash:
            continue
        for s in group:
            _rename(identity, s, f"{name}/{PurePath(s.path).name.split('.')[0]}", "same ranks reported at the same time")


def _overlap(a: Stream, b: Stream) -> bool:
    if a.kind != b.kind or a.kind == "requests":
        return False
    if a.kind == "metrics":
        return _other_process(a, b)
    for key, (first, last) in a.spans.items():
        other = b.spans.get(key)
        if other and min(last, other[1]) - max(first, other[0]) > _OVERLAP:
            return True
    return False


def _other_process(a: Stream, b: Stream) -> bool:
    """True when two metric dumps without labels scraped different processes at the same time."""
    times = [[m.ts for m in s.marks if m.role == "serving"] for s in (a, b)]
    starts = [{m.ts for m in s.marks if m.format == "metrics.process_start"} for s in (a, b)]
    if not all(times) or not all(starts):
        return False
    together = min(max(times[0]), max(times[1])) - max(min(times[0]), min(times[1]))
    return together > _OVERLAP and all(abs(x - y) > _SAME_PROCESS for x in starts[0] for y in starts[1])


def _split_engines(identity: Identity, streams: list[SourceStream]) -> None:
    """Two serving engines are two servers, whatever they share."""
    engines: dict[str, set[str]] = {}
    for s in streams:
        name = identity.instance[s.source_id, s.stream.origin]
        engines.setdefault(name, set()).update(s.stream.engines - _NO_SERVER)
    for s in streams:
        name = identity.instance[s.source_id, s.stream.origin]
        own = s.stream.engines - _NO_SERVER
        if len(engines[name]) > 1 and len(own) == 1:
            _rename(identity, s, f"{name}/{next(iter(own))}", "two engines")


def _short_names(folders: list[str]) -> dict[str, str]:
    """The shortest trailing part of each folder that no other folder shares."""
    names: dict[str, str] = {}
    for folder in folders:
        parts = [p for p in PurePath(folder).parts if p not in ("/", "\\")] or [folder]
        for size in range(1, len(parts) + 1):
            name = "/".join(parts[-size:])
            if not any(o != folder and f"/{o}".endswith(f"/{name}") for o in folders):
                break
        names[folder] = name
    return names


def _find_runs(identity: Identity, streams: list[SourceStream]) -> None:
    starts: dict[str, list[Run]] = {}
    earliest: dict[str, datetime] = {}
    latest: dict[str, datetime] = {}
    still_starting: set[str] = set()
    for s in streams:
        name = identity.instance[s.source_id, s.stream.origin]
        starts.setdefault(name, [])
        engine = next(iter(sorted(s.stream.engines - _NO_SERVER)), next(iter(sorted(s.stream.engines)), ""))
        for mark in run_starts(s.stream.marks, s.descending):
            starts[name].append(Run("", mark.ts, s.source_id, mark.record, engine, mark.not_before))
        heard = [m.last_ts or m.ts for m in s.stream.marks] + [last for _, last in s.stream.spans.values()]
        if heard:
            latest[s.source_id] = max(*heard, latest.get(s.source_id, heard[0]))
        if s.stream.marks and max(s.stream.marks, key=lambda m: (m.ts, m.record)).role == "start":
            still_starting.add(s.source_id)
        first = min((m.ts for m in s.stream.marks), default=None)
        if first is not None:
            earliest[name] = min(first, earliest.get(name, first))
    for name, found in starts.items():
        found.sort(key=lambda r: (r.start, r.source_id, r.record))
        runs: list[Run] = []
        for run in _surest(found):
            assert run.start is not None
            if not runs or not _same_start(runs[-1], run, latest, still_starting):
                runs.append(run)
        if not runs or (name in earliest and runs[0].start is not None and earliest[name] < runs[0].start):
            runs.insert(0, Run("", None))
        for number, run in enumerate(runs, 1):
            run.run_id = f"r{number}"
        identity.runs[name] = runs


def _surest(found: list[Run]) -> list[Run]:
    """`found` without starts known only as a span, where another source tells when it was."""
    exact = [r.start for r in found if r.not_before is None and r.start is not None]
    spans = [r for r in found if r.not_before is not None]
    kept = []
    for run in found:
        if run.not_before is not None:
            assert run.start is not None
            low, high = run.not_before - _OVERLAP, run.start + _OVERLAP
            if any(low <= e <= high for e in exact) or any(
                o is not run and o.start < run.start and o.start >= low for o in spans if o.start
            ):
                continue
        kept.append(run)
    return kept


def _same_start(earlier: Run, later: Run, latest: dict[str, datetime], still_starting: set[str]) -> bool:
    """True when two sources tell of one start: soon after each other, and the earlier one was not over by then.

    A log that was rotated while its server started goes on in the next file.
    """
    assert earlier.start is not None
    assert later.start is not None
    return (
        earlier.source_id != later.source_id
        and later.start - earlier.start < _SAME_START
        and (latest.get(earlier.source_id, later.start) >= later.start or earlier.source_id in still_starting)
    )


def run_starts(marks: list[Mark], descending: bool) -> list[Mark]:
    """The marks at which a process lifetime begins, in time order."""
    ordered = sorted(marks, key=lambda m: (m.ts, -m.record if descending else m.record))
    found: list[Mark] = []
    phase = ""
    seen: dict[str, Mark] = {}
    for mark in ordered:
        if mark.role == "start":
            before = seen.get(mark.format)
            again = before is not None and mark.ts - before.ts > _STARTS_AGAIN and before.pid != mark.pid
            again = again or (before is not None and mark.pid is None and mark.ts - before.ts > _STARTS_AGAIN)
            if phase != "starting" or (again and not _parallel(mark, before)):
                found.append(mark)
                seen = {}
            phase = "starting"
            seen[mark.format] = mark
        elif mark.role in ("serving", "ready"):
            phase = "serving"
        else:
            phase = "ended"
    return found


def _parallel(mark: Mark, before: Mark | None) -> bool:
    """Ranks of one server print the same start line each; only a late one is a new start."""
    return before is not None and mark.ts - before.ts < _SAME_START and mark.format == "vllm.engine_init"
