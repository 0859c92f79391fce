"""Too much memory is one clear error, in processes of their own: Kompute and the drivers would crash."""

from __future__ import annotations

import numpy as np
import pytest

import dmlvk as dml
from tests.device.processes import output_of

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


@pytest.mark.parametrize("size", [2**64, 2**100, 10**5000], ids=["65 bits", "101 bits", "16610 bits"])
def test_sizes_beyond_64_bits_are_no_sizes(any_device: dml.Device, size: int) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer: size_in_bytes must be from 1 to .*; got a number of"):
        any_device.create_buffer(size)


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
