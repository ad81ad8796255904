"""The mixture-of-experts model whose sizes and counts the workload takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from cosim.config.spec import Problem, Spec

__all__ = ["AttentionSpec", "GroupLimitSpec", "ModelSpec"]

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


class GroupLimitSpec(Spec):
    """Group-limited gating: experts fall into ``n_group`` groups, of which a token may use ``topk_group``."""

    n_group: Positive
    topk_group: Positive

    def problems(self) -> Iterator[Problem]:
        if self.topk_group > self.n_group:
            yield Problem(("topk_group",), f"at most n_group = {self.n_group}", str(self.topk_group))


class AttentionSpec(Spec):
    """Attention heads: of the query, and of keys and values (one latent for ``mla``).

    ``head_dim``: of a head, hidden / heads where not given; of ``mla`` the part without positions, which values have
    too. ``kv_lora_rank``, ``q_lora_rank`` (none: a full query projection) and ``rope_head_dim`` are those of ``mla``.
    """

    kind: Literal["gqa", "mla"]
    heads: Positive
    kv_heads: Positive
    head_dim: Positive | None = None
    kv_lora_rank: Positive | None = None
    q_lora_rank: Positive | None = None
    rope_head_dim: Positive | None = None

    def problems(self) -> Iterator[Problem]:
        latent = ("kv_lora_rank", "q_lora_rank", "rope_head_dim")
        for key in latent if self.kind == "gqa" else ():
            if getattr(self, key) is not None:
                yield Problem((key,), "none with kind 'gqa': only mla has latents", "one")


class ModelSpec(Spec):
    """Dimensions of a model. Sizes in bytes follow from ``bytes_per_weight`` and ``bytes_per_activation``.

    ``layers`` counts all layers; the MoE layers are the ``moe_layers`` ones that start at ``first_moe_layer`` and lie
    ``moe_layer_step`` apart. ``shared_intermediate`` is the width of all shared experts together.
    """

    name: str | None = None
    layers: Positive
    moe_layers: Positive
    first_moe_layer: Count = 0
    moe_layer_step: Positive = 1
    hidden: Positive
    moe_intermediate: Positive
    matrices_per_expert: Literal[2, 3]
    experts: Positive
    top_k: Positive
    shared_experts: Count = 0
    shared_intermediate: Count = 0
    dense_intermediate: Count = 0
    vocab: Positive | None = None
    attention: AttentionSpec | None = None
    gating: str
    norm_topk_prob: bool
    routed_scaling: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    group_limit: GroupLimitSpec | None = None
    bytes_per_weight: Positive = 2
    bytes_per_activation: Positive = 2
    source: str | None = None

    def problems(self) -> Iterator[Problem]:
        if self.top_k > self.experts:
            yield Problem(("top_k",), f"at most the {self.experts} experts", str(self.top_k))
        last = self.first_moe_layer + (self.moe_layers - 1) * self.moe_layer_step
        if last >= self.layers:
            yield Problem(
                ("moe_layers",),
                f"MoE layers within the {self.layers} layers",
                f"{self.moe_layers} from layer {self.first_moe_layer}, {self.moe_layer_step} apart: the last is {last}",
            )
        if (self.shared_experts == 0) != (self.shared_intermediate == 0):
            yield Problem(
                ("shared_intermediate",),
                "shared_experts and shared_intermediate both zero or neither",
                f"{self.shared_experts} and {self.shared_intermediate}",
            )
        if self.group_limit and self.experts % self.group_limit.n_group:
            yield Problem(
                ("group_limit", "n_group"), f"a divisor of the {self.experts} experts", str(self.group_limit.n_group)
            )

    @property
    def moe_layer_indices(self) -> range:
        """The layers that are MoE layers."""
        return range(
            self.first_moe_layer, self.first_moe_layer + self.moe_layers * self.moe_layer_step, self.moe_layer_step
        )

    @property
    def expert_params(self) -> int:
        """Weights of one routed expert: ``matrices_per_expert`` matrices of hidden × moe_intermediate, no biases."""
        return self.matrices_per_expert * self.hidden * self.moe_intermediate

    @property
    def expert_bytes(self) -> int:
        """Bytes of one routed expert."""
        return self.expert_params * self.bytes_per_weight

    @property
    def layer_expert_bytes(self) -> int:
        """Bytes of all routed experts of one MoE layer."""
        return self.experts * self.expert_bytes

    @property
    def shared_params(self) -> int:
        """Weights of the shared experts of one MoE layer, together."""
        return self.matrices_per_expert * self.hidden * self.shared_intermediate

    @property
    def shared_bytes(self) -> int:
        """Bytes of the shared experts of one MoE layer, together."""
        return self.shared_params * self.bytes_per_weight

    @property
    def expert_macs_per_token(self) -> int:
        """Multiply-accumulates of one token in one routed expert; two operations each."""
        return self.expert_params

    @property
    def shared_macs_per_token(self) -> int:
        """Multiply-accumulates of one token in the shared experts of a layer."""
        return self.shared_params

    @property
    def gate_macs_per_token(self) -> int:
        """Multiply-accumulates of one token in the gate: hidden × experts."""
        return self.hidden * self.experts

    def dense_layers_before(self, moe_layer: int) -> int:
        """Layers without experts between an MoE layer, counted from 0, and the MoE layer before it or the start."""
        return self.first_moe_layer if moe_layer == 0 else self.moe_layer_step - 1

    @property
    def activation_bytes(self) -> int:
        """Bytes of one token's hidden state."""
        return self.hidden * self.bytes_per_activation
