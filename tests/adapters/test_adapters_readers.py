"""Every outside format: sniffed from its content, read to what its writer meant, refused without what it lacks."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cosim import trace
from cosim.cli.trace import trace as command
from cosim.trace import Repairs, RoutingTrace, TraceError, statistics, traps

FILES = Path(__file__).parents[1] / "reference" / "traces"
FIT = {"fit_requests": 4, "fit_positions": 256, "fit_seed": 1}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with np.load(FILES / "expected.npz") as held:
        return dict(held)


def names(found: RoutingTrace) -> set[str]:
    return {trap.name for trap in traps.find(found)}


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(TraceError) as caught:
        trace.load(path, **options)
    return str(caught.value)


# ---- Transformers


FAMILIES = {
    "mixtral": {"router": "topk_softmax"},
    "olmoe": {"router": "softmax"},
    "qwen3_moe": {"router": "topk_softmax"},
    "gpt_oss": {"router": "topk_softmax"},
    "deepseek_v3": {
        "router": "deepseek_v3",
        "bias": FILES / "deepseek_v3_bias.pt",
        "groups": (4, 2),
        "routed_scaling": 2.5,
    },
}


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_route_as_the_model_did(family: str, expected: dict[str, Any]) -> None:
    options = FAMILIES[family]
    found = trace.load(FILES / f"{family}.pt", top_k=2, sequences=2, phase="prefill", **options)  # type: ignore[arg-type]
    ids, weights = expected[f"{family}_ids"], expected[f"{family}_weights"]
    mine, theirs = np.argsort(found.ids, axis=2), np.argsort(ids, axis=2)
    assert np.array_equal(np.take_along_axis(found.ids, mine, 2), np.take_along_axis(ids, theirs, 2))
    if weights.shape == ids.shape:
        assert found.weights is not None
        assert np.allclose(
            np.take_along_axis(found.weights, mine, 2), np.take_along_axis(weights, theirs, 2), atol=1e-6
        )
    assert found.experts == 8
    assert found.scores is not None
    assert found.request is not None
    assert found.request.tolist() == [0] * 6 + [1] * 6
    assert ("weights not normalised" in names(found)) == (family in ("olmoe", "deepseek_v3"))


@pytest.mark.parametrize("name", ["mixtral.safetensors", "mixtral_logits.npz"])
def test_logits_of_other_files(name: str) -> None:
    found = trace.load(FILES / name, top_k=2, router="topk_softmax")
    assert trace.same_trace(found, trace.load(FILES / "mixtral.pt", top_k=2, router="topk_softmax"))


def test_logits_need_their_family() -> None:
    text = refusal(FILES / "mixtral.pt")
    assert "router: not stated" in text
    assert "top_k: not stated" in text
    assert "did you mean 'softmax'?" in refusal(FILES / "mixtral.pt", router="sofmax", top_k=2)
    assert "bias: only deepseek_v3 reads it" in refusal(
        FILES / "mixtral.pt", router="softmax", top_k=2, bias=FILES / "deepseek_v3_bias.pt"
    )
    text = refusal(FILES / "deepseek_v3.pt", router="deepseek_v3", top_k=2, groups=(3, 1))
    assert "bias: not stated" in text
    assert "groups: 1 of 3 groups of 8 experts cannot give the Top-k" in text
    assert "12 rows are not those of 5 sequences" in refusal(
        FILES / "mixtral.pt", router="softmax", top_k=2, sequences=5
    )
    short = refusal(FILES / "deepseek_v3.pt", router="deepseek_v3", top_k=2, bias=FILES / "vllm_eplb.pt")
    assert "no array bias [layer, expert]" in short


# ---- vLLM


def test_vllm_whole_and_split(expected: dict[str, Any], tmp_path: Path) -> None:
    whole, split = trace.load(FILES / "vllm_whole.npz", experts=8), trace.load(FILES / "vllm_split.npz", experts=8)
    assert np.array_equal(whole.ids, expected["vllm_ids"])
    assert trace.same_trace(whole, split)
    assert whole.phase is not None
    assert whole.phase.tolist() == [0] * 5 + [1] * 4
    for name in ("b", "a"):
        shutil.copy(FILES / "vllm_split.npz", tmp_path / f"{name}.npz")
    both = trace.load(tmp_path, experts=8)
    assert np.array_equal(both.ids, np.concatenate([whole.ids, whole.ids]))
    assert both.request is not None
    assert both.request.tolist() == [0] * 9 + [1] * 9


def test_vllm_generated_rows_alone(expected: dict[str, Any], tmp_path: Path) -> None:
    ids = expected["vllm_ids"][5:].astype(np.int16)
    tokens = {"prompt_token_ids": np.arange(5), "output_token_ids": np.arange(5)}
    np.savez(tmp_path / "t.npz", routed_experts=ids, **tokens)
    found = trace.load(tmp_path / "t.npz", experts=8)
    assert found.position is not None
    assert found.position.tolist() == [5, 6, 7, 8]
    assert names(found) == {"prompts not recorded"}
    np.savez(tmp_path / "t.npz", routed_experts=ids[:2], **tokens)
    assert "2 rows; 5 prompt and 5 output tokens make 9 or 10" in refusal(tmp_path / "t.npz")


def test_vllm_response(expected: dict[str, Any], tmp_path: Path) -> None:
    found = trace.load(FILES / "vllm_response.json", experts=8)
    assert found.repairs == ("1 choices without routing (null: the request was pre-empted) left out",)
    assert found.request is not None
    assert found.request.tolist() == [0] * 9 + [1] * 4
    assert np.array_equal(found.ids[9:], expected["vllm_ids"][5:])
    evidence = {trap.name: trap.evidence for trap in traps.find(found)}
    assert evidence["padding or prefix cache"].startswith("2 of 13 rows are empty")
    fixed = trace.load(
        FILES / "vllm_response.json",
        experts=8,
        repairs=Repairs(drop_empty_rows=True, drop_incomplete_requests=False),
    )
    assert fixed.tokens == 11
    text = (FILES / "vllm_response.json").read_text()
    (tmp_path / "two.jsonl").write_text(text + text)
    (tmp_path / "list.json").write_text(json.dumps([json.loads(text)] * 2, indent=1))
    twice = trace.load(tmp_path / "two.jsonl", experts=8)
    assert twice.tokens == 26
    assert trace.same_trace(twice, trace.load(tmp_path / "list.json", experts=8))
    (tmp_path / "bad.json").write_text(text.replace("[[", "[[[", 1))
    assert "bad.json" in refusal(tmp_path / "bad.json", format="vllm_json")


def test_vllm_load_window(expected: dict[str, Any]) -> None:
    counts = expected["vllm_window"].sum(axis=0)
    logical = counts[:, :8].copy()
    logical[:, 3] += counts[:, 8]
    logical[:, 5] += counts[:, 9]
    found = trace.load(FILES / "vllm_eplb.pt", top_k=2, **FIT)  # type: ignore[arg-type]
    assert found.provenance == "fitted(vllm_eplb.pt)"
    assert statistics.load_correlation(statistics.load_counts(found), logical).min() > 0.97
    assert "it holds counts [3, 8], not tokens: state --top-k, --fit-requests" in refusal(FILES / "vllm_eplb.pt")


# ---- SGLang


def test_sglang_per_token(expected: dict[str, Any]) -> None:
    found = trace.load(FILES / "sglang_per_token.pt", experts=8)
    assert found.top_k == 8
    assert np.array_equal(found.ids[:, 1:, :2], expected["sglang_ids"][:, 1:])  # the replica of expert 3 is expert 3
    assert found.request is not None
    assert found.phase is not None
    assert found.request.tolist() == [0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1]
    assert found.phase.tolist() == [0] * 7 + [1] * 4
    evidence = {trap.name: trap.evidence for trap in traps.find(found)}
    assert evidence["dense layers"] == "layer 0 of 4: every token has the same ids (none: -1)"
    assert "no row uses slots 2-7 of 8" in evidence["empty slots"]
    fixed = trace.load(
        FILES / "sglang_per_token.pt", experts=8, repairs=Repairs(moe_layers=(1, 2, 3), drop_empty_slots=True)
    )
    assert np.array_equal(fixed.ids, expected["sglang_ids"][:, 1:])
    assert names(fixed) == {"dense-layer offset"}
    assert "it reads" in refusal(FILES / "sglang_per_token.pt", router="softmax")
    assert "the file holds routing, nothing is fitted" in refusal(FILES / "sglang_per_token.pt", top_k=2)


@pytest.mark.parametrize("name", ["sglang_stat.pt", "sglang_per_pass.pt"])
def test_sglang_counts(name: str, expected: dict[str, Any]) -> None:
    found = trace.load(FILES / name, top_k=2, **FIT)  # type: ignore[arg-type]
    assert found.provenance == f"fitted({name})"
    assert found.layer_map.tolist() == [1, 2, 3]  # the dense layer has no load
    assert statistics.load_correlation(statistics.load_counts(found), expected["sglang_counts"][1:]).min() > 0.97


def test_sglang_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        shutil.copy(FILES / "sglang_per_token.pt", tmp_path / f"expert_distribution_recorder_1_{rank}.pt")
    assert "3 records that two ranks hold alike (data-parallel double counting): read one" in refusal(tmp_path)


def sglang_response(ids: Any, prompt: int, output: int, start: int = 0) -> dict[str, Any]:
    text = base64.b64encode(np.ascontiguousarray(ids[start:], dtype="<i4").tobytes()).decode()
    return {"text": "", "meta_info": {"prompt_tokens": prompt, "completion_tokens": output, "routed_experts": text}}


def test_sglang_response(expected: dict[str, Any], tmp_path: Path) -> None:
    ids = expected["vllm_ids"]
    (tmp_path / "t.json").write_text(json.dumps(sglang_response(ids, 5, 5)))
    found = trace.load(tmp_path / "t.json", experts=8, top_k=2)
    assert np.array_equal(found.ids, ids)
    assert found.phase is not None
    assert found.phase.tolist() == [0] * 5 + [1] * 4
    late = sglang_response(ids, 5, 5, start=3)
    late["meta_info"]["routed_experts_start_len"] = 3
    (tmp_path / "t.json").write_text(json.dumps(late))
    assert names(trace.load(tmp_path / "t.json", experts=8, top_k=2)) == {"prompts not recorded"}
    choice = {"sgl_ext": {"routed_experts": sglang_response(ids, 5, 5)["meta_info"]["routed_experts"]}}
    usage = {"prompt_tokens": 5, "completion_tokens": 5}
    (tmp_path / "t.json").write_text(json.dumps({"choices": [choice], "usage": usage}))
    assert trace.same_trace(trace.load(tmp_path / "t.json", experts=8, top_k=2), found)
    assert "state --top-k" in refusal(tmp_path / "t.json")
    assert "are not int32 [9 tokens, layers, 4 slots]" in refusal(tmp_path / "t.json", top_k=4)


# ---- TensorRT-LLM, Megatron-Core


def test_trtllm(expected: dict[str, Any]) -> None:
    found = trace.load(FILES / "trtllm_raw")
    assert np.array_equal(found.ids, expected["trtllm_ids"])
    assert (found.experts, found.layer_map.tolist()) == (8, [3, 4])
    fitted = trace.load(FILES / "trtllm_counts", **FIT)  # type: ignore[arg-type]
    assert fitted.provenance == "fitted(trtllm_counts)"
    assert fitted.top_k == 2
    counts = np.stack([np.bincount(expected["trtllm_ids"][:, n].reshape(-1), minlength=8) for n in range(2)])
    assert statistics.load_correlation(statistics.load_counts(fitted), counts).min() > 0.97
    assert "top_k: the file says 2, the caller 3" in refusal(FILES / "trtllm_counts", top_k=3, **FIT)
    assert "which no reader here knows" in refusal(FILES / "trtllm_raw" / "rank0_raw.safetensors")


def test_megatron(expected: dict[str, Any]) -> None:
    ids = expected["megatron_ids"]
    plain = trace.load(FILES / "megatron.pt", experts=8)
    assert np.array_equal(plain.ids, ids)
    assert plain.request is None
    ordered = trace.load(FILES / "megatron.pt", experts=8, sequences=4, phase="prefill")
    assert np.array_equal(ordered.ids, ids.reshape(6, 4, 3, 2).transpose(1, 0, 2, 3).reshape(24, 3, 2))
    assert names(ordered) == set()


# ---- llama.cpp


def moe_trace_csv(ids: Any, batches: list[slice], last_rows: int | None = None) -> str:
    rows = ["layer,expert"]
    for batch in batches:
        for layer in range(ids.shape[1]):
            part = ids[batch, layer]
            if last_rows is not None and layer == ids.shape[1] - 1:
                part = part[-last_rows:]
            rows += [f"{layer},{expert}" for expert in part.reshape(-1)]
    return "\n".join(rows) + "\n"


def test_llamacpp_csv(expected: dict[str, Any], tmp_path: Path) -> None:
    ids = expected["vllm_ids"]
    batches = [slice(0, 5), *(slice(n, n + 1) for n in range(5, 9))]
    (tmp_path / "t.csv").write_text(moe_trace_csv(ids, batches))
    assert np.array_equal(trace.load(tmp_path / "t.csv", experts=8, top_k=2).ids, ids)
    (tmp_path / "t.csv").write_text(moe_trace_csv(ids, batches, last_rows=1))
    found = trace.load(tmp_path / "t.csv", experts=8, top_k=2)
    assert np.array_equal(found.ids[:, :2], ids[:, :2])
    assert (found.ids[:4, 2] == -1).all()
    assert np.array_equal(found.ids[4:, 2], ids[4:, 2])
    assert "empty slots" in names(found)
    assert "state --top-k" in refusal(tmp_path / "t.csv")
    assert "no whole tokens of 4 experts" in refusal(tmp_path / "t.csv", top_k=4)


def test_llamacpp_logs(expected: dict[str, Any], tmp_path: Path) -> None:
    ids = expected["vllm_ids"]
    lines = ["llama_model_loader: loaded meta data"]
    for start, stop in ((0, 5), (5, 9)):
        for layer in range(3):
            tokens = " ".join(f"[{', '.join(map(str, row))}]" for row in ids[start:stop, layer].tolist())
            lines.append(f"EXPERT|L{layer}|T{stop - start}: {tokens}")
    (tmp_path / "t.log").write_text("\n".join(lines) + "\n")
    assert np.array_equal(trace.load(tmp_path / "t.log", experts=8).ids, ids)
    plain = [f"{layer},{','.join(map(str, ids[token, layer]))}" for token in range(9) for layer in range(3)]
    (tmp_path / "t.txt").write_text("\n".join(plain) + "\n")
    assert np.array_equal(trace.load(tmp_path / "t.txt", experts=8).ids, ids)
    (tmp_path / "t.log").write_text(lines[1] + "\n" + lines[2].replace("]", ", 3]", 1) + "\n")
    assert "expected 2 experts" in refusal(tmp_path / "t.log")


def test_local_moe_jsonl(expected: dict[str, Any], tmp_path: Path) -> None:
    ids = expected["vllm_ids"]
    rows = [
        {"prompt_id": f"p{n // 5}", "topic": "law" if n < 5 else "code", "token_pos": n % 5, "layer": layer}
        | {"experts": ids[n, layer].tolist()}
        for n in range(9)
        for layer in range(3)
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = trace.load(tmp_path / "t.jsonl", experts=8)
    assert np.array_equal(found.ids, ids)
    assert found.domains == ("law", "code")
    assert found.request is not None
    assert found.request.tolist() == [0] * 5 + [1] * 4


# ---- moe-policylang, weights, gpt-oss


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_policylang(suffix: str, expected: dict[str, Any], tmp_path: Path) -> None:
    path = FILES / f"policylang.{suffix}"
    found = trace.load(path)
    assert np.array_equal(found.ids, expected["policylang_ids"])
    assert found.weights is not None
    assert np.allclose(found.weights, expected["policylang_weights"])
    assert found.scores is not None
    assert np.allclose(found.scores, expected["policylang_scores"])
    assert found.experts == 8
    assert found.domains == ("code", "chat")
    assert found.phase is not None
    assert found.phase.tolist() == [0, 0, 1, 1, 1] * 2
    assert names(found) == {"weights not normalised"}
    if suffix == "jsonl":
        text = path.read_text().splitlines()
        (tmp_path / "t.jsonl").write_text("\n".join([text[0], text[1].replace('"e": [', '"e": [1, '), *text[2:]]))
        assert "line 2" in refusal(tmp_path / "t.jsonl")


def test_weights_csv(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    weights = np.zeros((2, 6, 8), np.float32)
    for layer in range(2):
        for token in range(6):
            weights[layer, token, generator.permutation(8)[:2]] = [0.75, 0.25]
    header = "layer_id,token_id," + ",".join(f"expert_{n}" for n in range(8))
    for layer in range(2):
        rows = [f"0,{token}," + ",".join(map(str, weights[layer, token])) for token in range(6)]
        (tmp_path / f"layer{layer + 9}.csv").write_text("\n".join([header, *rows]) + "\n")
    found = trace.load(tmp_path)
    assert found.experts == 8
    assert np.allclose(found.weights, [0.75, 0.25])
    assert np.array_equal(found.ids[:, 0, 0], weights[0].argmax(axis=1))  # layer9 before layer10
    assert np.array_equal(found.ids[:, 1, 0], weights[1].argmax(axis=1))
    one = trace.load(tmp_path / "layer9.csv")
    assert np.array_equal(one.ids, found.ids[:, :1])


def gpt_oss_example(ids: Any, weights: Any, first: int, dataset: str) -> dict[str, Any]:
    data = [
        {
            f"token_{first + n}": {
                f"layer_{layer}": {
                    "selected_experts": ids[n, layer].tolist(),
                    "selected_probs": weights[n, layer].tolist(),
                }
                for layer in range(ids.shape[1])
            }
        }
        for n in range(ids.shape[0])
    ]
    return {"row_index": 3, "dataset": dataset, "category": "x", "full_text": ["a"] * 9, "router_data": data}


def test_gptoss_json(expected: dict[str, Any], tmp_path: Path) -> None:
    ids, weights = expected["policylang_ids"], expected["policylang_weights"]
    (tmp_path / "deep").mkdir()
    (tmp_path / "a_examples.json").write_text(json.dumps(gpt_oss_example(ids[:6], weights[:6], 140, "mmlu"), indent=2))
    (tmp_path / "deep" / "b_examples.json").write_text(json.dumps(gpt_oss_example(ids[6:], weights[6:], 7, "law")))
    found = trace.load(tmp_path, experts=8)
    assert np.array_equal(found.ids, ids)
    assert np.allclose(found.weights, weights)
    assert found.position is not None
    assert found.position.tolist() == [140, 141, 142, 143, 144, 145, 7, 8, 9, 10]
    assert found.domains == ("mmlu", "law")
    assert "prompts not recorded" in names(found)
    assert np.array_equal(trace.load(tmp_path / "a_examples.json", experts=8).ids, ids[:6])
    broken = gpt_oss_example(ids, weights, 0, "mmlu")
    del broken["router_data"][4]["token_4"]["layer_1"]
    (tmp_path / "a_examples.json").write_text(json.dumps(broken))
    assert "router_data[4]" in refusal(tmp_path / "a_examples.json")


# ---- counts


EPLB = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
"""The example of DeepSeek EPLB's README (github.com/deepseek-ai/EPLB at d52c72d)."""


