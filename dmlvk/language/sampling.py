"""Chooses the next token on the device: the likeliest, or one at random by a seed, the same on every device."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk import functions as F
from dmlvk.datatypes import DataType, checked_data_type
from dmlvk.errors import InvalidArgumentError
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.expression import Expression
from dmlvk.operators import AxisDirection

if TYPE_CHECKING:
    from dmlvk.arrays.array import Array
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph

_MOST_SAMPLED = 1024
"""Tokens among which one is chosen at random at most: what lies behind them has next to no probability."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a token is chosen.

    Attributes:
        temperature: what logits are divided by; 0: the likeliest token is taken (of equal ones the first).
        top_k: how many of the likeliest tokens may be chosen; 0: the 1,024 likeliest.
        top_p: those of them may be chosen before which less than this probability lies.
        repetition_penalty: what positive logits of tokens that stood before are divided by, and negative ones
            multiplied by (Keskar et al., CTRL, 2019).
        seed: of Philox 4x32-10, from which the random numbers come.

    Raises:
        InvalidArgumentError: when a number is not possible.
    """

    temperature: float = 0.0
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks the numbers."""
        for name, least, most in (
            ("temperature", 0.0, 1e4),
            ("top_k", 0, 2**31 - 1),
            ("top_p", 0.0, 1.0),
            ("repetition_penalty", 1e-4, 1e4),
            ("seed", 0, 2**64 - 1),
        ):
            value: Any = getattr(self, name)
            kind: Any = numbers.Real if isinstance(least, float) else numbers.Integral
            if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:
                what = "a number" if kind is numbers.Real else "an integer"
                got = (
                    f"one of {value.bit_length()} bits"
                    if isinstance(value, int) and abs(value) > 2**99
                    else repr(value)
                )
                raise InvalidArgumentError(f"Sampling: {name} must be {what} from {least} to {most}; got {got}")
            object.__setattr__(self, name, type(least)(value))


@dataclasses.dataclass(frozen=True)
class Chooser:
    """A graph that chooses a token and says what the next step of a decoder reads: to be recorded behind a step.

    Attributes:
        graph: reads ``logits`` and what ``state`` names but for the token.
        counts: what numbers that grow by one are called in the graph, by the decoder's inputs.
        state: shapes and types of what goes from step to step.
        following: which of the state an output is for the next step.
    """

    graph: CompiledGraph
    counts: Mapping[str, str]
    state: Mapping[str, tuple[tuple[int, ...], DataType]]
    following: Mapping[str, str]


