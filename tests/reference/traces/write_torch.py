"""Writes the small torch and safetensors files that the tests read; needs torch and safetensors.

    python tests/reference/traces/write_torch.py

Every file is a few kB and holds numbers that the tests compute again: `i * i % 97` and the like.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent


def squares(count: int, dtype: torch.dtype) -> torch.Tensor:
    return (torch.arange(count) ** 2 % 97).to(dtype)


def main() -> None:
    base = squares(24, torch.int64)
    torch.save(
        {
            "whole": base,
            "table": base.reshape(4, 6),
            "transposed": base.reshape(4, 6).t(),
            "part": base.reshape(4, 6)[1:3, 2:5],
            "expanded": base[:3].expand(2, 3),
            "empty": torch.empty(0, 4, dtype=torch.int32),
            "scalar": torch.tensor(7),
            "bfloat16": squares(5, torch.bfloat16),
            "parameter": torch.nn.Parameter(squares(4, torch.float32)),
            "uint16": squares(5, torch.uint16),
            "dtypes": [
                squares(5, dtype)
                for dtype in (
                    torch.float64,
                    torch.float32,
                    torch.float16,
                    torch.int64,
                    torch.int32,
                    torch.int16,
                    torch.int8,
                    torch.uint8,
                    torch.bool,
                )
            ],
            "size": base.reshape(4, 6).size(),
            "ordered": OrderedDict([("b", 1), ("a", 2)]),
            "counter": Counter({3: 4}),
            "default": defaultdict(list, {"x": [1]}),
            "plain": [None, True, 1.5, "text", (1, 2), -(2**40)],
        },
        HERE / "torch_kinds.pt",
    )
    torch.save(torch.nn.Linear(2, 2), HERE / "torch_module.pt")
    torch.save(base, HERE / "torch_legacy.pt", _use_new_zipfile_serialization=False)
    save_file(
        {
            "ids": squares(12, torch.int32).reshape(2, 3, 2),
            "half": squares(5, torch.float16),
            "brain": squares(5, torch.bfloat16),
            "flags": squares(5, torch.bool),
            "bytes": squares(3, torch.uint8),
        },
        HERE / "kinds.safetensors",
        metadata={"made": "for a test"},
    )
    print(f"torch {torch.__version__}")


if __name__ == "__main__":
    main()
