"""NONZERO_COORDINATES: where the elements stand that are not zero."""

from __future__ import annotations

import itertools

from dmlvk.operators.words import *

_UINT32 = (DataType.UINT32,)


def _shapes(desc: NonzeroCoordinates | Draft) -> Mapping[str, Sizes]:
    sizes = tuple(desc.input_tensor.sizes)
    if desc.output_count_tensor is not None:
        check_sizes(desc, "output_count_tensor", [1] * desc.output_count_tensor.dimension_count, "one number")
    effective = len(list(itertools.dropwhile(lambda size: size == 1, sizes)))
    if desc.output_coordinates_tensor is None:
        leading = [1] * max(0, len(sizes) - 2)
        return {
            "output_count_tensor": (1,) * len(sizes),
            "output_coordinates_tensor": (*leading, desc.input_tensor.element_count, len(sizes)),
        }
    given = list(desc.output_coordinates_tensor.sizes)
    if not max(effective, 1) <= given[-1] <= len(sizes):
        refuse(
            desc,
            "output_coordinates_tensor.sizes",
            f"must end with {max(effective, 1)}, the dimensions of InputTensor without leading ones of size 1, to "
            f"{len(sizes)}, all of them; got {given}",
        )
    leading = [1] * (len(given) - 2)
    return {"output_coordinates_tensor": (*leading, desc.input_tensor.element_count, given[-1])}


class NonzeroCoordinates(OperatorDesc):
    """Where the elements stand that are not zero (DML_NONZERO_COORDINATES_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_count_tensor: TensorDesc = tensor_output("how many are not zero")
    output_coordinates_tensor: TensorDesc = tensor_output("a row with the coordinates of each of them")
    declaration: ClassVar = Declaration(
        "indexed",
        "the coordinates of all elements that are not 0, in row-major order, and how many there are",
        decisions=(
            "NaN and denormals are not zero; zeros of both signs are.",
            "Rows behind those of the elements are 0. With fewer columns than dimensions, coordinates of "
            "leading dimensions of size 1 are left out. There is at least one column.",
        ),
        same_data_type=(),
        shapes=_shapes,
        support=(
            Support("3_0", (4, 5), TYPES_TO_32, output_count_tensor=_UINT32, output_coordinates_tensor=_UINT32),
            Support(
                "4_0",
                (1, 8),
                TYPES_TO_32,
                dimensions_of={"output_coordinates_tensor": (2, 8)},
                output_count_tensor=_UINT32,
                output_coordinates_tensor=_UINT32,
            ),
        ),
    )
