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
from dmlvk.language.choice_memory import MOST_STEPS, ChoiceMemory, values_of_texts
from dmlvk.operators import AxisDirection

if TYPE_CHECKING:
    from dmlvk.arrays.array import Array
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph

_COUNTS = (64, 1024)
"""Among how many of the likeliest tokens one is chosen at random: by its top_k. What lies behind 1,024 of them has next
to no probability."""

MOST_TOP = 20  # Of the likeliest tokens that are told

_FREE = 2**32 - 1  # Where no token is forced


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
class Kind:
    """What a choice has to do; a text's token does not depend on the other texts' part in it.

    Each kind has a graph and recordings of its own. So there are few: of what is asked for, several things go together.
    """

    rows: int  # texts
    count: int = 0  # among how many of the likeliest tokens some are chosen at random; 0: none is
    edits: bool = False  # whether some have a penalty of repetitions, or tokens that come whatever is chosen
    is_masked: bool = False  # whether tokens may be forbidden to some
    tells: bool = False  # whether likelihoods are told, and fingerprints of the logits' bits


def _count(sampling: Sampling) -> int:
    """Among how many of the likeliest tokens a text's is chosen: by its own sampling alone, since sums depend on it."""
    return next(count for count in _COUNTS if 0 < sampling.top_k <= count or count == _COUNTS[-1])


@dataclasses.dataclass(frozen=True)
class Chooser:
    """A graph that chooses a token and says what the next step of a decoder reads: to be recorded behind a step."""

    graph: CompiledGraph  # reads ``logits`` and what ``state`` and ``constant`` name, but for the token
    counts: Mapping[str, str]  # what numbers that grow by one are called in the graph, by the decoder's inputs
    state: Mapping[str, tuple[tuple[int, ...], DataType]]  # shapes and types of what goes from step to step
    constant: Mapping[str, tuple[tuple[int, ...], DataType]]  # shapes and types of what is the same in all steps
    told: Mapping[str, tuple[tuple[int, ...], DataType]]  # shapes and types of outputs that only the host reads
    following: Mapping[str, str]  # which of the state an output is for the next step

    @property
    def read(self) -> Mapping[str, tuple[tuple[int, ...], DataType]]:
        """Shapes and types of what the host reads."""
        return {"token": self.state["token"], **self.told}


