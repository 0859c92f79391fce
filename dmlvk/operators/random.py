"""The operators that make random numbers."""

from __future__ import annotations

import enum

from dmlvk.operators.words import *

STATE_WORDS = 6  # Four of the counter, two of the key


class RandomGeneratorType(enum.IntEnum):
    """DML_RANDOM_GENERATOR_TYPE: how RANDOM_GENERATOR makes its numbers."""

    PHILOX_4X32_10 = 0


def _shapes(desc: RandomGenerator | Draft) -> Mapping[str, Sizes]:
    sizes = tuple(desc.input_state_tensor.sizes)
    wanted = (*[1] * (len(sizes) - 1), STATE_WORDS)
    if sizes != wanted:
        refuse(desc, "input_state_tensor.sizes", f"must be {list(wanted)}; got {list(sizes)}")
    return {"output_state_tensor": sizes}


class RandomGenerator(OperatorDesc):
    """Fills a tensor with random numbers of 32 bits (DML_RANDOM_GENERATOR_OPERATOR_DESC)."""

    input_state_tensor: TensorDesc = tensor_input("the counter in four elements, then the key (the seed) in two")
    output_tensor: TensorDesc = tensor_output("the random numbers")
    output_state_tensor: TensorDesc | None = tensor_output(
        "the state for the next numbers: the counter advanced by the number of elements / 4, rounded up", default=None
    )
    type: RandomGeneratorType = enum_attribute("the generator", RandomGeneratorType)
    declaration: ClassVar = Declaration(
        "random",
        "output[4g … 4g + 3] = philox_4x32_10(counter + g, key)",
        decisions=(
            "The state's elements 0 to 3 are the words of a counter of 128 bits, the lowest one first, and 4 and 5 are "
            "the first and second word of Philox's key. The counter wraps.",
            "The four words that Philox makes of counter + g are the output's elements 4g to 4g + 3 in row-major "
            "order, whatever its strides; of the last four those are left out that the output has no room for.",
        ),
        same_data_type=(("input_state_tensor", "output_tensor", "output_state_tensor"),),
        shapes=_shapes,
        support=(Support("3_0", (4, 4), (DataType.UINT32,)), Support("4_0", (1, 8), (DataType.UINT32,))),
    )
