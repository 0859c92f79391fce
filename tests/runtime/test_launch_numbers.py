"""Launches with dynamic numbers, and copies between host and device that are recorded once."""

from __future__ import annotations

import gc
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.errors import OutOfMemoryError
from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.recording import HazardTracker, scheduled
from dmlvk.running.host_runs import HostRun
from dmlvk.runtime import launch_numbers, staging
from dmlvk.runtime.kompute import Engine
from dmlvk.runtime.pipelines import Pipelines
from dmlvk.runtime.vulkan.host_memory import resident_in_bytes
from dmlvk.runtime.work import Allocation, Launch
from dmlvk.spirv.general_shaders import general_shader, numbers_of
from dmlvk.spirv.modules import binding_count, module_instructions, module_words
from tests.counted_calls import calls_of
from tests.effort import TAKES_TURNS
from tests.onnx.models import model, two_branches
from tests.onnx.open_size_models import MODELS

Array = npt.NDArray[np.float32]

_DECORATE, _SPEC_ID = 71, 1

_PUSH_WORDS = 40  # more than any module has


def _one_of_each_source() -> list[str]:
    """One variant of each shader's source, the last one: those with the most behind their names."""
    return sorted({variant.source: variant.name for variant in all_variants()}.values())


def _spec_ids(spirv: bytes) -> set[int]:
    instructions = module_instructions(module_words(spirv))
    return {operands[2] for _, opcode, operands in instructions if opcode == _DECORATE and operands[1] == _SPEC_ID}


_SOURCES = _one_of_each_source()


