"""Memory is asked for before Kompute allocates it, because Kompute does not survive a no."""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dmlvk.errors import (
    DeviceLimitError,
    DeviceNotFoundError,
    DeviceRemovedError,
    InvalidArgumentError,
    OutOfMemoryError,
)
from dmlvk.runtime import vulkan
from dmlvk.runtime.vulkan import MemoryGuard, MemoryHeap, MemoryRequest, host_memory, memory
from dmlvk.runtime.vulkan import structures as vk
from dmlvk.runtime.vulkan.devices import DeviceInfo
from dmlvk.runtime.vulkan.loader import Instance
from dmlvk.runtime.vulkan.probe import LogicalDevice
from tests.processes import python

DEVICES = vulkan.list_devices()
EACH_DEVICE = pytest.mark.parametrize("info", DEVICES, ids=lambda info: info.name.split()[0])

MIB = 1 << 20


def largest_buffer(info: DeviceInfo) -> int:
    limits = info.limits
    largest = min(limits.max_storage_buffer_range, limits.max_memory_allocation_size, memory.MAX_TENSOR_SIZE_IN_BYTES)
    return min(largest, limits.max_buffer_size or largest) & ~3


@EACH_DEVICE
@pytest.mark.parametrize("kind", ["device", "host", "storage"])
def test_what_fits_is_granted(info: DeviceInfo, kind: Any) -> None:
    with MemoryGuard(info) as guard:
        for size in (1, 4, 4096, MIB, 100 * MIB):
            claim = guard.claim(MemoryRequest(size, kind))
            assert claim.size_in_bytes == size * (2 if kind == "device" else 1)
            assert claim.allocation_count == (2 if kind == "device" else 1)
            claim.release()


@EACH_DEVICE
def test_sizes_above_a_limit_are_refused_with_the_limit(info: DeviceInfo) -> None:
    with MemoryGuard(info) as guard, pytest.raises(DeviceLimitError) as caught:
        guard.claim(MemoryRequest(largest_buffer(info) + 4, name="InputTensor"))
    message = str(caught.value)
    assert message.startswith("InputTensor: ")
    assert f"({largest_buffer(info) + 4} bytes)" in message
    assert info.name in message


@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        ("max_storage_buffer_range", "max_storage_buffer_range"),
        ("max_memory_allocation_size", "max_memory_allocation_size"),
        ("max_buffer_size", "max_buffer_size"),
    ],
)
def test_the_limit_that_is_broken_is_named(limit: str, rule: str) -> None:
    limits = replace(DEVICES[0].limits, **{limit: 4096})  # type: ignore[arg-type]  # all limits are integers
    with (
        MemoryGuard(replace(DEVICES[0], limits=limits)) as guard,
        pytest.raises(DeviceLimitError, match=rf"4100 bytes.*4096 bytes\) \({rule}\)"),
    ):
        guard.claim(MemoryRequest(4100))


def test_komputes_largest_tensor_is_a_limit_where_the_device_could_do_more() -> None:
    wide = replace(
        DEVICES[0].limits, max_storage_buffer_range=1 << 40, max_memory_allocation_size=1 << 40, max_buffer_size=None
    )
    with (
        MemoryGuard(replace(DEVICES[0], limits=wide)) as guard,
        pytest.raises(DeviceLimitError, match=r"4294967296 bytes.*\(4294967292 bytes\) \(Kompute's largest tensor\)"),
    ):
        guard.claim(MemoryRequest(1 << 32))


@pytest.mark.parametrize("size", [0, -4, True, 4.0, "4"])
def test_a_size_must_be_a_positive_integer(size: Any) -> None:
    with (
        MemoryGuard(DEVICES[0]) as guard,
        pytest.raises(InvalidArgumentError, match=r"^OutputTensor: a size in bytes must be a positive integer, got "),
    ):
        guard.claim(MemoryRequest(size, name="OutputTensor"))