class Sampler:
    """Chooses tokens on a device.

    Args:
        device: where the logits lie.
        vocabulary: how many tokens there are.
        data_type: of the logits.
        sampling: how tokens are chosen.
        batch: sequences, of which each gets its likeliest token.
    """

    def __init__(
        self, device: Device, vocabulary: int, data_type: DataType, sampling: Sampling, batch: int = 1
    ) -> None:
        self._device, self._vocabulary, self._data_type, self.sampling = device, vocabulary, data_type, sampling
        self._batch = batch
        self._is_greedy = sampling.temperature == 0
        self.penalizes = sampling.repetition_penalty != 1
        graph = Graph(device)
        outputs = self._chosen(graph)
        outputs.pop("seen", None)
        self._graph = graph.compile(**outputs)
        self._state = self._state_behind(0)
        self._seen = np.zeros(vocabulary, np.uint8)
        self._seen_there: Array | None = None

    def note(self, tokens: Sequence[int]) -> None:
        """Tokens that stood before, for the penalty of repetitions."""
        if self.penalizes:
            self._seen[list(tokens)] = 1
            self._seen_there = None

    def resume(self, tokens: Sequence[int], chosen: int) -> None:
        """Goes on behind a text.

        Args:
            tokens: all of the text.
            chosen: how many of them were chosen; each took one step of the random numbers' counter.
        """
        self._seen.fill(0)  # an interrupt may have come behind a choice: that token never was in the text
        self._seen_there = None
        self.note(tokens)
        self._state = self._state_behind(chosen)

    def _state_behind(self, chosen: int) -> Array:
        seed = self.sampling.seed
        return self._device.array(np.array([[[[chosen, 0, 0, 0, seed & 0xFFFFFFFF, seed >> 32]]]], np.uint32))

    def token(self, logits: Array) -> Array:
        """The next token, on the device: INT64 [1, 1].

        Args:
            logits: [1, vocabulary].
        """
        feed = {"logits": logits}
        if self.penalizes:
            if self._seen_there is None:
                self._seen_there = self._device.array(self._seen.reshape(1, -1))
            feed["seen"] = self._seen_there
        if not self._is_greedy:
            feed["state"] = self._state
        outputs = self._device.run(self._graph, feed, keep=True)
        if not self._is_greedy:
            self._state = outputs["next_state"]
        return outputs["token"]

    @property
    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """What the next choice goes on from, besides logits, as :class:`Chooser` names it; waits for the last one."""
        found: dict[str, npt.NDArray[np.generic]] = {} if self._is_greedy else {"state": self._state.numpy()}
        return {**found, "seen": self._seen.reshape(1, -1)} if self.penalizes else found

    def chooser(self, counts: Mapping[str, npt.NDArray[np.generic]]) -> Chooser:
        """The same choice together with numbers that grow by one, and with what was chosen among what stood before.

        Args:
            counts: an array of its shape and type for each of the decoder's inputs that grows.
        """
        graph = Graph(self._device)
        outputs = self._chosen(graph)
        names = {name: f"count_{index}" for index, name in enumerate(counts)}
        state: dict[str, tuple[tuple[int, ...], DataType]] = {"token": ((self._batch, 1), DataType.INT64)}
        if not self._is_greedy:
            state["state"] = ((1, 1, 1, 6), DataType.UINT32)
        if self.penalizes:
            all_tokens = (1, self._vocabulary)
            places = F.fill_value_sequence(0, 1, output_data_type=DataType.UINT32, output_sizes=all_tokens, graph=graph)
            is_chosen = places == F.cast(outputs["token"], output_data_type=DataType.UINT32)
            outputs["next_seen"] = F.logical_or(outputs.pop("seen"), is_chosen)
            state["seen"] = all_tokens, DataType.UINT8
        following = {"token": "token", "next_state": "state", "next_seen": "seen"}
        for name, array in counts.items():
            data_type, shape = checked_data_type(array.dtype, "Sampler.chooser"), array.shape or (1,)
            outputs[f"next_{names[name]}"] = graph.input(names[name], data_type, shape) + 1
            state[names[name]] = shape, data_type
            following[f"next_{names[name]}"] = names[name]
        return Chooser(graph.compile(**outputs), names, state, following)

    def _chosen(self, graph: Graph) -> dict[str, Any]:
        """What a graph gives: the token, the state behind a random one, and which tokens are penalized."""
        data_type, sampling = self._data_type, self.sampling
        logits = graph.input("logits", data_type, (self._batch, self._vocabulary))
        if data_type is not DataType.FLOAT32:
            logits = F.cast(logits, output_data_type=DataType.FLOAT32)
        made: dict[str, Any] = {}
        if self.penalizes:
            seen = made["seen"] = graph.input("seen", DataType.UINT8, (1, self._vocabulary))
            penalty = sampling.repetition_penalty
            logits = F.if_(seen, F.if_(logits > 0, logits / penalty, logits * penalty), logits)
        if self._is_greedy:
            token = F.argmax(logits, [1], AxisDirection.INCREASING, output_data_type=DataType.INT64)
            return {**made, "token": token}
        return {**made, **self._at_random(graph, logits, sampling)}

    def _at_random(self, graph: Graph, logits: Expression, sampling: Sampling) -> dict[str, Any]:
        """The token at which the sum of probabilities exceeds a random part of it, the likeliest tokens first."""
        count = min(sampling.top_k or _MOST_SAMPLED, _MOST_SAMPLED, self._vocabulary)
        values, tokens = F.top_k1(logits, 1, count, AxisDirection.DECREASING)
        shares = F.activation_softmax1(values / sampling.temperature, axes=[1])
        sums = F.cumsum(shares, axis=1)
        may = (sums - shares) < sampling.top_p if sampling.top_p > 0 else sums == F.min(sums)
        total = F.sum(F.if_(may, shares, 0.0), axis=1, keepdims=True)
        state = graph.input("state", DataType.UINT32, (1, 1, 1, 6))
        random_bits, next_state = F.random_generator(state, output_sizes=(1, 1, 1, 4), with_state=True)
        bits = F.cast(random_bits.reshape(1, 4)[:, :1] >> 8, output_data_type=DataType.FLOAT32)
        point = bits * 2.0**-24 * total
        position = F.sum(F.cast((sums <= point) & may, output_data_type=DataType.UINT32), axis=1, keepdims=True)
        token = F.gather_elements(tokens, F.if_(position < count, position, count - 1), 1)
        return {"token": F.cast(token, output_data_type=DataType.INT64), "next_state": next_state}


__all__ = ["Chooser", "Sampler", "Sampling"]
