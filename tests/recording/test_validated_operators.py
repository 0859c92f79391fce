"""Every operator that is not regular under Vulkan's validation layer, which must have nothing to say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import dmlvk as dml
from dmlvk.conformance.samples import sample_cases
from dmlvk.runtime.validation import LAYER

PROGRAM = """
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
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(device.info.index), ",".join(_NAMES[first : first + _AT_ONCE])],
        env={**os.environ, "DMLVK_VALIDATION": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if f"asks for {LAYER}, which the Vulkan loader does not find" in finished.stderr:
        pytest.fail("needs the Vulkan validation layer: apt install vulkan-validationlayers", pytrace=False)
    assert finished.returncode == 0, finished.stderr
    assert not finished.stdout, finished.stdout
