"""Adam on the device: one operator for all parameters of a group, which lie behind one another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dmlvk import functions as F
from dmlvk.arrays.array import Array
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.graphs.builder import Graph
from dmlvk.operators.optimizer import AdamOptimizer
from dmlvk.tensors import TensorDesc
from dmlvk.torch.devices import device_for
from dmlvk.torch.types import to_numpy

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.torch.residency import Lying, Residency

_TYPES = (torch.float32, torch.float16)


class Adam(torch.optim.Optimizer):
    """Adam (Kingma, Ba: Adam: A Method for Stochastic Optimization, 2015) by ADAM_OPTIMIZER, on the device.

    It stands in for ``torch.optim.Adam``: parameters and moments stay on the device, and new parameters are copied to
    their tensors. Checkpoints of one are the other's. What the program changes of parameters between steps, in whatever
    way, is what the next step begins with.

    Args:
        params: tensors of FLOAT32 or FLOAT16 on the CPU, or groups of them.
        lr: how far a step goes.
        betas: what is kept of both moments, each from 0 to 1.
        eps: added to what is divided by, the root of the corrected second moment.
        weight_decay: what of a parameter is added to its gradient.
        options: as for :func:`dmlvk.torch.backend`.

    Raises:
        InvalidArgumentError: when a number is outside of its range, or there is no such option.
        UnsupportedError: when a parameter is of another type or sparse.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        options: dict[str, Any] | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise InvalidArgumentError(f"dmlvk.torch.Adam: {name} must be at least 0; got {value!r}")
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise InvalidArgumentError(f"dmlvk.torch.Adam: betas must be two numbers from 0 to 1; got {betas!r}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self._device, self._residency = device_for(dict(options or {}))
        self._arenas: list[_Arena] = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dtype not in _TYPES or parameter.layout is not torch.strided:
                    raise UnsupportedError(
                        f"dmlvk.torch.Adam: parameters must be of torch.float32 or torch.float16; got {parameter.dtype}"
                    )

    @torch.no_grad()  # type: ignore[untyped-decorator, unused-ignore]  # where PyTorch is not installed
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]  # as PyTorch's own do
        """Makes a step with the gradients that there are.

        Args:
            closure: computes the loss, which is returned, and the gradients anew.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        steps = {id(parameter): arena.step for arena in self._arenas for parameter in arena.parameters}
        wanted: dict[tuple[int, torch.dtype, int], list[torch.Tensor]] = {}
        for number, group in enumerate(self.param_groups):
            for parameter in group["params"]:
                if parameter.grad is not None:
                    before = steps[id(parameter)] if id(parameter) in steps else self.state[parameter].get("step", 0)
                    key = number, parameter.dtype, int(before)
                    wanted.setdefault(key, []).append(parameter)
        if [arena.key for arena in self._arenas] != [_key(parameters) for parameters in wanted.values()]:
            self._fetch_moments()
            self._arenas = [
                _Arena(self._device, self._residency, parameters, [self.state[each] for each in parameters])
                for parameters in wanted.values()
            ]
        made = [
            arena.computed(self.param_groups[number], before + 1)
            for arena, (number, _, before) in zip(self._arenas, wanted, strict=True)
        ]
        for arena, results in zip(self._arenas, made, strict=True):
            arena.take(results)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """As of ``torch.optim.Adam``."""
        self._fetch_moments()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._arenas = []

    def _fetch_moments(self) -> None:
        """Copies to the host what the device has."""
        for arena in self._arenas:
            for parameter, moments in zip(arena.parameters, arena.moments(), strict=True):
                self.state[parameter] = {"step": torch.tensor(float(arena.step)), **moments}


def _key(parameters: Sequence[torch.Tensor]) -> tuple[tuple[object, ...], ...]:
    return tuple((id(parameter), parameter.dtype, parameter.shape) for parameter in parameters)


@dataclasses.dataclass(frozen=True)
class _Row:
    """Tensors behind one another in memory: each, and all of it as one."""

    each: list[TensorMemory]
    whole: TensorMemory

    def like(self, whole: TensorMemory) -> _Row:
        each = [
            TensorMemory(
                whole.device, whole.storage, one.tensor, whole.offset + one.offset - self.whole.offset, is_whole=False
            )
            for one in self.each
        ]
        return _Row(each, whole)


@dataclasses.dataclass(frozen=True)
class _Results:
    """What a step gives: nothing of an arena is changed by it until all of it is there.

    Attributes:
        step: which one it is.
        first, second: the moments.
        parameters: all of them behind one another, on the host.
    """

    step: int
    first: TensorMemory
    second: TensorMemory
    parameters: Any


class _Arena:
    """Parameters that make their steps together.

    Args:
        states: their moments so far, on the host.
    """

    def __init__(
        self, device: Device, residency: Residency, parameters: list[torch.Tensor], states: list[dict[str, Any]]
    ) -> None:
        self._device, self._residency, self.parameters = device, residency, parameters
        self.key = _key(parameters)
        self.step = int(states[0].get("step", 0))
        self._values = self._row([to_numpy(each) for each in parameters])
        for parameter, state in zip(parameters, states, strict=True):
            for name in ("exp_avg", "exp_avg_sq"):
                if name in state and (state[name].dtype, state[name].shape) != (parameter.dtype, parameter.shape):
                    raise InvalidArgumentError(
                        f"dmlvk.torch.Adam: a parameter is {parameter.dtype} {list(parameter.shape)}, its {name} is "
                        f"{state[name].dtype} {list(state[name].shape)}"
                    )
        zeros = [np.zeros_like(to_numpy(each)) for each in parameters]
        self._first, self._second = (
            self._row([to_numpy(s[name]) if name in s else zero for s, zero in zip(states, zeros, strict=True)])
            for name in ("exp_avg", "exp_avg_sq")
        )
        # Where the next moments go: those of a step may be needed yet.
        self._spare: tuple[TensorMemory, TensorMemory] | None = None
        for parameter, array in zip(parameters, self._values.each, strict=True):
            residency.keep(parameter, array)

    def _row(self, values: list[Any]) -> _Row:
        each = self._device.arrays.uploaded_together(self._device, values)
        last = each[-1]
        end = last.offset + -(-last.nbytes // 16) * 16
        tensor = TensorDesc(last.data_type, (end // last.dtype.itemsize,))
        return _Row(each, TensorMemory(self._device, last.storage, tensor))

    def computed(self, group: dict[str, Any], step: int) -> _Results:
        """Computes a step. The parameters' memory on the device is changed by it, their tensors and moments are not.

        Args:
            step: which one it is, from 1 on.
        """
        self._take_parameters()
        gradients = self._row([self._gradient(each) for each in self.parameters]).whole
        values = self._values.whole
        if group["weight_decay"]:
            gradients = self._decayed(gradients, float(group["weight_decay"]))
        adam = AdamOptimizer(
            **dict.fromkeys(_MEMBERS, values.tensor),
            training_step_tensor=TensorDesc("UINT32", (1,)),
            learning_rate=float(group["lr"]),
            beta1=float(group["betas"][0]),
            beta2=float(group["betas"][1]),
            # PyTorch's is added to the root of the corrected moment, the operator's to that of the moment as it is.
            epsilon=float(group["eps"]) * math.sqrt(1 - float(group["betas"][1]) ** step),
        )
        given: dict[str, Any] = {
            "input_parameters_tensor": Array.of(values),
            "input_first_moment_tensor": Array.of(self._first.whole),
            "input_second_moment_tensor": Array.of(self._second.whole),
            "gradient_tensor": Array.of(gradients),
            "training_step_tensor": np.array([step], np.uint32),
        }
        # Until a step is done, the host's parameters hold: should it fail, whoever reads them uploads them again.
        torch.autograd.graph.increment_version(self.parameters)
        written = {"output_parameters_tensor": values}
        if self._spare is not None:
            written |= zip(("output_first_moment_tensor", "output_second_moment_tensor"), self._spare, strict=True)
        out = {name: Array.of(memory) for name, memory in written.items()}
        made = self._device.run(adam, given, keep=True, out=out)
        first, second = (made[f"Output{word}MomentTensor"].memory() for word in ("First", "Second"))
        return _Results(step, first, second, values.numpy())

    def _take_parameters(self) -> None:
        """Uploads those that something else than a step has changed."""
        lying: Lying = {}
        for parameter, array in zip(self.parameters, self._values.each, strict=True):
            resident = self._residency.known(parameter)
            if resident is not None and resident.array is array:
                lying[id(parameter)] = parameter, resident
            else:  # changed, or read by a graph before
                self._device.arrays.overwrite(array, self._residency.host_values(parameter))
        self._residency.refresh(lying)

    def take(self, results: _Results) -> None:
        """Makes what was computed the state: moments, and the parameters' tensors."""
        self._spare = self._first.whole, self._second.whole
        self._first, self._second = self._first.like(results.first), self._second.like(results.second)
        self.step = results.step
        for parameter, array in zip(self.parameters, self._values.each, strict=True):
            begin = array.offset // array.dtype.itemsize
            made = results.parameters[begin : begin + array.size].reshape(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(made))
            self._residency.keep(parameter, array)

    def _gradient(self, parameter: torch.Tensor) -> Any:
        gradient = parameter.grad
        assert gradient is not None  # those without one are not here
        if gradient.layout is not torch.strided:
            raise UnsupportedError(f"dmlvk.torch.Adam: gradients must be dense; got one of {gradient.layout}")
        return to_numpy(gradient)

    def _decayed(self, gradients: TensorMemory, decay: float) -> TensorMemory:
        graph = Graph(self._device)
        shape, data_type = gradients.shape, gradients.data_type
        x, gradient = graph.input("x", data_type, shape), graph.input("gradient", data_type, shape)
        compiled = graph.compile(F.identity(x * graph.constant(decay, data_type) + gradient))
        return self._device.arrays.execute(compiled, {"x": self._values.whole, "gradient": gradients})["output"]

    def moments(self) -> list[dict[str, torch.Tensor]]:
        """Both of each parameter, on the host."""
        return [
            {
                "exp_avg": torch.from_numpy(first.numpy()).reshape(parameter.shape),
                "exp_avg_sq": torch.from_numpy(second.numpy()).reshape(parameter.shape),
            }
            for parameter, first, second in zip(self.parameters, self._first.each, self._second.each, strict=True)
        ]


_MEMBERS = (
    "input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor",
    "output_parameters_tensor", "output_first_moment_tensor", "output_second_moment_tensor",
)  # fmt: skip
