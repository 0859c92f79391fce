"""Devices that are taken for others when kernels are chosen: what GPUs run is tested on processors."""

from __future__ import annotations

import dataclasses

import pytest

import dmlvk as dml
from dmlvk.kernels.kernel import WalkKernel
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU, Target


def all_walk_as_gpus(monkeypatch: pytest.MonkeyPatch, *, as_gpus: bool = True) -> None:
    """Every device is given the kernels of GPUs, or each its own again.

    Args:
        monkeypatch: ends it.
        as_gpus: which of the two.
    """

    def taken_for_gpu(self: dml.Device) -> Target:
        return dataclasses.replace(Target.of(self.info), is_cpu=False)

    def as_it_is(self: dml.Device) -> Target:
        return Target.of(self.info)

    monkeypatch.setattr(dml.Device, "target", property(taken_for_gpu if as_gpus else as_it_is))


def kernel_of(desc: dml.OperatorDesc, target: Target = GPU) -> WalkKernel:
    """The only kernel of an operator on a device."""
    (step,) = lower(desc, target).steps
    assert isinstance(step.kernel, WalkKernel)
    return step.kernel
