"""What a model does outside its experts: attention, dense layers and output head, as bytes to read and work to do.

Of every layer that is not routed: projections of attention, scores and values over the context, and where there are no
experts the dense feed-forward part; behind the last layer the output head. Weights are sliced evenly over the chiplets,
which all work on all tokens (the exchange of partial sums between them is left out); keys and values are read at the
chiplets of their tokens. Norms, embeddings, softmax and sampling are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cosim.config.schema_experiment import FullModelSpec
    from cosim.config.schema_model import ModelSpec

__all__ = ["BackboneWork", "backbone_work"]


@dataclass(frozen=True)
class BackboneWork:
    """Of the unrouted part that precedes one MoE layer's gate.

    weight_bytes: read once per batch, over all chiplets together.
    context_bytes: of keys and values, per token of a batch, before tokens that share a context are counted once.
    macs: multiply-accumulates per token.
    """

    weight_bytes: int
    context_bytes: int
    macs: int

    def __add__(self, other: BackboneWork) -> BackboneWork:
        return BackboneWork(
            self.weight_bytes + other.weight_bytes, self.context_bytes + other.context_bytes, self.macs + other.macs
        )


def attention_work(model: ModelSpec, context_tokens: int) -> BackboneWork:
    """One attention layer.

    Grouped queries: hidden × (heads + 2 kv_heads) × head_dim and back. Latent (DeepSeek-V2, arXiv 2405.04434): the
    query with or without its own latent, the joint latent of keys and values with the part that carries positions, the
    two up-projections of the latent, the output. Scores and values take 2 × heads × head_dim per token of context
    (latent ones the positions' part on top).
    """
    attention = model.attention
    assert attention is not None
    heads, hidden = attention.heads, model.hidden
    size = attention.head_dim if attention.head_dim is not None else hidden // heads
    if attention.kind == "gqa":
        params = hidden * size * (heads + 2 * attention.kv_heads) + heads * size * hidden
        kept = 2 * attention.kv_heads * size
        scores = 2 * heads * size
    else:
        latent, rope = attention.kv_lora_rank or 0, attention.rope_head_dim or 0
        asked = heads * (size + rope)
        query = hidden * asked
        if attention.q_lora_rank is not None:
            query = hidden * attention.q_lora_rank + attention.q_lora_rank * asked
        params = query + hidden * (latent + rope) + latent * heads * 2 * size + heads * size * hidden
        kept = latent + rope
        scores = heads * (2 * size + rope)
    return BackboneWork(
        params * model.bytes_per_weight,
        context_tokens * kept * model.bytes_per_activation,
        params + scores * context_tokens,
    )


def dense_work(model: ModelSpec) -> BackboneWork:
    """One dense feed-forward part, of as many matrices as an expert."""
    params = model.matrices_per_expert * model.hidden * model.dense_intermediate
    return BackboneWork(params * model.bytes_per_weight, 0, params)


def head_work(model: ModelSpec) -> BackboneWork:
    """The output head: hidden × vocabulary."""
    assert model.vocab is not None
    params = model.hidden * model.vocab
    return BackboneWork(params * model.bytes_per_weight, 0, params)


def backbone_work(model: ModelSpec, full: FullModelSpec, moe_layer: int) -> BackboneWork:
    """What precedes the gate of an MoE layer: its attention, and the layers without experts before it.

    Layers behind the last MoE layer and the output head are booked with the last MoE layer.
    """
    attention = attention_work(model, full.context_tokens)
    dense = model.dense_layers_before(moe_layer)
    work = attention
    last = moe_layer == model.moe_layers - 1
    if last:
        dense += model.layers - 1 - model.moe_layer_indices[-1]
    for _ in range(dense):
        work = work + attention + dense_work(model)
    return work + head_work(model) if last else work
