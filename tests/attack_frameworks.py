"""Attacks by way of others: damaged models in ONNX Runtime with dmlvk's provider, PyTorch's programs at random."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.mutations import damaged, input_of


def provider(seed: int, device: dml.Device) -> str:
    """A damaged model runs as by ONNX Runtime alone, as far as shapes and types go, or ends in one of its errors."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    from dmlvk.onnxruntime import PROVIDER

    onnxruntime.set_default_logger_severity(4)
    kinds = [kind for kind in vars(runtime).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    refusals: tuple[type[Exception], ...] = (dml.DmlError, *kinds)
    contents = damaged(seed)
    try:  # what dmlvk's own session refuses is not given to ONNX Runtime, which dies of some of it by itself
        checked = ort.InferenceSession(contents, device=device)
        feed = {argument.name: input_of(argument) for argument in checked.get_inputs()}
        checked.run(None, feed)
        alone = onnxruntime.InferenceSession(contents, providers=["CPUExecutionProvider"]).run(None, feed)
    except refusals:
        return "is refused without the provider"
    found = onnxruntime.InferenceSession(contents, providers=[PROVIDER, "CPUExecutionProvider"]).run(None, feed)
    for one, other in zip(found, alone, strict=True):
        assert np.shape(one) == np.shape(other), f"{np.shape(one)} for {np.shape(other)}"
        assert np.asarray(one).dtype == np.asarray(other).dtype, f"{np.asarray(one).dtype}"
    return "runs"


def torch_program(seed: int, device: dml.Device) -> str:
    """What PyTorch's compiler computes by itself comes out alike, and what it refuses is refused."""
    import torch

    import dmlvk.torch

    assert dmlvk.torch.__doc__  # importing it registers the backend
    warnings.simplefilter("ignore")
    steps = _steps(random.Random(seed))
    given = [_tensor(random.Random(f"{seed} {index}")) for index in range(2)]

    def program(x: Any, y: Any) -> Any:
        for step in steps:
            x, y = step(x, y), x
        return x, y

    expected = _compiled(program, given, backend="aot_eager")
    found = _compiled(program, given, backend="dmlvk", options={"device": device.info.index})
    if isinstance(expected, str) and "index out of range" in expected:
        return "has an index that is not looked at, as docs/how-to/pytorch.md says"
    if isinstance(expected, str) or isinstance(found, str):
        assert isinstance(found, str) and isinstance(expected, str), f"{found}; by PyTorch alone {expected}"
        return "is refused"
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2, equal_nan=True)
    return "runs"


def torch_weights(seed: int, device: dml.Device) -> str:
    """Weights and inputs that a program changes in any way between calls are read as they are."""
    import dmlvk.torch
    from tests.torch.weight_changes import run_case

    assert dmlvk.torch.__doc__  # importing it registers the backend
    warnings.simplefilter("ignore")
    run_case(seed, {"device": device.info.index}, ways=12)
    return "runs"


def _compiled(program: Any, given: Any, **how: Any) -> Any:
    """What a program gives; an error's words where PyTorch refuses it."""
    import torch

    torch._dynamo.reset()
    try:
        return torch.compile(program, **how)(*given)
    except Exception as error:  # noqa: BLE001  # by whatever PyTorch refuses it
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _tensor(choose: random.Random) -> Any:
    import torch

    shape = [choose.choice((1, 2, 3, 4, 8, 0)) for _ in range(choose.choice((0, 1, 2, 2, 3, 4)))]
    kind = choose.choice(
        (torch.float32, torch.float32, torch.float16, torch.float64, torch.int64, torch.bool, torch.uint8)
    )
    values = torch.arange(int(np.prod(shape))).reshape(shape) % 7 - 2
    values = values.to(kind)
    return values.t() if choose.random() < 0.2 and values.dim() == 2 else values


def _steps(choose: random.Random) -> list[Any]:
    import torch
    from torch.nn import functional

    size, axis = choose.choice((0, 1, 2, 3, 8, -1, 2**20)), choose.choice((-1, 0, 1, 2, 7))
    other_type = choose.choice((torch.float32, torch.float16, torch.int32, torch.bool, torch.bfloat16))
    every: tuple[Any, ...] = (
        lambda x, y: x + y,
        lambda x, y: x * 1e30 - y,
        lambda x, y: x / y,
        lambda x, y: x @ y,
        lambda x, y: x @ x.transpose(-1, -2),
        lambda x, y: torch.relu(x).sum(axis, keepdim=True),
        lambda x, y: torch.softmax(x.float(), axis),
        lambda x, y: x.reshape(size, -1),
        lambda x, y: x.unsqueeze(axis).expand(*x.shape, size),
        lambda x, y: torch.cat([x, y], axis),
        lambda x, y: x[..., :size],
        lambda x, y: x[y > 0],
        lambda x, y: torch.where(x > y, x, y),
        lambda x, y: x.to(other_type),
        lambda x, y: functional.layer_norm(x, x.shape[-1:]),
        lambda x, y: functional.pad(x, (size, 1)),
        lambda x, y: torch.cumsum(x, axis),
        lambda x, y: x.max(axis)[0],
        lambda x, y: x.index_select(0, torch.tensor([size])),
        lambda x, y: functional.max_pool2d(x, 2, padding=max(size, 0) % 4),
        lambda x, y: x.permute(*range(x.dim())[::-1]),
        lambda x, y: torch.zeros(size, 3) + 1,
        lambda x, y: x.mean() if x.numel() else x,
    )
    return [choose.choice(every) for _ in range(choose.randint(1, 5))]
