// Rows that lie contiguously, of up to 16384 elements: a work group loads each once, holds it in registers while sums of it are made, and
// stores what becomes of it. For GPUs; included by a file that defines behind it
//   register_row()      what is done with the row, from LOAD_ROW to the end; all invocations of a work group come through every barrier
//
// Lanes have the blocks that patterns/rows/reduction.glsl gives them, and sums have its order: a lane's blocks four at a time, these groups
// in rising order, then neighbouring lanes four at a time. Here each lane is an invocation. The names x_0 to x_15 are a lane's blocks.
#include "datatypes.glsl"
#include "float16_fours.glsl"
#include "float32.glsl"
#include "term_sums.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input, base_scale, base_bias, base_output, rows, row_length, epsilon;
    uint sizes[4]; // of the axes that lead from row to row
    uint input_strides[4], scale_strides[4], bias_strides[4], output_strides[4];
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, scale)
BUFFER(2, bias)
BUFFER(3, output)

layout(constant_id = 2) const uint WIDTH = 32u;         // bits of an element: FLOAT32 or FLOAT16
layout(constant_id = 3) const uint OTHER_AXES = 0u;     // those that lead from row to row
layout(constant_id = 4) const uint LANES_OF_ROW = 256u; // a power of four
layout(constant_id = 5) const uint BLOCKS_OF_LANE = 1u; // at most 16
layout(constant_id = 6) const bool HAS_ALL_BLOCKS = false;
layout(constant_id = 7) const uint SCALE = 0u; // ABSENT, ONE_FOR_ROW or ALONG_ROW
layout(constant_id = 8) const uint BIAS = 0u;
layout(constant_id = 9) const bool HAS_RELU = false;
#define ABSENT 0u
#define ONE_FOR_ROW 1u
#define ALONG_ROW 2u

#define ROWS_OF_GROUP (256u / LANES_OF_ROW)

uint slot, lane;
uint input_row; // where the row begins in the input, in elements

// Where an operand's row begins, in elements.
#define ROW_POSITION(name) \
    uint row_of_##name(uint row) { \
        uint offset = 0u; \
        for (uint axis = 0u; axis < OTHER_AXES; ++axis) { \
            uint size = parameters.sizes[axis]; \
            offset += (row % size) * parameters.name##_strides[axis]; \
            row /= size; \
        } \
        return offset; \
    }
ROW_POSITION(input)
ROW_POSITION(scale)
ROW_POSITION(bias)
ROW_POSITION(output)

uvec4 widened_four(uvec2 pair) { return uvec4(float32_from_float16_pair(pair.x), float32_from_float16_pair(pair.y)); }

// Four neighbours of an operand, the first one's place a multiple of four; and one element.
#define LOAD_FOUR(name) \
    uvec4 four_of_##name(uint offset) { \
        if (WIDTH == 16u) { \
            return widened_four(pairs_##name[(BASE_WORD(name) >> 1u) + (offset >> 2u)]); \
        } \
        return fours_##name[(BASE_WORD(name) + offset) >> 2u]; \
    } \
    uint one_of_##name(uint offset) { \
        if (WIDTH == 16u) { \
            uint word = words_##name[BASE_WORD(name) + (offset >> 1u)]; \
            return float32_from_float16((word >> ((offset & 1u) * 16u)) & 0xffffu); \
        } \
        return words_##name[BASE_WORD(name) + offset]; \
    }
LOAD_FOUR(input)
LOAD_FOUR(scale)
LOAD_FOUR(bias)

// Results as the output has them: of FLOAT16 tensors rounded once more.
void store_four(uint offset, uvec4 x) {
    if (WIDTH == 16u) {
        pairs_output[(BASE_WORD(output) >> 1u) + (offset >> 2u)] = uvec2(x.x | (x.y << 16), x.z | (x.w << 16));
    } else {
        fours_output[(BASE_WORD(output) + offset) >> 2u] = x;
    }
}

#define FIRST_OF(block) (4u * (lane + uint(block) * LANES_OF_ROW))
// A lane's last block only may be missing.
#define IS_THERE(block) \
    (uint(block) + 1u < BLOCKS_OF_LANE \
        || (uint(block) < BLOCKS_OF_LANE && (HAS_ALL_BLOCKS || FIRST_OF(block) < parameters.row_length)))

#define EACH_GROUP_OF_BLOCKS(DO) \
    DO(0, 1, 2, 3) \
    if (BLOCKS_OF_LANE > 4u) { DO(4, 5, 6, 7) } \
    if (BLOCKS_OF_LANE > 8u) { DO(8, 9, 10, 11) } \
    if (BLOCKS_OF_LANE > 12u) { DO(12, 13, 14, 15) }

