"""What the validation layer says of recordings, of marked stores, coefficients and volatile bindings."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.samples import sample_cases
from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library import coefficients
from dmlvk.runtime.kompute_choice import is_bundled
from dmlvk.runtime.validation import LAYER
from dmlvk.spirv import cooperative_types
from tests.binding.support import Binding, buffer_with, compiled, floats, sign, table_for
from tests.graphs.support import fused
from tests.processes import python

PROGRAM = """
import json, re, sys
import numpy as np
import dmlvk as dml
from dmlvk.objects.recording import HazardTracker
from dmlvk.running import host_runs
from dmlvk.runtime import kompute, recorder, validation

chains, dependencies = json.loads(sys.argv[1])
if dependencies == "none":
    HazardTracker.depends = lambda self, reads, writes, is_independent=False: False
elif dependencies.startswith("staged"):
    kompute.Engine._needs_staging = property(lambda self: True)
    host_runs.MOST_BYTES_NEAR_HOST = 0
    if dependencies == "staged, copies not awaited":
        recorder.RecordedOperations.wait_for_copies = lambda self, used: None
elif dependencies != "followed":
    # As with the unchanged Kompute, which has no memory barriers.
    validation.synchronization_enabled = lambda: False
    kompute.Engine._needs_staging = property(lambda self: dependencies == "one word, staged")
    kompute.Engine._has_barriers = property(lambda self: False, lambda self, value: None)
messages = []

def collect(context, *, except_for=lambda message: False):
    messages.extend(message for message in validation.new_messages() if not except_for(message))

validation.raise_new_messages = collect

tensor = dml.TensorDesc(dml.FLOAT32, (64,))
desc = dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor)
values = np.arange(64, dtype=np.float32)

def run(device, chain):
    if chain == "run":
        for _ in range(2):
            assert np.array_equal(device.run(desc, {"InputTensor": values})["OutputTensor"], np.sign(values))
        return
    operator = device.compile_operator(device.create_operator(desc))
    buffers = {name: device.create_buffer(512) for name in "ABCD"}
    buffers["A"].upload(values)
    recorder = device.create_command_recorder()
    for step in chain.split():
        (source, *source_half), (target, *target_half) = step.split(">")
        table = device.create_binding_table(operator)
        table.bind_inputs([dml.BufferBinding(buffers[source], 256 * bool(source_half), 256)])
        table.bind_outputs([dml.BufferBinding(buffers[target], 256 * bool(target_half), 256)])
        recorder.record_dispatch(operator, table)
    recorder.execute()
    recorder.execute()
    buffers["A"].download()

found = {}
for chain in chains:
    with dml.Device(0) as device:
        run(device, chain)
    collect("the end")
    found[chain] = [(m.identifier, re.search("vkCmd([A-Za-z]+)", m.text)[1]) for m in messages]
    messages.clear()