def test_the_number_of_allocations_is_limited_and_released() -> None:
    limits = replace(DEVICES[0].limits, max_memory_allocation_count=4)
    with MemoryGuard(replace(DEVICES[0], limits=limits)) as guard:
        first = guard.claim(MemoryRequest(16))
        guard.claim(MemoryRequest(16, "host"))
        with pytest.raises(DeviceLimitError, match=r"3 allocations exist and 2 more are wanted.*can have 4 at a time"):
            guard.claim(MemoryRequest(16))
        first.release()
        first.release()  # does no harm and counts once
        guard.claim(MemoryRequest(16))
        with pytest.raises(DeviceLimitError, match="3 allocations exist"):
            guard.claim(MemoryRequest(16))


def discrete(heap_size: int, budget: int | None = None) -> DeviceInfo:
    """The first device, dressed up as a discrete GPU with a small memory."""
    heap = MemoryHeap(heap_size, device_local=True, budget_in_bytes=budget)
    return replace(DEVICES[0], kind="discrete GPU", heaps=(heap, *DEVICES[0].heaps[1:]))


def test_a_gpus_memory_is_counted_and_the_message_has_the_numbers() -> None:
    with MemoryGuard(discrete(10 * MIB)) as guard:
        first = guard.claim(MemoryRequest(3 * MIB, "device"))  # and its staging buffer, in the same heap here
        with pytest.raises(OutOfMemoryError) as caught:
            guard.claim(MemoryRequest(2 * MIB, name="ATensor"), MemoryRequest(MIB, "storage", "OutputTensor"))
        message = str(caught.value)
        assert message.startswith("ATensor, OutputTensor: 5.00 MiB (5242880 bytes) wanted from the device-local heap 0")
        assert "has 10.00 MiB (10485760 bytes) in all" in message
        assert message.endswith("4.00 MiB (4194304 bytes) are available")
        first.release()
        guard.claim(MemoryRequest(2 * MIB), MemoryRequest(MIB, "storage")).release()


def test_a_message_about_many_tensors_stays_readable() -> None:
    with (
        MemoryGuard(discrete(10 * MIB)) as guard,
        pytest.raises(OutOfMemoryError, match=r"^t0, t1, t2, 37 more: 40\.00"),
    ):
        guard.claim(*[MemoryRequest(MIB, "storage", f"t{number}") for number in range(40)])


def test_a_request_that_is_refused_leaves_no_trace() -> None:
    with MemoryGuard(discrete(10 * MIB)) as guard:
        for _ in range(5):
            with pytest.raises(OutOfMemoryError):
                guard.claim(MemoryRequest(6 * MIB, "storage"), MemoryRequest(6 * MIB, "storage"))
        guard.claim(MemoryRequest(10 * MIB, "storage"))


def test_a_budget_is_asked_freshly_and_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [0]

    def budget(self: Instance, device: int) -> vk.PhysicalDeviceMemoryBudgetProperties:
        answer = vk.PhysicalDeviceMemoryBudgetProperties()
        answer.heapBudget[0], answer.heapUsage[0] = 8 * MIB, used[0]
        return answer

    monkeypatch.setattr(Instance, "memory_budget", budget)
    with MemoryGuard(discrete(1 << 40, budget=8 * MIB)) as guard:
        guard.claim(MemoryRequest(8 * MIB, "storage"))
        used[0] = 5 * MIB
        with pytest.raises(OutOfMemoryError, match=r"has 1024\.00 GiB .*; 3\.00 MiB \(3145728 bytes\) are available"):
            guard.claim(MemoryRequest(4 * MIB, "storage"))
        used[0] = 9 * MIB  # drivers may be above their own budget
        with pytest.raises(OutOfMemoryError, match="; 0 bytes are available"):
            guard.claim(MemoryRequest(4, "storage"))


