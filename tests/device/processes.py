"""Runs small programs in processes of their own: what they print, how they end, how much memory they take."""

from __future__ import annotations

import os
import subprocess
import sys

PREAMBLE = """
import sys
import numpy as np
import dmlvk as dml

index = int(sys.argv[1])
tensor = dml.TensorDesc(dml.FLOAT32, (64,))
desc = dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor)
values = np.linspace(-1, 1, 64, dtype=np.float32)

def record(device, recorder=None):
    operator = device.compile_operator(device.create_operator(desc))
    buffers = [device.create_buffer(256) for _ in range(2)]
    buffers[0].upload(values)
    table = device.create_binding_table(operator)
    table.bind_inputs([dml.BufferBinding(buffers[0])])
    table.bind_outputs([dml.BufferBinding(buffers[1])])
    recorder = recorder or device.create_command_recorder()
    recorder.record_dispatch(operator, table)
    recorder.execute()
    assert np.array_equal(buffers[1].download(np.float32), np.sign(values))
    return operator, buffers, table, recorder

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
"""
"""What every program begins with."""


def run_program(program: str, index: int = 0, *, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs PREAMBLE and a program in a new process, with the tests' drivers.

    Args:
        timeout: seconds after which the test fails.
    """
    environment = {name: value for name, value in os.environ.items() if name != "DMLVK_VALIDATION"}
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PREAMBLE + program, str(index)],
        env={**environment, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def output_of(program: str, index: int = 0, *, timeout: float = 120) -> str:
    """What a program prints; it must end well and write nothing to standard error."""
    finished = run_program(program, index, timeout=timeout)
    assert finished.returncode == 0, f"exit status {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    assert finished.stderr == ""
    return finished.stdout
