"""`kvpm capacity` as it is typed: what it prints, its JSON, where it reads from, and its errors."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyzer import ingest, open_trace
from analyzer.cli.capacity import capacity as command
from analyzer.errors import ExitCode, KvpmError

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_size": 8192,
    "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
}  # fmt: skip
GEMMA = {
    "model_type": "gemma2", "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16, "hidden_size": 4608,
    "head_dim": 128, "sliding_window": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on a configuration in `config.json`; gives what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(config: Any, *options: str, name: str = "config.json") -> str:
        (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
        command.main([name, *options], standalone_mode=False)
        return capsys.readouterr().out

    return call


def test_the_arithmetic_is_shown(run: Run) -> None:
    out = run(LLAMA, "--hbm", "60GiB", "--tp", "8", "--lengths", "32k,128k").splitlines()
    assert out[:5] == [
        "llama, 80 layers: 320 KiB of KV cache per token (bfloat16)",
        "  2 (K and V) × 80 layers × 8 KV heads × 128 × 2 B = 320 KiB",
        "On each GPU (--tp 8): 40 KiB per token",
        "  2 (K and V) × 80 layers × 1 of 8 KV heads × 128 × 2 B = 40 KiB",
        "Pool: 60 GiB per GPU / 40 KiB = 1,572,864 tokens",
    ]
    assert [line.split()[-1] for line in out[-2:]] == ["48", "12"]


def test_sizes_are_written_so_that_the_arithmetic_can_be_followed(run: Run) -> None:
    """32,768 tokens of 40 KiB are 1.25 GiB; a size that is no round one has four digits."""
    out = run(LLAMA, "--hbm", "64GB", "--tp", "8", "--lengths", "32k")
    assert "32,768 tokens       1.25 GiB" in out
    assert "Pool: 59.6 GiB per GPU / 40 KiB = 1,562,500 tokens" in out


def test_without_memory_it_says_what_a_token_costs(run: Run) -> None:
    assert run(LLAMA).splitlines() == [
        "llama, 80 layers: 320 KiB of KV cache per token (bfloat16)",
        "  2 (K and V) × 80 layers × 8 KV heads × 128 × 2 B = 320 KiB",
    ]


def test_windows_are_bounds(run: Run) -> None:
    out = run(GEMMA, "--hbm", "40GiB", "--lengths", "4k,64k")
    assert "a window of 4,096 tokens: at most 736 MiB per request" in out
    assert "2 (K and V) × 23 layers × 16 KV heads × 128 × 2 B = 184 KiB" in out
    rows = [line.split() for line in out.splitlines() if line.strip().startswith(("4,096 tokens", "65,536 tokens"))]
    assert [row[-2:] for row in rows] == [["27", "27"], ["1", "3"]]


def test_mla_and_heads_that_are_copied_say_why_more_gpus_gain_nothing(run: Run) -> None:
    mla = {"model_type": "deepseek_v3", "num_hidden_layers": 61, "torch_dtype": "bfloat16", "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    out = run(mla, "--tp", "8")
    assert "61 layers × (512 latent + 64 RoPE) × 2 B = 68.62 KiB" in out
    assert "The latent is whole on each of the 8 GPUs" in out
    assert "8 KV heads on 16 GPUs: 2 have a copy of each" in run(LLAMA, "--tp", "16")


def test_json_holds_the_numbers(run: Run) -> None:
    told = json.loads(run(LLAMA, "--hbm", "60GiB", "--tp", "8", "--lengths", "32k,128k", "--json"))
    assert (told["schema_version"], told["kv_bytes_per_token"], told["pool_tokens"]) == (1, 327680, 1572864)
    assert [row["requests"]["least"] for row in told["lengths"]] == [48, 12]


def test_a_folder_or_standard_input_will_do(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(LLAMA)
    assert run(LLAMA, name=str(tmp_path)) == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(LLAMA).encode())))
    assert run("{}", name="-") == expected


def test_a_file_is_written_and_not_over_another(run: Run, tmp_path: Path) -> None:
    assert run(LLAMA, "-o", "out.txt") == ""
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").startswith("llama, 80 layers")
    with pytest.raises(KvpmError, match=r"out\.txt exists already"):
        run(LLAMA, "-o", "out.txt")
    run(LLAMA, "-o", "out.txt", "--force", "--json")
    assert json.loads((tmp_path / "out.txt").read_text(encoding="utf-8"))["layers"] == 80


def test_what_a_server_reported_is_taken_from_its_trace(run: Run, tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "recorded_l1_bound" / "server.log", tmp_path)
    ingest(["server.log"], "T.kvtrace")
    with open_trace("T.kvtrace") as trace:
        row = trace.con.execute("SELECT instance, capacity_tokens FROM _limits").fetchone()
    assert row is not None
    told = json.loads(run(LLAMA, "--trace", "T.kvtrace", "--pool-tokens", "64k", "--lengths", "1000", "--json"))
    assert [r["pool_tokens"] for r in told["reported"]] == [65536, row[1]]
    assert told["reported"][1]["name"] == row[0]
    assert told["reported"][1]["requests"] == [row[1] // 1000]
    assert "Reported by the server: 65,536 tokens, which take 20 GiB per GPU" in run(LLAMA, "--pool-tokens", "64k")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("not json", "config.json is not JSON"),
        ("[1]", "config.json holds no JSON object"),
        ("[" * 100_000, "config.json is nested deeper than any configuration"),
        ('{"num_hidden_layers": ' + "9" * 5000 + "}", "config.json is not JSON"),
        ("{}", "num_hidden_layers is missing"),
        ({**LLAMA, "num_hidden_layers": -5}, "num_hidden_layers is -5, which no model has"),
        ({**LLAMA, "num_hidden_layers": 10**7}, "10,000,000 layers is not believable"),
        ({**LLAMA, "num_key_value_heads": 8.5}, "num_key_value_heads is 8.5, which is no whole number"),
        ({**LLAMA, "head_dim": True}, "head_dim is True, which is no whole number"),
        ({**LLAMA, "hidden_size": "8192"}, "hidden_size is '8192', which is no whole number"),
        ({**LLAMA, "hidden_size": 10**400}, "hidden_size is"),
        ({**LLAMA, "torch_dtype": "float7"}, "'float7' is no type of KV cache"),
        ('{"model_type": "llama", "layer_types": 5, "num_hidden_layers": {}}', "num_hidden_layers is dict, which is no whole number"),
    ],
)
def test_a_configuration_that_is_none(run: Run, config: Any, message: str) -> None:
    with pytest.raises(KvpmError) as told:
        run(config)
    assert message in told.value.message
    assert "\n" not in told.value.message + told.value.hint
    assert told.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--hbm", "60"), "'60' is no memory size"),
        (("--lengths", "many"), "'many' is no number of tokens"),
        (("--pool-tokens", "0"), "'0' is out of range"),
        (("--kv-dtype", "int3"), "'int3' is no type of KV cache"),
        (("--tp", "3"), "8 KV heads do not split evenly over 3 GPUs"),
    ],
)
def test_options_that_cannot_be(run: Run, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(KvpmError) as told:
        run(LLAMA, *options)
    assert message in told.value.message
    assert told.value.exit_code == ExitCode.USAGE


def test_a_file_that_is_not_there(run: Run) -> None:
    with pytest.raises(KvpmError, match=r"nowhere\.json does not exist"):
        run(LLAMA, name="nowhere.json")


def test_text_from_a_configuration_is_cleaned(run: Run) -> None:
    out = run({**LLAMA, "model_type": "a\x1b[31mb\u202e\nc"})
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert out.startswith("a[31mb c, 80 layers")
