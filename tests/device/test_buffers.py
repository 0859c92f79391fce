"""Buffers: what goes in comes out, the rest is refused by names and numbers; which heap holds them, how long."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.cases import batches, value_cases
from dmlvk.conformance.execution import prepare
from dmlvk.conformance.samples import sample_cases
from dmlvk.conformance.sampling import laid_out
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.operators import OPERATORS, OperatorDesc
from dmlvk.running import host_runs
from dmlvk.runtime.kompute import Engine
from tests.binding.support import NOT_INTEGERS, Binding, buffer_with, compiled, execute, floats, kind_of, sign
from tests.device.processes import output_of

CONTENTS = np.arange(100, dtype=np.uint8)


@pytest.fixture
def buffer(any_device: dml.Device) -> Iterator[dml.Buffer]:
    """Of 100 bytes, counting up from 0; unchanged at the end unless the test says so."""
    with buffer_with(any_device, CONTENTS) as created:
        yield created
        if not created.is_closed:
            assert np.array_equal(created.download(), CONTENTS), "a refused call changed the buffer"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 4096, 2**20 + 1])
def test_new_buffer_has_its_size_and_is_zero(device: dml.Device, size: int) -> None:
    with device.create_buffer(size) as buffer:
        assert buffer.size_in_bytes == size
        contents = buffer.download()
        assert contents.shape == (size,) and contents.dtype == np.uint8 and not contents.any()


@pytest.mark.parametrize("size", [np.int64(64), np.uint8(64)], ids=kind_of)
def test_sizes_may_be_numpy_integers(any_device: dml.Device, size: Any) -> None:
    with any_device.create_buffer(size) as buffer:
        assert buffer.size_in_bytes == 64 and type(buffer.size_in_bytes) is int


_BEYOND = "bytes {} to {} lie beyond the buffer's 100 bytes$"

_NOT_SIZES: tuple[Any, ...] = ("8", 8.0, True, np.True_, np.float32(8), [None], ["2"], [2.0], [True], {1.5}, int)

_NO_BYTES: tuple[Any, ...] = (
    *(None, "text", ["a", "bc"], [None, 1], np.array([1, "a"], object), [2**100], {"a": 1}, object()),
    *(np.zeros(3, "V0"), np.zeros(2, [("a", "O")])),
)

_NO_TYPES: tuple[Any, ...] = (
    *(None, "garbage", "(", 5, {}, [], object, "O", "U4", "V0", [("a", "O")], "(2,3)f4", "f4,,"),
)

_MASKED: Any = np.ma.array(np.ones(3, np.float32), mask=[False, True, False])  # type: ignore[no-untyped-call]
"""NumPy has no types for it."""

_CALLS: dict[str, Callable[[dml.Buffer, Any], object]] = {
    "size": lambda buffer, size: dml.Buffer(buffer.engine, size),
    "upload": lambda buffer, data: buffer.upload(data),
    "upload at": lambda buffer, offset: buffer.upload(np.ones(1, np.uint8), offset),
    "upload zeros": lambda buffer, place: buffer.upload(np.zeros(place[0], np.uint8), place[1]),
    "download": lambda buffer, data_type: buffer.download(data_type),
    "download shape": lambda buffer, shape: buffer.download(np.uint8, shape),
    "download at": lambda buffer, offset: buffer.download(np.uint8, 1, offset),
}

_REFUSED: tuple[tuple[str, str, Sequence[Any]], ...] = (
    ("size", "size_in_bytes must be an integer; got ", NOT_INTEGERS),
    ("size", "size_in_bytes must be at least 1; got ", (0, -1, -(2**70))),
    ("size", "size_in_bytes must be from 1 to .*; got a number of", (2**64, 2**100, 10**5000)),
    # NumPy would make eight bytes of each number, where four are meant as a rule.
    ("upload", ".* no data type to be written as: give an", ([1.0, 2.0], (1, 2), [[1], [2]], [], 1.0, 3, True, 1j)),
    ("upload", "the array has masked elements", (_MASKED,)),
    ("upload", "an array of dtype .* has no bytes to upload", _NO_BYTES),
    ("upload", "not an array: ", ([[1], [2, 3]],)),
    ("upload at", "offset must be an integer; got ", NOT_INTEGERS),
    ("upload at", "offset must be at least 0; got ", (-1, -100, -(2**70))),
    ("upload zeros", _BEYOND.format(0, 101), ((101, 0),)),
    ("upload zeros", _BEYOND.format(100, 101), ((1, 100),)),
    ("upload zeros", _BEYOND.format(51, 101), ((50, 51),)),
    ("upload zeros", _BEYOND.format(101, 101), ((0, 101),)),
    ("upload zeros", _BEYOND.format(2**63, 2**63 + 1), ((1, 2**63),)),
    ("download", "(unknown )?.*dtype", _NO_TYPES),
    ("download at", "offset must be an integer; got ", NOT_INTEGERS),
    ("download at", "offset must be at least 0; got ", (-1, -100, -(2**70))),
    ("download shape", "shape must be an integer; got ", _NOT_SIZES),
    ("download shape", "shape must be at least 0; got -1$", (-1,)),
    ("download shape", "shape must be at least 0; got -3$", ((2, -3),)),
    ("download shape", _BEYOND.format(0, 101), (101,)),
    ("download shape", _BEYOND.format(0, 102), ((2, 51),)),
    ("download shape", _BEYOND.format(0, 2**63), (2**63,)),
    ("download shape", _BEYOND.format(0, 2**126), ((2**63, 2**63),)),
    ("download shape", "shape must be from 0 to .*; got a number of 65 bits$", (2**64,)),
    ("download shape", r"no array has the shape \[0, 9223372036854775808\]: ", ((0, 2**63),)),
    ("download shape", r"no array has the shape \[1, 1, ", ((1,) * 70,)),
)
"""What is called, with what, and what is said of each."""


@pytest.mark.parametrize(
    ("call", "message", "values"), _REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_refusal_names_the_rule_and_changes_nothing(
    buffer: dml.Buffer, call: str, message: str, values: Sequence[Any]
) -> None:
    where = "Buffer" if call == "size" else f"Buffer.{call.split()[0]}"
    for wrong in values:
        with pytest.raises(dml.InvalidArgumentError, match=f"^{re.escape(where)}: {message}"):
            _CALLS[call](buffer, wrong)


ARRAYS: dict[str, Any] = {
    "float32": np.linspace(-1, 1, 6, dtype=np.float32),
    "float16": np.array([1, -0.0, np.inf, np.nan], np.float16),
    "float64, two dimensions": np.arange(6.0).reshape(2, 3),
    "a transposed view": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    "every second element": np.arange(20, dtype=np.int16)[::2],
    "reversed": np.arange(5, dtype=np.int64)[::-1],
    "big-endian": np.arange(4, dtype=">u4"),
    "bool": np.array([True, False, True]),
    "complex": np.array([1 + 2j], np.complex64),
    "one number": np.float32(3.5),
    "no dimension": np.array(7, np.uint16),
    "no elements": np.zeros((0, 4), np.float32),
    "a record": np.array([(1, 2.5)], np.dtype([("a", "i2"), ("b", "f4")])),
    "bytearray": bytearray(b"\1\0\0"),
    "memoryview": memoryview(b"\1\2\0"),
    "read-only": np.broadcast_to(np.float32(2), (3, 2)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_uploaded_bytes_come_back_as_they_are(device: dml.Device, name: str) -> None:
    """Every array that NumPy can describe is written in C order, without conversion."""
    array = np.asarray(ARRAYS[name])
    with device.create_buffer(100) as buffer:
        buffer.upload(ARRAYS[name], 10)
        found = buffer.download(array.dtype, array.shape, 10)
        assert found.tobytes() == array.tobytes() and found.shape == array.shape and found.dtype == array.dtype
        rest = buffer.download()
        assert not rest[:10].any() and not rest[10 + array.nbytes :].any()


def test_a_buffer_is_no_array(buffer: dml.Buffer) -> None:
    """NumPy would make an array of one object."""
    for make in (np.asarray, np.array, lambda x: np.add(x, 1)):
        with pytest.raises(dml.InvalidArgumentError, match=r"is no array: .* download\(dtype\)"):
            make(buffer)


@pytest.mark.parametrize("data", [b"", b"\0", b"abc\0\0", bytes(100)])
def test_bytes_are_uploaded_whole(any_device: dml.Device, data: bytes) -> None:
    """NumPy alone would drop the zeros at their end, and make one byte of none."""
    with buffer_with(any_device, np.full(100, 255, np.uint8)) as buffer:
        buffer.upload(data)
        assert buffer.download().tobytes() == data + b"\xff" * (100 - len(data))


def test_download_gives_a_copy_of_any_part(buffer: dml.Buffer) -> None:
    buffer.download()[:] = 0
    buffer.download(np.uint32)[:] = 0
    assert buffer.download(np.uint8, 3, 97).tolist() == [97, 98, 99]
    assert buffer.download(np.uint8, 0, 100).tolist() == []
    assert buffer.download(np.uint16, (2, 2), 1).tolist() == [[0x0201, 0x0403], [0x0605, 0x0807]]
    assert buffer.download(">u2", [2], 1).tolist() == [0x0102, 0x0304]
    assert buffer.download(np.float64, offset=50).size == 6  # whole elements only
    assert buffer.download(np.uint8, ()).shape == ()
    numpys: Any = np.array([2, 1]), np.int8(4)
    assert buffer.download("S3", numpys[0]).shape == (2, 1)
    assert buffer.download(np.uint8, numpys[1]).flags.writeable


@given(
    writes=st.lists(
        st.tuples(st.integers(0, 60), st.binary(max_size=40)).filter(lambda write: write[0] + len(write[1]) <= 61),
        max_size=12,
    ),
    reads=st.lists(st.tuples(st.integers(0, 61), st.integers(0, 61)), max_size=4),
)
@settings(max_examples=60)
def test_any_sequence_of_uploads_and_downloads(
    device: dml.Device, writes: list[tuple[int, bytes]], reads: list[tuple[int, int]]
) -> None:
    """A buffer of an odd number of bytes behaves as a bytearray does."""
    model = bytearray(61)
    with device.create_buffer(61) as buffer:
        for offset, data in writes:
            buffer.upload(data, offset)
            model[offset : offset + len(data)] = data
            for start, end in reads:
                if start <= end:
                    assert buffer.download(np.uint8, end - start, start).tobytes() == model[start:end]
        assert buffer.download().tobytes() == model


def test_closed_buffer_refuses_everything_but_closing(any_device: dml.Device) -> None:
    buffer = any_device.create_buffer(16)
    was_closed = buffer.is_closed
    buffer.close()
    buffer.close()
    assert (was_closed, buffer.is_closed) == (False, True) and buffer.size_in_bytes == 16
    for call in (lambda: buffer.upload(b"1"), buffer.download, lambda: buffer.allocation):
        with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer: was closed$"):
            call()
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer\.upload: bytes 0 to 17 lie beyond"):
        buffer.upload(bytes(17))
    assert "16 bytes" in repr(buffer)


def test_buffer_of_a_closed_device_reports_the_removal(any_device: dml.Device) -> None:
    """Rule 101."""
    device = dml.Device(any_device.info.index)
    buffer = device.create_buffer(16)
    device.close()
    assert buffer.is_closed
    for call in (lambda: buffer.upload(b"1"), buffer.download, lambda: device.create_buffer(16)):
        with pytest.raises(dml.DeviceRemovedError, match=re.escape(f"{any_device.info.name}: the device was closed")):
            call()
    buffer.close()
    with buffer:
        pass


def test_block_closes_the_buffer_whatever_happens(any_device: dml.Device) -> None:
    with pytest.raises(ZeroDivisionError), any_device.create_buffer(16) as buffer:
        raise ZeroDivisionError
    assert buffer.is_closed


def test_closing_one_buffer_leaves_the_others(device: dml.Device) -> None:
    """Also when they were bound together: their pipelines go, and are made again for what is left."""
    values = np.linspace(-1, 1, 8, dtype=np.float32)
    operator = compiled(device, sign(floats(8)))
    with buffer_with(device, values) as source, device.create_buffer(32) as kept:
        for _ in range(3):
            with device.create_buffer(32) as temporary:
                execute(operator, [Binding(source)], [Binding(temporary)])
                execute(operator, [Binding(temporary)], [Binding(kept)])
            assert np.array_equal(kept.download(np.float32), np.sign(values))
            assert np.array_equal(source.download(np.float32), values)


ATTEMPT = """
def attempt(device, size):
    try:
        return device.create_buffer(size)
    except dml.DmlError as error:
        assert isinstance(error, (dml.DeviceLimitError, dml.OutOfMemoryError)), repr(error)
        print(type(error).__name__, str(error).replace("\\n", " "))
        return None