class Choices:
    """The graphs that choose tokens on a device, by what they have to do, for one choice at a time.

    Args:
        vocabulary: how many tokens there are.
    """

    def __init__(self, device: Device, vocabulary: int, data_type: DataType) -> None:
        self.device, self.vocabulary, self._data_type = device, vocabulary, data_type
        self.memory = ChoiceMemory(device)
        self._graphs: dict[Kind, CompiledGraph] = {}
        self._choosers: dict[object, Chooser] = {}

    def graph(self, kind: Kind) -> CompiledGraph:
        """Reads ``logits`` and what :meth:`inputs` names; gives what :meth:`Sampler.choice` says."""
        if kind not in self._graphs:
            graph = Graph(self.device)
            outputs: dict[str, Any] = {**self._outputs(graph, kind, self._inputs(graph, kind))}
            self._graphs[kind] = graph.compile(**outputs)
        return self._graphs[kind]

    def inputs(self, kind: Kind) -> dict[str, tuple[tuple[int, ...], DataType]]:
        """Shapes and types of what a choice reads besides the logits."""
        all_tokens, of_texts = (kind.rows, self.vocabulary), values_of_texts(kind.rows)
        names = ["points", "temperature", "top_p", "top_k"] if kind.count else []
        names += ["penalty", "forced"] if kind.edits else []
        made: dict[str, tuple[tuple[int, ...], DataType]] = {name: of_texts[name] for name in names}
        if kind.edits:
            made["seen"] = all_tokens, DataType.UINT8
        if kind.is_masked:
            made["allowed"] = all_tokens, DataType.UINT8
        if kind.count or kind.edits:
            made["step"] = (1, 1), DataType.UINT32
        return made

    def chooser(self, kind: Kind, counts: Mapping[str, npt.NDArray[np.generic]]) -> Chooser:
        """The same choice together with numbers that grow by one, and with what was chosen among what stood before.

        Args:
            kind: what is to be done.
            counts: an array of its shape and type for each of the decoder's inputs that grows.
        """
        key = kind, *((name, array.dtype, array.shape) for name, array in counts.items())
        if key not in self._choosers:
            self._choosers[key] = self._chooser(kind, counts)
        return self._choosers[key]

    def _chooser(self, kind: Kind, counts: Mapping[str, npt.NDArray[np.generic]]) -> Chooser:
        graph = Graph(self.device)
        inputs = self._inputs(graph, kind)
        outputs: dict[str, Any] = {**self._outputs(graph, kind, inputs)}
        told = {name: (point.sizes, point.data_type) for name, point in outputs.items() if name != "token"}
        given, names = self.inputs(kind), {name: f"count_{index}" for index, name in enumerate(counts)}
        state: dict[str, tuple[tuple[int, ...], DataType]] = {"token": ((kind.rows, 1), DataType.INT64)}
        if "seen" in given:
            state["seen"] = given.pop("seen")
            places = _places(graph, self.vocabulary)
            is_chosen = places == F.cast(outputs["token"], output_data_type=DataType.UINT32)
            outputs["next_seen"] = F.logical_or(inputs["seen"], is_chosen)
        if "step" in given:
            state["step"] = given.pop("step")
            outputs["next_step"] = inputs["step"] + 1
        for name, array in counts.items():
            data_type, shape = checked_data_type(array.dtype, "Choices.chooser"), array.shape or (1,)
            outputs[f"next_{names[name]}"] = graph.input(names[name], data_type, shape) + 1
            state[names[name]] = shape, data_type
        following = {name: name.removeprefix("next_") for name in outputs}
        return Chooser(graph.compile(**outputs), names, state, given, told, following)

    def _inputs(self, graph: Graph, kind: Kind) -> dict[str, Expression]:
        given = {"logits": ((kind.rows, self.vocabulary), self._data_type), **self.inputs(kind)}
        return {name: graph.input(name, data_type, shape) for name, (shape, data_type) in given.items()}

    def _outputs(self, graph: Graph, kind: Kind, inputs: Mapping[str, Expression]) -> dict[str, Expression]:
        """What a choice gives, by the names of :meth:`Sampler.choice`."""
        logits = inputs["logits"]
        if self._data_type is not DataType.FLOAT32:
            logits = F.cast(logits, output_data_type=DataType.FLOAT32)
        token = self._token(graph, kind, logits, inputs)
        made = {"token": token}
        if kind.edits:
            forced = F.gather(inputs["forced"], inputs["step"], 1, 1).reshape(-1, 1)
            is_free = forced == _FREE
            made |= {"token": F.if_(is_free, token, F.cast(forced, output_data_type=DataType.INT64)), "chosen": token}
        if kind.tells:
            shares = F.activation_log_softmax1(logits, axes=[1])
            made["values"], made["places"] = F.top_k1(
                shares, 1, min(MOST_TOP, self.vocabulary), AxisDirection.DECREASING
            )
            made["own"] = F.gather_elements(shares, F.cast(made["token"], output_data_type=DataType.UINT32), 1)
            made["prints"] = _fingerprints(graph, inputs["logits"])
        return made

    def _token(self, graph: Graph, kind: Kind, logits: Expression, inputs: Mapping[str, Expression]) -> Expression:
        if kind.edits:
            penalty = inputs["penalty"]
            logits = F.if_(inputs["seen"], F.if_(logits > 0, logits / penalty, logits * penalty), logits)
        if kind.is_masked:
            logits = F.if_(inputs["allowed"], logits, -np.inf)
        token = F.argmax(logits, [1], AxisDirection.INCREASING, output_data_type=DataType.INT64)
        if kind.count:
            values, tokens = F.top_k1(logits, 1, min(kind.count, self.vocabulary), AxisDirection.DECREASING)
        least = 0
        for count in [count for count in _COUNTS if count <= kind.count]:
            top_k = inputs["top_k"]
            is_own = F.logical_and(top_k > least, top_k <= count) if count < _COUNTS[-1] else top_k > least
            least = count
            likeliest = values[:, :count], tokens[:, :count]
            token = F.if_(is_own, self._at_random(graph, *likeliest, inputs), token)
        return token

    def _at_random(
        self, graph: Graph, values: Expression, tokens: Expression, inputs: Mapping[str, Expression]
    ) -> Expression:
        """The token at which the sum of probabilities exceeds a random part of it, the likeliest tokens first."""
        ranks = _places(graph, values.sizes[1])
        shares = F.activation_softmax1(
            F.if_(ranks < inputs["top_k"], values / inputs["temperature"], -np.inf), axes=[1]
        )
        sums = F.cumsum(shares, axis=1)
        is_within = F.logical_or((sums - shares) < inputs["top_p"], ranks == 0)
        may = F.logical_and(is_within, shares > 0)  # no token that is forbidden, however sums are rounded
        total = F.sum(F.if_(may, shares, 0.0), axis=1, keepdims=True)
        point = F.gather(inputs["points"], inputs["step"], 1, 1).reshape(-1, 1) * total
        position = F.sum(
            F.cast(F.logical_and(sums <= point, may), output_data_type=DataType.UINT32), axis=1, keepdims=True
        )
        last = F.sum(F.cast(may, output_data_type=DataType.UINT32), axis=1, keepdims=True) - 1
        token = F.gather_elements(tokens, F.if_(position < last, position, last), 1)
        return F.cast(token, output_data_type=DataType.INT64)


