"""Recurrent networks: a state that goes from step to step of a sequence."""

from __future__ import annotations

import enum
import math

from dmlvk.operators.words import *


class RecurrentNetworkDirection(enum.IntEnum):
    """DML_RECURRENT_NETWORK_DIRECTION: from which end sequences are gone through, or from both at once."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


def direction_count(desc: Gru | Lstm | Rnn | Draft) -> int:
    """How many directions there are: two where both are asked for."""
    return 2 if desc.direction is RecurrentNetworkDirection.BIDIRECTIONAL else 1


_INPUTS = (
    "input_tensor", "weight_tensor", "recurrence_tensor", "bias_tensor", "hidden_init_tensor",
    "cell_mem_init_tensor", "sequence_lengths_tensor", "peephole_tensor",
)  # fmt: skip


def _recurrent_sizes(desc: Gru | Lstm | Rnn | Draft, gates: int, activations: int) -> dict[str, Sequence[int]]:
    """The rule of an operator with so many gates, and so many activations for each direction."""
    for member in _INPUTS:
        tensor = getattr(desc, member, None)
        if tensor is not None and tensor.flags & TensorFlags.OWNED_BY_DML:
            refuse(desc, f"{member}.flags", "must not be OWNED_BY_DML, as no input of this operator may")
    for member in ("input_tensor", "recurrence_tensor"):
        count = getattr(desc, member).dimension_count
        if count != 4:
            refuse(desc, f"{member}.dimension_count", f"must be 4; got {count}")
    directions = direction_count(desc)
    first, steps, batch, inputs = desc.input_tensor.sizes
    hidden = desc.recurrence_tensor.sizes[-1]
    if first != 1:
        refuse(desc, "input_tensor.sizes[0]", f"must be 1; got {first}")
    check_sizes(
        desc, "recurrence_tensor", (1, directions, gates * hidden, hidden), "1, directions, gates * units, units"
    )
    check_sizes(desc, "weight_tensor", (1, directions, gates * hidden, inputs), "1, directions, gates * units, inputs")
    state = (1, directions, batch, hidden)
    optional = {
        "bias_tensor": (1, 1, directions, 2 * gates * hidden),
        "hidden_init_tensor": state,
        "cell_mem_init_tensor": state,
        "sequence_lengths_tensor": (1, 1, 1, batch),
        "peephole_tensor": (1, 1, directions, 3 * hidden),
    }
    for member, sizes in optional.items():
        tensor = getattr(desc, member, None)
        if tensor is not None and tuple(tensor.sizes) != sizes:
            check_sizes(desc, member, sizes, f"for {directions} x {hidden} units and {batch} sequences")
    given = len(desc.activation_descs)
    if given != activations * directions:
        refuse(
            desc,
            "activation_descs",
            f"must be {activations * directions}, {activations} for each direction; got {given}",
        )
    return {"output_sequence_tensor": (steps, directions, batch, hidden), "output_single_tensor": state}


def _rnn_sizes(desc: Rnn | Draft) -> Mapping[str, Sequence[int]]:
    return _recurrent_sizes(desc, 1, 1)


def _lstm_sizes(desc: Lstm | Draft) -> Mapping[str, Sequence[int]]:
    if desc.use_clip_threshold and not desc.clip_threshold >= 0:
        refuse(desc, "clip_threshold", f"must be at least 0; got {desc.clip_threshold:g}")
    sizes = _recurrent_sizes(desc, 4, 3)
    return {**sizes, "output_cell_single_tensor": sizes["output_single_tensor"]}


def _gru_sizes(desc: Gru | Draft) -> Mapping[str, Sequence[int]]:
    return _recurrent_sizes(desc, 3, 2)


ACCURACY = Accuracy(
    "accurate",
    math.inf,
    "each step is a sum of products as GEMM makes it, activations as their own operators compute them, and sums and "
    "products that are rounded one by one; errors of one step go into the next",
)


_SUPPORT = (Support("1_0", (4, 4), FLOATS, sequence_lengths_tensor=(DataType.UINT32,)),)

_DECISIONS = (
    "Sums of products are those of GEMM, in FLOAT32, of the input and of the state apart: segments of 1024 terms. Then "
    "come the product of the input, plus that of the state, plus the sum of the two biases, each step rounded once to "
    "FLOAT32 with denormals as zero. So a sequence's results do not depend on the batch, or on how many steps follow.",
    "FLOAT16: the argument of each activation and each state are rounded to FLOAT16, and all between is FLOAT32. An "
    "activation gives what its own operator gives. So a sequence that is cut in two, with the state handed on, gives "
    "the same bits.",
    "Behind a sequence's own length OutputSequence is 0, and the state stays: OutputSingle is the state behind the "
    "sequence's last step. Backward, a sequence begins at its own last step, and what OutputSequence has at a place is "
    "the state behind the step of that place. A length above the number of steps counts as that number; with a length "
    "of 0 the state is the initial one.",
    "An absent BiasTensor, HiddenInitTensor, CellMemInitTensor or PeepholeTensor counts as zeros.",
    "At least one output must be given.",
)

_INPUT = "the sequences: 1, steps, batch, inputs"
_LENGTHS = "the length of each sequence, {1, 1, 1, batch}; without them all have as many steps as the input"
_SEQUENCE = "the states behind all steps: steps, directions, batch, units"
_SINGLE = "the states behind the last steps: 1, directions, batch, units"
_STATE = "the states before the first step: 1, directions, batch, units"
_DIRECTION = "from which end sequences are gone through, or from both"


class _Layer(OperatorDesc):
    input_tensor: TensorDesc = tensor_input(_INPUT)
    weight_tensor: TensorDesc = tensor_input("what the input is multiplied by: 1, directions, units, inputs")
    recurrence_tensor: TensorDesc = tensor_input("what the state is multiplied by: 1, directions, units, units")
    bias_tensor: TensorDesc | None = tensor_input(
        "what is added for the input, then for the state: 1, 1, directions, 2 * units", default=None
    )
    hidden_init_tensor: TensorDesc | None = tensor_input(_STATE, default=None)
    sequence_lengths_tensor: TensorDesc | None = tensor_input(_LENGTHS, default=None)
    output_sequence_tensor: TensorDesc | None = tensor_output(_SEQUENCE, default=None)
    output_single_tensor: TensorDesc | None = tensor_output(_SINGLE, default=None)
    activation_desc_count: int = count_attribute("number of activations")
    activation_descs: Sequence[FusedActivation] = activations_attribute(
        "f, for each direction", counted_by="activation_desc_count"
    )
    direction: RecurrentNetworkDirection = enum_attribute(_DIRECTION, RecurrentNetworkDirection)


_ONE_TYPE = (
    (
        "input_tensor",
        "weight_tensor",
        "recurrence_tensor",
        "bias_tensor",
        "hidden_init_tensor",
        "output_sequence_tensor",
        "output_single_tensor",
    ),
)


class Rnn(_Layer):
    """A recurrent layer of one gate (DML_RNN_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "recurrent",
        "H[t] = f(X[t] W^T + H[t - 1] R^T + Wb + Rb)",
        shapes=_rnn_sizes,
        same_data_type=_ONE_TYPE,
        decisions=_DECISIONS,
        accuracy=ACCURACY,
        support=_SUPPORT,
    )


