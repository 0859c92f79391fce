"""What is changed in compiled shaders when a pipeline is made."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.kernels import library
from dmlvk.runtime.pipelines import Pipelines
from dmlvk.spirv.coherence import without_coherence
from dmlvk.spirv.modules import module_instructions, module_words

VARIANTS = (
    "element_wise_add.float32.rows",
    "element_wise_sign.int8.strided",
    "activation_softmax.float16.in_registers",
)
COHERENT = 23
MEMBER_DECORATE = 72


def instructions(spirv: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """A module's instructions, and their operands."""
    return [(opcode, tuple(operands)) for _, opcode, operands in module_instructions(module_words(spirv))]


def is_coherent(instruction: tuple[int, tuple[int, ...]]) -> bool:
    opcode, operands = instruction
    return opcode == MEMBER_DECORATE and operands[2] == COHERENT


@pytest.mark.parametrize("name", VARIANTS)
def test_without_coherence_leaves_out_nothing_else(name: str, tmp_path: Path) -> None:
    before = library.load(name)
    after = without_coherence(before)
    assert any(map(is_coherent, instructions(before))), "nothing to leave out"
    assert instructions(after) == [each for each in instructions(before) if not is_coherent(each)]
    path = tmp_path / "module.spv"
    path.write_bytes(after)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", str(path)], check=True)


@pytest.mark.parametrize("has_barriers", [False, True])
def test_pipelines_are_coherent_where_no_barriers_are_recorded(
    device: dml.Device, has_barriers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = device.engine
    if has_barriers and not engine._has_barriers:
        pytest.skip("Kompute as it is on PyPI has no memory barriers")
    monkeypatch.setattr(engine, "_has_barriers", has_barriers)
    monkeypatch.setattr(engine.shaders, "has_barriers", has_barriers)
    made: list[bytes] = []
    algorithm = engine._manager.algorithm

    class Manager:
        def __getattr__(self, name: str) -> object:
            return getattr(engine_manager, name)

        def algorithm(self, tensors: object, spirv: bytes, *rest: object) -> object:
            made.append(spirv)
            return algorithm(tensors, spirv, *rest)

    engine_manager = engine._manager
    monkeypatch.setattr(engine, "_pipelines", Pipelines(Manager()))  # which has none from other tests
    values = np.zeros(977 + has_barriers, np.float32)  # of a size for which no other test has a recording
    tensor = dml.TensorDesc(dml.FLOAT32, values.shape)
    device.run(dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor), {"InputTensor": values})
    coherent = [Counter(map(is_coherent, instructions(spirv)))[True] for spirv in made]
    assert coherent and all((count == 0) == has_barriers for count in coherent)
