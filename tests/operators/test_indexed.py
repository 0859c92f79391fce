"""Operators that move, sort and index elements: whatever indices memory holds, kernels stay inside of tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.execution import TensorPlacement, Workbench
from dmlvk.conformance.samples import Sample, sample_cases
from dmlvk.conformance.sampling import check_sample, stored_input
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.rows import sorting
from dmlvk.kernels.target import CPU, GPU
from dmlvk.operators.cached_attention import CachedAttention
from dmlvk.operators.rearrangement import Padding, PaddingMode
from dmlvk.tensors import TensorDesc
from tests.targets import all_compute_as_gpus, variants

Array = npt.NDArray[Any]

F32, U32, I32 = dml.DataType.FLOAT32, dml.DataType.UINT32, dml.DataType.INT32


def _tensor(data_type: dml.DataType, values: Any) -> tuple[dml.TensorDesc, Array]:
    array = np.array(values, data_type.numpy_dtype)
    return dml.TensorDesc(data_type, array.shape), array


def _results(benches: list[Workbench], desc: dml.OperatorDesc, **inputs: Array) -> Array:
    """The first output; the same on every device."""
    outputs = [next(iter(bench.device.run(desc, inputs).values())) for bench in benches]
    for output in outputs[1:]:
        assert output.tobytes() == outputs[0].tobytes()
    return outputs[0]


@pytest.mark.parametrize("data_type", [F32, dml.DataType.UINT8, dml.DataType.FLOAT16, dml.DataType.UINT64])
def test_of_many_updates_of_few_places_the_last_ones_win(data_type: dml.DataType, benches: list[Workbench]) -> None:
    random = np.random.default_rng(1)
    indices = random.integers(0, 7, 50_000).astype(np.uint32)
    updates = random.integers(0, 100, 50_000).astype(data_type.numpy_dtype)
    source, x = _tensor(data_type, np.arange(100, 110))
    chosen, changes = dml.TensorDesc(U32, indices.shape), dml.TensorDesc(data_type, updates.shape)
    desc = dml.Scatter(input_tensor=source, indices_tensor=chosen, updates_tensor=changes, output_tensor=source, axis=0)
    expected = x.copy()
    expected[indices] = updates  # NumPy keeps the last one, too
    got = _results(benches, desc, InputTensor=x, IndicesTensor=indices, UpdatesTensor=updates)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("length", [512, 1300])
@pytest.mark.parametrize("index_type", [U32, I32, dml.DataType.INT64, dml.DataType.UINT64])
def test_whole_lines_have_the_last_updates(
    index_type: dml.DataType, length: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work groups that make a line each, as on GPUs: indices that repeat, count from the end, or lie outside."""
    all_compute_as_gpus(monkeypatch)
    random = np.random.default_rng(length)
    lines, count = (5, 4), length - 8
    least = -length - 20 if index_type in (I32, dml.DataType.INT64) else 0
    x, y = (random.integers(0, 2**32, (*lines, size), np.uint32) for size in (length, count))
    indices = random.integers(least, length + 20, y.shape).astype(index_type.numpy_dtype)
    tensors = {
        "input_tensor": _tensor(U32, x)[0],
        "updates_tensor": _tensor(U32, y)[0],
        "output_tensor": _tensor(U32, x)[0],
    }
    desc = dml.Scatter(indices_tensor=_tensor(index_type, indices)[0], axis=2, **tensors)
    assert len(lower(desc, GPU).steps) == 1
    expected = x.copy()
    for line in np.ndindex(lines):
        for row, update in zip(indices[line].tolist(), y[line], strict=True):
            if -length <= row < length:
                expected[line][row] = update
    np.testing.assert_array_equal(
        _results(benches, desc, InputTensor=x, IndicesTensor=indices, UpdatesTensor=y), expected
    )


