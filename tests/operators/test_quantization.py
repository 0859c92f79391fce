"""Casts, powers, roundings and quotients where a kernel goes ways of its own, and blocks of few bits."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.arrays.tensor_bytes import elements_of, lay_out
from dmlvk.conformance.cases import Batch, value_cases
from dmlvk.conformance.execution import Workbench, check_batch
from dmlvk.conformance.references.random import philox_4x32_10
from dmlvk.conformance.samples import Sample
from dmlvk.conformance.samples.cast import telling_values
from dmlvk.conformance.sampling import check_sample
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.operators.cast import Cast
from dmlvk.tensors import TensorDesc
from tests.cli.outcome import Outcome
from tests.targets import check_bits

Array = npt.NDArray[Any]


_CASES = {case.name: case for case in value_cases()}


_COUNT = 2**18


@pytest.mark.parametrize("data_type", ["int16", "uint16", "int32", "uint32"])
def test_products_of_large_differences(data_type: str, benches: list[Workbench]) -> None:
    """Differences of all sizes, of few bits, so that products lie between two results, and of many."""
    random = np.random.default_rng(6)
    limits = np.iinfo(data_type)
    short = random.integers(0, 2**6, _COUNT) / 2**6
    sizes = np.ldexp(
        1 + np.where(random.integers(0, 2, _COUNT) == 0, short, random.random(_COUNT)), random.integers(0, 32, _COUNT)
    )
    x = np.clip(sizes * random.choice((-1, 1), _COUNT), limits.min, limits.max)
    zero_points = np.where(
        random.integers(0, 2, _COUNT) == 0, 0, random.integers(limits.min, limits.max, _COUNT, endpoint=True)
    )
    scales = np.tile(np.arange(2**16, dtype=np.uint16), _COUNT // 2**16).view(np.float16)
    batch = Batch("differences", {}, (x.astype(data_type), scales, zero_points.astype(data_type)))
    check_batch(benches, _CASES[f"dequantize_linear-{data_type}-float16"], "contiguous", batch)
    ordinary = np.where(np.isfinite(scales), scales, 1).astype(np.float32)
    batch = Batch("differences", {}, (x.astype(data_type), ordinary, zero_points.astype(data_type)))
    check_batch(benches, _CASES[f"dequantize_linear-{data_type}-float32"], "contiguous", batch)


SCALE, BOTH = dml.QuantizationType.SCALE, dml.QuantizationType.SCALE_ZERO_POINT


def _array(dtype: npt.DTypeLike, values: Any) -> Array:
    return np.array(values, dtype)


def _tensor(data_type: dml.DataType, *sizes: int, strides: Sequence[int] | None = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type, sizes, strides)


def _desc(operator: Any, source: dml.TensorDesc, output: dml.TensorDesc, *tensors: dml.TensorDesc, **more: Any) -> Any:
    members = {
        "input_tensor": source,
        "quantization_type": (SCALE, BOTH)[len(tensors) - 1],
        "quantization_tensor_count": len(tensors),
        "quantization_tensors": tensors,
        "output_tensor": output,
    }
    return operator(**{**members, **more})


def _run(device: dml.Device, desc: dml.OperatorDesc, source: Array, *tensors: Array) -> Array:
    inputs = {"InputTensor": source} | {f"QuantizationTensors[{i}]": tensor for i, tensor in enumerate(tensors)}
    result: Array = device.run(device.compile_operator(device.create_operator(desc)), inputs)["OutputTensor"]
    return result


def test_five_elements_lie_low_half_first() -> None:
    """DirectML's page of the data types: 1, 2, 3, 4, 5 are the bytes 0x21, 0x43, 0x05."""
    tensor = _tensor(dml.UINT4, 5)
    contents = np.full(tensor.size_in_bytes, 0xF0, np.uint8)
    lay_out(_array(np.uint8, [1, 2, 3, 4, 5]), tensor, contents, "test")
    assert contents.tolist() == [0x21, 0x43, 0xF5, 0xF0]
    assert elements_of(contents, tensor).tolist() == [1, 2, 3, 4, 5]
    assert elements_of(contents, _tensor(dml.INT4, 6)).tolist() == [1, 2, 3, 4, 5, -1]
    turned = _tensor(dml.INT4, 2, 3, strides=(1, 2))
    lay_out(_array(np.int8, [[-8, -7, 0], [7, -1, 1]]), turned, contents, "test")
    assert contents.tolist() == [0x78, 0xF9, 0x10, 0xF0]