@pytest.mark.parametrize("form", ["npy", "npz", "csv", "json", "object", "long"])
def test_counts(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{form}"
    if form == "npy":
        np.save(path, np.array(EPLB))
    elif form == "npz":
        np.savez(path, weight=np.array(EPLB))
    elif form == "csv":
        path.write_text("\n".join(",".join(map(str, row)) for row in EPLB) + "\n")
    elif form == "json":
        path.write_text(json.dumps(EPLB))
    elif form == "object":
        path.write_text(json.dumps({str(n): row for n, row in enumerate(EPLB)}))
    else:
        rows = [f"{n},{e},{count}" for n, row in enumerate(EPLB) for e, count in enumerate(row)]
        path.write_text("\n".join(["layer_id,expert_id,count", *rows]) + "\n")
    found = trace.load(path, top_k=2, **FIT)  # type: ignore[arg-type]
    assert found.provenance == f"fitted({path.name})"
    assert (found.tokens, found.layers, found.experts) == (1024, 2, 12)
    assert statistics.load_correlation(statistics.load_counts(found), np.array(EPLB)).min() > 0.98
    assert "state --top-k, --fit-requests, --fit-positions, --fit-seed" in refusal(path)
    assert "provenance: what is fitted" in refusal(path, provenance="recorded", top_k=2, **FIT)
    assert "the counts are of 12 experts, the caller says 8" in refusal(path, experts=8, top_k=2, **FIT)


def test_several_counts_with_transitions(tmp_path: Path) -> None:
    counts = np.array([[8, 8, 8, 8], [8, 8, 8, 8]])
    crossed = np.zeros((1, 4, 4), np.int64)
    crossed[0, [0, 1, 2, 3], [1, 0, 3, 2]] = 8
    np.savez(tmp_path / "t.npz", m_counts_law=counts, m_cross_law=crossed, m_counts_code=counts)
    assert "select: expected one of m/law, m/code, got None" in refusal(tmp_path / "t.npz", top_k=1, **FIT)
    found = trace.load(tmp_path / "t.npz", select="m/law", top_k=1, **FIT)  # type: ignore[arg-type]
    assert found.provenance == "fitted(t.npz:m/law)"
    assert np.array_equal(found.ids[:, 1, 0], found.ids[:, 0, 0] ^ 1)
    assert "did you mean 'm/code'?" in refusal(tmp_path / "t.npz", select="m/cde", top_k=1, **FIT)


@pytest.mark.public_traces
def test_public_counts_with_transitions(public_trace: Callable[[str], Path]) -> None:
    path = public_trace("olmoe_mixtral_counts/counts.npz")
    found = trace.load(path, select="mistral/arxiv", top_k=2, fit_requests=16, fit_positions=128, fit_seed=1)
    with np.load(path) as held:
        counts = held["mistral_counts_arxiv"]
    drawn = statistics.load_counts(found)
    assert np.allclose(statistics.max_over_mean(drawn), statistics.max_over_mean(counts), rtol=0.1)
    assert found.provenance == "fitted(counts.npz:mistral/arxiv)"


# ---- all of them


def test_formats_on_the_command_line() -> None:
    run = CliRunner().invoke(
        command,
        ["inspect", str(FILES / "sglang_per_token.pt"), "--experts", "8", "--moe-layers", "1-3", "--drop-empty-slots"],
    )
    assert run.exit_code == 0, run.output
    assert "repaired    moe_layers: kept 3 of 4 layers" in run.output
    assert "            drop_empty_slots: kept 2 of 8 slots" in run.output
    run = CliRunner().invoke(
        command,
        [
            "inspect",
            str(FILES / "deepseek_v3.pt"),
            "--router=deepseek_v3",
            "--top-k=2",
            "--groups=4:2",
            f"--bias={FILES / 'deepseek_v3_bias.pt'}",
            "--routed-scaling=2.5",
            "--normalise-weights",
            "--json",
        ],
    )
    assert run.exit_code == 0, run.output
    assert json.loads(run.output)["repairs"] == ["normalise_weights: 24 of 24 (token, layer) rows scaled to sum 1"]


def test_no_reader_takes_another_ones_file(tmp_path: Path) -> None:
    """Every committed recording is claimed by one reader, and by none of the others."""
    from cosim.trace import adapters

    claimed = {}
    for path in sorted(FILES.iterdir()):
        if path.is_dir() or path.suffix in (".py", ".md"):
            continue
        head = path.read_bytes()[:65536]
        claimed[path.name] = [name for name in adapters.names() if adapters.adapter(name).sniff(path, head)]
    recordings = {name: who for name, who in claimed.items() if who}
    assert all(len(who) == 1 for who in recordings.values()), recordings
    assert {who[0] for who in recordings.values()} == {
        "megatron_replay",
        "policylang_jsonl",
        "policylang_parquet",
        "sglang_recorder",
        "transformers_logits",
        "vllm_eplb",
        "vllm_json",
        "vllm_npz",
    }


STATED: dict[str, dict[str, Any]] = {
    "megatron.pt": {"sequences": 4},
    "mixtral.pt": {"router": "softmax", "top_k": 2},
    "mixtral.safetensors": {"router": "softmax", "top_k": 2},
    "policylang.jsonl": {},
    "policylang.parquet": {},
    "sglang_per_token.pt": {},
    "sglang_stat.pt": {"top_k": 2, **FIT},
    "vllm_eplb.pt": {"top_k": 2, **FIT},
    "vllm_response.json": {},
    "vllm_whole.npz": {},
}
EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "delete", "insert"]), st.integers(0, 2**20), st.binary(min_size=1, max_size=12)),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("name", STATED)
@given(edits=EDITS)
@settings(deadline=None, max_examples=15, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_damaged_recordings_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, edits: list[tuple[str, int, bytes]]
) -> None:
    data = bytearray((FILES / name).read_bytes())
    for kind, where, piece in edits:
        at = where % (len(data) + 1)
        if kind == "set":
            data[at : at + len(piece)] = piece
        elif kind == "delete":
            del data[at : at + len(piece)]
        else:
            data[at:at] = piece
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(data)
    with contextlib.suppress(TraceError):
        trace.load(path, **STATED[name])


