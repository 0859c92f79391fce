// Of each line of a packed operand the sum of its terms, and its zero point: a work group for each.
#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"

#define LANES 4
#include "buffers.glsl"

#define INVOCATIONS 64
layout(local_size_x = INVOCATIONS) in;

BUFFER(0, packed)
BUFFER(1, zero) // the operand's zero points; where there are none, something else that is not read
BUFFER(2, output)

layout(constant_id = 2) const bool HAS_ZERO = false;
layout(constant_id = 3) const uint FLIPPED = 0u; // as where it was packed

layout(push_constant) uniform Parameters {
    uint base_packed, base_zero, base_output;
    uint work_items; // lines of all batches
    uint lines;      // of a batch, those of zeros included
    uint tensor_lines;
    uint vectors;    // of a line
    uint zero_line;  // from one line's zero point to the next one's
    uint zero_batch; // the same from batch to batch
} parameters;

shared int sums[INVOCATIONS];

void main() {
    uint item = work_group_index();
    uint lane = index_in_group();
    int sum = 0;
    if (item < parameters.work_items) {
        for (uint vector = lane; vector < parameters.vectors; vector += INVOCATIONS) {
            uvec4 terms = fours_packed[(BASE_WORD(packed) >> 2u) + item * parameters.vectors + vector];
            [[unroll]] for (uint word = 0u; word < 4u; ++word) {
                [[unroll]] for (int first = 0; first < 32; first += 8) {
                    sum += bitfieldExtract(int(terms[word]), first, 8);
                }
            }
        }
    }
    sums[lane] = sum;
    [[unroll]] for (uint others = INVOCATIONS / 2u; others > 0u; others /= 2u) {
        barrier();
        if (lane < others) { sums[lane] += sums[lane + others]; }
    }
    if (lane == 0u && item < parameters.work_items) {
        uint line = min(item % parameters.lines, parameters.tensor_lines - 1u);
        uint zero_at = BASE(8, zero) + item / parameters.lines * parameters.zero_batch + line * parameters.zero_line;
        uint zero = HAS_ZERO ? LOAD(uint8, words_zero, zero_at) : 0u;
        uint signed_zero = uint(bitfieldExtract(int(zero ^ FLIPPED), 0, 8));
        pairs_output[(BASE_WORD(output) >> 1u) + item] = uvec2(uint(sums[0]), signed_zero);
    }
}