print(json.dumps(found))
"""

Found = set[tuple[str, str]]

Dependencies = Literal["followed", "staged", "staged, copies not awaited", "one word", "one word, staged", "none"]

READ_AFTER_WRITE = {("SYNC-HAZARD-READ-AFTER-WRITE", "Dispatch")}

WRITE_AFTER_READ = {("SYNC-HAZARD-WRITE-AFTER-READ", "Dispatch")}

IN_PLACE = "A>A A>A A>B"

INDEPENDENT = ("run", "A>A", "A>A'", "A>B C>D", "A>B A>C A>D", "A>B A>B'")

# Each chain has a hazard between every two neighbours, or one that a dependency placed for another pair settles.
DEPENDENT: dict[str, Found] = {
    "A>B B>C": READ_AFTER_WRITE,
    "A>B B>C C>D": READ_AFTER_WRITE,
    "A>B C>A": WRITE_AFTER_READ,
    "A>B B>A": READ_AFTER_WRITE | WRITE_AFTER_READ,
    "A>B A>C D>A": WRITE_AFTER_READ,
    "A>B C>D B>C D>A": READ_AFTER_WRITE | WRITE_AFTER_READ,
    "A>B B>C A>D D>B": READ_AFTER_WRITE | WRITE_AFTER_READ,
}


@functools.cache
def all_hazards(dependencies: Dependencies) -> dict[str, Found]:
    """What the layer says while a process records and runs each chain: rules and the commands that break them.

    A chain is ``"run"`` for ``Device.run``, or dispatches from buffer to buffer: ``"A>B B>C"``; ``B'`` is the other
    half of B.

    Args:
        dependencies: ``"followed"``: as dmlvk makes them under synchronization validation, where it copies what was
            written; ``"staged"``: the same in memory that the host cannot see; ``"staged, copies not awaited"``:
            without the barrier behind uploads; ``"one word"`` and ``"one word, staged"``: as it makes them otherwise,
            in memory that the host can see directly, or not; ``"none"``: the recorder is kept from placing any.
    """
    finished = python(
        "-c",
        PROGRAM,
        json.dumps([[IN_PLACE, *INDEPENDENT, *DEPENDENT], dependencies]),
        env={"DMLVK_VALIDATION": "sync"},
        timeout=120,
    )
    if "asks for VK_LAYER_KHRONOS_validation, which the Vulkan loader does not find" in finished.stderr:
        pytest.fail("needs the Vulkan validation layer: apt install vulkan-validationlayers", pytrace=False)
    assert finished.returncode == 0, finished.stderr
    return {chain: {(rule, command) for rule, command in found} for chain, found in json.loads(finished.stdout).items()}


def hazards(chain: str, dependencies: Dependencies) -> Found:
    return all_hazards(dependencies)[chain]


@pytest.mark.parametrize("dependencies", ["followed", "staged", "one word", "one word, staged", "none"])
@pytest.mark.parametrize("chain", INDEPENDENT)
def test_nothing_is_reported_where_nothing_depends(chain: str, dependencies: Dependencies) -> None:
    """A plain run, in place, halves of a buffer, independent dispatches, shared inputs, disjoint outputs."""
    assert hazards(chain, dependencies) == set()


@pytest.mark.parametrize("chain", DEPENDENT)
def test_recorders_dependencies_are_where_the_layer_wants_barriers(chain: str) -> None:
    """The layer complains without them and is silent with them: the recorder's decisions, judged by somebody else."""
    assert hazards(chain, "none") == DEPENDENT[chain]
    assert hazards(chain, "followed") == set()
    assert hazards(chain, "staged") == set()


def test_dispatches_wait_for_uploads() -> None:
    """One barrier behind a recording's uploads serves its dispatches, which have none; the layer sees one recording."""
    if not is_bundled():
        pytest.skip("the unchanged Kompute puts barriers before each dispatch")
    assert hazards("run", "staged, copies not awaited") == READ_AFTER_WRITE
    assert hazards("run", "staged") == set()


def test_dispatches_in_place_depend_on_each_other() -> None:
    """Which of the two hazards the layer names follows from the order in which it looks at a dispatch's bindings."""
    assert hazards(IN_PLACE, "none") <= READ_AFTER_WRITE | WRITE_AFTER_READ
    assert hazards(IN_PLACE, "none")
    assert hazards(IN_PLACE, "followed") == set()


@pytest.mark.parametrize("chain", [chain for chain, found in DEPENDENT.items() if found == WRITE_AFTER_READ])
@pytest.mark.parametrize("dependencies", ["one word", "one word, staged"])
def test_copy_of_one_word_orders_dispatches(chain: str, dependencies: Dependencies) -> None:
    """What dmlvk records otherwise is an execution dependency, which is all that write after read needs."""
    assert hazards(chain, "none") == WRITE_AFTER_READ
    assert hazards(chain, dependencies) == set()


@pytest.mark.parametrize("chain", [chain for chain, found in DEPENDENT.items() if found != WRITE_AFTER_READ])
def test_memory_dependency_of_the_copy_is_beyond_the_layer(chain: str) -> None:
    """It knows nothing of ``coherent``. Should this fail because it finds less, then the layer has learnt it."""
    assert hazards(chain, "one word") == READ_AFTER_WRITE