class Gru(_Layer):
    """A recurrent layer of gated units (DML_GRU_OPERATOR_DESC)."""

    weight_tensor: TensorDesc = tensor_input(
        "what the input is multiplied by, of the gates z, r, h: 1, directions, 3 * units, inputs"
    )
    recurrence_tensor: TensorDesc = tensor_input(
        "what the state is multiplied by, likewise: 1, directions, 3 * units, units"
    )
    bias_tensor: TensorDesc | None = tensor_input(
        "what is added for the input, then for the state: 1, 1, directions, 6 * units", default=None
    )
    activation_descs: Sequence[FusedActivation] = activations_attribute(
        "f and g, for each direction", counted_by="activation_desc_count"
    )
    linear_before_reset: bool = boolean_attribute("whether r is a factor of the product, and not of the state in it")
    declaration: ClassVar = Declaration(
        "recurrent",
        (
            "z = f(X[t] Wz^T + H[t - 1] Rz^T + Wbz + Rbz); r likewise; h = g(X[t] Wh^T + (r * H[t - 1]) Rh^T + Wbh + "
            "Rbh), or with LinearBeforeReset g(X[t] Wh^T + r * (H[t - 1] Rh^T + Rbh) + Wbh); H[t] = (1 - z) * h + "
            "z * H[t - 1]"
        ),
        shapes=_gru_sizes,
        same_data_type=_ONE_TYPE,
        decisions=(
            *_DECISIONS,
            "r * H is rounded to the tensors' data type before it is multiplied by Rh. 1 - z, the two products and "
            "their sum are rounded to FLOAT32 one by one.",
        ),
        accuracy=ACCURACY,
        support=_SUPPORT,
    )