@pytest.mark.parametrize("index_type", [U32, dml.DataType.INT64])
def test_elements_are_gathered_from_whole_lines(
    index_type: dml.DataType, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work groups that hold a line each, as on GPUs; indices may count from the end."""
    all_compute_as_gpus(monkeypatch)
    random = np.random.default_rng(7)
    x = random.integers(0, 2**32, (2, 64, 1300), np.uint32)
    least = -1300 if index_type is dml.DataType.INT64 else 0
    indices = random.integers(least, 1300, (2, 64, 900)).astype(index_type.numpy_dtype)
    output = dml.TensorDesc(U32, indices.shape)
    source, chosen = _tensor(U32, x)[0], _tensor(index_type, indices)[0]
    desc = dml.GatherElements(input_tensor=source, indices_tensor=chosen, output_tensor=output, axis=2)
    (step,) = lower(desc, GPU).steps
    assert step.kernel.variant == "gather_lines"
    rows = np.where(indices < 0, indices.astype(np.int64) + 1300, indices).astype(np.int64)
    got = _results(benches, desc, InputTensor=x, IndicesTensor=indices)
    np.testing.assert_array_equal(got, np.take_along_axis(x, rows, 2))


def test_rows_are_moved_in_units_as_wide_as_memory_allows() -> None:
    """16 bytes where rows and all strides are multiples of that; else 8, 4, 2; 1 where single bytes are chosen."""

    for data_type, row, gap, wanted in (
        (dml.DataType.FLOAT32, 8, 0, "gather.128bits"),
        (dml.DataType.FLOAT32, 8, 2, "gather.64bits"),
        (dml.DataType.FLOAT32, 7, 0, "gather.32bits"),
        (dml.DataType.FLOAT64, 4, 0, "gather.128bits"),
        (dml.DataType.FLOAT64, 1, 0, "gather.64bits"),
        (dml.DataType.UINT8, 32, 0, "gather.128bits"),
        (dml.DataType.UINT8, 12, 0, "gather.32bits"),
        (dml.DataType.UINT8, 6, 0, "gather.16bits"),
        (dml.DataType.UINT8, 5, 0, "gather.8bits"),
    ):
        desc = dml.Gather(
            input_tensor=dml.TensorDesc(data_type, (10, row), (row + gap, 1)),
            indices_tensor=dml.TensorDesc(U32, (1, 20)),
            output_tensor=dml.TensorDesc(data_type, (20, row)),
            axis=0,
            index_dimensions=1,
        )
        assert variants(desc) == [wanted]
    for axis, sizes, wanted in ((0, (10, 1025), "gather.32bits"), (1, (4096, 10), "gather.32bits.many")):
        desc = dml.Gather(  # large, of neighbours that share an index and of such that do not
            input_tensor=dml.TensorDesc(dml.FLOAT32, sizes),
            indices_tensor=dml.TensorDesc(U32, (1, (4096, 1025)[axis])),
            output_tensor=dml.TensorDesc(dml.FLOAT32, (4096, 1025)),
            axis=axis,
            index_dimensions=1,
        )
        assert variants(desc) == [wanted]


_GUARD = 1024

_FILLS = (0x00, 0x7C)

_INDEXED = (
    *("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1", "SCATTER", "SCATTER_ND", "ONE_HOT"),
    *("REVERSE_SUBSEQUENCES", "MAX_UNPOOLING", "ROI_ALIGN", "ROI_ALIGN1", "ROI_POOLING", "ROI_ALIGN_GRAD"),
    *("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1", "GRU", "LSTM", "RNN"),
)
"""Operators that take such numbers from tensors."""

_EXTREMES = (-(2**63), -(2**31), -(2**31) + 1, -99, -1, 0, 1, 2, 7, 255, 256, 2**20, 2**31 - 1, 2**31, 2**32, 2**63 - 1)


def _strange(array: Array, random: np.random.Generator) -> Array:
    """Numbers that are no places of any tensor, and some that are; of floats, too, where they are regions."""
    if array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        fitting = [number for number in _EXTREMES if info.min <= number <= info.max]
        chosen = [fitting[int(place)] for place in random.integers(0, len(fitting), array.size)]
        return np.array(chosen, array.dtype).reshape(array.shape)
    floats = np.array([np.nan, np.inf, -np.inf, -7, 0, 1, 3, 99, 6e4], array.dtype)
    chosen_floats: Array = floats[random.integers(0, len(floats), array.shape)]
    return chosen_floats


def _is_strange(member: str, array: Array) -> bool:
    is_region = member.startswith("ROI") or member.startswith("Roi")
    return is_region or (array.dtype.kind in "iu" and array.dtype.itemsize >= 4)


def _check(bench: Workbench, desc: dml.OperatorDesc, inputs: dict[str, Array]) -> None:
    runs = []
    for fill in _FILLS:
        contents: list[npt.NDArray[np.uint8]] = []
        placements: list[TensorPlacement] = []
        for field, tensor in (*desc.inputs, *desc.outputs):
            if tensor is None:
                continue
            buffer = np.full(2 * _GUARD + -(-tensor.size_in_bytes // 4) * 4, fill, np.uint8)
            stored = stored_input(tensor, inputs[field.name]) if field.name in inputs else 0
            buffer[_GUARD : _GUARD + tensor.size_in_bytes] = stored
            contents.append(buffer)
            placements.append(TensorPlacement(len(placements), _GUARD, tensor.size_in_bytes))
        before = [buffer.copy() for buffer in contents]
        after = bench.run(desc, contents, placements)
        count = sum(tensor is not None for _, tensor in desc.inputs)
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            whole = slice(None) if number < count else slice(0, _GUARD)
            np.testing.assert_array_equal(one[whole], other[whole], err_msg=f"{desc}: tensor {number} was written")
            np.testing.assert_array_equal(one[-_GUARD:], other[-_GUARD:], err_msg=f"{desc}: behind tensor {number}")
        runs.append([buffer[_GUARD:-_GUARD] for buffer in after[count:]])
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=f"{desc}: something beyond its tensors was read")


def _samples(operator: str) -> list[Sample]:
    """One of each data types of 32 bits, and some more."""
    found: list[Sample] = []
    for case in sample_cases():
        if case.desc_class.operator_name == operator:
            strange = [s for s in case.samples() if any(_is_strange(k, a) for k, a in s.inputs.items())]
            found += strange[:1]
    return found[:: -(-len(found) // 4)]


@pytest.mark.parametrize("operator", _INDEXED)
def test_no_index_leads_beyond_a_tensor(benches: list[Workbench], operator: str) -> None:
    random, samples = np.random.default_rng(4), _samples(operator)
    for number, sample in enumerate(samples):
        inputs = {k: _strange(a, random) if _is_strange(k, a) else a for k, a in sample.inputs.items()}
        _check(benches[number % len(benches)], sample.desc, inputs)


def _beyond_tensor(data_type: dml.DataType, *sizes: int) -> dml.TensorDesc:
    return dml.TensorDesc(data_type, sizes)


@dataclasses.dataclass(frozen=True)
class Caches:
    """Sizes of an attention over caches."""

    tokens: int
    capacity: int
    size: int
    members: dict[str, Any]
    past: int = 0

    def desc(self, data_type: dml.DataType, batch: int = 2, heads: int = 4, key_heads: int = 2) -> CachedAttention:
        of = dict(self.members)
        if of.get("counts_past") and "beams_tensor" in of:
            heads = key_heads
        given: dict[str, Any] = {
            "query_tensor": _beyond_tensor(data_type, batch, self.tokens, heads * self.size),
            "key_tensor": _beyond_tensor(data_type, batch, self.tokens, key_heads * self.size),
            "value_tensor": _beyond_tensor(data_type, batch, self.tokens, key_heads * self.size),
            "ends_tensor": _beyond_tensor(dml.DataType.INT32, 1 if of.get("counts_past") else batch),
            "total_tensor": _beyond_tensor(dml.DataType.INT32, 1),
            "output_tensor": _beyond_tensor(data_type, batch, self.tokens, heads * self.size),
        }
        for role in ("key", "value"):
            given[f"present_{role}_tensor"] = _beyond_tensor(data_type, batch, key_heads, self.capacity, self.size)
            if self.past:
                given[f"past_{role}_tensor"] = _beyond_tensor(data_type, batch, key_heads, self.past, self.size)
        wanted: dict[str, tuple[dml.DataType, tuple[int, ...]]] = {
            "bias_tensor": (data_type, (1, heads, self.tokens, self.capacity - 1)),
            "scores_tensor": (data_type, (batch, heads, self.tokens, self.capacity)),
            "cosine_tensor": (data_type, (5, self.size // 2)),
            "sine_tensor": (data_type, (5, self.size // 2)),
            "position_tensor": (dml.DataType.INT64, (batch, self.tokens)),
            "beams_tensor": (dml.DataType.INT32, (batch, self.capacity)),
            "query_lengths_tensor": (dml.DataType.INT32, (batch,)),
        }
        given |= {name: _beyond_tensor(kind, *sizes) for name, (kind, sizes) in wanted.items() if of.pop(name, False)}
        given |= {"query_head_count": heads, "key_value_head_count": key_heads, "scale": 0.25, "softcap": 0.0}
        given |= dict.fromkeys(("is_interleaved", "has_empty_sink", "keeps_past", "shows_shares"), False)
        given |= dict.fromkeys(("is_causal", "counts_past", "keeps_window"), False) | {"window": 0, "beam_width": 0}
        return CachedAttention(**given | of)


_ANGLES = {"cosine_tensor": True, "sine_tensor": True}

_KINDS = {
    "a step": Caches(1, 300, 64, {"is_causal": True, "keeps_past": False}),
    "a step with angles": Caches(1, 300, 64, {"is_causal": True, **_ANGLES, "position_tensor": True}),
    "a few tokens": Caches(3, 40, 16, {"is_causal": True, "bias_tensor": True, **_ANGLES}, past=37),
    "many tokens": Caches(20, 300, 64, {"is_causal": True, **_ANGLES}),
    "a past of one number": Caches(2, 30, 16, {"is_causal": True, "counts_past": True, "bias_tensor": True}, past=30),
    "beams": Caches(1, 30, 16, {"counts_past": True, "beams_tensor": True, "beam_width": 2}, past=30),
    "scores": Caches(2, 30, 16, {"is_causal": True, "scores_tensor": True, "shows_shares": True}),
    "a window": Caches(2, 30, 16, {"is_causal": True, "keeps_window": True, "window": 8}, past=30),
    "lengths of queries": Caches(3, 30, 16, {"is_causal": True, "query_lengths_tensor": True, **_ANGLES}, past=20),
}


@pytest.mark.parametrize("as_gpus", [False, True])
@pytest.mark.parametrize("kind", list(_KINDS))
def test_no_length_leads_beyond_a_cache(
    benches: list[Workbench], kind: str, as_gpus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
    random = np.random.default_rng(7)
    for number, data_type in enumerate((dml.DataType.FLOAT16, dml.DataType.FLOAT32)):
        desc = _KINDS[kind].desc(data_type)
        for _ in range(2):
            inputs = {
                field.name: random.standard_normal(tensor.sizes).astype(tensor.data_type.numpy_dtype)
                for field, tensor in desc.inputs
                if tensor is not None
            }
            inputs = {k: _strange(a, random) if a.dtype.kind == "i" else a for k, a in inputs.items()}
            _check(benches[number % len(benches)], desc, inputs)


NONZERO_U32 = dml.DataType.UINT32


def _desc(sizes: tuple[int, ...], rows: tuple[int, ...]) -> dml.NonzeroCoordinates:
    return dml.NonzeroCoordinates(
        input_tensor=dml.TensorDesc(dml.DataType.FLOAT32, sizes),
        output_count_tensor=dml.TensorDesc(NONZERO_U32, (1,) * len(sizes)),
        output_coordinates_tensor=dml.TensorDesc(NONZERO_U32, rows),
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_counts_of_several_levels(share: float, benches: list[Workbench]) -> None:
    sizes = (70, 61, 63)  # more than 64 segments of 64 segments
    x = (np.random.default_rng(1).random(sizes) < share).astype(np.float32)
    check_sample(benches, Sample("levels", _desc(sizes, (1, x.size, 3)), {"InputTensor": x}))


@pytest.mark.parametrize("mode", [PaddingMode.REFLECTION, PaddingMode.SYMMETRIC, PaddingMode.WRAP, PaddingMode.EDGE])
def test_long_paddings_take_few_steps(benches: list[Workbench], mode: PaddingMode) -> None:
    """A period is doubled, not repeated."""
    names = {PaddingMode.REFLECTION: "reflect", PaddingMode.SYMMETRIC: "symmetric", PaddingMode.WRAP: "wrap"}
    values = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    desc = Padding(
        input_tensor=TensorDesc(dml.FLOAT32, values.shape),
        output_tensor=TensorDesc(dml.FLOAT32, (1, 1, 3, 200)),
        padding_mode=mode,
        padding_value=0.0,
        dimension_count=4,
        start_padding=(0, 0, 1, 50),
        end_padding=(0, 0, 0, 147),
    )
    widths = [(0, 0), (0, 0), (1, 0), (50, 147)]
    numpy_mode: Any = names.get(mode, "edge")
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": values})["OutputTensor"]
        assert np.array_equal(got, np.pad(values, widths, numpy_mode))
    assert len(lower(desc, GPU).steps) < 20


def test_in_a_graph(benches: list[Workbench]) -> None:
    values = np.arange(24, dtype=np.float16).reshape(4, 6)
    for bench in benches:
        graph = dml.Graph(bench.device)
        x = graph.input("x", dml.FLOAT16, (4, 6))
        left, right = F.split(x, output_count=2, axis=1)
        turned = F.slice1(right, input_window_offsets=(0, 0), input_window_sizes=(4, 3), input_window_strides=(-1, 1))
        model = graph.compile(y=F.join([left, F.negate(turned)], axis=1))
        got = bench.device.run(model, {"x": values})["y"]
        assert np.array_equal(got, np.concatenate([values[:, :3], -values[::-1, 3:]], axis=1))


SORTING_F32, SORTING_U32 = dml.DataType.FLOAT32, dml.DataType.UINT32

INCREASING, DECREASING = dml.AxisDirection.INCREASING, dml.AxisDirection.DECREASING


def _sorting_desc(
    sizes: tuple[int, ...],
    axis: int,
    count: int,
    direction: dml.AxisDirection | None = None,
    data_type: dml.DataType = SORTING_F32,
) -> dml.TopK | dml.TopK1:
    results = (*sizes[:axis], count, *sizes[axis + 1 :])
    members: dict[str, Any] = {
        "input_tensor": dml.TensorDesc(data_type, sizes),
        "output_value_tensor": dml.TensorDesc(data_type, results),
        "output_index_tensor": dml.TensorDesc(SORTING_U32, results),
        "axis": axis,
        "k": count,
    }
    return dml.TopK(**members) if direction is None else dml.TopK1(**members, axis_direction=direction)


def test_nan_comes_last_in_both_directions_and_equal_elements_by_rising_index(benches: list[Workbench]) -> None:
    x = np.array([np.nan, 0.0, np.inf, -0.0, -np.nan, -np.inf, 1e-45, -0.0], np.float32)
    for direction, indices in ((DECREASING, [2, 6, 1, 3, 7, 5, 0, 4]), (INCREASING, [5, 1, 3, 7, 6, 2, 0, 4])):
        for bench in benches:
            outputs = bench.device.run(_sorting_desc((8,), 0, 8, direction), {"InputTensor": x})
            np.testing.assert_array_equal(outputs["OutputIndexTensor"], indices)
            assert outputs["OutputValueTensor"].tobytes() == x[indices].tobytes()


@pytest.mark.parametrize("as_gpus", [False, True])
@pytest.mark.parametrize(
    ("length", "count"), [(64, 64), (65, 1), (300, 32), (300, 33), (1500, 1500), (9001, 5), (20000, 32)]
)
def test_every_plan_gives_what_python_sorts(
    length: int, count: int, as_gpus: bool, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows on both sides of every limit; also rows whose largest elements all fall to one invocation."""
    all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
    random = np.random.default_rng(length)
    x = random.integers(-50, 50, (2, length)).astype(np.float32)
    x[1, ::256] += 1000
    check_sample(benches, Sample("rows", _sorting_desc(x.shape, 1, count), {"InputTensor": x}))


@pytest.mark.parametrize("length", [8192, 8500])
@pytest.mark.parametrize(
    ("data_type", "registers"), [(SORTING_F32, 256), (dml.DataType.INT64, 256), (dml.DataType.INT64, 64)]
)
def test_elements_that_fall_to_few_invocations_are_selected_though_they_are_too_many_to_collect(
    length: int, data_type: dml.DataType, registers: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than half of a work group's families of 64 lanes have all large elements, of which there are 3,968."""
    all_compute_as_gpus(monkeypatch, registers=registers)
    monkeypatch.setattr("dmlvk.kernels.rows.sorting.WORK_GROUPS_WANTED", 1)
    x = np.random.default_rng(1).integers(-500, 500, (2, length)).astype(data_type.numpy_dtype)
    x[:, np.arange(length) % 64 < 31] += 1000
    count = sorting.most_selected(data_type.size_in_bits)
    desc = _sorting_desc(x.shape, 1, count, None, data_type)
    check_sample(benches, Sample("families", desc, {"InputTensor": x}))


@pytest.mark.parametrize("data_type", [SORTING_F32, dml.DataType.INT64, dml.DataType.UINT8])
def test_processors_look_for_few_elements_of_long_rows_one_after_the_other(
    data_type: dml.DataType, benches: list[Workbench]
) -> None:
    for length, count in ((65, 1), (129, 8), (1000, 5)):
        x = np.random.default_rng(length).integers(0, 40, (3, length)).astype(data_type.numpy_dtype)
        desc = _sorting_desc(x.shape, 1, count, None, data_type)
        assert lower(desc, CPU).steps[0].kernel.variant.startswith("best_of_tiles.")
        check_sample(benches, Sample("few", desc, {"InputTensor": x}))


def test_few_elements_of_long_rows_are_selected_by_work_groups_on_gpus_only() -> None:
    for data_type, most in ((SORTING_F32, 32), (dml.DataType.INT64, 16)):
        desc = _sorting_desc((4096, 8192), 1, most, None, data_type)
        assert [step.kernel.variant.split(".")[0] for step in lower(desc, GPU).steps] == ["selected_rows"]
        longer = _sorting_desc((4096, 8193), 1, most, None, data_type)
        names = [step.kernel.variant.split(".")[0] for step in lower(longer, GPU).steps]
        assert names == ["selected_tiles", "merged_lists", "ordered_results"]
        assert lower(desc, CPU).steps[0].kernel.variant.startswith("ranked_tiles.")
        more = _sorting_desc((4096, 8192), 1, most + 1, None, data_type)
        assert lower(more, GPU).steps[0].kernel.variant.startswith("ranked_tiles.")
