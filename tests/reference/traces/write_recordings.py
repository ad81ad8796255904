"""Writes the recordings of outside formats that the tests read, a few kB each.

    python tests/reference/traces/write_recordings.py

Needs torch, transformers, safetensors, moe-policylang, megatron-core, pyarrow. What a library writes is written by that
library: Transformers runs tiny models of random weights, and what their own routers chose is kept beside the logits.
Formats of engines that cannot be installed here (vLLM, SGLang, TensorRT-LLM) are built to their layout. `expected.npz`
holds what a reader must find. Versions are printed; README.md names those of the committed files.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from moe_policylang.integrations.trace_recorder import TraceEntry, TraceRecording
from safetensors.torch import save_file

HERE = Path(__file__).parent
EXPECTED: dict[str, np.ndarray] = {}  # type: ignore[type-arg]
BATCH, LENGTH = 2, 6
COMMON = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


def run(name: str, config: Any, kind: Any) -> None:
    """Router logits of a forward pass, and the experts and weights the model's own code used."""
    torch.manual_seed(7)
    model = kind(config).eval()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith(("gate.weight", "router.weight")):
            torch.nn.init.normal_(parameter, std=0.6)
        if parameter_name.endswith("router.bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    calls: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    for module in model.modules():
        if type(module).__name__.endswith(("TopKRouter", "TopkRouter", "Router")):
            module.register_forward_hook(lambda _m, _i, out: calls.append(out if isinstance(out, tuple) else (out,)))
    tokens = torch.arange(1, 1 + BATCH * LENGTH).reshape(BATCH, LENGTH)  # not 0: padding, whose logits are all alike
    with torch.no_grad():
        out = model(tokens, output_router_logits=True)
    EXPECTED[f"{name}_ids"] = np.stack([call[2].reshape(-1, call[2].shape[-1]).numpy() for call in calls], axis=1)
    EXPECTED[f"{name}_weights"] = np.stack(
        [call[1].reshape(-1, call[1].shape[-1]).float().numpy() for call in calls], axis=1
    )
    torch.save(tuple(tensor.reshape(-1, tensor.shape[-1]) for tensor in out.router_logits), HERE / f"{name}.pt")
    if name == "mixtral":
        tensors = {f"layer_{n}": tensor.contiguous() for n, tensor in enumerate(out.router_logits)}
        save_file(tensors, HERE / "mixtral.safetensors")
        np.savez(HERE / "mixtral_logits.npz", **{key: tensor.numpy() for key, tensor in tensors.items()})


def run_deepseek() -> None:
    config = transformers.DeepseekV3Config(
        **{name: value for name, value in COMMON.items() if name != "head_dim"},
        moe_intermediate_size=8,
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_group=4,
        topk_group=2,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        first_k_dense_replace=1,
        n_shared_experts=1,
        q_lora_rank=8,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=4,
        v_head_dim=8,
    )
    torch.manual_seed(7)
    model = transformers.DeepseekV3ForCausalLM(config).eval()
    layers = [module for module in model.modules() if type(module).__name__ == "DeepseekV3MoE"]
    calls: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    for layer in layers:
        torch.nn.init.normal_(layer.gate.weight, std=0.6)
        torch.nn.init.normal_(layer.gate.e_score_correction_bias, std=0.2)
        layer.gate.register_forward_hook(lambda _m, _i, out: calls.append(out))
    with torch.no_grad():
        model(torch.arange(1, 1 + BATCH * LENGTH).reshape(BATCH, LENGTH))
    EXPECTED["deepseek_v3_ids"] = np.stack([ids.numpy() for _, _, ids in calls], axis=1)
    EXPECTED["deepseek_v3_weights"] = np.stack([weights.numpy() for _, weights, _ in calls], axis=1)
    torch.save([logits.clone() for logits, _, _ in calls], HERE / "deepseek_v3.pt")
    torch.save(
        {"e_score_correction_bias": torch.stack([layer.gate.e_score_correction_bias.detach() for layer in layers])},
        HERE / "deepseek_v3_bias.pt",
    )


def routing(tokens: int, layers: int, experts: int, top_k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    generator = np.random.default_rng(seed)
    scores = generator.random((tokens, layers, experts)).astype(np.float32)
    ids = np.argsort(-scores, axis=2)[:, :, :top_k]
    return ids.astype(np.int32), np.take_along_axis(scores, ids, axis=2)


def megatron() -> None:
    spec = importlib.util.find_spec("megatron")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    file = Path(next(iter(spec.submodule_search_locations))) / "core/transformer/moe/router_replay.py"
    loaded = importlib.util.spec_from_file_location("router_replay", file)
    assert loaded is not None
    assert loaded.loader is not None
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    ids, _ = routing(24, 3, 8, 2, 1)  # 6 positions of 4 sequences
    for layer in range(3):
        module.RouterReplay().record_indices(torch.tensor(ids[:, layer], dtype=torch.int64))
    torch.save(module.RouterReplay.get_recorded_data(), HERE / "megatron.pt")
    EXPECTED["megatron_ids"] = ids


def policylang() -> None:
    ids, weights = routing(10, 2, 8, 2, 2)
    softmax = np.random.default_rng(3).random((10, 2, 8)).astype(np.float32)
    entries = [
        TraceEntry(
            prompt_id=token // 5,
            token_idx=token % 5,
            layer_idx=layer,
            selected_experts=ids[token, layer].tolist(),
            router_scores=weights[token, layer].tolist(),
            router_softmax=softmax[token, layer].tolist(),
            token_id=token,
            phase="prefill" if token % 5 < 2 else "decode",
            domain_tag="code" if token < 5 else "chat",
            token_loss=0.5,
        )
        for token in range(10)
        for layer in range(2)
    ]
    recording = TraceRecording("tiny", 2, 8, 2, entries, records_full_softmax=True)
    recording.save(HERE / "policylang.jsonl")
    recording.save(HERE / "policylang.parquet")
    EXPECTED.update(policylang_ids=ids, policylang_weights=weights, policylang_scores=softmax)


def sglang() -> None:
    """DeepSeek-like: 1 dense layer of 4, 8 experts and 2 replicas, Top-2 in 8 slots; two prompts, then two steps."""
    logical, _ = routing(11, 4, 8, 2, 4)
    table = np.stack([np.concatenate([np.roll(np.arange(8), layer), [3, 5]]) for layer in range(4)])
    physical = np.full((4, 11, 8), -1, dtype=np.int32)
    for layer in range(1, 4):
        place = np.argsort(table[layer, :8])
        physical[layer, :, :2] = place[logical[:, layer]]
        first = physical[layer, :, 0]
        first[logical[:, layer, 0] == 3] = 8  # the replica of expert 3
    counts = np.stack([np.bincount(layer[layer >= 0], minlength=10) for layer in physical])
    records = []
    for number, (part, mode, lengths, positions, rids) in enumerate(
        (
            (slice(0, 7), 1, [4, 3], [0, 1, 2, 3, 0, 1, 2], ["a", "b"]),
            (slice(7, 9), 2, None, [4, 3], ["a", "b"]),
            (slice(9, 11), 2, None, [5, 4], ["a", "b"]),
        )
    ):
        ids = physical[:, part]
        records.append(
            {
                "forward_pass_id": number,
                "rank": 0,
                "gatherer_key": "primary",
                "global_physical_count": torch.tensor(
                    np.stack([np.bincount(layer[layer >= 0], minlength=10) for layer in ids]), dtype=torch.int32
                ),
                "rids": rids,
                "input_ids": list(range(ids.shape[1])),
                "positions": positions,
                "extend_seq_lens": lengths,
                "forward_mode": mode,
                "topk_ids_of_layer": torch.tensor(ids),
                "misc_objects": [{}],
            }
        )
    last = torch.tensor(table, dtype=torch.int64)
    torch.save({"records": records, "last_physical_to_logical_map": last}, HERE / "sglang_per_token.pt")
    keep = ("forward_pass_id", "rank", "gatherer_key", "global_physical_count")
    torch.save(
        {"records": [{key: record[key] for key in keep} for record in records], "last_physical_to_logical_map": last},
        HERE / "sglang_per_pass.pt",
    )
    by_expert = np.zeros((4, 8), dtype=np.int64)
    for layer in range(4):
        np.add.at(by_expert[layer], table[layer], counts[layer])
    torch.save(
        {
            "rank": 0,
            "logical_count": torch.tensor(np.stack([by_expert, by_expert])),
            "average_utilization_rate_over_window": {10: 0.5},
        },
        HERE / "sglang_stat.pt",
    )
    EXPECTED.update(sglang_ids=logical, sglang_counts=by_expert, sglang_map=table)


def vllm() -> None:
    ids, _ = routing(9, 3, 8, 2, 5)
    tokens = {"prompt_token_ids": np.arange(5), "output_token_ids": np.arange(5), "request_id": np.array("cmpl-1")}
    np.savez(HERE / "vllm_whole.npz", routed_experts=ids.astype(np.int16), **tokens)
    np.savez(
        HERE / "vllm_split.npz",
        prompt_routed_experts=ids[:5].astype(np.int16),
        routed_experts=ids[5:].astype(np.int16),
        **tokens,
    )
    cached = ids.astype(np.int64)
    cached[:2] = -1
    response = {
        "id": "cmpl-1",
        "choices": [
            {"index": 0, "text": "", "routed_experts": cached[5:].tolist()},
            {"index": 1, "text": "", "routed_experts": cached[5:].tolist()},
            {"index": 2, "text": "", "routed_experts": None},
        ],
        "prompt_routed_experts": cached[:5].tolist(),
        "usage": {"prompt_tokens": 5, "completion_tokens": 5},
    }
    (HERE / "vllm_response.json").write_text(json.dumps(response) + "\n")
    window = np.random.default_rng(6).integers(0, 20, (4, 3, 10))
    table = np.tile(np.concatenate([np.arange(8), [3, 5]]), (3, 1))
    torch.save(
        {
            "expert_load_window": torch.tensor(window, dtype=torch.int32),
            "physical_to_logical_map": torch.tensor(table, dtype=torch.int64),
        },
        HERE / "vllm_eplb.pt",
    )
    EXPECTED.update(vllm_ids=ids, vllm_window=window)


def flame() -> None:
    """FLAME-MoE: 2 shards of 3 sequences of 4 tokens, 2 layers; rows are sequence-first."""
    rng = np.random.default_rng(11)
    ids, _ = routing(24, 2, 16, 3, 11)
    scores = rng.random((24, 2, 3)).astype(np.float32) / 4
    for layer in range(2):
        for shard in range(2):
            rows = slice(12 * shard, 12 * shard + 12)
            folder = HERE / "flame" / f"layer_{layer + 1}"
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(
                {
                    "samples": torch.arange(100 + 12 * shard, 112 + 12 * shard),
                    "scores": torch.tensor(scores[rows, layer].copy()),
                    "indices": torch.tensor(ids[rows, layer].copy(), dtype=torch.int64),
                },
                folder / f"rank_{shard}.pt",
            )
    EXPECTED.update(flame_ids=ids, flame_scores=scores)


def trtllm() -> None:
    ids, _ = routing(8, 2, 8, 2, 8)
    for folder, raw in (("trtllm_counts", False), ("trtllm_raw", True)):
        (HERE / folder).mkdir(exist_ok=True)
        (HERE / folder / "meta_info.json").write_text(json.dumps({"num_experts": 8, "num_experts_per_token": 2}))
        for rank in range(2):
            tensors = {}
            for iteration in range(2):
                part = ids[rank * 4 + iteration * 2 : rank * 4 + iteration * 2 + 2]
                for index, layer in enumerate((3, 4)):
                    chosen = torch.tensor(part[:, index].copy())
                    counts = torch.bincount(chosen.reshape(-1), minlength=8).to(torch.int64)
                    tensors[f"{iteration + 100}_{layer}"] = chosen if raw else counts
            save_file(tensors, HERE / folder / f"rank{rank}{'_raw' if raw else ''}.safetensors")
    EXPECTED["trtllm_ids"] = ids


def main() -> None:
    run(
        "mixtral",
        transformers.MixtralConfig(**COMMON, num_local_experts=8, num_experts_per_tok=2),
        transformers.MixtralForCausalLM,
    )
    run(
        "olmoe",
        transformers.OlmoeConfig(**COMMON, num_experts=8, num_experts_per_tok=2, norm_topk_prob=False),
        transformers.OlmoeForCausalLM,
    )
    run(
        "qwen3_moe",
        transformers.Qwen3MoeConfig(
            **COMMON, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=8, norm_topk_prob=True
        ),
        transformers.Qwen3MoeForCausalLM,
    )
    run(
        "gpt_oss",
        transformers.GptOssConfig(**COMMON, num_local_experts=8, num_experts_per_tok=2),
        transformers.GptOssForCausalLM,
    )
    run_deepseek()
    megatron()
    policylang()
    sglang()
    vllm()
    flame()
    trtllm()
    np.savez_compressed(HERE / "expected.npz", **EXPECTED)
    for name in ("torch", "transformers", "safetensors", "moe-policylang", "megatron-core", "numpy", "pyarrow"):
        print(name, importlib.metadata.version(name))


if __name__ == "__main__":
    main()