def test_there_and_back_in_a_graph(device: dml.Device) -> None:
    """All values of INT4, in odd counts, as input, constant and output; what stays on the device can be read."""
    values = _array(np.int8, [[*range(-8, 7)], [*range(-7, 8)]])
    graph = dml.Graph(device)
    x = graph.input("x", dml.INT4, (2, 15))
    scale, zero = (
        graph.constant(_array(np.float16, [[0.5], [2]])),
        graph.constant(_array(np.int8, [[-1], [3]]), dml.INT4),
    )
    numbers = F.dequantize(x, [scale, zero], quantization_type=BOTH)
    back = F.quantize(numbers, [scale, zero], quantization_type=BOTH)
    assert (numbers.data_type, back.data_type, back.dtype) == (dml.FLOAT16, dml.INT4, np.dtype(np.int8))
    model = graph.compile(numbers=numbers, back=back)
    made = device.run(model, {"x": values})
    assert made["numbers"].tolist() == ((values - [[-1.0], [3.0]]) * [[0.5], [2.0]]).tolist()
    assert made["back"].dtype == np.int8
    assert made["back"].tolist() == values.tolist()
    kept = device.run(model, {"x": values}, keep=True)["back"]
    assert (kept.data_type, kept.nbytes) == (dml.INT4, 15)
    assert kept.numpy().tolist() == values.tolist()
    assert device.run(model, {"x": kept})["back"].tolist() == values.tolist()
    assert kept.reshape(30)[2:].numpy().tolist() == values.reshape(30)[2:].tolist()
    with pytest.raises(dml.InvalidArgumentError, match="a part must begin with a whole byte"):
        kept[1:]


def test_arrays_of_halves_of_bytes_stay_on_the_device(device: dml.Device) -> None:
    values = _array(np.int8, [[-8, 7, 0], [1, -1, 5]])
    with device.array(values, dml.INT4) as kept:
        assert (kept.data_type, kept.dtype, kept.shape, kept.nbytes) == (dml.INT4, np.dtype(np.int8), (2, 3), 3)
        assert kept.T.numpy().tolist() == values.T.tolist()
        desc = _desc(dml.Dequantize, _tensor(dml.INT4, 2, 3), _tensor(dml.FLOAT32, 2, 3), _tensor(dml.FLOAT32, 1, 1))
        compiled = device.compile_operator(device.create_operator(desc))
        scale = _array(np.float32, [[0.5]])
        made = device.run(compiled, {"InputTensor": kept, "QuantizationTensors[0]": scale})["OutputTensor"]
        assert made.tolist() == (values / 2).tolist()
        part = kept.reshape(6)[2:]  # its binding does not begin where bindings may
        assert device.array(part).numpy().tolist() == [0, 1, -1, 5]
        assert kept[::-1].numpy().tolist() == values[::-1].tolist()
        assert kept.T.reshape(6).numpy().tolist() == values.T.reshape(6).tolist()
        desc = _desc(dml.Dequantize, _tensor(dml.INT4, 4), _tensor(dml.FLOAT32, 4), _tensor(dml.FLOAT32, 1))
        compiled = device.compile_operator(device.create_operator(desc))
        of_part = device.run(compiled, {"InputTensor": part, "QuantizationTensors[0]": _array(np.float32, [2])})
        assert of_part["OutputTensor"].tolist() == [0, 2, -2, 10]
    with pytest.raises(dml.InvalidArgumentError, match=r"Device\.array: the array's dtype must be int8; got uint8"):
        device.array(_array(np.uint8, [200]), dml.INT4)  # 7 is a number of either
    assert device.array(_array(np.uint8, [7]), dml.INT4).numpy().tolist() == [7]
    with pytest.raises(dml.InvalidArgumentError, match=r"Device\.array: the array's values must be from -8 to 7"):
        device.array(_array(np.int8, [8]), dml.INT4)
    assert device.empty(3, dml.UINT4).nbytes == 2