device = dml.Device(index)
"""

WORK = """
assert np.array_equal(device.run(desc, {"InputTensor": values})["OutputTensor"], np.sign(values))
record(device)
"""


def limit_of(device: dml.Device) -> int:
    """The largest buffer that the device's limits allow, in bytes."""
    limits = device.info.limits
    numbers = (limits.max_storage_buffer_range, limits.max_memory_allocation_size, limits.max_buffer_size, 2**32 - 4)
    return min(number for number in numbers if number is not None)


def test_buffers_above_the_devices_limit_are_refused_by_name_and_number(device: dml.Device) -> None:
    limit = limit_of(device)
    attempts = "".join(f"attempt(device, {limit + excess})\n" for excess in (1, 4, 2**20))
    lines = output_of(ATTEMPT + attempts + WORK, device.info.index).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("DeviceLimitError ") and device.info.name in line
        if limit == device.info.limits.max_storage_buffer_range:  # else another limit is the lowest, and is named
            assert "max_storage_buffer_range" in line and f"({limit} bytes)" in line


def test_absurd_sizes_are_refused_and_the_device_goes_on(device: dml.Device) -> None:
    sizes = (2**32 - 1, 2**32, 2**32 + 1, 5 * 2**30, 2**40, 2**63, 2**64 - 1)
    attempts = "".join(f"attempt(device, {size})\n" for size in sizes)
    lines = output_of(ATTEMPT + attempts + WORK, device.info.index).splitlines()
    assert [line.split()[0] for line in lines] == ["DeviceLimitError"] * len(sizes)


