"""Large element-wise work runs chunk by chunk: the same bits as in one, the same errors, memory for a few chunks.

Chunks are small here; what is cut and what is not is the same.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.cases import attribute_sets, axes_attributes, value_cases
from dmlvk.conformance.execution import describe
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.running import chunks, streaming
from dmlvk.running.chunks import tiling_of
from dmlvk.running.host_runs import RunCache
from dmlvk.tensors import packed_strides
from tests.binding.support import compiled, floats, sign, threshold
from tests.device.watching import NEEDS_FENCES, Watch, allocation_count

_CHUNK = 256
_LENGTH = 1000

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", _CHUNK)
    monkeypatch.setattr(chunks, "LEAST_BYTES", 2 * _CHUNK)


def _numbers(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32) * 4


class _Case(NamedTuple):
    """A model for a device, its inputs, and how many chunks are expected; 0: it is not cut."""

    model: Callable[[dml.Device], CompiledOperator]
    inputs: Arrays
    chunks: int


def _graph(function: Callable[..., Any], *shapes: tuple[int, ...], data_type: dml.DataType = dml.FLOAT32) -> Any:
    def model(device: dml.Device) -> CompiledOperator:
        drawn = dml.Graph(device)
        return drawn.compile(function(*(drawn.input(f"x{n}", data_type, shape) for n, shape in enumerate(shapes))))

    return model


def _of(shapes: list[tuple[int, ...]], dtype: npt.DTypeLike = np.float32) -> Arrays:
    return {f"x{number}": _numbers(*shape, seed=number).astype(dtype) for number, shape in enumerate(shapes)}


def _case(function: Callable[..., Any], *shapes: tuple[int, ...], chunks: int) -> _Case:
    return _Case(_graph(function, *shapes), _of(list(shapes)), chunks)


def _single(desc: dml.OperatorDesc, inputs: Arrays, chunks: int) -> _Case:
    return _Case(lambda device: compiled(device, desc), inputs, chunks)


def _softmax(sizes: tuple[int, ...], axes: list[int]) -> dml.OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, sizes)
    return dml.ActivationSoftmax1(input_tensor=tensor, output_tensor=tensor, axis_count=len(axes), axes=axes)


def _add(a: dml.TensorDesc, b: dml.TensorDesc, output: dml.TensorDesc) -> dml.OperatorDesc:
    return dml.ElementWiseAdd(a_tensor=a, b_tensor=b, output_tensor=output)


_CASES = {
    "one axis": _case(lambda x: F.tanh(x) * 0.5, (_LENGTH,), chunks=16),
    "rows": _case(lambda x: F.clip(F.tanh(2 * x) * 0.5 + x * x, min=-0.25, max=0.75), (37, 16), chunks=10),
    "several results": _case(lambda x, y: {"a": x + y, "b": F.exp(x)}, (37, 16), (37, 16), chunks=10),
    "an axis of one element before": _case(lambda x: F.relu(x), (1, 37, 4, 4), chunks=10),
    "an image of three large rows": _case(lambda x: 2 * x, (1, 3, 20, 16), chunks=3 * 5),
    "two axes before": _case(lambda x: 2 * x, (2, 3, 20, 16), chunks=2 * 3 * 5),
    "the same row for all": _case(lambda x, y: x * y, (40, 8), (8,), chunks=5),
    "a number for each row": _case(lambda x, y: x * y, (40, 8), (40, 1), chunks=5),
    "the same number for all": _case(lambda x, y: x * y, (40, 8), (1,), chunks=5),
    "another row in each part": _case(lambda x, y: x * y, (3, 20, 16), (20, 16), chunks=15),
    "another number in each part": _case(lambda x, y: x * y, (3, 20, 16), (3, 1, 1), chunks=15),
    "a constant row": _case(lambda x: x + np.arange(8, dtype=np.float32), (40, 8), chunks=5),
    "another data type": _case(lambda x: F.cast(x, output_data_type=dml.INT8), (37, 16), chunks=10),
    "softmax of rows": _single(_softmax((40, 16), [1]), {"InputTensor": _numbers(40, 16)}, 10),
    "softmax of planes": _single(_softmax((40, 4, 4), [1, 2]), {"InputTensor": _numbers(40, 4, 4)}, 10),
    "an output with gaps": _single(
        sign(floats(40, 8), floats(40, 8, strides=[16, 2])), {"InputTensor": _numbers(40, 8)}, 5
    ),
    "a row by strides": _single(
        _add(floats(40, 8), floats(40, 8, strides=[0, 1]), floats(40, 8)),
        {"ATensor": _numbers(40, 8), "BTensor": _numbers(1, 8)},
        5,
    ),
    "small": _case(lambda x: F.relu(x), (100,), chunks=0),
    "softmax of columns": _single(_softmax((40, 16), [0]), {"InputTensor": _numbers(40, 16)}, 0),
    "sums": _case(lambda x: F.sum(x, axis=1), (40, 16), chunks=0),
    "what lies in columns": _single(
        sign(floats(40, 8, strides=[1, 40]), floats(40, 8)), {"InputTensor": _numbers(40, 8)}, 0
    ),
    "a constant of its own for each": _case(lambda x: x + _numbers(40, 8), (40, 8), chunks=0),
    "a row that is too large to go to every piece": _case(lambda x, y: x * y, (8, 64), (64,), chunks=0),
}


def _count(model: CompiledOperator) -> int:
    tiling = tiling_of(model)
    return 0 if tiling is None else len(list(tiling.chunks()))


@pytest.mark.parametrize("name", _CASES)
def test_pieces_give_the_bits_of_the_whole(device: dml.Device, name: str) -> None:
    case = _CASES[name]
    model = case.model(device)
    assert _count(model) == case.chunks
    got = device.run(model, case.inputs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "LEAST_BYTES", 2**30)
        whole = device.run(case.model(device), case.inputs)
    assert got.keys() == whole.keys()
    for output, result in whole.items():
        assert (got[output].dtype, got[output].shape) == (result.dtype, result.shape)
        assert got[output].tobytes() == result.tobytes(), output


_EACH_OPERATOR = {case.desc_class.operator_name: case for case in reversed(value_cases())}
"""One case of each operator whose results come from the elements in their own places."""


@pytest.mark.parametrize("name", sorted(_EACH_OPERATOR))
def test_every_elementwise_operator_gives_the_bits_of_the_whole(any_device: dml.Device, name: str) -> None:
    case = _EACH_OPERATOR[name]
    operands = case.tensors("input")
    if case.desc_class.declaration.pattern == "rows":
        sizes: tuple[int, ...] = (50, 8)
        attributes = axes_attributes(case.desc_class, (1,))
    else:
        sizes = (3, 50, 8)
        attributes = attribute_sets(case.desc_class, operands[0][1])[0]
    random = np.random.default_rng(3)
    inputs = {}
    for field, data_type in operands:
        raw = random.integers(0, 256, (*sizes, data_type.numpy_dtype.itemsize), np.uint8)
        inputs[field.name] = raw.view(data_type.numpy_dtype)[..., 0]
    tensors = [*operands, *case.tensors("output")]
    model = compiled(any_device, describe(case, sizes, [packed_strides(sizes)] * len(tensors), attributes))
    assert _count(model) >= 3
    got = any_device.run(model, inputs)
    whole = any_device._runs.execute(model, inputs)
    for output, result in whole.items():
        assert got[output].tobytes() == result.tobytes(), output


def _layout(random: np.random.Generator, sizes: tuple[int, ...], *, is_input: bool) -> dml.TensorDesc:
    """A tensor of these sizes: packed, or with axes in another order, gaps, and of inputs axes without a stride."""
    order = list(range(len(sizes)))
    if random.random() < 0.2:
        random.shuffle(order)
    strides, step = [0] * len(sizes), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= sizes[axis]
        step += int(random.integers(0, 3)) if random.random() < 0.2 else 0
    if is_input:
        strides = [0 if random.random() < 0.2 else stride for stride in strides]
    return dml.TensorDesc(dml.FLOAT32, sizes, strides)


def test_tensors_however_they_lie_give_the_sums_of_their_elements(device: dml.Device) -> None:
    random = np.random.default_rng(25)
    tiling = 0
    for _ in range(60):
        sizes = tuple(int(size) for size in random.choice([1, 2, 5, 8, 16, 24], int(random.integers(2, 5))))
        a, b = (_layout(random, sizes, is_input=True) for _ in range(2))
        model = compiled(device, _add(a, b, _layout(random, sizes, is_input=False)))
        arrays = {}
        for member, tensor in (("ATensor", a), ("BTensor", b)):
            own = [1 if stride == 0 else size for size, stride in zip(sizes, tensor.element_strides, strict=True)]
            array = random.standard_normal(own, dtype=np.float32)
            arrays[member] = np.ascontiguousarray(np.broadcast_to(array, sizes)) if random.random() < 0.3 else array
        result = device.run(model, arrays)["OutputTensor"]
        assert np.array_equal(result, np.broadcast_to(arrays["ATensor"] + arrays["BTensor"], sizes)), (a, b)
        tiling += _count(model) > 0
    assert tiling >= 10


def test_elements_that_must_be_the_same_in_all_pieces_are_compared(device: dml.Device) -> None:
    model = compiled(device, _add(floats(40, 8), floats(40, 8, strides=[0, 1]), floats(40, 8)))
    assert _count(model)
    rows = np.repeat(_numbers(1, 8), 40, axis=0)
    x = _numbers(40, 8, seed=1)
    assert np.array_equal(device.run(model, {"ATensor": x, "BTensor": rows})["OutputTensor"], x + rows)
    rows[39, 7] += 1
    with pytest.raises(dml.InvalidArgumentError, match="BTensor: the array has different values"):
        device.run(model, {"ATensor": x, "BTensor": rows})


def test_a_run_in_pieces_takes_memory_for_a_few_pieces(fresh: dml.Device) -> None:
    x = _numbers(2**16)
    model = compiled(fresh, sign(floats(x.size)))
    assert np.array_equal(fresh.run(model, {"InputTensor": x})["OutputTensor"], np.sign(x))
    tensors = {allocation.tensor for allocation in fresh.engine._allocations}
    size = sum(allocation.size_in_bytes for allocation in fresh.engine._allocations)
    assert 0 < size <= 2 * streaming.MOST_AT_ONCE * _CHUNK
    model = compiled(fresh, sign(floats(x.size)))
    assert np.array_equal(fresh.run(model, {"InputTensor": x})["OutputTensor"], np.sign(x))
    again = {allocation.tensor for allocation in fresh.engine._allocations}
    assert tensors <= again and len(again) <= 2 * streaming.MOST_AT_ONCE, (
        "an operator that computes the same has it, too"
    )


def test_memory_for_pieces_of_a_few_operators_is_kept(fresh: dml.Device) -> None:
    x = _numbers(_LENGTH)
    for bound in range(8):
        model = compiled(fresh, threshold(floats(x.size), bound))
        assert np.array_equal(fresh.run(model, {"InputTensor": x})["OutputTensor"], np.maximum(x, np.float32(bound)))
        del model
        # Of chunks of two lengths.
        assert allocation_count(fresh) <= streaming._KEPT_PLANS * 2 * 2 * streaming.MOST_AT_ONCE
    assert len(fresh._chunks._kept) == streaming._KEPT_PLANS


def test_what_fails_in_a_piece_is_raised_and_the_next_run_works(
    fresh: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = _numbers(_LENGTH)
    model = compiled(fresh, sign(floats(x.size)))
    execute = RunCache.execute

    calls: list[None] = []

    def short(runs: RunCache, *arguments: Any, **more: Any) -> Any:
        calls.append(None)
        raise dml.OutOfMemoryError("no memory, on purpose")

    monkeypatch.setattr(RunCache, "execute", short)
    with pytest.raises(dml.OutOfMemoryError, match="on purpose"):
        fresh.run(model, {"InputTensor": x})
    assert 1 <= len(calls) <= streaming.MOST_AT_ONCE, "pieces were begun when one had failed"
    monkeypatch.setattr(RunCache, "execute", execute)
    assert np.array_equal(fresh.run(model, {"InputTensor": x})["OutputTensor"], np.sign(x))


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system sends no signals to threads")
def test_nobody_works_at_a_run_that_was_interrupted(fresh: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _numbers(2**16)
    model = compiled(fresh, sign(floats(x.size)))
    execute, main, calls = RunCache.execute, threading.get_ident(), list[int]()
    numbers = itertools.count(1)  # each is one thread's alone

    def interrupted(runs: RunCache, *arguments: Any, **more: Any) -> Any:
        number = next(numbers)
        calls.append(number)
        if number == 10:
            signal.pthread_kill(main, signal.SIGINT)
        return execute(runs, *arguments, **more)

    monkeypatch.setattr(RunCache, "execute", interrupted)
    # A shell has what it starts in the background ignore this signal.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fresh.run(model, {"InputTensor": x})
    finally:
        signal.signal(signal.SIGINT, handler)
    before = len(calls)
    assert before < 2**16 * 4 // _CHUNK, "all pieces were computed"
    assert not fresh.engine.afterwards.is_visited()
    monkeypatch.setattr(RunCache, "execute", execute)
    assert np.array_equal(fresh.run(model, {"InputTensor": x})["OutputTensor"], np.sign(x))
    assert len(calls) == before


@NEEDS_FENCES
def test_a_run_in_a_signals_handler_is_in_one_piece(fresh: dml.Device, watch: Watch) -> None:
    """It must not wait for threads that may wait for what it has interrupted."""
    x = _numbers(_LENGTH)
    model, small = compiled(fresh, sign(floats(x.size))), compiled(fresh, sign(floats(8)))
    results = []

    def handler() -> None:
        watch.before = lambda: None
        results.append(fresh.run(model, {"InputTensor": x})["OutputTensor"])

    watch.before = handler
    fresh.run(small, {"InputTensor": x[:8]})
    assert np.array_equal(results[0], np.sign(x))