# ---- FLAME-MoE


def test_flame_moe_layers_and_shards_of_a_folder(expected: dict[str, Any]) -> None:
    found = trace.load(FILES / "flame", experts=16)
    assert np.array_equal(found.ids, expected["flame_ids"])
    assert found.weights is not None
    assert np.array_equal(found.weights, expected["flame_scores"])
    assert "weights not normalised" in names(found)  # a softmax over all experts, of which the chosen keep a part
    # three sequences of four tokens a shard, position by position
    ordered = trace.load(FILES / "flame", experts=16, sequences=3)
    rows = np.concatenate([shard * 12 + np.arange(12).reshape(4, 3).T.ravel() for shard in range(2)])
    assert np.array_equal(ordered.ids, expected["flame_ids"][rows])
    assert ordered.request is not None
    assert ordered.request.tolist() == [request for request in range(6) for _ in range(4)]
    one = trace.load(FILES / "flame" / "layer_2" / "rank_1.pt", experts=16)
    assert np.array_equal(one.ids[:, 0], expected["flame_ids"][12:, 1])


def test_flame_moe_folders_that_are_not_whole(tmp_path: Path) -> None:
    folder = tmp_path / "flame"
    shutil.copytree(FILES / "flame", folder)
    (folder / "layer_2" / "rank_1.pt").unlink()
    text = refusal(folder, experts=16)
    assert "a layer without one of the shards" in text
    assert "layer 2: no shard 1" in text
    shutil.copy(FILES / "flame" / "layer_1" / "rank_0.pt", folder / "layer_2" / "rank_1.pt")
    assert "not the same tokens in every layer" in refusal(folder, experts=16)