def test_largest_buffer_works_to_its_last_byte(device: dml.Device) -> None:
    """Of at most 256 MiB, for the sake of small machines."""
    size = min(limit_of(device), 2**28)
    program = f"""
with device.create_buffer({size}) as buffer:
    operator = device.compile_operator(device.create_operator(desc))
    buffer.upload(values, {size - 256})
    table = device.create_binding_table(operator)
    last = dml.BufferBinding(buffer, {size - 256}, 256)
    table.bind_inputs([last])
    table.bind_outputs([last])
    recorder = device.create_command_recorder()
    recorder.record_dispatch(operator, table)
    recorder.execute()
    assert np.array_equal(buffer.download(np.float32, 64, {size - 256}), np.sign(values))
    assert not buffer.download(np.uint8, 4096, {size // 2}).any()
"""
    assert output_of(ATTEMPT + program + WORK, device.info.index) == ""


def test_tensors_above_the_limit_are_refused_by_run_before_anything_is_allocated(device: dml.Device) -> None:
    """Where they cannot be cut into chunks: of an output that lies in columns no part of the rows lies together."""
    count = limit_of(device) // 8 + 1
    program = f"""
large = dml.TensorDesc(dml.FLOAT32, (2, {count}), (0, 0))
output = dml.TensorDesc(dml.FLOAT32, (2, {count}), (1, 2))
for wanted in (dml.ElementWiseSign(input_tensor=large, output_tensor=output),):
    try:
        device.run(wanted, {{"InputTensor": np.ones((1, 1), np.float32)}})
    except (dml.DeviceLimitError, dml.OutOfMemoryError) as error:
        print(type(error).__name__, error)
assert len(device.engine._allocations) == 0
"""
    printed = output_of(ATTEMPT + program + WORK, device.info.index)
    assert printed.startswith("DeviceLimitError ")


