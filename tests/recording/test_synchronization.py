"""The dependency between two dispatches, as Vulkan's synchronization validation sees it.

CPU drivers run dispatches one after the other and never show a missing dependency, so the validation layer has to. What
it can tell (version 1.3.239):

* write after read needs an execution dependency only. The layer is silent with dmlvk's copy of one word and complains
  without it: the copy does order compute work after compute work.
* read after write needs the writes to be made available and visible too. The shaders' buffers are ``coherent``, which
  does that in the shader; the layer knows barriers only. That every buffer of every shader is ``coherent`` is tested
  here instead. For the layer's sake dmlvk copies what was written, whole, under synchronization validation (Kompute
  then records barriers that name it), so that the recorder's decisions can be judged.
* write after write through storage buffers it does not report, by its own choice. It does report two copies into one
  staging buffer, of which nobody reads the first; dmlvk drops that message.
"""

from __future__ import annotations

import functools
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Literal

import pytest

from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library import coefficients
from dmlvk.runtime.kompute_choice import is_bundled
from dmlvk.spirv import cooperative_types

PROGRAM = """
import json, re, sys
import numpy as np
import dmlvk as dml
from dmlvk.objects.recording import HazardTracker
from dmlvk.running import host_runs
from dmlvk.runtime import kompute, recorded_operations, validation

chains, dependencies = json.loads(sys.argv[1])
if dependencies == "none":
    HazardTracker.depends = lambda self, reads, writes, is_independent=False: False
elif dependencies.startswith("staged"):
    kompute.Engine._needs_staging = property(lambda self: True)
    host_runs.MOST_BYTES_NEAR_HOST = 0
    if dependencies == "staged, copies not awaited":
        recorded_operations.RecordedOperations.wait_for_copies = lambda self, used: None
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
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([[IN_PLACE, *INDEPENDENT, *DEPENDENT], dependencies])],
        env={**os.environ, "DMLVK_VALIDATION": "sync"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "asks for VK_LAYER_KHRONOS_validation, which the Vulkan loader does not find" in finished.stderr:
        pytest.fail("needs the Vulkan validation layer: apt install vulkan-validationlayers", pytrace=False)
    assert finished.returncode == 0, finished.stderr
    return {chain: {(rule, command) for rule, command in found} for chain, found in json.loads(finished.stdout).items()}


def hazards(chain: str, dependencies: Dependencies) -> Found:
    """What the layer says of one chain."""
    return all_hazards(dependencies)[chain]


@pytest.mark.t_way(1)
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