def test_a_model_file_of_dxdispatch(device: dml.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Values of two elements in a byte are UINT8 in a file's resources."""
    tensors = {"DataType": "FLOAT32", "Sizes": [1, 4]}
    file = {
        "resources": {
            "X": {"initialValuesDataType": "UINT8", "initialValues": [0x21, 0xF8, 0, 0]},
            "Scale": {"initialValuesDataType": "FLOAT32", "initialValues": [0.5, 2]},
            "Zero": {"initialValuesDataType": "UINT8", "initialValues": [0xE1, 0, 0, 0]},
            "Out": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 4, "value": 0}},
        },
        "dispatchables": {
            "numbers": {
                "type": "DML_OPERATOR_DEQUANTIZE",
                "desc": {
                    "InputTensor": {"DataType": "DML_TENSOR_DATA_TYPE_INT4", "Sizes": [1, 4]},
                    "QuantizationType": "DML_QUANTIZATION_TYPE_SCALE_ZERO_POINT",
                    "QuantizationTensorCount": 2,
                    "QuantizationTensors": [{**tensors, "Sizes": [1, 2]}, {"DataType": "INT4", "Sizes": [1, 2]}],
                    "OutputTensor": tensors,
                },
            }
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "numbers",
                "bindings": {"InputTensor": "X", "QuantizationTensors": ["Scale", "Zero"], "OutputTensor": "Out"},
            },
            {"type": "expect", "resource": "Out", "values": [0, 0.5, -12, 2]},
        ],
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps(file), encoding="utf-8")
    outcome = Outcome(capsys, "run", str(path), "--device", str(device.info.index))
    assert (outcome.status, outcome.err) == (0, "")


@pytest.mark.parametrize(
    ("data_type", "values", "got"),
    [
        (dml.INT4, [-9, 0], "from -8 to 7, as INT4 is; got -9"),
        (dml.UINT4, [0, 16], "from 0 to 15, as UINT4 is; got 16"),
    ],
)
def test_values_beyond_four_bits_are_refused(
    device: dml.Device, data_type: dml.DataType, values: list[int], got: str
) -> None:
    desc = _desc(dml.Dequantize, _tensor(data_type, 2), _tensor(dml.FLOAT32, 2), _tensor(dml.FLOAT32, 1))
    array = np.array(values, data_type.numpy_dtype)
    with pytest.raises(dml.InvalidArgumentError, match=f"DEQUANTIZE: InputTensor: the array's values must be {got}"):
        _run(device, desc, array, _array(np.float32, [1]))
    with pytest.raises(dml.InvalidArgumentError, match=f"Graph.constant: the array's values must be {got}"):
        dml.Graph(device).constant(array, data_type)


def _random_tensor(random: np.random.Generator, data_type: dml.DataType, sizes: Sequence[int]) -> dml.TensorDesc:
    """With its axes in any order in memory, and gaps between some."""
    strides, step = [0] * len(sizes), int(random.integers(1, 3))
    for axis in random.permutation(len(sizes)):
        strides[axis] = step
        step = step * sizes[axis] + int(random.integers(0, 3))
    return dml.TensorDesc(data_type, sizes, None if random.random() < 0.3 else strides)


