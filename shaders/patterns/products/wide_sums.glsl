// MATRIX_MULTIPLY_INTEGER_TO_FLOAT: sums of products of integers less their zero points, exact in three words each.
//
// Each invocation adds the terms from first_term to end_term of one sum to what the launches before left of it. The compile script
// passes LEFT, the data type of both operands, and LEFT_BITS.

#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_left; // where operands begin in their buffers, in words
    uint base_right, base_left_zero, base_right_zero, base_sums, work_items, rows, columns, channels, first_term;
    uint end_term;
    uint left_batch; // what a step along an axis adds to an operand's element
    uint left_channel, left_row, left_term, right_batch, right_channel, right_term, right_column, left_zero_row;
    uint right_zero_column;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, left)
BUFFER(1, right)
BUFFER(2, left_zero)
BUFFER(3, right_zero)
BUFFER(4, sums)

layout(constant_id = 2) const bool HAS_LEFT_ZERO = false;
layout(constant_id = 3) const bool HAS_RIGHT_ZERO = false;

#include "exact_scaling.glsl"

// Whether x is below y. Integers of fewer bits are extended.
bool is_below_i32(uint x, uint y) { return int(x) < int(y); }
bool is_below_u32(uint x, uint y) { return x < y; }
#define IS_BELOW FORM(is_below, LEFT)

void main() {
    WORK_ITEM(item)
    uint column = item % parameters.columns;
    uint rest = item / parameters.columns;
    uint row = rest % parameters.rows;
    rest /= parameters.rows;
    uint channel = rest % parameters.channels;
    uint batch = rest / parameters.channels;
    uint left_at = batch * parameters.left_batch + channel * parameters.left_channel + row * parameters.left_row;
    uint right_at = batch * parameters.right_batch + channel * parameters.right_channel + column * parameters.right_column;
    uint left_zero = 0u;
    uint right_zero = 0u;
    if (HAS_LEFT_ZERO) {
        left_zero = LOAD(LEFT, words_left_zero, BASE(LEFT_BITS, left_zero) + row * parameters.left_zero_row);
    }
    if (HAS_RIGHT_ZERO) {
        right_zero = LOAD(LEFT, words_right_zero, BASE(LEFT_BITS, right_zero) + column * parameters.right_zero_column);
    }
    uint at = BASE_WORD(sums) + 3u * item;
    uvec3 sum = uvec3(0u);
    if (parameters.first_term != 0u) { sum = uvec3(words_sums[at], words_sums[at + 1u], words_sums[at + 2u]); }
    for (uint term = parameters.first_term; term < parameters.end_term; ++term) {
        uint x = LOAD(LEFT, words_left, BASE(LEFT_BITS, left) + left_at + term * parameters.left_term);
        uint y = LOAD(LEFT, words_right, BASE(LEFT_BITS, right) + right_at + term * parameters.right_term);
        bool x_is_below = IS_BELOW(x, left_zero);
        bool y_is_below = IS_BELOW(y, right_zero);
        uint high, low;
        umulExtended(x_is_below ? left_zero - x : x - left_zero, y_is_below ? right_zero - y : y - right_zero, high, low);
        uvec3 product = uvec3(low, high, 0u);
        sum = x_is_below != y_is_below ? wide_difference(sum, product) : wide_sum(sum, product);
    }
    words_sums[at] = sum.x;
    words_sums[at + 1u] = sum.y;
    words_sums[at + 2u] = sum.z;
}