def instructions(spirv: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """A module's instructions: number and operands."""
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    at = 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        yield opcode, words[at + 1 : at + length]
        at += length


@pytest.mark.sweep
def test_every_buffer_of_every_shader_is_coherent() -> None:
    """What makes a dispatch's writes available, and visible to the next one, without naming them in a barrier."""
    type_struct, type_pointer, member_decorate, coherent = 30, 32, 72, 23
    storage_classes = 2, 12  # Uniform (buffers, up to SPIR-V 1.2) and StorageBuffer; the shaders use no uniform blocks
    for variant in all_variants():
        if variant.source in cooperative_types.SOURCES:
            continue  # its memory model knows no such buffers: it is for devices with barriers alone
        structs: dict[int, int] = {}
        in_buffers: set[int] = set()
        marked: set[tuple[int, int]] = set()
        spirv = library.load(variant.name)
        for opcode, operands in instructions(spirv):
            if opcode == type_struct:
                structs[operands[0]] = len(operands) - 1
            elif opcode == type_pointer and operands[1] in storage_classes:
                in_buffers.add(operands[2])
            elif opcode == member_decorate and operands[2] == coherent:
                marked.add(operands[:2])  # type: ignore[arg-type]  # two of them
        buffers = in_buffers & structs.keys()
        assert buffers, f"{variant.name} has no buffers"
        unmarked = {(block, member) for block in buffers for member in range(structs[block])} - marked
        # A lookup's table is written by a submission of its own, which was waited for, and coefficients before anything
        # is submitted; so they may stay in nearer caches.
        defines = dict(variant.defines)
        inputs = defines.get("INPUT_COUNT")
        is_looked_up = variant.name.startswith("lookup.")
        reads_coefficients = not is_looked_up and (
            (inputs is not None and coefficients.are_read_by(spirv, int(inputs) + 1))
            or defines.get("ANY_ACTIVATION") == "1"
        )
        assert len(unmarked) == is_looked_up + reads_coefficients, variant.name


TENSOR = dml.TensorDesc(dml.FLOAT32, (64,))

GELU = dml.ActivationGelu(input_tensor=TENSOR, output_tensor=TENSOR)

TAN = dml.ElementWiseTan(input_tensor=TENSOR, output_tensor=TENSOR)

EXP = dml.ElementWiseExp(input_tensor=TENSOR, output_tensor=TENSOR)


def recorded(device: dml.Device, desc: dml.OperatorDesc) -> dml.CommandRecorder:
    compiled = device.compile_operator(device.create_operator(desc))
    table = device.create_binding_table(compiled)
    buffers = [device.create_buffer(TENSOR.size_in_bytes) for _ in range(2)]
    table.bind_inputs([dml.BufferBinding(buffers[0], 0, TENSOR.size_in_bytes)])
    table.bind_outputs([dml.BufferBinding(buffers[1], 0, TENSOR.size_in_bytes)])
    recorder = device.create_command_recorder()
    recorder.record_dispatch(compiled, table)
    return recorder


def test_kernels_that_read_coefficients_share_them(device: dml.Device) -> None:
    recorders = [recorded(device, desc) for desc in (GELU, TAN, EXP)]
    operands = [recorder.dispatches[0].steps[0].launch(device.engine).allocations for recorder in recorders]
    assert [len(each) for each in operands] == [3, 3, 2]
    assert operands[0][2] is operands[1][2] is device.engine.shared(coefficients.contents())


def test_submissions_that_share_coefficients_do_not_wait_for_each_other(device: dml.Device) -> None:
    recorders = [recorded(device, desc) for desc in (GELU, TAN)]  # which keep their buffers
    launches = [recorder.dispatches[0].steps[0].launch(device.engine) for recorder in recorders]
    recordings = [device.engine.record([launch]) for launch in launches]
    shared = device.engine.shared(coefficients.contents())
    for launch, recording in zip(launches, recordings, strict=True):
        assert recording.bound == frozenset(launch.allocations) - {shared}
    assert not recordings[0].bound & recordings[1].bound


def test_a_fused_kernel_reads_them_behind_all_of_its_outputs(device: dml.Device) -> None:
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, (1027,))
    half = x * 0.5
    outputs = {
        "half": half,
        "gelu": F.activation_gelu(half),
        "sum": F.acosh(abs(F.tan(half)) + 1) + F.activation_softplus(half),
    }
    values = {"x": np.random.default_rng(5).normal(0, 4, 1027).astype(np.float32)}
    (stage,) = fused(device, graph, outputs, values).stages
    assert len(stage.writes) == 3