@pytest.mark.parametrize("name", _SOURCES)
def test_general_shaders_are_valid_and_have_lost_these_constants_only(name: str, tmp_path: Path) -> None:
    """All that can be numbers, and half of them; where tests take turns, of each shader one of both, in turn."""
    spirv = library.load(name)
    numbers, given = numbers_of(spirv), _spec_ids(spirv)
    assert numbers <= given
    parts = sorted({numbers, frozenset(sorted(numbers)[: len(numbers) // 2])} - {frozenset()}, key=len)
    if TAKES_TURNS and parts:
        parts = [parts[_SOURCES.index(name) % len(parts)]]
    for number, dynamic in enumerate(parts):
        made = general_shader(spirv, dynamic, binding_count(spirv), _PUSH_WORDS)
        assert _spec_ids(made) == given - dynamic
        assert binding_count(made) == binding_count(spirv) + 1
        path = tmp_path / f"{number}.spv"
        path.write_bytes(made)
        validated = subprocess.run(
            ["spirv-val", "--target-env", "vulkan1.1", path], capture_output=True, text=True, check=False
        )
        assert not validated.returncode, f"{name}: {validated.stdout}{validated.stderr}"


@pytest.fixture
def slow_device(constants_device: dml.Device) -> Iterator[dml.Device]:
    """A new device whose driver takes longer to compile than small launches take."""
    if constants_device.info.kind != "CPU":
        pytest.skip("on GPUs, numbers are always compiled in")
    with dml.Device(constants_device.info.index) as opened:
        yield opened


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """An entry for each pipeline that is compiled."""
    return calls_of(monkeypatch, Pipelines, "_compile")


def _engine(device: dml.Device) -> Engine:
    (engine,) = (value for value in vars(device).values() if isinstance(value, Engine))
    return engine


def _free_slots(device: dml.Device) -> int:
    numbers = _engine(device)._numbers
    assert numbers is not None
    return sum(map(len, numbers._free.values()))


def _transposed(device: dml.Device, rows: int, columns: int) -> None:
    """Runs NEGATE of a transposed matrix and holds it against NumPy."""
    values = np.random.default_rng(rows).standard_normal((columns, rows), np.float32)
    source = dml.TensorDesc(dml.FLOAT32, (rows, columns), strides=(1, rows))
    desc = dml.ElementWiseNegate(input_tensor=source, output_tensor=dml.TensorDesc(dml.FLOAT32, (rows, columns)))
    made = device.run(desc, {"InputTensor": values.T})["OutputTensor"]
    np.testing.assert_array_equal(made, -values.T)


def test_new_sizes_compile_nothing_once_they_vary(slow_device: dml.Device, compiled: list[tuple[Any, ...]]) -> None:
    for number in range(2):
        _transposed(slow_device, 5 + number, 7)
    first = len(compiled)
    for number in range(40):
        _transposed(slow_device, 8 + number, 7)
    assert len(compiled) == first
    _transposed(slow_device, 9, 12)  # the other axis varies now, too
    _transposed(slow_device, 10, 13)
    then = len(compiled)
    assert then <= first + 2
    for number in range(20):
        _transposed(slow_device, 8 + number, 11 + number)
    assert len(compiled) == then


def test_sizes_that_were_first_stay_compiled_in(slow_device: dml.Device, compiled: list[tuple[Any, ...]]) -> None:
    _transposed(slow_device, 5, 7)
    _transposed(slow_device, 6, 7)
    count = len(compiled)
    _transposed(slow_device, 5, 7)
    assert len(compiled) == count


@pytest.mark.parametrize("most", ["MOST_BYTES", "MOST_WORK_GROUPS"])
def test_numbers_of_large_launches_are_compiled_in_for_a_few_sizes(
    slow_device: dml.Device, compiled: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    monkeypatch.setattr(launch_numbers, most, 0)
    first = [5 + number for number in range(launch_numbers.MOST_FORMS + 1)]
    for rows in first:
        before = len(compiled)
        _transposed(slow_device, rows, 7)
        assert len(compiled) > before
    _transposed(slow_device, 20, 7)
    before = len(compiled)
    for rows in (*range(30, 50), *first):
        _transposed(slow_device, rows, 7)
    assert len(compiled) == before


def test_places_of_numbers_are_used_again(slow_device: dml.Device) -> None:
    for number in range(30):
        _transposed(slow_device, 5 + number, 7)
    numbers = _engine(slow_device)._numbers
    assert numbers is not None
    for number in range(1500):
        _transposed(slow_device, 5 + number % 700, 3)
    gc.collect()
    assert len(numbers.buffers) <= 2


def test_without_memory_for_numbers_they_are_compiled_in(
    slow_device: dml.Device, compiled: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = _engine(slow_device)._numbers
    assert numbers is not None

    def refuse(size_in_bytes: int) -> Any:
        raise OutOfMemoryError(f"{size_in_bytes} bytes")

    monkeypatch.setattr(numbers, "_allocate", refuse)
    for number in range(4):
        before = len(compiled)
        _transposed(slow_device, 5 + number, 7)
        assert len(compiled) > before


def test_places_of_a_recording_that_fails_are_given_back(
    slow_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _transposed(slow_device, 5, 7)
    _transposed(slow_device, 6, 7)
    free = _free_slots(slow_device)

    def fail(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_recorded", fail)
        with pytest.raises(KeyboardInterrupt):
            _transposed(slow_device, 7, 7)
    gc.collect()
    assert _free_slots(slow_device) >= free
    _transposed(slow_device, 7, 7)


@pytest.mark.parametrize("missing", ["nothing", "memory", "a module that reads them"])
def test_new_sizes_of_a_model_have_the_same_bits_wherever_launches_find_their_numbers(
    slow_device: dml.Device, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    numbers = _engine(slow_device)._numbers
    assert numbers is not None
    model = MODELS["recognizer"]
    sizes = (148, 164, 156, 148, 180)
    with ort.InferenceSession(model.proto(), device=slow_device) as session:
        expected = [session.run(None, model.feed(size))[0].tobytes() for size in sizes]
    if missing == "memory":
        monkeypatch.setattr(numbers, "room", lambda words: None)
    elif missing == "a module that reads them":
        monkeypatch.setattr(numbers, "varying", lambda launch: None)
    session = ort.InferenceSession(model.proto(), device=slow_device)
    assert [session.run(None, model.feed(size))[0].tobytes() for size in sizes] == expected
    assert session._program.plan_count < len(set(sizes))


def test_compiled_operators_keep_their_own_numbers(slow_device: dml.Device) -> None:
    """Recordings that are run in turn must not be told each other's."""
    graphs = []
    for rows in (5, 6, 7, 9):
        source = dml.TensorDesc(dml.FLOAT32, (rows, 4), strides=(1, rows))
        desc = dml.ElementWiseNegate(input_tensor=source, output_tensor=dml.TensorDesc(dml.FLOAT32, (rows, 4)))
        graphs.append((rows, slow_device.compile_operator(slow_device.create_operator(desc))))
    for _ in range(2):
        for rows, compiled_operator in graphs:
            values = np.arange(rows * 4, dtype=np.float32).reshape(4, rows).T
            made: dict[str, npt.NDArray[Any]] = slow_device.run(compiled_operator, {"InputTensor": values})
            np.testing.assert_array_equal(made["OutputTensor"], -values)


def _launch_of_sign(
    device: dml.Device, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[Launch, Array, Array]:
    """A launch, the memory that it writes and what must lie there."""
    source, target = dml.TensorDesc(dml.FLOAT32, sizes, strides), dml.TensorDesc(dml.FLOAT32, sizes)
    read, written = (_engine(device).allocate(tensor.size_in_bytes) for tensor in (source, target))
    values = read.host_bytes.view(np.float32)
    values[:] = np.random.default_rng(strides[0]).standard_normal(values.size)
    steps = lower(dml.ElementWiseSign(input_tensor=source, output_tensor=target), device.target).steps
    (step,) = scheduled(
        steps, lambda region: (read if region.kind is BindingKind.INPUT else written, 0), HazardTracker()
    )
    expected = np.sign(np.lib.stride_tricks.as_strided(values, sizes, [4 * stride for stride in strides]))
    return step.launch(_engine(device)), written.host_bytes.view(np.float32).reshape(sizes), expected


def test_prepared_launches_go_on_with_what_they_read_when_a_shader_learns_to_read_more(slow_device: dml.Device) -> None:
    """The second one differs in strides alone, the third one in what comes before them among the constants as well."""
    engine = _engine(slow_device)
    strides = (26, 6, 1), (27, 6, 1), (36, 8, 1)
    sizes = (3, 4, 5), (3, 4, 5), (3, 4, 6)
    launches, made, expected = zip(*map(_launch_of_sign, [slow_device] * 3, sizes, strides), strict=True)
    prepared = engine.prepare(launches, [True] * len(launches))
    numbers = [(*launch.specialization, *launch.push_constants, *launch.work_groups) for launch in launches]
    engine.run(engine.record_prepared(prepared, np.concatenate(numbers).astype(np.int64)))
    for number, (got, wanted) in enumerate(zip(made, expected, strict=True)):
        np.testing.assert_array_equal(got, wanted, f"launch {number}")


_BYTES = 4096

_ROOM = 3 * _BYTES


@pytest.fixture
def discrete(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[dml.Device]:
    """A device whose memory has staging buffers that come and go, of which there is room for three."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda engine: True))
    monkeypatch.setattr(staging, "SMALLEST_BYTES", 4)
    monkeypatch.setattr(staging, "STAGING_BYTES", _ROOM)
    with dml.Device(device.info.index) as opened:
        if not hasattr(opened.engine._manager, "device_tensor"):
            pytest.skip("Kompute as it is on PyPI makes a staging buffer with each tensor")
        yield opened


def _staged(device: dml.Device) -> int:
    claims = device.engine._staging._claims
    return sum(allocation.size_in_bytes for allocation in claims if not allocation.is_pinned)


def test_memory_that_the_host_does_not_touch_has_no_copy_there(discrete: dml.Device) -> None:
    arrays = [discrete.empty((_BYTES // 4,)) for _ in range(8)]
    assert _staged(discrete) == 0
    filled = discrete.array(np.ones(_BYTES // 4, np.float32))
    total = filled + filled
    for array in arrays:
        discrete.run(_add(), {"ATensor": total, "BTensor": filled}, keep=True, out={"OutputTensor": array})
    assert _staged(discrete) <= 2 * _BYTES
    assert all(np.array_equal(array.numpy(), np.full(_BYTES // 4, 3, np.float32)) for array in arrays)
    assert _staged(discrete) <= _ROOM


def _add() -> dml.OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, (_BYTES // 4,))
    return dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)


@pytest.mark.parametrize("seed", range(4))
def test_contents_are_those_that_were_written_last(discrete: dml.Device, seed: int) -> None:
    """By the host, in whole and in part, or by the device, while copies on the host come and go."""
    draw = random.Random(seed)
    buffers = [discrete.create_buffer(_BYTES) for _ in range(8)]
    contents = [np.zeros(_BYTES // 4, np.float32) for _ in buffers]
    compiled = discrete.compile_operator(discrete.create_operator(_add()))
    for step in range(60):
        number = draw.randrange(len(buffers))
        match draw.choice(("whole", "part", "read", "add", "add")):
            case "whole":
                contents[number] = np.full(_BYTES // 4, step, np.float32)
                buffers[number].upload(contents[number])
            case "part":
                first = draw.randrange(_BYTES // 4 - 8)
                contents[number][first : first + 8] = step
                buffers[number].upload(np.full(8, step, np.float32), 4 * first)
            case "read":
                found = buffers[number].download(np.float32, (_BYTES // 4,))
                assert np.array_equal(found, contents[number]), f"step {step}: buffer {number}"
            case "add":
                a, b = (draw.randrange(len(buffers)) for _ in "ab")
                if number in (a, b):
                    continue
                table = discrete.create_binding_table(compiled)
                table.bind_inputs([dml.BufferBinding(buffers[a]), dml.BufferBinding(buffers[b])])
                table.bind_outputs([dml.BufferBinding(buffers[number])])
                recorder = discrete.create_command_recorder()
                recorder.record_dispatch(compiled, table)
                recorder.execute()
                contents[number] = contents[a] + contents[b]
    for number, buffer in enumerate(buffers):
        assert np.array_equal(buffer.download(np.float32, (_BYTES // 4,)), contents[number]), f"buffer {number}"
    assert _staged(discrete) <= _ROOM


def test_sessions_and_graphs_give_the_same_bits(discrete: dml.Device, device: dml.Device) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    wanted = ort.InferenceSession(two_branches(), device=device).run(None, {"x": x})
    session = ort.InferenceSession(two_branches(), device=discrete)
    for _ in range(4):
        found = session.run(None, {"x": x})
        assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
    value = ort.OrtValue.ortvalue_from_numpy(x, "dml")
    for _ in range(4):
        bound = session.run_with_ort_values(None, {"x": value})
        assert [np.asarray(a.numpy()).tobytes() for a in bound] == [a.tobytes() for a in wanted]


def test_weights_are_uploaded_piece_by_piece_and_leave_no_copies(discrete: dml.Device, device: dml.Device) -> None:
    draw = np.random.default_rng(2)
    constants = {f"w{n}": draw.standard_normal((64, 64)).astype(np.float32) for n in range(6)}
    from onnx import helper

    nodes = [helper.make_node("MatMul", [f"x{n}" if n else "x", f"w{n}"], [f"x{n + 1}"]) for n in range(6)]
    proto = model(nodes, {"x": [4, 64]}, ["x6"], constants)
    x = draw.standard_normal((4, 64)).astype(np.float32)
    (wanted,) = ort.InferenceSession(proto, device=device).run(None, {"x": x})
    session = ort.InferenceSession(proto, device=discrete)
    value = ort.OrtValue.ortvalue_from_numpy(x, "dml")
    assert session.run_with_ort_values(None, {"x": value})[0].numpy().tobytes() == wanted.tobytes()
    segment = session._program.last[0].segment
    assert segment is not None
    buffers = segment._bound.buffers
    scratch = [buffer.allocation for (kind, _), buffer in buffers.items() if kind is BindingKind.TEMPORARY]
    assert scratch and not any(allocation in discrete.engine._staging._claims for allocation in scratch)
    for _ in range(3):
        assert session.run(None, {"x": x})[0].tobytes() == wanted.tobytes()


def test_memory_that_nobody_has_written_takes_no_pages(device: dml.Device) -> None:
    if not hasattr(device.engine._manager, "device_tensor"):
        pytest.skip("Kompute as it is on PyPI writes zeros")
    before = resident_in_bytes()
    array = device.empty((2**24,))
    after = resident_in_bytes()
    assert before is not None and after is not None and after - before < array.nbytes // 4


@pytest.fixture
def engine(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A new engine with memory that the host sees through a copy, as a discrete GPU's."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda self: True))
    opened = Engine(device.info)
    yield opened
    opened.close()


def round_trip(engine: Engine, allocation: Allocation, value: int) -> None:
    """Words go to the device and come back, though the host's side was overwritten in between."""
    words = np.full(16, value, np.uint32)
    engine.write(allocation, lambda target: np.copyto(target, words.view(np.uint8)))
    engine._upload([allocation])  # as a submission does that reads it
    engine.wait_for(allocation)
    allocation.host_bytes[:] = 0
    allocation.download_pending = True
    assert engine.read(allocation, lambda source: source.view(np.uint32).tolist()) == words.tolist()


def test_a_transfer_is_recorded_once(engine: Engine) -> None:
    first, second = engine.allocate(64), engine.allocate(64)
    for value in range(3):
        round_trip(engine, first, value)
        assert len(engine._transfers) == 2
    recorded = engine._transfers.objects()
    round_trip(engine, first, 7)
    assert set(map(id, engine._transfers.objects())) == set(map(id, recorded))
    round_trip(engine, second, 8)
    assert len(engine._transfers) == 4


def test_transfers_go_with_their_memory(engine: Engine) -> None:
    kept, freed = engine.allocate(64), engine.allocate(64)
    engine._upload([kept, freed])
    round_trip(engine, freed, 1)
    round_trip(engine, kept, 2)
    engine.release(freed)
    assert len(engine._transfers) == 2
    round_trip(engine, kept, 3)


def test_few_transfers_are_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine._transfers._recorded, "most", 3)
    allocations = [engine.allocate(64) for _ in range(4)]
    for value, allocation in enumerate(allocations):
        round_trip(engine, allocation, value)
        assert len(engine._transfers) <= 3
    round_trip(engine, allocations[0], 9)


@pytest.mark.parametrize(("elements", "is_copied"), [(2048, False), (2049, True)])
def test_small_inputs_and_outputs_of_a_run_lie_with_the_host(
    elements: int, is_copied: bool, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 KiB of them; with the unchanged Kompute, which cannot say that the host reads, all are copied."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda self: True))
    x = np.arange(elements, dtype=np.float32) - 7
    tensor = dml.TensorDesc(dml.FLOAT32, x.shape)
    desc = dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor)
    with dml.Device(device.info.index) as opened:
        run = HostRun(opened.engine, opened.compile_operator(opened.create_operator(desc)))
        for shift in range(2):
            (y,) = run.execute({"InputTensor": x + shift}).values()
            assert y.tobytes() == np.abs(x + shift).tobytes()
        assert bool(run.recording.downloads) and bool(run.recording.uploads)
        copies = [allocation.has_staging for allocation in run.recording.uploads | run.recording.downloads]
        assert copies == [is_copied or not opened.engine._has_barriers] * 2
        run.close()
