"""Dask's arrays on devices: blocks, reductions, models in files."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt
import pytest
from dask import config
from dask.base import annotate, compute, tokenize

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk import functions as F
from dmlvk.dask import BlockFunction, from_npy, map_blocks, map_overlap, reduce, store
from dmlvk.dask.files import _NpySource, _NpyTarget
from dmlvk.objects import portable
from tests.counted_calls import calls_of
from tests.onnx.models import model, parsed, two_branches

VALUES = np.random.default_rng(7).standard_normal((70, 50)).astype(np.float32)

TENSOR = dml.TensorDesc(dml.FLOAT32, (35, 25))

SIGN = dml.ElementWiseSign(input_tensor=TENSOR, output_tensor=TENSOR)

ADD = dml.ElementWiseAdd(a_tensor=TENSOR, b_tensor=TENSOR, output_tensor=TENSOR)


@pytest.fixture(autouse=True)
def shared_device(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process's device is the one under test, and tasks run in this process."""
    process = portable._ProcessState()
    process.devices[dml.FeatureLevel.LEVEL_6_4] = device
    monkeypatch.setattr(portable, "_process", process)
    with config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may ask for a device."""
    monkeypatch.setattr(portable, "_process", None)


def blocks(values: npt.NDArray[Any] = VALUES, chunks: Any = (35, 25)) -> da.Array:
    made: da.Array = da.from_array(values, chunks=chunks)
    return made


def bent(x: dml.Expression) -> dml.Expression:
    return F.clip(2 * F.tanh(x) + 0.25, min=0, max=1)


def assert_same_bits(made: Any, expected: npt.NDArray[Any]) -> None:
    result = made.compute() if isinstance(made, da.Array) else made
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    assert result.tobytes() == expected.tobytes()


def test_descriptions_compiled_operators_and_graphs_give_what_numpy_says(device: dml.Device) -> None:
    compiled = device.compile_operator(device.create_operator(SIGN))
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, TENSOR.sizes)
    for each in (SIGN, compiled, graph.compile(y=F.sign(x)), F.sign, pickle.loads(pickle.dumps(compiled))):
        made = map_blocks(each, blocks())
        assert made.chunks == ((35, 35), (25, 25)) and made.dtype == np.float32
        assert_same_bits(made, np.sign(VALUES))


def test_blocks_of_any_shape_give_the_bits_of_the_whole(device: dml.Device) -> None:
    whole = BlockFunction(bent)(VALUES)
    for chunks in (-1, (32, 20), (70, 1), ((1, 2, 67), (49, 1))):
        assert_same_bits(map_blocks(bent, blocks(chunks=chunks)), whole)


def test_nothing_is_computed_and_no_device_opened_before_the_result_is_asked_for(no_device: None) -> None:
    array = blocks()
    for made in (
        map_blocks(SIGN, array),
        map_blocks(bent, array),
        map_overlap(bent, array, depth=2),
        reduce("SUM", array),
    ):
        assert made.dtype == np.float32 and isinstance(made._meta, np.ndarray) and made._meta.ndim == made.ndim
    result = BlockFunction(lambda x: {"a": x.T, "b": F.cast(x, output_data_type=dml.INT32)})(
        np.empty((0, 0), np.float32)
    )
    assert [(each.shape, each.dtype) for each in result] == [((0, 0), np.float32), ((0, 0), np.int32)]


def test_several_inputs_and_outputs_by_order_and_by_name(device: dml.Device) -> None:
    array, row = blocks(), blocks(VALUES[0], 25)
    np.testing.assert_array_equal(map_blocks(ADD, {"BTensor": array, "ATensor": -array}).compute(), VALUES * 0)
    made = map_blocks(lambda x, r, w: {"sum": x + r * w, "larger": x > r}, array, row, np.array([2], np.float32))
    assert {name: each.dtype for name, each in made.items()} == {"sum": np.float32, "larger": np.uint8}
    total, larger = compute(made["sum"], made["larger"])
    np.testing.assert_array_equal(total, VALUES + VALUES[0] * np.float32(2))
    np.testing.assert_array_equal(larger, VALUES[0] < VALUES)
    only = map_blocks(lambda x, r: {"a": x, "b": x + r}, array, row, outputs=["b"])
    assert_same_bits(only, VALUES + VALUES[0])


def test_outputs_of_several_are_computed_once(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = calls_of(monkeypatch, dml.Device, "run")
    made = map_blocks(lambda x: {"a": -x, "b": x + x}, blocks())
    compute(made["a"], made["b"])
    assert len(runs) == 4


def test_whole_arrays_go_to_every_block_and_travel_once(device: dml.Device) -> None:
    weights = np.random.default_rng(1).standard_normal((50, 40)).astype(np.float32)
    array = blocks(chunks=(7, 50))
    made = map_blocks(F.matmul, array, weights)
    assert made.shape == (70, 40) and made.chunks == ((7,) * 10, (40,))
    np.testing.assert_allclose(made.compute(), VALUES @ weights, rtol=1e-4, atol=1e-4)
    assert len(pickle.dumps(dict(made.dask))) < 2 * weights.nbytes + VALUES.nbytes


def test_results_with_fewer_and_more_axes(device: dml.Device) -> None:
    array = blocks(chunks=(10, 50))
    rows = map_blocks(lambda x: F.max(x, axis=1), array)
    assert rows.chunks == ((10,) * 7,)
    assert_same_bits(rows, VALUES.max(axis=1))
    columns = map_blocks(lambda x: F.max(x, axis=0), blocks(chunks=(70, 10)), drop_axis=0)
    assert columns.chunks == ((10,) * 5,)
    assert_same_bits(columns, VALUES.max(axis=0))
    pair = np.array([1, 2], np.float32)
    assert_same_bits(map_blocks(lambda x: x.reshape((*x.shape, 1)) * pair, array), VALUES[..., None] * pair)
    first = map_blocks(lambda x: x.reshape((1, *x.shape)), array, new_axis=0)
    assert first.chunks == ((1,), (10,) * 7, (50,))
    assert_same_bits(first, VALUES[None])
    assert_same_bits(map_blocks(lambda x: x[::2], blocks(chunks=((10, 30, 30), 50))), VALUES[::2])


def stencil(x: Any) -> Any:
    """Of three neighbours, one row and two columns around; of expressions and of arrays. Integers are exact."""
    return x[:-2, 2:-2] - 2 * x[2:, 4:] + 3 * x[1:-1, :-4]


def of_same_size(x: dml.Expression) -> dml.Expression:
    mode = dml.PaddingMode.CONSTANT
    return F.padding(stencil(x), start_padding=[1, 2], end_padding=[1, 2], padding_mode=mode, padding_value=0)


@pytest.mark.parametrize(
    ("depth", "boundary", "message"),
    [
        (-1, None, "depth must be at least 0; got -1"),
        ("a", None, "depth must be an integer; got 'a'"),
        ({0: 1, 1: (2, -3)}, None, "depth must be at least 0; got -3"),
        (90, None, r"depth 90 and boundary None for an array of \[70, 50\]: "),
        (1, "weird", "boundary must be one of reflect, periodic, nearest, none, a number or None; got 'weird'"),
    ],
)
def test_halos_that_there_are_not(depth: Any, boundary: Any, message: str) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=f"^map_overlap: {message}"):
        map_overlap(lambda x: x * 2, da.from_array(VALUES, chunks=(35, 25)), depth=depth, boundary=boundary)


def test_halos_give_what_the_whole_gives(device: dml.Device) -> None:
    whole = np.random.default_rng(2).integers(-1000, 1000, (40, 32)).astype(np.float32)
    array, depth = blocks(whole, (20, 16)), {0: 1, 1: 2}
    modes: dict[Any, dict[str, Any]] = {
        "reflect": {"mode": "symmetric"},  # as NumPy calls it
        "nearest": {"mode": "edge"},
        "periodic": {"mode": "wrap"},
        3: {"mode": "constant", "constant_values": 3},
    }
    for boundary, mode in modes.items():
        expected = stencil(np.pad(whole, ((1, 1), (2, 2)), **mode))
        assert_same_bits(map_overlap(stencil, array, depth=depth, boundary=boundary, trim=False), expected)
    cut = map_overlap(of_same_size, array, depth=depth, boundary=3)
    assert cut.chunks == array.chunks
    assert_same_bits(cut, expected)
    assert_same_bits(map_overlap(of_same_size, array, depth=depth)[1:-1, 2:-2], stencil(whole))
    both = map_overlap(lambda x: {"a": of_same_size(x), "b": x}, array, depth=depth, boundary=3, outputs=["b", "a"])
    assert_same_bits(both["b"], whole)
    row = blocks(whole[0], 16)
    two = map_overlap(lambda x, r: of_same_size(x) + r, array, row, depth=[depth, {0: 2}], boundary=[3, "nearest"])
    assert_same_bits(two, expected + whole[0])
    plain = da.map_overlap(BlockFunction(of_same_size), array, depth=depth, boundary=3, dtype=np.float32)
    assert_same_bits(plain, expected)


def test_onnx_sessions_with_symbolic_sizes_and_several_outputs(device: dml.Device) -> None:
    values = np.random.default_rng(4).standard_normal((11, 3)).astype(np.float32)
    nodes = parsed("r = Relu (x)  m = ReduceMax <axes = [1], keepdims = 0> (r)")
    session = ort.InferenceSession(model(nodes, {"x": ["rows", 3]}, ["r", "m"]), device=device)
    results = map_blocks(session, {"x": blocks(values, (4, 3))})
    assert {name: each.chunks for name, each in results.items()} == {"r": ((4, 4, 3), (3,)), "m": ((4, 4, 3),)}
    assert_same_bits(results["r"], np.maximum(values, 0))
    assert_same_bits(results["m"], np.maximum(values, 0).max(axis=1))
    turning = ort.InferenceSession(two_branches(), device=device)  # z's last axis is x's first one
    assert_same_bits(map_blocks(turning, blocks(values, (11, 3)), outputs=["z"]), turning.run(["z"], {"x": values})[0])
    with pytest.raises(dml.InvalidArgumentError, match="y has blocks of 4 and 3 elements side by side"):
        map_blocks(turning, blocks(values, (4, 3)))


def test_shapes_that_depend_on_values_are_refused_when_they_come(device: dml.Device) -> None:
    session = ort.InferenceSession(model("places = NonZero (x)", {"x": ["n"]}, ["places"]), device=device)
    made = map_blocks(session, blocks(np.array([0, 1, 0, 2], np.float32), 4), new_axis=0)
    with pytest.raises(dml.InvalidArgumentError, match="shapes must not depend on values"):
        made.compute()


def test_names_are_the_same_for_the_same_and_others_for_others(device: dml.Device) -> None:
    array = blocks()
    assert (
        map_blocks(bent, array).name
        == map_blocks(lambda x: F.clip(2 * F.tanh(x) + 0.25, min=0, max=1), array, name="bent").name
    )
    assert map_blocks(SIGN, array).name == map_blocks(pickle.loads(pickle.dumps(SIGN)), array).name
    compiled = device.compile_operator(device.create_operator(SIGN))
    names = {map_blocks(each, array).name for each in (SIGN, compiled, bent, F.sign)}
    names |= {map_blocks(SIGN, blocks(-VALUES)).name, map_overlap(bent, array, depth=1).name}
    names |= {map_blocks(lambda x: F.clip(2 * F.tanh(x) + 0.5, min=0, max=1), array, name="bent").name}
    assert len(names) == 7
    assert tokenize(BlockFunction(SIGN)) == tokenize(BlockFunction(SIGN)) != tokenize(BlockFunction(ADD))


def test_what_does_not_fit_is_refused_before_anything_runs(no_device: None) -> None:
    array = blocks()
    refused: list[tuple[str, Any]] = [
        (
            r"InputTensor is a tensor of the sizes \[35, 25\], but a block has the shape \[32, 25\].*block \[0, 0\]",
            lambda: map_blocks(SIGN, blocks(chunks=(32, 25))),
        ),
        (r"must be of the dtype float32; got float64", lambda: map_blocks(SIGN, array.astype(np.float64))),
        (r"takes 2 arrays, \['ATensor', 'BTensor'\]; got 1", lambda: map_blocks(ADD, array)),
        (r"takes \['ATensor', 'BTensor'\]; got \['x'\]", lambda: map_blocks(ADD, {"x": array})),
        (r"outputs must name some of \['OutputTensor'\]; got \['y'\]", lambda: map_blocks(SIGN, array, outputs=["y"])),
        (
            r"blocks do not lie side by side: there are 2 x 2, 3 x 2",
            lambda: map_blocks(lambda x, y: x + y, array, blocks(chunks=(24, 25))),
        ),
        (r"at least one array of Dask's", lambda: map_blocks(bent, VALUES)),
        (r"a model is an operator's description", lambda: map_blocks(3, array)),
        (r"must give an expression, or several by name; got None", lambda: map_blocks(lambda x: None, array)),
        (r"lacks the blocks' axis 1, along which there are 2", lambda: map_blocks(lambda x: F.max(x, axis=1), array)),
        (r"say so by drop_axis and new_axis", lambda: map_blocks(bent, array, drop_axis=[0, 1], new_axis=0)),
        (r"names: give them in order", lambda: map_blocks(bent, {"x": array})),
        (r"call its compute_chunk_sizes\(\)", lambda: map_blocks(bent, array[array[:, 0] > 0])),
        (
            r"which make no array",
            lambda: map_blocks(lambda x: x[: x.shape[0] * x.shape[1] % 7 + 1], blocks(chunks=((30, 40), (25, 5, 20)))),
        ),
        (r"does not take 1 arrays: missing a required argument: 'y'", lambda: map_blocks(lambda x, y: x + y, array)),
        (r"outputs must be a sequence of names; got 3", lambda: map_blocks(bent, array, outputs=3)),  # type: ignore[arg-type]
        (r"drop_axis\[0\] must be an integer", lambda: map_blocks(bent, array, drop_axis="x")),  # type: ignore[arg-type]
        (r"drop_axis must be a sequence of integers", lambda: map_blocks(bent, array, drop_axis=0.5)),  # type: ignore[arg-type]
        (
            r"smaller than the halos of 5 to be cut off",
            lambda: map_overlap(lambda x: x[:, :1], blocks(chunks=(35, 25)), depth=5),
        ),
        (r"1 to 8 axes and elements", lambda: map_blocks(bent, da.ones((0, 3), dtype=np.float32))),
    ]
    for message, call in refused:
        with pytest.raises(dml.InvalidArgumentError, match=message):
            call()


def test_a_device_that_was_closed_is_opened_anew(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLVK_DEVICE", str(device.info.index))
    monkeypatch.setattr(portable, "_process", portable._ProcessState())
    made = map_blocks(bent, blocks())
    first = made.compute()
    shared = dml.default_device()
    shared.close()
    assert_same_bits(made, first)
    with dml.Device(device.info.index) as own:
        compiled = own.compile_operator(own.create_operator(SIGN))
    assert_same_bits(map_blocks(compiled, blocks()), np.sign(VALUES))
    dml.default_device().close()


def test_resources_reach_every_task_that_needs_a_device(no_device: None) -> None:
    with annotate(resources={"VULKAN": 1}):
        made = map_blocks(bent, blocks())
    annotated = [layer for layer in made.dask.layers.values() if layer.annotations]
    assert annotated and all(layer.annotations == {"resources": {"VULKAN": 1}} for layer in annotated)
    assert made.name in {name for name, layer in made.dask.layers.items() if layer.annotations}


def test_reductions_are_trees_of_dask() -> None:
    whole = np.random.default_rng(3).integers(1, 9, (14, 20)).astype(np.float32)
    array = blocks(whole, (7, 10))
    wide = whole.astype(np.float64)
    for name, expected in {"MAX": wide.max(), "L1": wide.sum()}.items():
        assert reduce(name, array).compute() == expected
    close = {
        "AVERAGE": wide.mean(),
        "L2": np.sqrt(np.square(wide).sum()),
        "LOG_SUM": np.log(wide.sum()),
        "LOG_SUM_EXP": np.log(np.exp(wide).sum()),
    }
    for name, number in close.items():
        np.testing.assert_allclose(reduce(name, array).compute(), number, rtol=3e-7)


def test_axes_of_reductions() -> None:
    whole = np.random.default_rng(3).integers(1, 9, (28, 20)).astype(np.float32)
    array = blocks(whole, (7, 10))
    for axis in (None, 0, (-1, 0)):
        assert_same_bits(reduce("SUM", array, axis, split_every=2), np.asarray(whole.sum(axis)))
    kept = reduce(dml.ReduceFunction.SUM, array, 0, keepdims=True)
    assert kept.chunks == ((1,), (10, 10))
    assert_same_bits(kept, whole.sum(0, keepdims=True))
    assert reduce("MIN", array, 1).name == reduce("MIN", array, 1).name != reduce("MIN", array, 0).name


def test_reductions_of_other_types_and_what_reduce_does_not_have() -> None:
    halves = np.full((300, 300), 3, np.float16)
    assert reduce("AVERAGE", blocks(halves, 100)).compute() == 3  # whose sum no FLOAT16 holds
    assert reduce("L2", blocks(halves, 100)).compute() == np.float16(900)
    assert reduce("MULTIPLY", blocks(np.full((3, 5), 2, np.int32), 2)).compute() == 2**15
    for name, array, message in (
        ("ARGMAX", blocks(np.ones((4, 4), np.float32), 2), "function must be one of"),
        ("MEDIAN", blocks(np.ones((4, 4), np.float32), 2), "function must be one of"),
        ("AVERAGE", blocks(np.ones(4, np.int32), 2), "REDUCE: .*DataType"),
    ):
        with pytest.raises(dml.DmlError, match=message):
            reduce(name, array)
    with pytest.raises(dml.InvalidArgumentError, match=r"axis\[0\] must be from -2 to 1; got 2"):
        reduce("SUM", blocks(np.ones((4, 4), np.float32), 2), 2)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"axis": "x"}, r"axis\[0\] must be an integer"),
        ({"axis": {0: 1}, "split_every": 1}, "split_every"),
        ({"axis": 2}, r"axis\[0\]"),
        ({"split_every": "x"}, "split_every"),
        ({"split_every": 2**40}, "split_every"),
        ({"array": np.ones(3)}, "array of Dask's; got ndarray"),
        ({"array": da.from_array(np.ma.ones((2, 2)))}, "masked"),
        ({"array": da.ones((0, 3), dtype=np.float32)}, "axis 0 must have elements"),
    ],
)
def test_what_is_no_is_one_error(how: dict[str, Any], message: str) -> None:
    given = {"array": da.ones((2, 2), dtype=np.float32), **how}
    with pytest.raises(dml.InvalidArgumentError, match=f"reduce: .*{message}"):
        reduce("SUM", **given)


FILE_VALUES = np.arange(60 * 40, dtype=np.float32).reshape(60, 40)


def saved(folder: Path, values: npt.NDArray[Any] = FILE_VALUES) -> Path:
    path = folder / "values.npy"
    np.save(path, values)
    return path


@pytest.mark.parametrize(
    "values", [FILE_VALUES, np.asfortranarray(FILE_VALUES), FILE_VALUES.astype(">f4")], ids=["c", "f", "swapped"]
)
def test_from_file_to_file(tmp_path: Path, values: npt.NDArray[Any]) -> None:
    array = from_npy(saved(tmp_path, values), (25, 40))
    assert array.chunks == ((25, 25, 10), (40,))
    made = map_blocks(lambda x: {"more": x + 1, "less": x[:, ::2] - 1}, array.astype(np.float32))
    store([made["more"], made["less"]], [tmp_path / "more.npy", tmp_path / "less.zarr"])
    more = np.load(tmp_path / "more.npy", mmap_mode="r")
    assert more.dtype == np.float32 and more.flags.c_contiguous
    np.testing.assert_array_equal(more, FILE_VALUES + 1)
    less = da.from_zarr(tmp_path / "less.zarr")
    np.testing.assert_array_equal(less.compute(), FILE_VALUES[:, ::2] - 1)
    store(map_blocks(lambda x: -x, less), tmp_path / "more.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "more.npy"), 1 - FILE_VALUES[:, ::2])


def test_as_many_blocks_are_in_memory_as_there_are_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the reading of a block to the writing of its result."""
    lock, there, most, read, write = threading.Lock(), 0, 0, _NpySource.__getitem__, _NpyTarget.__setitem__

    def reading(source: _NpySource, index: Any) -> Any:
        nonlocal there, most
        with lock:
            there += 1
            most = max(most, there)
        return read(source, index)

    def writing(target: _NpyTarget, index: Any, block: Any) -> None:
        nonlocal there
        write(target, index, block)
        with lock:
            there -= 1

    monkeypatch.setattr(_NpySource, "__getitem__", reading)
    monkeypatch.setattr(_NpyTarget, "__setitem__", writing)
    array = from_npy(saved(tmp_path), (1, 40))
    for threads in (1, 3):
        most = 0
        store(map_blocks(lambda x: x * 2, array), tmp_path / "doubled.npy", threads=threads)
        assert there == 0 and 1 <= most <= threads
    np.testing.assert_array_equal(np.load(tmp_path / "doubled.npy"), FILE_VALUES * 2)