def test_a_package_without_them_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(coefficients, "_FILE", tmp_path / "none.bin")
    coefficients.contents.cache_clear()
    try:
        with pytest.raises(dml.ShaderLibraryError, match="coefficients cannot be read"):
            coefficients.contents()
    finally:
        monkeypatch.undo()
        coefficients.contents.cache_clear()
    assert len(coefficients.contents()) % 16 == 0


def test_closing_the_device_frees_them() -> None:
    with dml.Device() as device:
        x = np.linspace(-3, 3, 64, dtype=np.float32)
        assert device.run(GELU, {"InputTensor": x})["OutputTensor"].shape == (64,)
        engine = device.engine
    with pytest.raises(dml.DeviceRemovedError):
        engine.shared(coefficients.contents())


VALIDATED_PROGRAM = """
import itertools, sys
import dmlvk as dml
from dmlvk.conformance.samples import sample_cases
from dmlvk.runtime import validation

assert validation.enabled()
device, names = int(sys.argv[1]), set(sys.argv[2].split(","))
with dml.Device(device) as opened:
    for case in sample_cases():
        if case.desc_class.operator_name not in names:
            continue
        names.remove(case.desc_class.operator_name)
        sample = next(sample for sample in case.samples())
        try:
            opened.run(sample.desc, dict(sample.inputs))
        except dml.DmlError as error:
            print(f"{case.name}, {sample.name}: {error}")
"""

_NAMES = sorted({case.desc_class.operator_name for case in sample_cases()})

_AT_ONCE = 8


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, len(_NAMES), _AT_ONCE), ids=lambda first: _NAMES[first].lower())
def test_validation_is_silent(first: int, device: dml.Device) -> None:
    finished = python(
        "-c",
        VALIDATED_PROGRAM,
        str(device.info.index),
        ",".join(_NAMES[first : first + _AT_ONCE]),
        env={"DMLVK_VALIDATION": "1"},
        timeout=600,
    )
    if f"asks for {LAYER}, which the Vulkan loader does not find" in finished.stderr:
        pytest.fail("needs the Vulkan validation layer: apt install vulkan-validationlayers", pytrace=False)
    assert finished.returncode == 0, finished.stderr
    assert not finished.stdout, finished.stdout


VALUES = np.linspace(-3, 3, 16, dtype=np.float32)


class Setting(NamedTuple):
    """SIGN with volatile descriptors, two inputs and two outputs to choose from."""

    device: dml.Device
    operator: dml.CompiledOperator
    inputs: tuple[dml.Buffer, dml.Buffer]
    outputs: tuple[dml.Buffer, dml.Buffer]


@pytest.fixture
def setting(device: dml.Device) -> Iterator[Setting]:
    operator = device.compile_operator(
        device.create_operator(sign(floats(16))), dml.ExecutionFlags.DESCRIPTORS_VOLATILE
    )
    with (
        buffer_with(device, VALUES) as first,
        buffer_with(device, -VALUES) as second,
        device.create_buffer(64) as third,
        device.create_buffer(64) as fourth,
    ):
        yield Setting(device, operator, (first, second), (third, fourth))


