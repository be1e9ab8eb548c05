"""Designs of load: what waits, or nothing does, and why. Two seeds each, an odd and an even one."""

from __future__ import annotations

from dataclasses import replace

from generated_model import Design, Noise

from sample_traces.generator.cases import LARGE, LARGE_BF16, LARGE_COST, SMALL, SMALL_COST, SMALL_STEP
from sample_traces.generator.render import SGLangServer, VLLMServer
from sample_traces.generator.workload import Phase

QUIET_S = 90.0


def _phases(calm: Phase, busy: Phase, after: float = 90.0) -> tuple[Phase, ...]:
    """A quiet stretch, the trouble, a quiet stretch."""
    return (replace(calm, seconds=QUIET_S), busy, replace(calm, seconds=after))


_CHAT = Phase(QUIET_S, 0.5, (300, 1500), (150, 500), max_new=1024)

L1_BOUND = (
    Design(
        "l1-batch-jobs",
        "l1_bound",
        SGLangServer("0.5.23", LARGE, 196_608, 32768, tp=2, host_tokens=393_216),
        LARGE_COST,
        _phases(
            Phase(QUIET_S, 0.22, (800, 6000), (120, 480), max_new=1024, prefixes=12, prefix_len=1200),
            Phase(260.0, 0.1, (2500, 4500), (950, 1200), max_new=1200, prefixes=40, prefix_len=2600, burst=34, burst_every=80.0),
        ),
        (301, 302),
        every_s=10.0,
    ),
    Design(
        "l1-long-answers",
        "l1_bound",
        SGLangServer("0.4.6", SMALL, 40_960, 8192, conservativeness=0.4),
        SMALL_COST,
        _phases(Phase(QUIET_S, 0.5, (200, 900), (150, 500), max_new=1024), Phase(120.0, 2.6, (300, 1200), (700, 1300), max_new=1400)),
        (303, 304),
        noise=Noise(lines=0.05),
    ),
    Design(
        "l1-both-ranks",
        "l1_bound",
        SGLangServer("0.5.12", replace(LARGE, gpu_gb=59.2), 98_304, 32768, tp=2, dp=2, conservativeness=0.3),
        LARGE_COST,
        _phases(
            Phase(QUIET_S, 0.3, (600, 3000), (120, 480), max_new=1024),
            Phase(210.0, 0.1, (2500, 5000), (900, 1200), max_new=1200, burst=44, burst_every=70.0),
        ),
        (305, 306),
        ranks=2,
        every_s=15.0,
    ),
    Design(
        "l1-preempted",
        "l1_bound",
        VLLMServer("0.11.2", SMALL, 2_048, 16384, 256, 2048),
        SMALL_STEP,
        _phases(Phase(QUIET_S, 0.5, (300, 1200), (150, 500)), Phase(180.0, 1.7, (600, 1600), (500, 1000))),
        (307, 308),
        noise=Noise(scrapes=0.1, jitter_s=1.5),
    ),
    Design(
        "l1-preempted-v0",
        "l1_bound",
        VLLMServer("0.6.6", SMALL, 2_048, 8192, 256, 8192),
        SMALL_STEP,
        _phases(Phase(QUIET_S, 0.5, (300, 1200), (150, 500)), Phase(180.0, 1.7, (600, 1600), (500, 1000))),
        (309, 310),
        watermark=0.01,
    ),
    Design(
        "l1-few-long-prompts",
        "l1_bound",
        VLLMServer("0.32", SMALL, 3_072, 32768, 128, 8192),
        SMALL_STEP,
        _phases(Phase(QUIET_S, 0.15, (2000, 6000), (150, 400)), Phase(200.0, 0.45, (9000, 16000), (500, 900))),
        (311, 312),
        access=False,
    ),
)

