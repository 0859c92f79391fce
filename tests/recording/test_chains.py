"""Recorded work gives what NumPy gives, in the order that it was recorded in, however it is recorded and submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlvk as dml
from dmlvk.runtime import kompute
from tests.binding.support import (
    Binding,
    buffer_with,
    compiled,
    execute,
    floats,
    greater_than,
    select,
    sign,
    table_for,
    threshold,
)

SLOT_FLOATS = 24
SLOT_BYTES = 4 * SLOT_FLOATS
SLOTS_PER_BUFFER = 4
BUFFER_COUNT = 2
SLOT_COUNT = SLOTS_PER_BUFFER * BUFFER_COUNT
LOWEST = float(np.finfo(np.float32).min)

Floats = npt.NDArray[np.float32]


class Step(NamedTuple):
    """One dispatch: an operator by name, and the slots that it reads and writes."""

    operator: str
    reads: tuple[int, ...]
    writes: int


def scaled(values: Floats, scale: float, bias: float) -> Floats:
    """x * scale + bias, rounded once; denormals count as zero."""
    flushed = np.where(np.abs(values) < np.finfo(np.float32).tiny, 0, values).astype(np.float64)
    return (flushed * scale + bias).astype(np.float32)


def as_bytes(values: Floats) -> npt.NDArray[np.uint8]:
    return values.view(np.uint8)[:SLOT_FLOATS]


TENSOR = floats(SLOT_FLOATS)
OPERATORS: dict[str, tuple[dml.OperatorDesc, Callable[..., Floats]]] = {
    "sign": (sign(TENSOR), np.sign),
    "increment": (threshold(TENSOR, LOWEST, scale_bias=dml.ScaleBias(1, 1)), lambda x: scaled(x, 1, 1)),
    "negate": (threshold(TENSOR, LOWEST, scale_bias=dml.ScaleBias(-1, 0.5)), lambda x: scaled(x, -1, 0.5)),
    "at least one": (threshold(TENSOR, 1.0), lambda x: np.maximum(x, np.float32(1))),
    "greater": (greater_than(SLOT_FLOATS), lambda a, b: (a > b).astype(np.uint32).view(np.float32)),
    "select": (select(SLOT_FLOATS), lambda c, a, b: np.where(as_bytes(c) != 0, a, b)),
}
INPUT_COUNTS = {"greater": 2, "select": 3}
IN_PLACE = ("sign", "increment", "negate", "at least one")


class Machine:
    """Slots of two buffers on a device, with the same slots as NumPy arrays."""

    def __init__(self, device: dml.Device) -> None:
        self.device = device
        self.slots = np.zeros((SLOT_COUNT, SLOT_FLOATS), np.float32)
        self.buffers = [device.create_buffer(SLOTS_PER_BUFFER * SLOT_BYTES) for _ in range(BUFFER_COUNT)]
        self.operators = {name: compiled(device, desc) for name, (desc, _) in OPERATORS.items()}

    def fill(self, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.slots = generator.integers(-3, 4, (SLOT_COUNT, SLOT_FLOATS)).astype(np.float32)
        for buffer, part in zip(self.buffers, np.split(self.slots, BUFFER_COUNT), strict=True):
            buffer.upload(part)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        for buffer in self.buffers:
            buffer.close()

    def binding(self, slot: int, size: int = SLOT_BYTES) -> Binding:
        buffer, position = divmod(slot, SLOTS_PER_BUFFER)
        return Binding(self.buffers[buffer], position * SLOT_BYTES, size)

    def recorder(self, *steps: Step) -> dml.CommandRecorder:
        recorder = self.device.create_command_recorder()
        self.record(recorder, *steps)
        return recorder

    def record(self, recorder: dml.CommandRecorder, *steps: Step) -> None:
        for step in steps:
            operator = self.operators[step.operator]
            inputs = [self.binding(slot) for slot in step.reads]
            recorder.record_dispatch(operator, table_for(operator, inputs, [self.binding(step.writes)]))

    def compute(self, *steps: Step) -> None:
        """Carries steps out in NumPy."""
        for step in steps:
            self.slots[step.writes] = OPERATORS[step.operator][1](*(self.slots[slot] for slot in step.reads))

    def check(self, *steps: Step) -> None:
        """The device has what NumPy has, bit for bit, once NumPy has carried out these steps as well."""
        self.compute(*steps)
        found = np.concatenate([buffer.download(np.uint32) for buffer in self.buffers])
        assert np.array_equal(found, self.slots.view(np.uint32).reshape(-1))


@pytest.fixture(scope="module", params=["mapped memory", "staged memory"])
def lasting_machine(request: pytest.FixtureRequest, device: dml.Device) -> Iterator[Machine]:
    """One for all tests: SwiftShader takes 50 ms for each pipeline, one for an operator and a choice of buffers.

    CPU drivers have mapped memory; with staging they do what discrete GPUs do.
    """
    if request.param == "mapped memory":
        with Machine(device) as made:
            yield made
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kompute.Engine, "_needs_staging", property(lambda self: True))
        with dml.Device(device.info.index) as staged, Machine(staged) as made:
            yield made


@pytest.fixture
def machine(lasting_machine: Machine) -> Machine:
    lasting_machine.fill()
    return lasting_machine


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """A dispatch that the aliasing rules allow."""
    operator = draw(st.sampled_from(sorted(OPERATORS)))
    slots = st.integers(0, SLOT_COUNT - 1)
    count = INPUT_COUNTS.get(operator, 1)
    reads = tuple(draw(st.lists(slots, min_size=count, max_size=count)))
    allowed = slots if operator in IN_PLACE else slots.filter(lambda slot: slot not in reads)
    return Step(operator, reads, draw(allowed))


def random_steps(count: int, seed: int) -> list[Step]:
    """Steps of all operators, without hypothesis."""
    generator = np.random.default_rng(seed)
    found: list[Step] = []
    while len(found) < count:
        operator = str(generator.choice(sorted(OPERATORS)))
        reads = tuple(int(slot) for slot in generator.integers(0, SLOT_COUNT, INPUT_COUNTS.get(operator, 1)))
        writes = int(generator.integers(0, SLOT_COUNT))
        if operator in IN_PLACE or writes not in reads:
            found.append(Step(operator, reads, writes))
    return found


on_devices = settings(max_examples=40)


@given(program=st.lists(steps(), min_size=2, max_size=40), splits=st.integers(1, 3))
@on_devices
def test_any_program_gives_numpys_result(lasting_machine: Machine, program: list[Step], splits: int) -> None:
    """2 to 40 dispatches over shared buffers, in one to three submissions."""
    lasting_machine.fill()
    for part in np.array_split(np.arange(len(program)), splits):
        lasting_machine.recorder(*(program[index] for index in part)).execute()
    lasting_machine.check(*program)


@pytest.mark.parametrize("length", [2, 3, 7, 20, 40])
def test_a_chain_counts_its_dispatches(machine: Machine, length: int) -> None:
    """Each dispatch adds one to what the one before wrote: a missing one, or one out of order, changes the number."""
    start = machine.slots[0].copy()
    steps = [Step("increment", (i % SLOT_COUNT,), (i + 1) % SLOT_COUNT) for i in range(length)]
    recorder = machine.recorder(*steps)
    recorder.execute()
    last = machine.binding(length % SLOT_COUNT)
    result = last.buffer.download(np.float32, SLOT_FLOATS, last.offset)
    assert np.array_equal(result, start + length)
    assert [dispatch.depends for dispatch in recorder.dispatches] == [False, *[True] * (length - 1)]


@pytest.mark.parametrize("length", [2, 40])
def test_a_chain_in_place_counts_its_dispatches(machine: Machine, length: int) -> None:
    machine.recorder(*[Step("increment", (4,), 4)] * length).execute()
    machine.slots[4] += length
    machine.check()


def test_a_chain_over_large_tensors(device: dml.Device) -> None:
    """Many work groups of a dispatch still run when the next one could begin, were it not for the dependency."""
    tensor = floats(2**20 + 3)
    values = np.random.default_rng(5).integers(-1000, 1000, tensor.element_count).astype(np.float32)
    operator = compiled(device, threshold(tensor, LOWEST, scale_bias=dml.ScaleBias(1, 1)))
    with buffer_with(device, values) as first, device.create_buffer(values.nbytes) as second:
        recorder = device.create_command_recorder()
        for i in range(6):
            pair = (first, second) if i % 2 == 0 else (second, first)
            recorder.record_dispatch(operator, table_for(operator, [Binding(pair[0])], [Binding(pair[1])]))
        recorder.execute()
        assert np.array_equal(first.download(np.float32), values + 6)
        assert np.array_equal(second.download(np.float32), values + 5)


def test_executing_again_runs_everything_again(machine: Machine) -> None:
    program = random_steps(12, seed=1)
    recorder = machine.recorder(*program)
    for _ in range(4):
        recorder.execute()
        machine.check(*program)


def test_recording_goes_on_after_executing(machine: Machine) -> None:
    """What was recorded stays recorded: the second run does all of it."""
    first, second = Step("increment", (0,), 1), Step("increment", (1,), 0)
    recorder = machine.recorder(first)
    recorder.execute()
    machine.record(recorder, second)
    recorder.execute()
    machine.check(first, first, second)


def test_uploads_between_runs_are_seen(machine: Machine) -> None:
    """Whole buffers and parts of them, of buffers that the recording reads and of ones that it writes."""
    program = [Step("increment", (0,), 3), Step("negate", (3,), 6), Step("at least one", (1,), 1)]
    recorder = machine.recorder(*program)
    generator = np.random.default_rng(2)
    for round_number in range(6):
        slot = int(generator.integers(0, SLOT_COUNT))
        fresh = generator.integers(-9, 9, SLOT_FLOATS).astype(np.float32)
        if round_number % 2:
            machine.slots[slot] = fresh
            target = machine.binding(slot)
            target.buffer.upload(fresh, target.offset)
        else:
            first = slot // SLOTS_PER_BUFFER * SLOTS_PER_BUFFER
            machine.slots[first : first + SLOTS_PER_BUFFER] = fresh
            machine.buffers[slot // SLOTS_PER_BUFFER].upload(np.tile(fresh, SLOTS_PER_BUFFER))
        recorder.execute()
        machine.check(*program)


def test_single_bytes_can_be_uploaded_to_what_the_device_wrote(machine: Machine) -> None:
    """An upload to part of a buffer keeps what the device left in the rest."""
    step = Step("increment", (0,), 1)
    machine.recorder(step).execute()
    machine.compute(step)
    machine.buffers[0].upload(np.array([0x7F], np.uint8), SLOT_BYTES + 5)
    machine.slots.view(np.uint8)[1, 5] = 0x7F
    machine.check()


def test_downloads_between_runs_change_nothing(machine: Machine) -> None:
    steps = Step("increment", (2,), 5), Step("increment", (5,), 2)
    recorder = machine.recorder()
    for _ in range(3):
        machine.record(recorder, *steps)
        for buffer in machine.buffers:
            buffer.download()[:] = 99  # a copy: nothing that is done to it comes back
    machine.check()
    recorder.execute()
    machine.check(*steps * 3)


def test_submit_and_wait_are_execute_in_two_steps(machine: Machine) -> None:
    step = Step("increment", (0,), 7)
    recorder = machine.recorder(step)
    recorder.submit()
    recorder.wait()
    recorder.wait()
    machine.check(step)


def test_nothing_recorded_is_nothing_to_do(machine: Machine) -> None:
    recorder = machine.recorder()
    recorder.execute()
    recorder.submit()
    recorder.wait()
    machine.record(recorder, Step("increment", (0,), 7))
    recorder.reset()
    recorder.execute()
    machine.check()


def test_reset_begins_anew(machine: Machine) -> None:
    recorder = machine.recorder()
    for step in (Step("increment", (0,), 1), Step("negate", (2,), 3)):
        machine.record(recorder, step)
        recorder.execute()
        machine.check(step)
        recorder.reset()


def test_recorders_may_be_filled_and_run_in_turns(machine: Machine) -> None:
    """Each knows its own dispatches only; what they run, they run in the order of the calls."""
    recorders = [machine.recorder() for _ in range(2)]
    programs = (random_steps(9, seed=3), random_steps(9, seed=4))
    for pair in zip(*programs, strict=True):
        for recorder, step in zip(recorders, pair, strict=True):
            machine.record(recorder, step)
    for index in (0, 1, 1, 0):
        recorders[index].execute()
        machine.check(*programs[index])


def test_many_dispatches_go_in_one_submission(device: dml.Device) -> None:
    """Over a thousand, with one pipeline: a dispatch at another offset needs none of its own."""
    count = 1200
    values = np.random.default_rng(6).standard_normal(4 * count).astype(np.float32)
    operator = compiled(device, sign(floats(4)))
    with buffer_with(device, values) as source, device.create_buffer(values.nbytes) as target:
        recorder = device.create_command_recorder()
        for i in range(count):
            here = 16 * i, 16
            recorder.record_dispatch(operator, table_for(operator, [Binding(source, *here)], [Binding(target, *here)]))
        recorder.execute()
        assert np.array_equal(target.download(np.float32), np.sign(values))
        assert not any(dispatch.depends for dispatch in recorder.dispatches)


def test_buffer_that_was_closed_since_is_named(machine: Machine) -> None:
    """Rule 104: refused before it reaches the device; the rest still works after reset."""
    first, second = Step("increment", (0,), 3), Step("increment", (3,), 0)
    recorder = machine.recorder(first)
    with machine.device.create_buffer(SLOT_BYTES) as short_lived:
        operator = machine.operators["sign"]
        recorder.record_dispatch(operator, table_for(operator, [machine.binding(0)], [Binding(short_lived)]))
        recorder.execute()
        machine.compute(first)
        assert np.array_equal(short_lived.download(np.float32), np.sign(machine.slots[0]))
    message = r"^ELEMENT_WISE_SIGN: OutputTensor: the buffer was closed after the dispatch was recorded$"
    for call in (recorder.execute, recorder.submit):
        with pytest.raises(dml.InvalidArgumentError, match=message):
            call()
    machine.check()  # nothing of the refused submission was run
    recorder.reset()
    machine.record(recorder, second)
    recorder.execute()
    machine.check(second)


def test_closing_a_device_ends_its_recorders(any_device: dml.Device) -> None:
    """Rule 101, also with work recorded and run before."""
    with dml.Device(any_device.info.index) as device, Machine(device) as machine:
        recorder = machine.recorder(Step("increment", (0,), 1))
        recorder.execute()
        device.close()
        for call in (recorder.execute, recorder.submit, lambda: machine.record(recorder, Step("sign", (0,), 1))):
            with pytest.raises(dml.DeviceRemovedError, match="the device was closed"):
                call()
        recorder.wait()
        recorder.reset()


def test_a_failed_recording_leaves_the_recorder_usable(machine: Machine) -> None:
    step = Step("increment", (0,), 1)
    recorder, operator = machine.recorder(step), machine.operators["sign"]
    with pytest.raises(dml.InvalidArgumentError, match="its inputs are not bound"):
        recorder.record_dispatch(operator, table_for(operator))
    assert len(recorder.dispatches) == 1
    recorder.execute()
    machine.check(step)


def test_single_dispatches_and_recorded_ones_see_each_other(machine: Machine) -> None:
    """Buffers keep their contents between submissions of different recorders."""
    execute(machine.operators["increment"], [machine.binding(0)], [machine.binding(4)])
    execute(machine.operators["increment"], [machine.binding(4)], [machine.binding(7)])
    machine.check(Step("increment", (0,), 4), Step("increment", (4,), 7))


def test_kernels_are_timed_on_the_device(device: dml.Device) -> None:
    operator = compiled(device, threshold(TENSOR))
    buffer = device.create_buffer(2 * SLOT_BYTES + 64)
    recorder = device.create_command_recorder(timestamps=True)
    with pytest.raises(dml.InvalidArgumentError, match="nothing was submitted yet"):
        recorder.kernel_times()
    for source, target in ((0, 128), (128, 0)):
        ranges = [[Binding(buffer, offset, SLOT_BYTES)] for offset in (source, target)]
        recorder.record_dispatch(operator, table_for(operator, *ranges))
    recorder.execute()
    first, second = recorder.kernel_times()
    assert first.label == second.label == "ELEMENT_WISE_THRESHOLD"
    assert 0 <= first.start < second.start
    assert first.start + first.seconds <= second.start + 1e-9
    assert 0 < second.seconds < 10
    with pytest.raises(dml.InvalidArgumentError, match="without timestamps"):
        device.create_command_recorder().kernel_times()


def test_times_are_those_of_what_was_submitted(any_device: dml.Device) -> None:
    """Neither what is recorded later counts, nor is anything left of a device that was closed."""
    with dml.Device(any_device.info.index) as own:
        operator, buffer = compiled(own, threshold(TENSOR)), own.create_buffer(SLOT_BYTES + 128)
        recorder = own.create_command_recorder(timestamps=True)
        table = table_for(operator, [Binding(buffer, 0, SLOT_BYTES)], [Binding(buffer, 128, SLOT_BYTES)])
        recorder.record_dispatch(operator, table)
        recorder.execute()
        times = recorder.kernel_times()
        recorder.record_dispatch(operator, table)
        assert len(recorder.dispatches) == 2
        assert recorder.kernel_times() == times
        recorder.execute()
        assert len(recorder.kernel_times()) == 2
    with pytest.raises(dml.DeviceRemovedError, match="the device was closed"):
        recorder.kernel_times()