def test_a_bar_shows_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = from_npy(saved(tmp_path), 20)
    store(array, tmp_path / "copy.npy", progress=True)
    assert "100% Completed" in capsys.readouterr().out
    store(array, tmp_path / "copy.npy")
    assert capsys.readouterr().out == ""


def test_only_the_path_travels_and_a_changed_file_is_another_array(tmp_path: Path) -> None:
    path = saved(tmp_path)
    array = from_npy(path, 20)
    assert len(pickle.dumps(dict(array.dask))) < 4096 < FILE_VALUES.nbytes
    assert from_npy(path, 20).name == array.name
    os.utime(path, ns=(1, 1))
    assert from_npy(path, 20).name != array.name
    with pytest.raises(dml.InvalidArgumentError, match="has changed since it was opened"):
        array.compute(scheduler="sync")


def test_pipes_and_cut_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "cut.npy").write_bytes(b"")
    for name in ("pipe.npy", "cut.npy"):
        with pytest.raises(dml.InvalidArgumentError, match=f"^from_npy: .*{name}: "):
            from_npy(tmp_path / name)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("text")
    for name in ("missing.npy", "text.npy"):
        with pytest.raises(dml.InvalidArgumentError, match=f"^from_npy: .*{name}: "):
            from_npy(tmp_path / name)
    with pytest.raises(dml.InvalidArgumentError, match=r"^from_npy: None: "):
        from_npy(None)  # type: ignore[arg-type]
    array = da.ones(3)
    with pytest.raises(dml.InvalidArgumentError, match=r"the ending must be \.npy or \.zarr"):
        store(array, tmp_path / "values.txt")
    with pytest.raises(dml.InvalidArgumentError, match=r"^store: .*nowhere/values\.npy: .*No such file"):
        store(array, tmp_path / "nowhere/values.npy")
    with pytest.raises(dml.InvalidArgumentError, match="a path for each array; got 1 for 2"):
        store([array, array], tmp_path / "values.npy")