def test_elementwise_work_above_the_limit_runs_in_pieces(device: dml.Device) -> None:
    count = limit_of(device) // 4 + 1
    if count * 8 > 2**30:
        pytest.skip("the test would take a lot of memory")
    output = dml.TensorDesc(dml.INT8, (count,))
    desc = dml.Cast(input_tensor=dml.TensorDesc(dml.FLOAT32, (count,)), output_tensor=output)
    values = np.resize(np.arange(-100, 101, dtype=np.float32), count)
    result = device.run(desc, {"InputTensor": values})["OutputTensor"]
    assert np.array_equal(result, values.astype(np.int8))


@pytest.mark.parametrize(("size", "room"), [(2**26, 2**29), (2**22, 2**28), (2**16, 2**27)])
def test_running_out_of_memory_is_an_error_and_giving_back_helps(device: dml.Device, size: int, room: int) -> None:
    """Under a limit on the process's addresses, buffers are taken until there is no more; several times.

    What small buffers leave behind, the C library keeps for other small ones: those are tried once.
    """
    rounds = 1 if size < 2**20 else 3
    program = f"""
import resource
record(device)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, resource.RLIM_INFINITY))
counts = []
for _ in range({rounds}):
    buffers = []
    while (buffer := attempt(device, {size})) is not None:
        buffers.append(buffer)
        assert len(buffers) * {size} < {room}
    buffers[-1].upload(values)
    assert np.array_equal(buffers[-1].download(np.float32, 64), values)
    counts.append(len(buffers))
    del buffers, buffer
print(*counts)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
    printed = output_of(ATTEMPT + program + WORK, device.info.index).splitlines()
    assert len(printed) == rounds + 1 and all(line.startswith("OutOfMemoryError ") for line in printed[:-1])
    counts = [int(count) for count in printed[-1].split()]
    assert min(counts) >= 3 and min(counts) >= 0.8 * max(counts)


def test_out_of_memory_inside_run_leaves_the_device_usable(device: dml.Device) -> None:
    program = """