class Sampler:
    """Chooses the next token of several texts, each by its own sampling and its own logits alone.

    Attributes:
        choices: the graphs.
        kind: what is to be done.
        penalizes: whether some texts have a penalty of repetitions.
    """

    def __init__(
        self,
        choices: Choices,
        samplings: Sequence[Sampling],  # how tokens are chosen, of each text
        # tokens that come first in each text, whatever is chosen; none: in no text
        forced: Sequence[Sequence[int]] = (),
        *,
        is_masked: bool = False,  # whether tokens may be forbidden
        tells: bool = False,  # whether likelihoods and fingerprints of the logits' bits are told
    ) -> None:
        self.choices, self._samplings, self._forced = choices, samplings, forced or [()] * len(samplings)
        count = max((_count(sampling) for sampling in samplings if sampling.temperature), default=0)
        self.penalizes = any(sampling.repetition_penalty != 1 for sampling in samplings)
        edits = self.penalizes or any(forced) or is_masked  # of masks, too, for fewer kinds
        self.kind = Kind(len(samplings), count, edits, is_masked, tells)
        self._seen = np.zeros((len(samplings), choices.vocabulary if self.penalizes else 0), np.uint8)
        self.resume([()] * len(samplings), [0] * len(samplings))

    def resume(self, texts: Sequence[Sequence[int]], chosen: Sequence[int]) -> None:
        """Goes on behind texts.

        Args:
            chosen: how many of them were chosen; each took one step of the random numbers' counter.
        """
        self._chosen, self._step = list(chosen), 0
        # inputs of the graph that stand in its memory, unless another sampler wrote there
        self._there: set[str] = set()
        if self.penalizes:
            self._seen.fill(0)  # an interrupt may have come behind a choice: that token never was in the text
            for row, text in zip(self._seen, texts, strict=True):
                row[list(text)] = 1

    def note(self, tokens: Sequence[int]) -> None:
        """The token that now stands behind each text, for the penalty of repetitions."""
        if self.penalizes:
            self._seen[range(len(tokens)), list(tokens)] = 1
            self._there.discard("seen")

    def choice(self, logits: Array, allowed: npt.NDArray[np.uint8] | None = None) -> dict[str, npt.NDArray[np.generic]]:
        """The next token of each text, and what is told of it.

        Args:
            logits: [texts, vocabulary].
            allowed: of the same shape, where tokens may be forbidden: 0 for those that are.

        Returns:
            ``token``, INT64 [texts, 1]. Where some are forced ``chosen``, what would have come. Where likelihoods are
            told, logarithms of probabilities without temperature, penalty and mask: ``own`` of the token, [texts, 1];
            ``values`` and ``places`` of the 20 likeliest tokens; and of the logits' bits ``prints``, UINT32 [texts, 4].
        """
        if self._step == MOST_STEPS:
            self._chosen = [chosen + self._step for chosen in self._chosen]
            self._step, self._there = 0, set()
        choices, memory = self.choices, self.choices.memory
        if memory.owner is not self:
            self._there = set()  # first: an interrupt may come in between
            memory.owner = self
        graph = choices.graph(self.kind)
        inputs = {name: memory.array(name, *each) for name, each in choices.inputs(self.kind).items()}
        stay = inputs.keys() - {"step", "allowed"}
        values: dict[str, npt.NDArray[np.generic]] = {"step": np.array([[self._step]], np.uint32)}
        if not self._there >= stay:
            values |= self.values
        if allowed is not None:
            values["allowed"] = allowed
        memory.write({name: array for name, array in inputs.items() if name not in self._there}, values)
        self._there |= stay
        self._step += 1
        tensors = [(point.name, point.tensor) for point in graph.outputs if point.tensor is not None]
        out = {name: memory.array(name, tuple(tensor.sizes), tensor.data_type) for name, tensor in tensors}
        outputs = choices.device.run(graph, {"logits": logits, **inputs}, keep=True, out=out)
        return {name: array.numpy() for name, array in outputs.items()}

    @property
    def values(self) -> dict[str, npt.NDArray[np.generic]]:
        """What the next choice reads besides logits and what is allowed, as :meth:`Choices.inputs` names it.

        Which tokens stood before is left out where that counts for nothing.
        """
        made: dict[str, npt.NDArray[np.generic]] = {}
        if self.kind.count:
            taken = self._column("temperature")
            ranks = [(each.top_k or _COUNTS[-1]) if each.temperature else 0 for each in self._samplings]
            seeds = [sampling.seed for sampling in self._samplings]
            made["points"] = random_points(seeds, self._chosen, MOST_STEPS)
            made |= {"temperature": np.where(taken > 0, taken, np.float32(1)), "top_p": self._column("top_p")}
            made["top_k"] = np.array(ranks, np.uint32)[:, None]
        if self.penalizes:
            made["seen"] = self._seen
        if self.kind.edits:
            made["penalty"] = self._column("repetition_penalty")
            made["forced"] = forced = np.full((len(self._samplings), MOST_STEPS), _FREE, np.uint32)
            for row, tokens, chosen in zip(forced, self._forced, self._chosen, strict=True):
                own = tokens[chosen : chosen + MOST_STEPS]
                row[: len(own)] = own
        made["step"] = np.array([[self._step]], np.uint32)
        return made

    def _column(self, name: str) -> npt.NDArray[np.float32]:
        return np.array([[getattr(sampling, name)] for sampling in self._samplings], np.float32)


