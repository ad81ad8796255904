"""A GPU as a roofline: every layer takes the longer of its arithmetic and its memory traffic, at stated rates.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009. A bound that favours the GPU, never a measurement: no launches, no synchronisation, no exchange
between GPUs, weights of the experts in use read exactly once per layer and batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from cosim.analytic.groups import layer_groups
from cosim.analytic.interface import LayerTimes
from cosim.analytic.parameters import Parameter, Parameters
from cosim.analytic.system import AnalyticSystem, FloatArray, ModelNumbers
from cosim.config.errors import ConfigErrors
from cosim.config.schema_experiment import FullModelSpec
from cosim.config.schema_model import ModelSpec
from cosim.system.backbone import BackboneWork, backbone_work

PAPER = "Roofline, CACM 52(4), 2009, with the GPU's data sheet"


@dataclass(frozen=True)
class _Gpu:
    """Peaks of dense BF16 from the data sheet, and the share of them that matrix products were seen to reach."""

    flops: float
    bandwidth_Bps: float
    compute_efficiency: float


#: Peaks: NVIDIA A100 80GB (SXM) data sheet, 2021; H100 (SXM5) data sheet, 2022, without sparsity. Efficiency: the
#: best of many shapes of BF16 matmul, 271.2 of 312 and 794.5 of 989 TFLOP/s (github.com/stas00/ml-engineering,
#: compute/accelerator, "Maximum Achievable Matmul FLOPS", commit b9e29720).
GPUS: Mapping[str, _Gpu] = MappingProxyType(
    {"A100-80GB-SXM": _Gpu(312e12, 2.039e12, 0.869), "H100-SXM": _Gpu(989e12, 3.35e12, 0.803)}
)

_PARAMETERS = Parameters(
    [
        Parameter(
            "gpu", "A100-80GB-SXM", "", "data sheet", "3D-MoE (seed 001) names no GPU", True, choices=tuple(GPUS)
        ),
        Parameter(
            "gpus", 1.0, "1", "GPUs, rates added up, no time between them", "3D-MoE", True, minimum=1.0, whole=True
        ),
        Parameter(
            "memory_efficiency",
            1.0,
            "1",
            "share of the peak bandwidth that reading weights reaches",
            "the peak is a bound",
            True,
            minimum=1e-3,
            maximum=1.0,
        ),
        Parameter(
            "context_tokens",
            0.0,
            "1",
            "context of every token; attention, dense layers, shared experts, gate and output head then count, as in "
            "scope model; 0: routed experts alone",
            "the experiment's full_model",
            True,
            whole=True,
        ),
        Parameter(
            "top_k",
            0.0,
            "1",
            "experts that the trace has of a token, by which context_tokens counts tokens; 0: the model's Top-k",
            "the trace",
            True,
            whole=True,
        ),
    ]
)


@dataclass(frozen=True)
class RooflineGpu:
    """One GPU, or several that share all work evenly.

    What precedes the gate, and the experts, are two kernels: each takes the longer of its arithmetic and its bytes.
    """

    parameters: Parameters = _PARAMETERS
    paper: str = PAPER

    @property
    def name(self) -> str:
        """``roofline_gpu``, with the parameters that the user set."""
        return self.parameters.variant("roofline_gpu")

    @classmethod
    def with_parameters(cls, values: Mapping[str, object]) -> RooflineGpu:
        """The model with some parameters set by the user."""
        values = {name: value for name, value in values.items() if name != "top_k" or value != 0}
        if "top_k" in values and not values.get("context_tokens"):
            raise ConfigErrors.single(
                "none without context_tokens, which alone counts tokens",
                "it",
                path="analytic.roofline_gpu.params.top_k",
            )
        return cls(_PARAMETERS.override("roofline_gpu", values))

    def layer_times(self, decisions: pd.DataFrame, system: AnalyticSystem, model: ModelNumbers) -> LayerTimes:
        """Times of one layer; who executes what, and where replicas are, makes no difference.

        Raises:
            ConfigErrors: ``context_tokens`` for a model without the sizes of its unrouted parts.
        """
        groups = layer_groups(decisions, system)
        units = groups.unit_count
        work = groups.replica_tokens * groups.replica_share
        tokens = np.bincount(groups.replica_unit, weights=work, minlength=units).astype(np.float64)
        pairs = np.unique(np.stack([groups.replica_unit, groups.replica_expert]), axis=1)
        experts: FloatArray = np.bincount(pairs[0], minlength=units).astype(np.float64)
        batch = np.bincount(groups.unit, weights=groups.tokens, minlength=units).astype(np.float64)  # (token, expert)
        macs: FloatArray = tokens * float(model.expert_macs_per_token)
        read: FloatArray = experts * float(model.expert_bytes)
        before = np.zeros(units)
        if self.parameters.number("context_tokens"):
            shared, backbone, top_k = self._unrouted(model, int(decisions["layer"].iloc[0]))
            rows = batch / top_k  # tokens of the batch
            macs = macs + rows * float(shared.macs)
            read = read + float(shared.weight_bytes)
            before = self._kernel(
                rows * float(backbone.macs), float(backbone.weight_bytes) + rows * float(backbone.context_bytes)
            )
        return LayerTimes(
            units=groups.units,
            stages={"gate": before, "memory": read / self._bandwidth_Bps, "compute": macs / self._flops},
            total=before + self._kernel(macs, read),
        )

    def _unrouted(self, model: ModelNumbers, layer: int) -> tuple[BackboneWork, BackboneWork, float]:
        """Shared experts with the gate, what precedes it, and experts per token of the decisions."""
        if not isinstance(model, ModelSpec) or model.attention is None or model.vocab is None:
            raise ConfigErrors.single(
                "a model with attention and vocab, which context_tokens reads",
                getattr(model, "name", None) or "a model without them",
                path="analytic.roofline_gpu.params.context_tokens",
            )
        context = int(self.parameters.number("context_tokens"))
        backbone = backbone_work(model, FullModelSpec(context_tokens=context, efficiency=1.0), layer)
        shared = BackboneWork(model.shared_bytes, 0, model.shared_macs_per_token + model.gate_macs_per_token)
        return shared, backbone, self.parameters.number("top_k") or float(model.top_k)

    def _kernel(self, macs: FloatArray, read: FloatArray) -> FloatArray:
        """Seconds of a kernel: its arithmetic and its traffic overlap."""
        longer: FloatArray = np.maximum(macs / self._flops, read / self._bandwidth_Bps)
        return longer

    @property
    def _gpu(self) -> _Gpu:
        return GPUS[self.parameters.choice("gpu")]

    @property
    def _flops(self) -> float:
        """Multiply-accumulates per second."""
        return self._gpu.flops * self._gpu.compute_efficiency * self.parameters.number("gpus") / 2

    @property
    def _bandwidth_Bps(self) -> float:
        efficiency = self.parameters.number("memory_efficiency")
        return self._gpu.bandwidth_Bps * efficiency * self.parameters.number("gpus")