#define LOAD_BLOCK(block) if (IS_THERE(block)) { x_##block = four_of_input(input_row + FIRST_OF(block)); }
#define LOAD_BLOCKS(a, b, c, d) LOAD_BLOCK(a) LOAD_BLOCK(b) LOAD_BLOCK(c) LOAD_BLOCK(d)

// Declares and loads the lane's blocks; those that are not there are zeros.
#define NO_ELEMENTS uvec4(0u)
#define LOAD_ROW \
    uvec4 x_0 = NO_ELEMENTS, x_1 = NO_ELEMENTS, x_2 = NO_ELEMENTS, x_3 = NO_ELEMENTS, x_4 = NO_ELEMENTS, x_5 = NO_ELEMENTS, \
        x_6 = NO_ELEMENTS, x_7 = NO_ELEMENTS, x_8 = NO_ELEMENTS, x_9 = NO_ELEMENTS, x_10 = NO_ELEMENTS, x_11 = NO_ELEMENTS, \
        x_12 = NO_ELEMENTS, x_13 = NO_ELEMENTS, x_14 = NO_ELEMENTS, x_15 = NO_ELEMENTS; \
    EACH_GROUP_OF_BLOCKS(LOAD_BLOCKS)

shared uint shared_highs[256], shared_lows[256], shared_flags[256];
shared uvec4 shared_outer[256]; // sums of terms that are not ordinary: where the flags say that there are any

void share_sum(uint slot, TermSum sum) {
    shared_highs[slot] = floatBitsToUint(sum.ordinary.high);
    shared_lows[slot] = floatBitsToUint(sum.ordinary.low);
    shared_flags[slot] = sum.flags;
    if ((sum.flags & HAS_OUTER_TERMS) != 0u) {
        shared_outer[slot] = uvec4(floatBitsToUint(sum.small.high), floatBitsToUint(sum.small.low),
            floatBitsToUint(sum.large.high), floatBitsToUint(sum.large.low));
    }
}

TermSum shared_sum(uint at) {
    uint flags = shared_flags[at];
    uvec4 outer = uvec4(0u);
    if ((flags & HAS_OUTER_TERMS) != 0u) { outer = shared_outer[at]; }
    return TermSum(Double(uintBitsToFloat(shared_highs[at]), uintBitsToFloat(shared_lows[at])),
        Double(uintBitsToFloat(outer.x), uintBitsToFloat(outer.y)), Double(uintBitsToFloat(outer.z), uintBitsToFloat(outer.w)), flags);
}

// What the lanes' sums of a row come to: of the first row in the work group for its first invocation, and so on. Neighbours join what there
// is, so that few instructions are executed for many.
TermSum sum_of_lanes(TermSum sum) {
    if (LANES_OF_ROW > 1u) {
        share_sum(slot, sum);
        for (uint distance = 1u; distance < LANES_OF_ROW; distance *= 4u) {
            barrier();
            if (slot < 64u / distance) {
                uint first = 4u * distance * slot;
                sum = shared_sum(first);
                for (uint i = 1u; i < 4u; ++i) { sum = joined_sums(sum, shared_sum(first + i * distance)); }
                share_sum(first, sum);
            }
        }
    }
    return sum;
}

// The same of sums in two words that are right, or NaN.
#define LANES_OF_TREE LANES_OF_ROW
#include "quick_tree.glsl"

// Two words of each row, from the invocations of before, for all.
shared uint shared_first[256], shared_second[256];
uvec2 words_of_row(uvec2 words) {
    if (LANES_OF_ROW == 1u) { return words; }
    if (slot < ROWS_OF_GROUP) {
        shared_first[slot] = words.x;
        shared_second[slot] = words.y;
    }
    barrier();
    return uvec2(shared_first[slot / LANES_OF_ROW], shared_second[slot / LANES_OF_ROW]);
}

// Whether something is rare in a row of the work group, in one of two sums. (A lane that has a row for itself looks at that alone.)
shared uint has_slow_path[2];
void begin_rows() {
    if (slot == 0u) {
        has_slow_path[0] = 0u;
        has_slow_path[1] = 0u;
    }
}
bool any_slow_path(uint sum, inout uvec2 words, bool needs_slow_path) {
    if (LANES_OF_ROW == 1u) { return needs_slow_path; }
    if (slot < ROWS_OF_GROUP && needs_slow_path) { has_slow_path[sum] = 1u; }
    words = words_of_row(words);
    return has_slow_path[sum] != 0u;
}

void register_row(uint row, bool is_row);

void main() {
    slot = index_in_group();
    lane = slot % LANES_OF_ROW;
    uint row = work_group_index() * ROWS_OF_GROUP + slot / LANES_OF_ROW;
    bool is_row = row < parameters.rows;
    // Those that are too many come through the same barriers with another row, and store nothing.
    register_row(is_row ? row : 0u, is_row);
}