def test_the_operating_systems_memory_decides_on_a_cpu_device(monkeypatch: pytest.MonkeyPatch) -> None:
    info = replace(DEVICES[0], kind="CPU")
    available = 200 * MIB
    monkeypatch.setattr(memory, "available_in_bytes", lambda: available)
    with MemoryGuard(info) as guard:
        with pytest.raises(OutOfMemoryError, match=r"the operating system has 72\.00 MiB \(75497472 bytes\) to give"):
            guard.claim(MemoryRequest(100 * MIB, "host"))
        guard.claim(MemoryRequest(70 * MIB, "host"))
        available -= 70 * MIB
        with pytest.raises(
            OutOfMemoryError, match=r"has 2\.00 MiB"
        ):  # little is left: small requests are looked at too
            guard.claim(MemoryRequest(3 * MIB, "host"))


def test_memory_that_was_promised_and_is_not_written_yet_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    info = replace(DEVICES[0], kind="CPU")
    monkeypatch.setattr(memory, "available_in_bytes", lambda: 1000 * MIB)
    monkeypatch.setattr(memory, "resident_in_bytes", lambda: 100 * MIB)
    with MemoryGuard(info) as guard:
        for _ in range(4):
            guard.claim(MemoryRequest(100 * MIB, "host"))
        # 1000 available, 128 reserved, 400 promised of which at most 100 can have been taken already
        with pytest.raises(OutOfMemoryError, match=r"has 572\.00 MiB"):
            guard.claim(*[MemoryRequest(100 * MIB, "host")] * 6)


def test_the_operating_system_does_not_limit_a_discrete_gpus_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_in_bytes", lambda: 0)
    with MemoryGuard(discrete(1 << 40)) as guard:
        guard.claim(MemoryRequest(64 * MIB, "storage"))


def tried_sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Record what the driver is tried with, and whether with memory."""
    tried: list[tuple[int, bool]] = []

    def try_allocating(self: LogicalDevice, parts: Any, limit: int, *, memory: bool) -> None:
        tried.append((sum(part.size_in_bytes for part in parts), memory))

    monkeypatch.setattr(LogicalDevice, "try_allocating", try_allocating)
    return tried


def test_the_driver_is_tried_for_large_requests_and_for_many_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = tried_sizes(monkeypatch)
    with MemoryGuard(discrete(1 << 40)) as guard:
        for _ in range(3):
            guard.claim(MemoryRequest(20 * MIB, "storage"))
        assert tried == []
        guard.claim(MemoryRequest(20 * MIB, "storage"))
        assert tried == [(20 * MIB, True)]
        guard.claim(MemoryRequest(60 * MIB, "device"))
        assert tried == [(20 * MIB, True), (120 * MIB, True)]


def test_the_driver_is_tried_for_everything_when_little_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = tried_sizes(monkeypatch)
    with MemoryGuard(discrete(memory.LOW_BYTES)) as guard:
        guard.claim(MemoryRequest(4, "storage"))
    assert tried == [(4, True)]


class _Interrupt(BaseException):
    """What a signal's handler raises."""


