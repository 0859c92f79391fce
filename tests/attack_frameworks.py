"""Attacks by way of others: damaged models in ONNX Runtime with dmlvk's provider, PyTorch's programs at random."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.mutations import damaged, input_of

# PyTorch's words for an index beyond its axis, also of tensors without elements: dmlvk looks at none, as
# docs/how-to/pytorch.md says.
_INDEX_BEYOND = ("index out of range", "INDICES element is out of DATA bounds", "indexing axis dim should be positive")


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
    if isinstance(expected, str) and any(words in expected for words in _INDEX_BEYOND):
        return "has an index that is not looked at, as docs/how-to/pytorch.md says"
    if isinstance(expected, str) and "not implemented for" in expected:
        return "has types that the CPU lacks"
    if isinstance(found, str) and "DeviceLimitError" in found:
        return "is more than the device holds"
    if isinstance(expected, str) or isinstance(found, str):
        assert isinstance(found, str) and isinstance(expected, str), f"{found}; by PyTorch alone {expected}"
        return "is refused"
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2, equal_nan=True)
    return "runs"


def torch_device(seed: int, device: dml.Device) -> str:
    """Programs of tensors on PyTorch's device have the same bits compiled and not, and what the CPU computes."""
    import torch

    import dmlvk.torch

    assert dmlvk.torch.__doc__  # importing it registers the device
    warnings.simplefilter("ignore")
    steps = _steps(random.Random(seed))
    drawn = [_tensor(random.Random(f"{seed} {index}")) for index in range(2)]
    on_cpu = [one.float() if one.dtype is torch.float64 else one for one in drawn]

    def program(x: Any, y: Any) -> Any:
        for step in steps:
            x, y = step(x, y), x
        return x, y

    torch.dmlvk.use(device)
    try:
        given = [one.to("dmlvk") for one in on_cpu]
        wanted, eager = _outcome(program, on_cpu), _outcome(program, given)
        found = _compiled(program, given, backend="dmlvk")
        if isinstance(found, str) != isinstance(eager, str):  # what PyTorch checks of shapes alone is another matter
            by_pytorch = _compiled(program, on_cpu, backend="aot_eager")
            assert isinstance(by_pytorch, str), f"{found}; not compiled {eager}; by PyTorch {by_pytorch}"
            return "is not refused alike by PyTorch"
        if isinstance(eager, str):
            lacks = any(word in eager for word in ("DataTypeError", "UnsupportedError", "DeviceLimitError"))
            assert lacks or isinstance(wanted, str), f"{eager}; on the CPU {wanted}"
            return "is refused"
        known = (*_INDEX_BEYOND, "NotImplementedError")  # the CPU lacks some types
        is_known = not isinstance(wanted, str) or any(words in wanted for words in known)
        assert is_known, f"{eager}; on the CPU {wanted}"
        results = [[one.cpu() for one in each] for each in (eager, found)]
    finally:
        torch.dmlvk.use(None)
    for one, other, plain in zip(*results, results[0] if isinstance(wanted, str) else wanted, strict=True):
        assert one.dtype is other.dtype is plain.dtype, f"{one.dtype}, {other.dtype}, {plain.dtype}"
        strides = [torch.empty_strided(each.shape, each.stride(), device="meta").squeeze() for each in (one, other)]
        assert strides[0].stride() == strides[1].stride(), f"{one.shape}: {one.stride()}, compiled {other.stride()}"
        torch.testing.assert_close(other, one, rtol=0, atol=0, equal_nan=True)
        is_finite = plain.isfinite()  # sums that overflow do so elsewhere
        torch.testing.assert_close(one[is_finite], plain[is_finite], rtol=1e-2, atol=1e-2)
    return "runs"


def torch_values(seed: int, device: dml.Device) -> str:
    """Values, gradients and what is changed in place are as near to FLOAT64's as FLOAT32's are; compiled, or eager."""
    import torch

    import dmlvk.torch
    from tests.torch.random_programs import check

    assert dmlvk.torch.__doc__  # importing it registers the backend and the device
    warnings.simplefilter("ignore")
    torch.dmlvk.use(device)
    try:
        wrong = check(seed, device.info.index, is_eager=bool(seed % 2))
    finally:
        torch.dmlvk.use(None)
    assert not wrong, wrong
    return "runs" if wrong is not None else "is not stable"


def torch_weights(seed: int, device: dml.Device) -> str:
    """Weights and inputs that a program changes in any way between calls are read as they are."""
    import dmlvk.torch
    from tests.torch.weight_changes import run_case

    assert dmlvk.torch.__doc__  # importing it registers the backend
    warnings.simplefilter("ignore")
    run_case(seed, {"device": device.info.index}, ways=12)
    return "runs"


def _compiled(program: Any, given: Any, **how: Any) -> Any:
    import torch

    torch._dynamo.reset()
    return _outcome(torch.compile(program, **how), given)


def _outcome(program: Any, given: Any) -> Any:
    """What a program gives; an error's words where PyTorch refuses it."""
    try:
        return program(*given)
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
    wide = torch.float32, torch.bfloat16
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
        # What integers of numbers beyond them are PyTorch leaves open.
        lambda x, y: (x.nan_to_num(0).clamp(-1e4, 1e4) if x.is_floating_point() else x).to(other_type),
        # PyTorch's own is NaN where squares overflow, though a row of one number has a variance of zero.
        lambda x, y: functional.layer_norm(x.clamp(-1e18, 1e18) if x.dtype in wide else x, x.shape[-1:]),
        lambda x, y: functional.pad(x, (size, 1)),
        lambda x, y: torch.cumsum(x, axis),
        lambda x, y: x.max(axis)[0],
        lambda x, y: x.index_select(0, torch.tensor([size], device=x.device)),
        lambda x, y: functional.max_pool2d(x, 2, padding=max(size, 0) % 4),
        lambda x, y: x.permute(*range(x.dim())[::-1]),
        lambda x, y: torch.zeros(size, 3, device=x.device) + 1,
        lambda x, y: x.mean() if x.numel() else x,
    )
    return [choose.choice(every) for _ in range(choose.randint(1, 5))]