@pytest.mark.parametrize("seed", range(60))
def test_any_blocks_in_any_layout(benches: list[Workbench], seed: int) -> None:
    """Each tensor has strides of its own, each axis blocks of its own, for the zero point others than for the scale."""
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 6))
    sizes = [int(size) for size in random.choice([1, 2, 3, 4, 6, 8], rank)]
    blocks = [
        [int(random.choice([n for n in range(1, size + 1) if size % n == 0])) for size in sizes] for _ in range(2)
    ]
    integer = (dml.INT4, dml.UINT4, dml.INT8, dml.UINT8)[seed % 4]
    number = (dml.FLOAT32, dml.FLOAT16)[seed // 4 % 2]
    numbers, integers = _random_tensor(random, number, sizes), _random_tensor(random, integer, sizes)
    tensors = [_random_tensor(random, number, blocks[0]), _random_tensor(random, integer, blocks[1])]
    is_quantize = seed // 8 % 2 == 0
    source, output = (numbers, integers) if is_quantize else (integers, numbers)
    desc = _desc(
        dml.Quantize if is_quantize else dml.Dequantize, source, output, *tensors[: 1 + int(random.integers(2))]
    )

    def some_of(tensor: dml.TensorDesc) -> Array:
        if tensor.data_type.is_float:
            return random.normal(0, 3, tensor.sizes).astype(tensor.data_type.numpy_dtype)
        least, greatest = tensor.data_type.integer_limits
        return random.integers(least, greatest, tensor.sizes, tensor.data_type.numpy_dtype, endpoint=True)

    inputs = {field.name: some_of(tensor) for field, tensor in desc.inputs}
    check_sample(benches, Sample(f"seed {seed}", desc, inputs))


def test_a_tensor_beside_others_in_one_word(device: dml.Device) -> None:
    """Every second element of a buffer is written, and all others stay: by several invocations for each word."""
    count = 1001
    desc = _desc(
        dml.Quantize, _tensor(dml.FLOAT32, count), _tensor(dml.UINT4, count, strides=(2,)), _tensor(dml.FLOAT32, 1)
    )
    compiled = device.compile_operator(device.create_operator(desc))
    values = np.arange(count) % 16
    with (
        device.create_buffer(4 * count) as source,
        device.create_buffer(4) as scale,
        device.create_buffer(desc.output_tensor.size_in_bytes) as output,
    ):
        source.upload(values.astype(np.float32))
        scale.upload(_array(np.float32, [1]))
        output.upload(np.full(output.size_in_bytes, 0xA5, np.uint8))
        table = device.create_binding_table(compiled)
        table.bind_inputs([dml.BufferBinding(source), dml.BufferBinding(scale)])
        table.bind_outputs([dml.BufferBinding(output)])
        recorder = device.create_command_recorder()
        recorder.record_dispatch(compiled, table)
        recorder.execute()
        after = output.download()
    assert (after[:count] & 15).tolist() == values.tolist()
    assert set((after[:count] >> 4).tolist()) == {0xA}
    assert set(after[count:].tolist()) <= {0xA5}


_ONE_OF_EACH_WIDTH = (dml.INT8, dml.FLOAT16, dml.FLOAT32, dml.FLOAT64, dml.UINT64)


@pytest.mark.parametrize(
    ("source", "result"),
    [pair for pair in itertools.product(_ONE_OF_EACH_WIDTH, repeat=2) if pair[0] is not pair[1]],
    ids=lambda data_type: data_type.name,
)
def test_rows_of_vectors(benches: list[Workbench], source: dml.DataType, result: dml.DataType) -> None:
    values = {"InputTensor": telling_values(source, np.random.default_rng(3)).reshape(24, 32)}
    desc = Cast(input_tensor=TensorDesc(source, (24, 32), (48, 1)), output_tensor=TensorDesc(result, (24, 32), (64, 1)))
    assert lower(desc, GPU).steps[0].kernel.variant.endswith(".rows")
    check_bits(benches, desc, values)


_NUMBERS = [
    *[0.0, -0.0, 1e-42, 1e-30, 0.5, 1.0, 1.5, 2.0, 126.75, 127.0, 128.0, 255.5, 256.0, 32767.5, 65535.0, 65536.5],
    *[2.0**23 - 0.5, 2.0**23, 2.0**24 + 2, 2.0**30 - 64, 2.0**30, 2.0**31 - 128, 2.0**31, 2.0**32 - 256, 2.0**32],
    *[3e9, 1e20, 3e38, math.inf],
]

NUMBERS = [*_NUMBERS, *(-number for number in _NUMBERS), math.nan]
"""Thresholds and biases: whole and not, on both sides of where integers of 8, 16 and 32 bits end."""


def _integers(data_type: str) -> npt.NDArray[Any]:
    """All of 8 bits; else those beside NUMBERS, and random ones."""
    kind = np.dtype(data_type)
    limits = np.iinfo(kind)
    if kind.itemsize == 1:
        return np.arange(limits.min, limits.max + 1).astype(kind)
    finite = [int(number) for number in NUMBERS if math.isfinite(number)]
    beside = [limits.min, limits.max, *(number + step for number in finite for step in (-2, -1, 0, 1, 2))]
    known = [number for number in beside if limits.min <= number <= limits.max]
    random = np.random.default_rng(5).integers(limits.min, limits.max, 500, endpoint=True)
    return np.concatenate([np.array(known, kind), random.astype(kind)])


@pytest.mark.parametrize("data_type", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_integers_at_thresholds_with_any_bias(data_type: str, benches: list[Workbench]) -> None:
    x = _integers(data_type)
    for number, (threshold, bias) in enumerate(itertools.product(NUMBERS, repeat=2)):
        if number % 5 == 0 or abs(threshold) == abs(bias):
            batch = Batch("thresholds", {"threshold": threshold, "bias": bias}, (x,))
            check_batch(benches, _CASES[f"activation_shrink-{data_type}"], "contiguous", batch)


U32 = dml.DataType.UINT32

KNOWN_ANSWERS = (
    ((0, 0, 0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""State and numbers: the file ``kat_vectors`` of Random123, by the authors of Philox."""


def _random_desc(count: int, *, has_next: bool = True, state_sizes: tuple[int, ...] = (1, 6)) -> dml.RandomGenerator:
    state = dml.TensorDesc(U32, state_sizes)
    return dml.RandomGenerator(
        input_state_tensor=state,
        output_tensor=dml.TensorDesc(U32, (1, count)),
        output_state_tensor=state if has_next else None,
        type=dml.RandomGeneratorType.PHILOX_4X32_10,
    )


@pytest.mark.parametrize(("state", "numbers"), KNOWN_ANSWERS)
def test_known_answers(state: tuple[int, ...], numbers: tuple[int, ...], benches: list[Workbench]) -> None:
    counter, key = sum(word << (32 * n) for n, word in enumerate(state[:4])), state[4] + (state[5] << 32)
    assert tuple(philox_4x32_10(counter, key)) == numbers
    for bench in benches:
        outputs = bench.device.run(_random_desc(4), {"InputStateTensor": np.array([state], np.uint32)})
        assert tuple(outputs["OutputTensor"][0].tolist()) == numbers


def test_a_state_goes_on_where_the_numbers_ended(benches: list[Workbench]) -> None:
    """Eight numbers, then twelve, are the first twenty."""
    state = np.array([[0xFFFFFFFE, 0xFFFFFFFF, 3, 4, 5, 6]], np.uint32)
    for bench in benches:
        whole = bench.device.run(_random_desc(20, has_next=False), {"InputStateTensor": state})["OutputTensor"]
        first = bench.device.run(_random_desc(8), {"InputStateTensor": state})
        rest = bench.device.run(_random_desc(12), {"InputStateTensor": first["OutputStateTensor"]})
        np.testing.assert_array_equal(np.hstack([first["OutputTensor"], rest["OutputTensor"]]), whole)
        assert first["OutputStateTensor"].tolist() == [[0, 0, 4, 4, 5, 6]]


def test_a_graph_makes_numbers_and_the_next_state(benches: list[Workbench]) -> None:
    """The generator need not be named; numbers have the sizes that are asked for."""
    graph = dml.Graph(benches[0].device)
    state = graph.input("state", U32, (1, 6))
    numbers, following = F.random_generator(state, output_sizes=(2, 3), with_state=True)
    assert (numbers.sizes, following.sizes) == ((2, 3), (1, 6))