def test_bindings_are_read_at_every_submission(setting: Setting) -> None:
    table = setting.device.create_binding_table(setting.operator)
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)  # nothing is bound yet
    for number in (0, 1, 1, 0):
        table.bind_inputs([Binding(setting.inputs[number])])
        table.bind_outputs([Binding(setting.outputs[number])])
        setting.outputs[number].upload(np.full(16, 7, np.float32))
        recorder.execute()
        expected = np.sign(VALUES) if number == 0 else np.sign(-VALUES)
        assert np.array_equal(setting.outputs[number].download(np.float32), expected)


def test_what_is_missing_is_missed_when_it_is_submitted(setting: Setting) -> None:
    table = setting.device.create_binding_table(setting.operator)
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its inputs are not bound$"):
        recorder.execute()
    table.bind_inputs([Binding(setting.inputs[0])])
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its outputs are not bound$"):
        recorder.submit()
    table.bind_outputs([Binding(setting.outputs[0])])
    recorder.execute()
    assert np.array_equal(setting.outputs[0].download(np.float32), np.sign(VALUES))


def test_dependencies_follow_the_bindings(setting: Setting) -> None:
    """Two dispatches that are independent or not, depending on what is bound when they are submitted."""
    tables = [setting.device.create_binding_table(setting.operator) for _ in range(2)]
    recorder = setting.device.create_command_recorder()
    for table in tables:
        recorder.record_dispatch(setting.operator, table)
    tables[0].bind_inputs([Binding(setting.inputs[0])])
    tables[0].bind_outputs([Binding(setting.outputs[0])])
    tables[1].bind_inputs([Binding(setting.inputs[1])])
    tables[1].bind_outputs([Binding(setting.outputs[1])])
    recorder.execute()
    assert [dispatch.depends for dispatch in recorder.dispatches] == [False, False]
    tables[1].bind_inputs([Binding(setting.outputs[0])])
    recorder.execute()
    assert [dispatch.depends for dispatch in recorder.dispatches] == [False, True]
    assert np.array_equal(setting.outputs[1].download(np.float32), np.sign(VALUES))


def test_other_operators_keep_what_was_bound_when_they_were_recorded(setting: Setting) -> None:
    """Rule 43 holds without the flag, beside an operator that has it."""
    plain = compiled(setting.device, sign(floats(16)))
    first = table_for(plain, [Binding(setting.inputs[0])], [Binding(setting.outputs[0])])
    late = setting.device.create_binding_table(setting.operator)
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(plain, first)
    recorder.record_dispatch(setting.operator, late)
    first.bind_inputs([Binding(setting.inputs[1])])
    late.bind_inputs([Binding(setting.inputs[1])])
    late.bind_outputs([Binding(setting.outputs[1])])
    recorder.execute()
    assert np.array_equal(setting.outputs[0].download(np.float32), np.sign(VALUES))
    assert np.array_equal(setting.outputs[1].download(np.float32), np.sign(-VALUES))


def test_the_table_belongs_to_the_operator_until_it_is_submitted(setting: Setting) -> None:
    table = table_for(setting.operator, [Binding(setting.inputs[0])], [Binding(setting.outputs[0])])
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)
    table.reset(compiled(setting.device, sign(floats(4))))
    with pytest.raises(dml.InvalidArgumentError, match=r"^ELEMENT_WISE_SIGN: its binding table was reset for another"):
        recorder.execute()
    table.reset(setting.operator)
    table.bind_inputs([Binding(setting.inputs[1])])
    table.bind_outputs([Binding(setting.outputs[1])])
    recorder.execute()
    assert np.array_equal(setting.outputs[1].download(np.float32), np.sign(-VALUES))


def test_closed_buffers_are_named(setting: Setting) -> None:
    table = table_for(setting.operator, [Binding(setting.inputs[0])], [Binding(setting.outputs[0])])
    recorder = setting.device.create_command_recorder()
    recorder.record_dispatch(setting.operator, table)
    recorder.execute()
    setting.inputs[0].close()
    with pytest.raises(dml.InvalidArgumentError, match=r"InputTensor: the buffer that is bound to it was closed$"):
        recorder.execute()
