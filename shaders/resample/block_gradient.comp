// RESAMPLE_GRAD, RESAMPLE_GRAD1 where each element went into a block of its own, of two columns and BLOCK_ROWS rows, with weight 1: two
// neighbouring elements for an invocation, which loads their blocks by fours. Sums are those of gradient_sums.glsl.
#include "windows/gradient_sums.glsl"

void main() {
    uint number = 2u * invocation_index();
    if (number >= parameters.count) { return; }
    uint row = number / SIZE_A;
    uint at = (BASE_WORD(input) + (row * BLOCK_ROWS * SIZE_A + number % SIZE_A) * 2u) >> 2u;
    Gradient left = NO_GRADIENT;
    Gradient right = NO_GRADIENT;
    for (uint i = 0u; i < BLOCK_ROWS; ++i) {
        uvec4 four = fours_input[at + i * (SIZE_A >> 1u)];
        left = with_addend(with_addend(left, four.x, 1.0, ADD_ALL), four.y, 1.0, ADD_ALL);
        right = with_addend(with_addend(right, four.z, 1.0, ADD_ALL), four.w, 1.0, ADD_ALL);
    }
    uvec2 sums = floatBitsToUint(vec2(left.sum.high, right.sum.high));
    if (needs_slow_path(left)) { sums.x = gradient_of(number); }
    if (needs_slow_path(right)) { sums.y = gradient_of(number + 1u); }
    pairs_output[(BASE_WORD(output) + number) >> 1u] = sums;
}