import resource
large = dml.TensorDesc(dml.FLOAT32, (2, 2**23))
in_columns = dml.TensorDesc(dml.FLOAT32, (2, 2**23), (1, 2))  # so that it is not cut into pieces
large_desc = dml.ElementWiseSign(input_tensor=large, output_tensor=in_columns)
x = np.zeros((2, 2**23), np.float32)
device.run(desc, {"InputTensor": values})
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, resource.RLIM_INFINITY))
before = len(device.engine._allocations)
for _ in range(3):
    try:
        device.run(large_desc, {"InputTensor": x})
    except dml.OutOfMemoryError as error:
        print("refused")
assert len(device.engine._allocations) == before
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert not device.run(large_desc, {"InputTensor": x})["OutputTensor"].any()
"""
    assert output_of(ATTEMPT + program + WORK, device.info.index) == "refused\n" * 3


def test_many_small_buffers_end_in_an_error_if_at_all(device: dml.Device) -> None:
    """Vulkan may limit the number of allocations (to 4096 on many devices); llvmpipe has no limit."""
    program = """
buffers = []
while len(buffers) < 5000 and (buffer := attempt(device, 64)) is not None:
    buffers.append(buffer)
print(len(buffers))
for buffer in (buffers[0], buffers[-1]):
    buffer.upload(values[:16])
    assert np.array_equal(buffer.download(np.float32), values[:16])
del buffers[::2]
more = [device.create_buffer(64) for _ in range(100)]
"""
    lines = output_of(ATTEMPT + program, device.info.index).splitlines()
    limit = device.info.limits.max_memory_allocation_count
    if limit < 5000:
        assert lines[0].startswith("DeviceLimitError ") and "max_memory_allocation_count" in lines[0]
        assert int(lines[-1]) <= limit
    else:
        assert lines == ["5000"]


Arrays = Mapping[str, npt.NDArray[Any]]

_MOST = host_runs.MOST_BYTES_NEAR_HOST

_NAMES = list(OPERATORS)[::12]


@pytest.fixture(scope="module")
def opened_apart(device: dml.Device) -> Iterator[dml.Device]:
    """Opened for these tests alone: memory with copies in the host's, which they give back, would be in other runs."""
    with dml.Device(device.info.index) as opened:
        yield opened