class Lstm(OperatorDesc):
    """A recurrent layer with cells that remember (DML_LSTM_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input(_INPUT)
    weight_tensor: TensorDesc = tensor_input(
        "what the input is multiplied by, of the gates i, o, f, c: 1, directions, 4 * units, inputs"
    )
    recurrence_tensor: TensorDesc = tensor_input(
        "what the state is multiplied by, likewise: 1, directions, 4 * units, units"
    )
    bias_tensor: TensorDesc | None = tensor_input(
        "what is added for the input, then for the state: 1, 1, directions, 8 * units", default=None
    )
    hidden_init_tensor: TensorDesc | None = tensor_input(_STATE, default=None)
    cell_mem_init_tensor: TensorDesc | None = tensor_input(
        "the cells before the first step: 1, directions, batch, units", default=None
    )
    sequence_lengths_tensor: TensorDesc | None = tensor_input(_LENGTHS, default=None)
    peephole_tensor: TensorDesc | None = tensor_input(
        "what cells are multiplied by in the gates i, o, f: 1, 1, directions, 3 * units", default=None
    )
    output_sequence_tensor: TensorDesc | None = tensor_output(_SEQUENCE, default=None)
    output_single_tensor: TensorDesc | None = tensor_output(_SINGLE, default=None)
    output_cell_single_tensor: TensorDesc | None = tensor_output(
        "the cells behind the last steps: 1, directions, batch, units", default=None
    )
    activation_desc_count: int = count_attribute("number of activations")
    activation_descs: Sequence[FusedActivation] = activations_attribute(
        "f, g and h, for each direction", counted_by="activation_desc_count"
    )
    direction: RecurrentNetworkDirection = enum_attribute(_DIRECTION, RecurrentNetworkDirection)
    clip_threshold: float = float_attribute("how large an activation's argument may be", converted_to="input_tensor")
    use_clip_threshold: bool = boolean_attribute("whether ClipThreshold counts")
    couple_input_forget: bool = boolean_attribute("whether the forget gate is 1 - i")
    declaration: ClassVar = Declaration(
        "recurrent",
        (
            "i = f(X[t] Wi^T + H[t - 1] Ri^T + Wbi + Rbi + Pi * C[t - 1]); F likewise, or 1 - i; c = g(X[t] Wc^T + "
            "H[t - 1] Rc^T + Wbc + Rbc); C[t] = F * C[t - 1] + i * c; o = f(X[t] Wo^T + H[t - 1] Ro^T + Wbo + Rbo + "
            "Po * C[t]); H[t] = o * h(C[t])"
        ),
        shapes=_lstm_sizes,
        same_data_type=(
            (
                "input_tensor",
                "weight_tensor",
                "recurrence_tensor",
                "bias_tensor",
                "hidden_init_tensor",
                "cell_mem_init_tensor",
                "peephole_tensor",
                "output_sequence_tensor",
                "output_single_tensor",
                "output_cell_single_tensor",
            ),
        ),
        decisions=(
            *_DECISIONS,
            "The product with a peephole is rounded, and added last. C is rounded to the tensors' data type, and used "
            "as such for Po * C and for h.",
            "UseClipThreshold bounds the arguments of all activations, that of h among them, but not C itself. The "
            "threshold is rounded to the tensors' data type, and must not be below 0 or NaN. NaN stays.",
        ),
        accuracy=ACCURACY,
        support=_SUPPORT,
    )
