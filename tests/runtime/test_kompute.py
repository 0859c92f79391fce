"""The engine over Kompute: memory, pipelines, recordings, errors, the order of the end."""

from __future__ import annotations

import dataclasses
import gc
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.kernels import library
from dmlvk.runtime import engine_memory, kompute, kompute_choice, kompute_library, pipelines
from dmlvk.runtime.kompute import Allocation, Engine, Launch
from dmlvk.runtime.vulkan import MemoryGuard
from tests.binding.support import compiled, floats, sign
from tests.counted_calls import calls_of

VALUES = np.linspace(-2, 2, 64, dtype=np.float32)

PACKAGE = Path(dml.__file__).parent


@pytest.fixture(params=["mapped", "staged"])
def engine(request: pytest.FixtureRequest, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A new engine whose memory the host sees directly, as a CPU's, or through a copy, as a discrete GPU's."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda self: request.param == "staged"))
    opened = Engine(any_device.info)
    yield opened
    opened.close()


def launch(
    device: dml.Device,
    source: Allocation,
    target: Allocation,
    offsets: tuple[int, int] = (0, 0),
    depends: bool = False,
    count: int = 64,
) -> Launch:
    kernel = compiled(device, sign(floats(count))).steps[0].kernel
    return Launch(
        spirv=library.load(kernel.variant),
        specialization=kernel.specialization(offsets),
        push_constants=kernel.push_constants(offsets),
        work_groups=kernel.work_groups,
        allocations=(source, target),
        written=(target,),
        depends=depends,
    )


def long_work(engine: Engine, device: dml.Device) -> list[Launch]:
    """Dispatches that take a CPU a good part of a second."""
    size = 2**24
    source, target = engine.allocate(size), engine.allocate(size)
    there = launch(device, source, target, depends=True, count=size // 4)
    back = launch(device, target, source, depends=True, count=size // 4)
    return [there, back] * 40


def fill(engine: Engine, allocation: Allocation, contents: Any) -> None:
    overwrite(engine, allocation, slice(None), contents, keeps_contents=False)


def overwrite(
    engine: Engine, allocation: Allocation, where: slice, contents: Any, *, keeps_contents: bool = True
) -> None:
    def write(host_bytes: Any) -> None:
        host_bytes[where] = np.asarray(contents, np.float32).view(np.uint8)

    engine.write(allocation, write, keeps_contents=keeps_contents)


def contents_of(engine: Engine, allocation: Allocation) -> Any:
    return engine.read(allocation, lambda host_bytes: host_bytes.copy().view(np.float32))


def test_kompute_is_imported_in_one_module_only() -> None:
    """The architecture's rule: everybody else goes through the engine."""
    importers = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^\s*(import kp\b|from kp\b|.*\bimport bundled\b)", path.read_text(encoding="utf-8"), re.M)
    ]
    assert importers == [str(Path("runtime/kompute_library.py"))]


def test_memory_is_zero_at_first_for_host_and_device(engine: Engine, any_device: dml.Device) -> None:
    source, target = engine.allocate(256), engine.allocate(256)
    assert not contents_of(engine, source).any()
    fill(engine, target, VALUES)
    engine.run(engine.record([launch(any_device, source, target)]))
    assert not contents_of(engine, target).any()


def test_host_and_device_see_each_others_writes(engine: Engine, any_device: dml.Device) -> None:
    """Whole and in part, before and after a recording was made and run."""
    source, target = engine.allocate(256), engine.allocate(256)
    recording = engine.record([launch(any_device, source, target)])
    expected = np.zeros(64, np.float32)
    for turn in range(4):
        fill(engine, source, VALUES * (-1) ** turn)
        if turn % 2:
            overwrite(engine, target, slice(4), [99])
            assert np.array_equal(contents_of(engine, target), [99, *expected[1:]])
        engine.run(recording)
        expected = np.sign(VALUES) * np.float32((-1) ** turn)
        assert np.array_equal(contents_of(engine, target), expected)
        assert np.array_equal(contents_of(engine, source), VALUES * (-1) ** turn)


def test_part_of_what_the_device_wrote_can_be_overwritten(engine: Engine, any_device: dml.Device) -> None:
    """The rest must not fall back to what the host last saw, neither for the host nor for the device."""
    source, target, third = (engine.allocate(256) for _ in range(3))
    fill(engine, source, VALUES)
    engine.run(engine.record([launch(any_device, source, target)]))
    overwrite(engine, target, slice(4, 8), [-7])
    expected = np.sign(VALUES)
    expected[1] = -7
    engine.run(engine.record([launch(any_device, target, third)]))
    assert np.array_equal(contents_of(engine, target), expected)
    assert np.array_equal(contents_of(engine, third), np.sign(expected))


def test_memory_is_written_through_pieces_of_one_size(
    engine: Engine, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a kernel reads what was written last, while the host fills the next pieces."""
    monkeypatch.setattr(engine_memory, "_PIECE_BYTES", 2**16)
    values = np.random.default_rng(0).standard_normal(2**18 + 12345).astype(np.float32)
    source, target = (engine.allocate(values.nbytes, zeroed=False) for _ in range(2))
    written = list[tuple[int, int]]()

    def fill(begin: int, destination: npt.NDArray[np.uint8]) -> None:
        destination[:] = values.view(np.uint8)[begin : begin + destination.size]
        written.append((begin, destination.size))

    engine.stream(source, fill, values.nbytes)
    passes = source.needs_host_side and getattr(engine._kp, "COPIES_PARTS", False)
    at_once = 2**16 if passes else values.nbytes
    assert written == [(at, min(at_once, values.nbytes - at)) for at in range(0, values.nbytes, at_once)]
    engine.run(engine.record([launch(any_device, source, target, count=values.size)]))
    assert np.array_equal(contents_of(engine, target), np.sign(values))
    assert np.array_equal(contents_of(engine, source), values)

    def interrupted(begin: int, destination: npt.NDArray[np.uint8]) -> None:
        half = destination.size // 2
        fill(begin, destination[:half])
        if begin == 0:
            engine.stream(target, negative, values.nbytes)
        fill(begin + half, destination[half:])

    def negative(begin: int, destination: npt.NDArray[np.uint8]) -> None:
        destination[:] = (-values).view(np.uint8)[begin : begin + destination.size]

    source, target = (engine.allocate(values.nbytes, zeroed=False) for _ in range(2))
    engine.stream(source, interrupted, values.nbytes)
    assert np.array_equal(contents_of(engine, source), values)
    assert np.array_equal(contents_of(engine, target), -values), "a signal's handler wrote in the middle"

    def fails(begin: int, destination: npt.NDArray[np.uint8]) -> None:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        engine.stream(source, fails, values.nbytes)
    engine.release(source)
    assert not engine.submissions.users(source)


def test_recordings_may_bring_their_own_uploads_and_downloads(engine: Engine, any_device: dml.Device) -> None:
    source, target = engine.allocate(256, zeroed=False), engine.allocate(256, zeroed=False)
    recording = engine.record([launch(any_device, source, target)], upload=[source], download=[target])
    for factor in (1, -1, 0):
        fill(engine, source, VALUES * factor)
        engine.run(recording)
        assert not source.upload_pending and not target.download_pending
        assert np.array_equal(contents_of(engine, target), np.sign(VALUES * factor))


def test_dependent_launches_run_in_order(engine: Engine, any_device: dml.Device) -> None:
    allocations = [engine.allocate(256) for _ in range(5)]
    fill(engine, allocations[0], VALUES)
    steps = [launch(any_device, allocations[i], allocations[i + 1], depends=i > 0) for i in range(4)]
    recording = engine.record(steps)
    engine.run(recording)
    assert np.array_equal(contents_of(engine, allocations[4]), np.sign(VALUES))
    assert recording.bound == set(allocations) and recording.written == set(allocations[1:])


def test_one_word_serves_all_dependencies_and_goes_with_the_engine(engine: Engine, any_device: dml.Device) -> None:
    engine._has_barriers = engine.shaders.has_barriers = False  # as with the unchanged Kompute
    first, second = engine.allocate(256), engine.allocate(256)
    before = len(engine._allocations)
    for _ in range(3):
        pair = launch(any_device, first, second), launch(any_device, second, first, depends=True)
        engine.run(engine.record([*pair, *pair[:1]]))
    assert len(engine._allocations) == before + 1
    (token,) = engine._allocations - {first, second}
    assert token.size_in_bytes == 4
    engine.close()
    assert not token.tensor.is_init()


def test_recording_with_timestamps_tells_what_each_dispatch_took(engine: Engine, any_device: dml.Device) -> None:
    source, target = engine.allocate(256), engine.allocate(256)
    steps = [launch(any_device, source, target), launch(any_device, target, source, depends=True)]
    recording = engine.record(steps, upload=[source], download=[source], timestamps=True)
    for _ in range(3):
        engine.run(recording)
        seconds = recording.dispatch_seconds()
        assert len(seconds) == 2 and all(0 <= second < 10 for second in seconds)


def test_pipelines_are_shared_by_launches_that_differ_in_offsets_only(engine: Engine, any_device: dml.Device) -> None:
    """Offsets are push constants; the buffers and whether there is an offset at all are not."""
    source, target = engine.allocate(4096), engine.allocate(4096)
    for offsets in ((16, 0), (0, 16), (1024, 2048)):
        engine.record([launch(any_device, source, target, offsets)])
    assert len(engine._pipelines) == 1
    engine.record([launch(any_device, target, source, (16, 16))])
    assert len(engine._pipelines) == 2
    engine.release(source)
    assert len(engine._pipelines) == 0


@pytest.mark.skipif(not hasattr(kompute_library.kompute().Manager, "algorithm_like"), reason="Kompute as it is on PyPI")
def test_a_shader_is_compiled_once_for_all_buffers_and_sizes(
    engine: Engine, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the buffers are gone for which it was compiled, or what is kept was forgotten meanwhile."""
    monkeypatch.setattr(pipelines, "MOST_COMPILED", 1)
    compilations = calls_of(monkeypatch, engine.shaders, "of")

    def signs(count: int, values: Any) -> tuple[Any, list[Allocation]]:
        source, target = engine.allocate(4 * count), engine.allocate(4 * count)
        fill(engine, source, values)
        recording = engine.record([launch(any_device, source, target, count=count)], [source], [target])
        engine.run(recording)
        assert np.array_equal(engine.read(target, lambda seen: seen.view(np.float32).copy()), np.sign(values))
        return recording, [source, target]

    _, first = signs(64, VALUES)
    for allocation in first:
        engine.release(allocation)
    later, _ = signs(100_000, np.linspace(-1, 1, 100_000, dtype=np.float32))
    assert len(compilations) == 1
    negated = launch(any_device, engine.allocate(64), engine.allocate(64), count=16)
    kernel = (
        compiled(any_device, dml.ElementWiseNegate(input_tensor=floats(16), output_tensor=floats(16))).steps[0].kernel
    )
    engine.record([dataclasses.replace(negated, spirv=kernel.spirv())])  # takes the other's place among what is kept
    assert len(compilations) == 2 and len(engine._pipelines._compiled) == 1
    engine.run(later)
    signs(64, -VALUES)
    assert len(compilations) == 3


@pytest.mark.skipif(not hasattr(kompute_library.kompute().Manager, "algorithms"), reason="Kompute as it is on PyPI")
@pytest.mark.parametrize("most_kept", [1, 256], ids="keeps {}".format)
def test_the_shaders_of_a_recording_are_compiled_by_several_threads(
    engine: Engine, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch, most_kept: int
) -> None:
    """Also more of them than are kept; each launch computes with its own, and what is kept is not compiled again."""
    monkeypatch.setattr(pipelines, "MOST_COMPILED", most_kept)
    engine._pipelines = pipelines.Pipelines(engine._manager, side_by_side=True)
    together = calls_of(monkeypatch, pipelines.Pipelines, "_compile_together")
    kinds = [dml.ElementWiseNegate, dml.ElementWiseAbs, dml.ElementWiseSign, dml.ElementWiseCeil]
    functions: list[Any] = [np.negative, np.abs, np.sign, np.ceil]
    buffers = [engine.allocate(256) for _ in range(len(kinds) + 1)]
    launches = []
    for kind, source, target in zip(kinds, buffers, buffers[1:], strict=False):
        kernel = compiled(any_device, kind(input_tensor=floats(64), output_tensor=floats(64))).steps[0].kernel
        whole = launch(any_device, source, target, depends=True)
        launches.append(dataclasses.replace(whole, spirv=kernel.spirv()))
    for _ in range(2):
        fill(engine, buffers[0], VALUES)
        engine.run(engine.record(launches, buffers[:1], buffers[1:]))
        expected = VALUES
        for function, target in zip(functions, buffers[1:], strict=True):
            expected = function(expected)
            assert np.array_equal(engine.read(target, lambda seen: seen.view(np.float32).copy()), expected)
    assert [len(launched) for _, launched, _ in together] == ([4, 3, 2] if most_kept == 1 else [4])


@pytest.mark.skipif(not hasattr(kompute_library.kompute().Manager, "algorithms"), reason="Kompute as it is on PyPI")
def test_lists_of_which_one_is_shorter_make_no_algorithms(engine: Engine) -> None:
    tensors = [[engine.allocate(256).tensor]]
    with pytest.raises((RuntimeError, ValueError), match=r"lists of algorithms of unequal length|is shorter"):
        engine._manager.algorithms(tensors, [], [(1, 1, 1)], [[]], [[]])


def test_releasing_twice_and_closing_twice_are_allowed(engine: Engine) -> None:
    allocation = engine.allocate(64)
    engine.release(allocation)
    engine.release(allocation)
    for access in (engine.read, engine.write):
        with pytest.raises(dml.InvalidArgumentError, match=r"^Buffer: was closed$"):
            access(allocation, len)
    kept = engine.allocate(64)
    engine.close()
    engine.close()
    engine.release(kept)
    assert engine.is_closed and not engine._allocations
    with pytest.raises(dml.DeviceRemovedError, match=f"^{re.escape(engine.info.name)}: the device was closed$"):
        engine.check_open()


def test_host_side_of_a_released_allocation_is_empty(engine: Engine) -> None:
    """Kompute unmaps the memory: a view that is still used must not reach into it."""
    allocation = engine.allocate(64)
    engine.release(allocation)
    assert allocation.host_bytes.size == 0


@pytest.mark.parametrize("size", [4, 8, 4096, 2**20 + 4])
def test_sizes_are_whole_words(engine: Engine, size: int) -> None:
    allocation = engine.allocate(size)
    assert allocation.size_in_bytes == allocation.host_bytes.size == size


def failing(message: str, kind: type[Exception] = RuntimeError) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise kind(message)

    return fail


class BrokenSequence:
    """A sequence that cannot be evaluated."""

    def __init__(self, message: str) -> None:
        self.eval = self.eval_async = self.eval_await = failing(message)


def broken(recording: kompute.Recording, message: str) -> kompute.Recording:
    """The recording, with a sequence that fails."""
    object.__setattr__(recording, "sequence", BrokenSequence(message))
    return recording


def test_komputes_errors_become_dmlvks(engine: Engine, any_device: dml.Device) -> None:
    source, target = engine.allocate(256), engine.allocate(256)
    recording = engine.record([launch(any_device, source, target)])
    message = f"^{re.escape(engine.info.name)}: running on the device failed: some reason$"
    with pytest.raises(dml.DmlError, match=message) as caught:
        engine.run(broken(recording, "some reason"))
    assert isinstance(caught.value.__cause__, RuntimeError)
    fill(engine, source, VALUES)
    engine.run(engine.record([launch(any_device, source, target)]))  # the device is not lost
    assert np.array_equal(contents_of(engine, target), np.sign(VALUES))


def test_lost_device_stays_lost(engine: Engine, any_device: dml.Device) -> None:
    """Rule 101: DeviceRemovedError from then on, everywhere, with the cause; closing still works."""
    source, target = engine.allocate(256), engine.allocate(256)
    recording = engine.record([launch(any_device, source, target)])
    cause = "vk::Device::waitForFences: ErrorDeviceLost"
    message = f"^{re.escape(engine.info.name)}: the device was lost while running on the device \\({cause}\\)$"
    with pytest.raises(dml.DeviceRemovedError, match=message):
        engine.run(broken(recording, cause))
    calls: list[Callable[[], object]] = [
        engine.check_open,
        lambda: engine.allocate(4),
        lambda: engine.record([]),
        lambda: engine.run(recording),
        lambda: contents_of(engine, source),
        lambda: fill(engine, source, VALUES),
    ]
    for call in calls:
        with pytest.raises(dml.DeviceRemovedError, match=message):
            call()
    assert not engine.is_closed
    engine.release(source)
    engine.close()
    assert engine.is_closed


def test_failure_inside_a_block_is_the_callers_own(engine: Engine) -> None:
    """What the engine's user raises while he writes is no error of Kompute's, and does not lock the engine."""
    allocation = engine.allocate(64)
    with pytest.raises(ZeroDivisionError):
        engine.write(allocation, lambda _: 1 // 0)
    with engine.afterwards, engine.lock, engine.afterwards, engine.lock:
        fill(engine, allocation, range(16))
    with ThreadPoolExecutor(1) as other:
        assert np.array_equal(other.submit(contents_of, engine, allocation).result(10), np.arange(16))


def test_memory_that_kompute_cannot_get_is_given_back_to_the_books(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(engine._memory._promised), engine._memory._allocation_count

    class Manager:
        tensor_t = failing("Memory type index for buffer creation not found")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "_manager", Manager())
        with pytest.raises(dml.DmlError, match=r"allocating 64 bytes failed: Memory type index"):
            engine.allocate(64)
    assert (engine._memory._promised, engine._memory._allocation_count) == before
    engine.allocate(64)


def test_device_that_cannot_be_opened_leaves_nothing_open(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards = []

    def remember(info: dml.DeviceInfo) -> MemoryGuard:
        guards.append(MemoryGuard(info))
        return guards[-1]

    monkeypatch.setattr(kompute, "MemoryGuard", remember)
    monkeypatch.setattr(kompute_library.kompute(), "Manager", failing("vk::createDevice: ErrorInitializationFailed"))
    message = f"^{re.escape(any_device.info.name)}: opening the device failed: .*ErrorInitializationFailed$"
    with pytest.raises(dml.DmlError, match=message):
        dml.Device(any_device.info.index)
    assert len(guards) == 1 and guards[0]._closed


def test_all_open_engines_are_closed_at_exit(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the exit handler does, without an exit: other engines of this process are left alone here."""
    engines = [Engine(any_device.info) for _ in range(2)]
    monkeypatch.setattr(kompute_library, "open_engines", weakref.WeakSet(engines))
    allocation = engines[0].allocate(64)
    kompute_library.close_open_engines()
    assert all(engine.is_closed for engine in engines) and not allocation.tensor.is_init()
    kompute_library.close_open_engines()


def test_engines_that_are_open_are_known_until_they_are_closed(any_device: dml.Device) -> None:
    engine = Engine(any_device.info)
    assert engine in kompute_library.open_engines
    engine.close()
    assert engine not in kompute_library.open_engines
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None


needs_changes = pytest.mark.skipif(
    not hasattr(kompute_library.kompute(), "OpMemoryBarrier"), reason="the unchanged Kompute is installed"
)


@needs_changes
def test_submitted_work_is_waited_for_by_whoever_needs_it(engine: Engine, any_device: dml.Device) -> None:
    source, target, other = (engine.allocate(256) for _ in range(3))
    fill(engine, source, VALUES)
    recording = engine.record([launch(any_device, source, target)])
    needs: list[Callable[[], object]] = [
        lambda: contents_of(engine, target),
        lambda: fill(engine, source, VALUES),
        lambda: engine.submit(engine.record([launch(any_device, target, other)])),
        lambda: engine.submit(recording),
        lambda: engine.wait(recording),
        lambda: engine.release(other),
        lambda: engine.release(target),
    ]
    for need in needs[:4]:
        engine.submit(recording)
        assert recording in engine._running
        need()
        assert recording not in engine._running or need is needs[3]
    engine.wait(recording)
    engine.submit(recording)
    engine.release(other)
    assert recording in engine._running, "work that does not use a buffer is not waited for"
    engine.release(target)
    assert recording not in engine._running


@needs_changes
def test_closing_an_engine_waits_for_what_was_submitted(device: dml.Device) -> None:
    """Pipelines and memory are not destroyed under work that uses them: drivers crash on that, or write elsewhere."""
    engine = Engine(device.info)
    recording = engine.record(long_work(engine, device))
    engine.submit(recording)
    assert recording.sequence.is_running()
    engine.close()
    engine.wait(recording)  # nothing runs any more


@needs_changes
def test_closing_an_engine_whose_work_fails_closes_it(engine: Engine, any_device: dml.Device) -> None:
    source, target = engine.allocate(256), engine.allocate(256)
    recording = engine.record([launch(any_device, source, target)])
    engine.submit(recording)
    engine.wait(recording)
    engine._running[broken(recording, "vk::Device::waitForFences: ErrorDeviceLost")] = None
    engine.close()
    assert engine.is_closed and not engine._running


@needs_changes
def test_other_threads_run_while_the_device_works(engine: Engine, any_device: dml.Device) -> None:
    """The interpreter's lock is free during a long run: a thread that counts is not stopped by it."""
    recording = engine.record(long_work(engine, any_device))
    engine.run(recording)

    def share_of_standstill() -> float:
        """The longest time for which the other thread stood still, by what the run took."""
        done = threading.Event()
        longest = 0.0

        def watch() -> None:
            nonlocal longest
            last = time.perf_counter()
            while not done.is_set():
                time.sleep(0.001)
                now = time.perf_counter()
                longest, last = max(longest, now - last), now

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        engine.run(recording)
        took = time.perf_counter() - start
        done.set()
        watcher.join()
        return longest / took

    shares = (share_of_standstill() for _ in range(5))
    assert any(share < 0.5 for share in shares), "other programs stop a thread now and then, the lock in each run"


def test_a_kompute_that_cannot_be_loaded_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one line that a Python, system or C library gets that no wheel serves."""
    broken = tmp_path / "libdmlvk_kompute.so"
    broken.write_bytes(b"\x7fELF")
    cases = [
        (broken, "", r"cannot be loaded by Python 3\.\d+ on \S+ with glibc 2\.\d+: .*glibc 2\.28 or newer, Windows"),
        (tmp_path / "none.so", "", r"is not in this installation \(Python 3.*none\.so is missing\. Install dmlvk's"),
        (broken, "kp", r"^kp, for which DMLVK_KOMPUTE=kp asks, cannot be loaded by Python 3"),
        (broken, "other", r"^DMLVK_KOMPUTE=other: it may be kp, or not be set"),
    ]
    monkeypatch.setitem(sys.modules, "kp", None)  # whoever imports it is told that it is not there
    monkeypatch.delitem(sys.modules, "dmlvk.runtime.bundled", raising=False)
    monkeypatch.delattr("dmlvk.runtime.bundled", raising=False)
    try:
        for library, chosen, said in cases:
            for module in (kompute_choice, kompute_library):
                monkeypatch.setattr(module, "LIBRARY", library)
            monkeypatch.setenv("DMLVK_KOMPUTE", chosen)
            kompute_library.kompute.cache_clear()
            with pytest.raises(dml.UnsupportedError, match=said) as caught:
                kompute_library.kompute()
            assert "\n" not in str(caught.value)
    finally:
        kompute_library.kompute.cache_clear()