def random_points(seeds: Sequence[int], chosen: Sequence[int], count: int) -> npt.NDArray[np.float32]:
    """Numbers from 0 on and below 1, of 24 bits: [seeds, count].

    The first word of Philox 4x32-10 (J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as
    1, 2, 3", SC 2011), by the seed as its key, and as its counter how many tokens were chosen before.
    """
    low, shift = np.uint64(2**32 - 1), np.uint64(32)
    key = np.array(seeds, np.uint64)[:, None]
    keys = [key & low, key >> shift]
    steps = np.array(chosen, np.uint64)[:, None] + np.arange(count, dtype=np.uint64)
    words = [steps, *(np.zeros_like(steps) for _ in range(3))]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [second >> shift ^ words[1] ^ keys[0], second & low, first >> shift ^ words[3] ^ keys[1], first & low]
        keys = [keys[0] + np.uint64(0x9E3779B9) & low, keys[1] + np.uint64(0xBB67AE85) & low]
    return (words[0] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def _fingerprints(graph: Graph, logits: Expression) -> Expression:
    """Four numbers of each row that follow from all of its bits: UINT32 [rows, 4].

    Sums of bits and places that are mixed as MurmurHash3 does in the end (A. Appleby, 2011), so that no order matters.
    They tell rows apart that differ by fault or chance. They need not be hard to forge, as each is computed again.
    """
    rows, count = logits.sizes
    kind = DataType.UINT32 if logits.data_type is DataType.FLOAT32 else DataType.UINT16
    bits = F.cast(logits.reinterpret((rows, 1, count), data_type=kind), output_data_type=DataType.UINT32)
    places = F.fill_value_sequence(
        0, 0x9E3779B1, output_data_type=DataType.UINT32, output_sizes=(1, 1, count), graph=graph
    )
    lanes = graph.constant(np.arange(1, 5, dtype=np.uint32).reshape(1, 4, 1) * np.uint32(0x7FEB352D))
    mixed = F.bit_xor(bits + places, lanes)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = F.bit_xor(mixed, F.bit_shift_right(mixed, np.uint32(shift))) * np.uint32(factor)
    return F.sum(F.bit_xor(mixed, F.bit_shift_right(mixed, np.uint32(16))), axis=2)


def _places(graph: Graph, count: int) -> Expression:
    """0, 1, 2 and so on: [1, count]."""
    return F.fill_value_sequence(0, 1, output_data_type=DataType.UINT32, output_sizes=(1, count), graph=graph)