@pytest.mark.parametrize(
    ("made", "destroyed"),
    [
        ("vkCreateDevice", ["vkDestroyDevice"]),
        ("vkCreateBuffer", ["vkDestroyBuffer", "vkDestroyDevice"]),
        ("vkAllocateMemory", ["vkFreeMemory", "vkDestroyBuffer", "vkDestroyDevice"]),
    ],
)
def test_an_interrupt_while_the_driver_is_tried_leaves_nothing_behind(
    made: str, destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python raises it behind the driver's call, which has made something by then."""
    real, ended = Instance.function, []

    def function(self: Instance, name: str) -> Any:
        call = real(self, name)

        def interrupted(*arguments: Any) -> int:
            result = call(*arguments)
            if name == made:
                raise _Interrupt
            if name.startswith(("vkDestroy", "vkFree")):
                handle = arguments[-2]
                assert handle.value, f"{name} of nothing"
                ended.append(name)
            return result

        return interrupted

    with MemoryGuard(discrete(1 << 40)) as guard:
        monkeypatch.setattr(Instance, "function", function)
        with pytest.raises(_Interrupt):
            guard.claim(MemoryRequest(100 * MIB, "storage"))
        gc.collect()
        assert ended == destroyed
        monkeypatch.undo()


def test_a_budget_is_trusted_for_a_sixteenth_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = tried_sizes(monkeypatch)

    def budget(self: Instance, device: int) -> vk.PhysicalDeviceMemoryBudgetProperties:
        answer = vk.PhysicalDeviceMemoryBudgetProperties()
        answer.heapBudget[0] = 3264 * MIB
        return answer

    monkeypatch.setattr(Instance, "memory_budget", budget)
    with MemoryGuard(discrete(1 << 40, budget=1 << 40)) as guard:
        guard.claim(MemoryRequest(100 * MIB, "storage"))
        assert tried == []
        guard.claim(MemoryRequest(100 * MIB, "storage"))
        assert tried == [(100 * MIB, True)]


def test_a_cpu_driver_is_not_made_to_fill_memory_except_next_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = tried_sizes(monkeypatch)
    limits = replace(DEVICES[0].limits, max_memory_allocation_size=100 * MIB)
    with MemoryGuard(replace(DEVICES[0], kind="CPU", limits=limits)) as guard:
        guard.claim(MemoryRequest(80 * MIB, "storage"))
        guard.claim(MemoryRequest(100 * MIB, "storage"))
    assert tried == [(80 * MIB, False), (100 * MIB, True)]


@EACH_DEVICE
def test_trying_frees_everything_again(info: DeviceInfo) -> None:
    """More than any of these devices has, in sum; and the buffers of a request that fails in the middle are freed."""
    with MemoryGuard(info) as guard:
        size = largest_buffer(info) // 8
        for _ in range(100):
            guard.claim(MemoryRequest(size, "storage")).release()
        before = host_memory.resident_in_bytes()
    after = host_memory.resident_in_bytes()
    assert before is None or after is None or after - before < 16 * MIB


def test_a_closed_guard_refuses_and_claims_may_still_be_released() -> None:
    guard = MemoryGuard(DEVICES[0])
    claim = guard.claim(MemoryRequest(16))
    guard.close()
    guard.close()
    claim.release()
    with pytest.raises(DeviceRemovedError, match="is closed"):
        guard.claim(MemoryRequest(16))
    with pytest.raises(DeviceRemovedError, match="is closed"):
        guard.heaps()


def test_a_guard_is_refused_for_a_device_that_is_unusable_or_gone() -> None:
    with pytest.raises(DeviceNotFoundError, match="has no compute queue"):
        MemoryGuard(replace(DEVICES[0], usable=False, unusable_reason="has no compute queue"))
    with pytest.raises(DeviceNotFoundError, match="is no longer"):
        MemoryGuard(replace(DEVICES[0], index=len(DEVICES)))
    with pytest.raises(DeviceNotFoundError, match="is no longer"):
        MemoryGuard(replace(DEVICES[0], device_id=DEVICES[0].device_id + 1))


@EACH_DEVICE
def test_heaps_are_told_with_fresh_budgets(info: DeviceInfo) -> None:
    with MemoryGuard(info) as guard:
        assert [heap.size_in_bytes for heap in guard.heaps()] == [heap.size_in_bytes for heap in info.heaps]


# Against the real Kompute: a program of its own, since it may die.

KOMPUTE_PROGRAM = """
import logging, resource, sys
import numpy as np
from dmlvk.errors import DmlError
from dmlvk.runtime.kompute_library import kompute
kp = kompute()
from dmlvk.runtime import vulkan
logging.disable()
index, kind, size, count, guarded, room = int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
guard = vulkan.MemoryGuard(vulkan.list_devices()[index])
manager = kp.Manager(index)
words = np.zeros(size // 4, np.uint32)
if room:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
tensors = []
try:
    for _ in range(count):
        if guarded:
            guard.claim(vulkan.MemoryRequest(size, kind))
        tensors.append(manager.tensor_t(words, getattr(kp.TensorTypes, kind)))
    print("made all")
except DmlError as error:
    print("refused:", error)
"""


def run_kompute(
    info: DeviceInfo, kind: str, size: int, count: int = 1, *, guarded: bool, room: int = 0
) -> subprocess.CompletedProcess[str]:
    numbers = [str(int(number)) for number in (size, count, guarded, room)]
    done = python("-c", KOMPUTE_PROGRAM, str(info.index), kind, *numbers, env={"DMLVK_VALIDATION": "0"})
    if "; the operating system has " in done.stdout:
        pytest.skip(f"other programs have this machine's memory: {done.stdout}")
    return done


@pytest.mark.sweep
@EACH_DEVICE
@pytest.mark.parametrize("below", [0, 4, 16, 4096])
def test_next_to_the_largest_allocation_kompute_lives_where_the_guard_says_yes(info: DeviceInfo, below: int) -> None:
    size = largest_buffer(info) - below
    outcome = run_kompute(info, "storage", size, guarded=True)
    assert outcome.returncode == 0, outcome.stderr
    if "refused" in outcome.stdout:  # then rightly so: without the guard, this is what happens
        assert run_kompute(info, "storage", size, guarded=False).returncode != 0
    else:
        assert "made all" in outcome.stdout


def test_swiftshader_refuses_the_last_bytes_below_its_limit_and_the_guard_knows() -> None:
    for info in DEVICES:
        if "SwiftShader" in info.name:
            limit = largest_buffer(info)
            assert "refused: buffer: 1.00 GiB" in run_kompute(info, "storage", limit, guarded=True).stdout
            assert "made all" in run_kompute(info, "storage", limit - 16, guarded=True).stdout


@pytest.mark.sweep
@pytest.mark.skipif(sys.platform != "linux", reason="limits the process through Linux's RLIMIT_AS")
@EACH_DEVICE
@pytest.mark.parametrize("kind", ["host", "device"])
def test_past_the_processes_memory_kompute_fails_and_with_the_guard_there_is_an_error(
    info: DeviceInfo, kind: str
) -> None:
    alone = run_kompute(info, kind, 64 * MIB, 32, guarded=False, room=700 * MIB)
    assert alone.returncode != 0, alone.stdout  # the unchanged Kompute dies, the changed one raises
    guarded = run_kompute(info, kind, 64 * MIB, 32, guarded=True, room=700 * MIB)
    assert guarded.returncode == 0, guarded.stderr
    assert "refused: buffer: " in guarded.stdout
    assert "the operating system refuses this process as much" in guarded.stdout


# The operating system's memory.


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"


def test_available_memory_is_linuxs_own_estimate(tmp_path: Path) -> None:
    assert host_memory.available_in_bytes(system(tmp_path, {"proc/meminfo": MEMINFO})) == 8000000 * 1024


def test_a_container_limits_available_memory_in_control_groups_version_2(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/user/job\n",
            "sys/fs/cgroup/user/job/memory.max": "max\n",
            "sys/fs/cgroup/user/job/memory.current": "100\n",
            "sys/fs/cgroup/user/memory.max": "1000000\n",
            "sys/fs/cgroup/user/memory.current": "700000\n",
            "sys/fs/cgroup/user/memory.stat": "anon 5\ninactive_file 50000\nactive_file 7\n",
        },
    )
    assert host_memory.available_in_bytes(root) == 350000


def test_a_container_limits_available_memory_in_control_groups_version_1(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "12:pids:/docker/abc\n5:memory:/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1200000\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 1\n",
        },
    )
    assert host_memory.available_in_bytes(root) == 0


def test_a_system_that_does_not_tell_its_memory_is_not_guessed_at(tmp_path: Path) -> None:
    assert host_memory.available_in_bytes(tmp_path) is None
    assert host_memory.resident_in_bytes(tmp_path) is None


def test_reserving_addresses_takes_no_memory_and_fails_past_what_there_is() -> None:
    before = host_memory.resident_in_bytes()
    assert host_memory.can_reserve(512 * MIB)
    after = host_memory.resident_in_bytes()
    assert before is None or after is None or after - before < 4 * MIB
    assert not host_memory.can_reserve(1 << 60)