_GREEDY = Phase(QUIET_S, 0.4, (80, 240), (120, 260), max_new=4096)
RESERVATION_BOUND = (
    Design(
        "reservation-greedy-clients",
        "reservation_bound",
        SGLangServer("0.5.23", LARGE_BF16, 24_576, 8192, conservativeness=1.3, tp=2),
        LARGE_COST,
        _phases(_GREEDY, replace(_GREEDY, seconds=150.0, rate=2.3)),
        (321, 322),
        every_s=15.0,
    ),
    Design(
        "reservation-conservative",
        "reservation_bound",
        SGLangServer("0.5.3", SMALL, 28_672, 16384, conservativeness=1.4),
        replace(SMALL_COST, decode=0.03),
        _phases(
            Phase(QUIET_S, 0.5, (100, 300), (100, 200), max_new=4096),
            Phase(120.0, 8.0, (100, 300), (100, 200), max_new=4096),
        ),
        (323, 324),
        noise=Noise(lines=0.08, jitter_s=2.0),
    ),
)

CAP_BOUND = (
    Design(
        "cap-of-eight",
        "cap_bound",
        SGLangServer("0.5.21", SMALL, 214_016, 32768, max_running_requests=8),
        SMALL_COST,
        _phases(replace(_CHAT, rate=0.4), Phase(150.0, 1.5, (200, 900), (250, 600), max_new=800)),
        (331, 332),
    ),
    Design(
        "cap-with-a-half-full-pool",
        "cap_bound",
        SGLangServer("0.5.5", SMALL, 65_536, 16384, max_running_requests=16, conservativeness=0.3),
        SMALL_COST,
        _phases(replace(_CHAT, rate=0.4), Phase(150.0, 2.6, (1200, 2400), (300, 600), max_new=640)),
        (333, 334),
        noise=Noise(lines=0.1),
    ),
    Design(
        "cap-of-twelve",
        "cap_bound",
        VLLMServer("0.32", SMALL, 13_376, 32768, 12, 8192),
        SMALL_STEP,
        _phases(Phase(QUIET_S, 0.5, (200, 900), (250, 600)), Phase(160.0, 2.7, (200, 900), (250, 600))),
        (335, 336),
        noise=Noise(scrapes=0.1, jitter_s=1.0),
    ),
)

_SCORING = Phase(QUIET_S, 0.25, (8000, 16000), (1, 1), max_new=1)
PREFILL_BOUND = (
    Design(
        "prefill-scoring",
        "prefill_bound",
        SGLangServer("0.5.23", replace(SMALL, gpu_gb=79.1), 428_032, 32768),
        replace(SMALL_COST, prefill_token=0.00011),
        _phases(_SCORING, replace(_SCORING, seconds=160.0, rate=0.95)),
        (341, 342),
    ),
    Design(
        "prefill-long-prompts",
        "prefill_bound",
        VLLMServer("0.32", SMALL, 40_960, 32768, 256, 2048),
        replace(SMALL_STEP, token=0.00011),
        _phases(Phase(QUIET_S, 0.2, (6000, 14000), (4, 24)), Phase(180.0, 1.05, (6000, 14000), (4, 24))),
        (343, 344),
        noise=Noise(jitter_s=1.0),
    ),
    Design(
        "prefill-classification",
        "prefill_bound",
        SGLangServer("0.5.9", LARGE, 393_216, 32768, tp=4),
        replace(LARGE_COST, prefill_token=0.00009),
        _phases(
            Phase(QUIET_S, 0.3, (5000, 9000), (1, 1), max_new=1, prefixes=3, prefix_len=1000),
            Phase(150.0, 1.75, (5000, 9000), (1, 1), max_new=1, prefixes=3, prefix_len=1000),
        ),
        (345, 346),
        noise=Noise(lines=0.1),
    ),
)

DECODE_BOUND = (
    Design(
        "decode-slow-host",
        "decode_bound",
        SGLangServer("0.5.23", replace(SMALL, gpu_gb=79.1), 428_032, 32768),
        SMALL_COST,
        _phases(replace(_CHAT, rate=0.35), Phase(240.0, 0.35, (300, 1500), (150, 500), max_new=1024), after=60.0),
        (351, 352),
        slow=(QUIET_S, 6.0),
    ),
    Design(
        "decode-slow-host-vllm",
        "decode_bound",
        VLLMServer("0.32", SMALL, 27_921, 32768, 256, 8192),
        SMALL_STEP,
        _phases(Phase(QUIET_S, 0.5, (300, 1200), (150, 500)), Phase(240.0, 0.5, (300, 1200), (150, 500)), after=60.0),
        (353, 354),
        slow=(QUIET_S, 7.0),
    ),
    Design(
        "decode-large-batch",
        "decode_bound",
        SGLangServer("0.5.9", replace(SMALL, gpu_gb=139.8), 856_064, 32768, graph_max_bs=256),
        replace(SMALL_COST, decode=0.022, decode_request=0.00085, context_token=0.0),
        _phases(
            Phase(QUIET_S, 0.15, (120, 400), (700, 1500), max_new=2048),
            Phase(300.0, 0.5, (120, 400), (700, 1500), rate_end=1.3, max_new=2048),
            after=60.0,
        ),
        (355, 356),
        noise=Noise(lines=0.05, jitter_s=1.0),
    ),
)