@pytest.fixture
def apart(opened_apart: dml.Device, monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """A device whose memory is taken for another one than the host's."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda _: True))
    return opened_apart


def _staged(run: host_runs.HostRun) -> set[bool]:
    return {allocation.has_staging for (kind, _), allocation in run._allocations.items() if kind.name.endswith("PUT")}


def _results(device: dml.Device, compiled: CompiledOperator, inputs: Arrays) -> list[dict[str, bytes]]:
    """Of two runs behind one another, where the operands lie now."""
    run = host_runs.HostRun(device.engine, compiled)
    arrays = host_runs.checked_inputs(compiled, inputs)
    try:
        assert _staged(run) == {host_runs.MOST_BYTES_NEAR_HOST < 0}
        made = [run.execute(arrays) for _ in range(2)]
    finally:
        run.close()
    return [{name: array.tobytes() for name, array in each.items()} for each in made]


def _check_both_ways(
    device: dml.Device, compiled: CompiledOperator, inputs: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, again = _results(device, compiled, inputs)
    monkeypatch.setattr(host_runs, "MOST_BYTES_NEAR_HOST", -1)
    copied, copied_again = _results(device, compiled, inputs)
    monkeypatch.setattr(host_runs, "MOST_BYTES_NEAR_HOST", _MOST)
    assert near == again == copied == copied_again


def _descriptions(name: str) -> Iterator[tuple[OperatorDesc, Arrays]]:
    """An operator's first case that is small enough, packed and with gaps between the output's elements."""
    case = next((each for each in value_cases() if each.desc_class.operator_name == name), None)
    if case is not None:
        batch = next(iter(batches(case, 200, 1)))
        if batch.sizes is None:
            batch = dataclasses.replace(batch, inputs=tuple(values[-200:] for values in batch.inputs))
        for layout in ("contiguous", "apart"):
            prepared = prepare(case, batch, layout)
            fields = [field.name for field, tensor in prepared.desc.inputs if tensor is not None]
            yield prepared.desc, dict(zip(fields, prepared.inputs, strict=True))
        return
    for sampled in sample_cases():
        if sampled.desc_class.operator_name == name:
            for sample in sampled.samples():
                descriptions = [laid_out(sample.desc, layout) for layout in ("packed", "apart")]
                if max(map(_size, descriptions)) <= _MOST:
                    yield from ((desc, sample.inputs) for desc in descriptions)
                    return
    pytest.fail(f"{name} has no small case")


def _size(desc: OperatorDesc) -> int:
    return sum(tensor.size_in_bytes for _, tensor in desc.inputs + desc.outputs if tensor is not None)


@pytest.mark.parametrize("name", _NAMES)
def test_operators_have_the_same_bits_near_the_host(
    apart: dml.Device, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Packed and strided."""
    for desc, inputs in _descriptions(name):
        compiled = apart.compile_operator(apart.create_operator(desc))
        _check_both_ways(apart, compiled, inputs, monkeypatch)


def test_a_graph_has_the_same_bits_near_the_host(apart: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an input that is also an output's operand twice, strides, weights of its own, and steps in place."""
    graph = dml.Graph(apart)
    x = graph.input("x", dml.FLOAT32, (12, 20), (23, 1))
    weights = graph.constant(np.random.default_rng(1).standard_normal((20, 20)).astype(np.float32))
    y = F.gemm(x, weights)
    soft = F.activation_softmax(y + x)
    sums = F.reduce(soft, dml.ReduceFunction.SUM, axes=(1,), output_data_type=dml.FLOAT32)
    compiled = graph.compile(y=y, z=F.tanh(soft * x) - soft, sums=sums)
    inputs = {"x": np.random.default_rng(2).standard_normal((12, 20)).astype(np.float32)}
    _check_both_ways(apart, compiled, inputs, monkeypatch)


@pytest.mark.parametrize(("elements", "is_near"), [(2048, True), (2049, False)])
def test_what_is_larger_together_is_copied(apart: dml.Device, elements: int, is_near: bool) -> None:
    """Inputs and outputs of 16 KiB lie near the host; runs whose kernels are timed do not."""
    tensor = dml.TensorDesc(dml.FLOAT32, (elements,))
    desc = dml.operator_desc("ELEMENT_WISE_ABS", InputTensor=tensor, OutputTensor=tensor)
    compiled = apart.compile_operator(apart.create_operator(desc))
    for timestamps, staged in ((False, not is_near), (True, True)):
        run = host_runs.HostRun(apart.engine, compiled, timestamps=timestamps)
        assert _staged(run) == {staged}
        run.close()
