// RESAMPLE_GRAD, RESAMPLE_GRAD1 where rows and columns were doubled and averaged, places lying between the middles of elements: each element had
// a part in four columns and four rows, of 1/4, 3/4, 3/4 and 1/4; at an edge, which was repeated, in the outermost one of 1. Two
// neighbouring elements for an invocation. Sums are those of gradient_sums.glsl; what has no weight adds a zero.
#extension GL_EXT_control_flow_attributes : enable
#include "windows/gradient_sums.glsl"

// The parts of an element in its four rows, or columns.
vec4 parts_of(uint element, uint size) {
    bool is_first = element == 0u;
    bool is_last = element + 1u == size;
    return vec4(is_first ? 0.0 : 0.25, is_first ? 1.0 : 0.75, is_last ? 1.0 : 0.75, is_last ? 0.0 : 0.25);
}

Gradient with_four(Gradient gradient, uvec4 four, vec4 parts, float part) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        precise float weight = part * parts[i];
        gradient = with_addend(gradient, four[i], weight, ADD_ALL);
    }
    return gradient;
}

void main() {
    uint number = 2u * invocation_index();
    if (number >= parameters.count) { return; }
    uint row = number / SIZE_A;
    uint column = number % SIZE_A;
    uint row_in_image = row % SIZE_B;
    vec4 row_parts = parts_of(row_in_image, SIZE_B);
    uvec4 middle[4];
    uint before[4], behind[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint near = 2u * row_in_image + i; // one more than the number of the input's row
        uint input_row = 2u * (row - row_in_image) + min(max(near, 1u), COUNT_B) - 1u;
        uint at = BASE_WORD(input) + input_row * COUNT_A + 2u * column;
        middle[i] = fours_input[at >> 2u];
        before[i] = words_input[at - (column == 0u ? 0u : 1u)];
        behind[i] = words_input[at + (column + 2u == SIZE_A ? 3u : 4u)];
    }
    Gradient left = NO_GRADIENT;
    Gradient right = NO_GRADIENT;
    vec4 left_parts = parts_of(column, SIZE_A);
    vec4 right_parts = parts_of(column + 1u, SIZE_A);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        left = with_four(left, uvec4(before[i], middle[i].xyz), left_parts, row_parts[i]);
        right = with_four(right, uvec4(middle[i].yzw, behind[i]), right_parts, row_parts[i]);
    }
    uvec2 sums = floatBitsToUint(vec2(left.sum.high, right.sum.high));
    if (needs_slow_path(left)) { sums.x = gradient_of(number); }
    if (needs_slow_path(right)) { sums.y = gradient_of(number + 1u); }
    pairs_output[(BASE_WORD(output) + number) >> 1u] = sums;
}