_NOBODY = Phase(200.0, 0.0, (1, 1), (1, 1))
NONE = (
    Design("healthy", "none", SGLangServer("0.5.21", SMALL, 214_016, 32768), SMALL_COST, (replace(_CHAT, seconds=300.0),), (361, 362)),
    Design(
        "burst-that-clears",
        "none",
        SGLangServer("0.5.23", replace(SMALL, gpu_gb=79.1), 428_032, 32768),
        SMALL_COST,
        _phases(replace(_CHAT, rate=0.4), Phase(160.0, 0.4, (150, 500), (40, 120), max_new=256, burst=150, burst_every=40.0)),
        (363, 364),
        told="150 requests come within two seconds, four times, and the queue is gone in less than two",
    ),
    Design(
        "planned-idle",
        "none",
        VLLMServer("0.32", SMALL, 27_921, 32768, 256, 8192),
        SMALL_STEP,
        (Phase(150.0, 0.7, (300, 1500), (150, 500)), _NOBODY, Phase(120.0, 0.9, (300, 1500), (150, 500))),
        (365, 366),
        told="nobody asks for 200 s",
    ),
    Design(
        "one-very-long-prompt",
        "none",
        VLLMServer("0.32", replace(SMALL, gpu_gb=79.1), 27_921, 262_144, 256, 2048),
        replace(SMALL_STEP, token=0.00018),
        (
            Phase(150.0, 1.2, (100, 500), (50, 200)),
            replace(_NOBODY, seconds=20.0),
            Phase(1.0, 0.0, (200_000, 200_001), (40, 60), burst=1, burst_every=1.0),
            replace(_NOBODY, seconds=60.0),
            Phase(100.0, 1.2, (100, 500), (50, 200)),
        ),
        (367, 368),
        told="one prompt of 200,000 tokens is computed for 37 s, in which nothing else comes and no token is printed",
    ),
    Design(
        "full-of-old-cache",
        "none",
        SGLangServer("0.5.23", SMALL, 98_304, 32768),
        SMALL_COST,
        (Phase(330.0, 0.45, (1500, 4000), (100, 300), max_new=512, prefixes=30, prefix_len=1500),),
        (369, 370),
        told="the pool is full of text that nobody uses",
    ),
    Design(
        "healthy-v0",
        "none",
        VLLMServer("0.6.6", SMALL, 27_921, 8192, 256, 8192),
        SMALL_STEP,
        (Phase(300.0, 0.6, (300, 1500), (150, 500)),),
        (371, 372),
        watermark=0.01,
    ),
)

SKEW = (
    Design(
        "skew-one-of-four-full",
        "skew",
        SGLangServer("0.5.23", SMALL, 32_768, 16384, dp=4, conservativeness=0.4),
        SMALL_COST,
        _phases(Phase(QUIET_S, 1.2, (300, 1200), (200, 500), max_new=1024), Phase(120.0, 2.2, (600, 1600), (500, 1000), max_new=1024)),
        (381, 382),
        ranks=4,
        first_share=0.85,
        every_s=15.0,
    ),
    Design(
        "skew-one-of-two-full",
        "skew",
        VLLMServer("0.32", SMALL, 2_048, 16384, 256, 2048),
        SMALL_STEP,
        _phases(Phase(QUIET_S, 0.5, (300, 1200), (150, 500)), Phase(180.0, 1.9, (600, 1600), (500, 900))),
        (383, 384),
        ranks=2,
        first_share=0.95,
    ),
)

DESIGNS: tuple[Design, ...] = (*L1_BOUND, *RESERVATION_BOUND, *CAP_BOUND, *PREFILL_BOUND, *DECODE_BOUND, *NONE, *SKEW)
