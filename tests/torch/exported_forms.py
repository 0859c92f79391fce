"""Writes what PyTorch's exporters make of small modules: ``python -m tests.torch.exported_forms``.

``tests/onnx/exported_forms/NAME.EXPORTER.JOINED.txt`` are graphs in ONNX's text form, without the contents of their
weights, for tests where PyTorch is not there; JOINED is what their nodes are joined to. NAME ends in ``_half`` where
floats are FLOAT16. The files that are there are written anew; a new form begins as an empty one. Of each form those are
there whose graphs nodes are joined in otherwise. Needs ``torch`` and ``onnxscript``.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
import torch.nn.functional as F  # as PyTorch's own documentation has it
from torch import nn

EXPORTERS = {"torchscript": 17, "dynamo": 18}  # With the version of ONNX's operators that each writes

_MOST_CONTENTS = 8
"""Elements of a tensor up to which the text has its contents: shapes, axes and numbers, but no weights."""


class LayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.ones(16)), nn.Parameter(torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.scale * (centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5)) + self.bias


class RMSNorm(nn.Module):
    """As models of language write it, in FLOAT32 whatever comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.scale * wide.to(x.dtype)


class GroupNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.ones(1, 8, 1, 1)), nn.Parameter(torch.zeros(1, 8, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = x.reshape(x.shape[0], 4, -1)
        centred = groups - groups.mean(-1, keepdim=True)
        made = centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5)
        return made.reshape(x.shape) * self.scale + self.bias


class SwiGLU(nn.Module):
    """The gated layer of a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.gate = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)
        self.last = nn.Linear(24, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(F.silu(self.first(x)) * self.gate(x))
        return made


class Attention(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.projections = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        query, key, value = (each(x).view(batch, length, 2, 8).transpose(1, 2) for each in self.projections)
        if self.how == "written":
            made = torch.softmax(query @ key.transpose(-1, -2) / 8**0.5, -1) @ value
        else:
            mask = (x[:, :, 0] > 0)[:, None, None] if self.how == "masked" else None
            made = F.scaled_dot_product_attention(query, key, value, mask, is_causal=self.how == "causal")
        return made.transpose(1, 2).reshape(x.shape)


class Of(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


FORMS: dict[str, Callable[[], nn.Module]] = {
    "layer_norm": LayerNorm,
    "rms_norm": RMSNorm,
    "gelu": nn.GELU,
    "gelu_by_tanh": lambda: nn.GELU(approximate="tanh"),
    "silu": nn.SiLU,
    "swish": lambda: Of(lambda x: x * torch.sigmoid(1.702 * x)),
    "swiglu": SwiGLU,
    "attention": lambda: Attention("plain"),
    "attention_causal": lambda: Attention("causal"),
    "attention_masked": lambda: Attention("masked"),
    "attention_written": lambda: Attention("written"),
    "group_norm": lambda: nn.GroupNorm(4, 8),
    "group_norm_written": GroupNorm,
}


def exported(name: str, exporter: str, dtype: torch.dtype = torch.float32) -> onnx.ModelProto:
    """A module's graph, with a batch of open size where floats are FLOAT32."""
    torch.manual_seed(0)
    module = FORMS[name]().eval().to(dtype)
    for parameter in module.parameters():
        parameter.data = torch.rand_like(parameter) + 0.5
    x = torch.randn((2, 8, 6, 6) if name.startswith("group") else (2, 5, 16)).to(dtype)
    options: dict[str, Any] = {"dynamo": exporter == "dynamo", "opset_version": EXPORTERS[exporter]}
    if exporter == "dynamo":
        options |= {"external_data": False}
    elif dtype == torch.float32:
        options |= {"dynamic_axes": {"x": {0: "n"}}}
    printed = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module, (x,), str(path), input_names=["x"], output_names=["y"], **options)
        return onnx.load(path)


def bare(model: onnx.ModelProto) -> str:
    """The model's text; weights are only declared, and nothing of what the exporter says of itself is left."""
    model.ClearField("metadata_props")
    model.ClearField("doc_string")
    model.graph.ClearField("value_info")
    kept = []
    for tensor in model.graph.initializer:
        if max([1, *tensor.dims]) <= _MOST_CONTENTS and len(tensor.dims) < 2:
            kept.append(tensor)
        else:
            made = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            model.graph.value_info.append(made)
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
        node.ClearField("name")
    head, body = onnx.printer.to_text(model).split(">\n", 1)  # versions, in a line; and the graph
    return f"{' '.join(head.split())}>\n{body.strip()}\n"


def main() -> None:
    folder = Path(__file__).parents[1] / "onnx" / "exported_forms"
    for path in sorted(folder.glob("*.txt")):
        name, exporter, *_ = path.name.split(".")
        dtype = torch.float16 if name.endswith("_half") else torch.float32
        path.write_text(bare(exported(name.removesuffix("_half"), exporter, dtype)))


if __name__ == "__main__":
    main()
