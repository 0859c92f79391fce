// Makes of an operand of a product what exact_layout.glsl says.
//
// A line is a row of the left operand or a column of the right one. A work group has a block of 16 lines, and an invocation 16 neighbouring
// terms of it. Behind the last term and the last line there are zeros.
#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"

#define LANES 4
#include "buffers.glsl"

#define INVOCATIONS 256
layout(local_size_x = INVOCATIONS) in;

BUFFER(0, source)
BUFFER(1, output)

#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#define CONVOLUTION 0
#define OPERAND float32
#define OPERAND_BITS 32
#define RESULT_BITS 32
#define PARALLEL 2u
#define SEGMENTS_COME 1u
#define WRITES_TOTALS false
layout(constant_id = 2) const bool IS_RIGHT = false;
// Whether an element's neighbours in memory are neighbouring terms, and whether four of them can be loaded at once.
layout(constant_id = 3) const bool ALONG_TERMS = false;
layout(constant_id = 4) const bool HAS_VECTORS = false;

layout(push_constant) uniform Parameters {
    uint base_source, base_output;
// Here row_tiles are the lines of each copy in the output, and column_tiles the copies.
#include "products/matrix_parameters.glsl"
} parameters;

// The operand is the one or the other.
#define base_left base_source
#define base_right base_source
#define base_addend base_source
#define words_right words_source

#include "arithmetic.glsl"
#include "products/matrix_batch.glsl"

#define PADDING SIGN_F32 // which no element is
uint operand(uint bits) { return (bits & INFINITY_F32) == 0u ? 0u : bits; } // denormals are zeros

#include "products/matrix_operands.glsl"
#include "products/exact_layout.glsl"

// Exponents of p, biased: what is smaller counts as the least, so that rounding is coarser than it had to be, and larger ones and what is
// not finite are out of range. Sums of products neither overflow nor are denormal then.
#define LEAST_EXPONENT 87u
#define LARGEST_EXPONENT 167u
#define EXPONENT_OF_BLOCK(peak) max((peak) + 0x7fffffu >> 23u, LEAST_EXPONENT)

// The integer for a term, rounded to nearest, ties to even, by a sum that is so: with 3 * 2^22 integers of up to 2^22 are from 2^23 to 2^24.
// `scale` is 2^22 / p, and products with it are exact.
#define ROUNDS_FROM 12582912.0
int integer_of(uint bits, float scale, inout bool is_exact) {
    precise float number = uintBitsToFloat(bits) * scale;
    precise float biased = number + ROUNDS_FROM;
    precise float rounded = biased - ROUNDS_FROM;
    // Not what is less than one: it may be denormal, and zero on some devices.
    bool is_integer = bits == 0u || (floatBitsToUint(number) & MAGNITUDE_F32) >= floatBitsToUint(1.0);
    is_exact = is_exact && is_integer && floatBitsToUint(rounded) == floatBitsToUint(number);
    return int(floatBitsToUint(biased)) - int(floatBitsToUint(ROUNDS_FROM));
}

// The bytes of four integers: a word of the first ones, one of the second and one of the third. With 128 added to each byte none is negative,
// and its highest bit is turned over.
uvec3 bytes_of(uvec4 biased) {
    uvec2 low = biased.xy & 0xffffu | biased.zw << 16u;
    uvec2 high = biased.xy >> 16u | biased.zw & 0xffff0000u;
    uvec3 words = uvec3(high.x & 0xff00ffu | (high.y & 0xff00ffu) << 8u, low.x >> 8u & 0xff00ffu | low.y & 0xff00ff00u,
        low.x & 0xff00ffu | (low.y & 0xff00ffu) << 8u);
    return words ^ 0x80808080u;
}

#define LINES 16u
#define PARTS 16u // of a line's block: an invocation each
#define PITCH 17u
shared uint peaks[INVOCATIONS], sums[INVOCATIONS], counts[INVOCATIONS], squares[INVOCATIONS], are_rounded[INVOCATIONS];
shared uvec4 staged[LINES * PITCH];

// Of a unit: a 16th to a 32nd of the mean of the magnitudes that are no zeros, but no less than 2^-60, so that no product of two is denormal.
#define LEAST_UNIT 67u

// The numbers of a block, whose terms are rounded by half of an integer each. Six products leave out s1 s2' + s2 s1' and s2 s2' of a term:
// `square` is the sum of s1 s1 + s2 s2.
uvec4 numbers_of_block(uint exponent, uint sum, uint count, uint square, bool is_exact) {
    if (exponent > LARGEST_EXPONENT || count == 0u) {
        return uvec4(0u, 0u, 0u, exponent > LARGEST_EXPONENT ? IS_OUT : 0u);
    }
    float power = uintBitsToFloat(exponent << 23u);
    float part = uintBitsToFloat(exponent - 14u << 23u);
    precise float magnitudes = float(int(sum + 383u >> 8u)) * part; // exact
    precise float left_out = float(int(square + (square + 255u >> 8u))) * part; // exact
    precise float both = magnitudes + left_out;
    uint unit = max((floatBitsToUint(magnitudes) >> 23u) - uint(findMSB(count)) - 4u, LEAST_UNIT);
    return uvec4(floatBitsToUint(power), floatBitsToUint(magnitudes), floatBitsToUint(both), unit << 23u | (is_exact ? IS_EXACT : 0u));
}

void main() {
    WORK_GROUP(group)
    uint lines = parameters.row_tiles;
    uint copies = parameters.column_tiles;
    uint own = index_in_group();
    uint line_groups = lines / LINES;
    uint copy = group / (line_groups * BLOCKS);
    uint within = group % (line_groups * BLOCKS);
    // Neighbouring work groups and invocations have what is neighbouring in memory.
    uint block = ALONG_TERMS ? within % BLOCKS : within / line_groups;
    uint first_line = (ALONG_TERMS ? within / BLOCKS : within % line_groups) * LINES;
    uint own_line = ALONG_TERMS ? own / PARTS : own % LINES;
    uint part = ALONG_TERMS ? own % PARTS : own / LINES;
    uint line = first_line + own_line;
    uint first_term = block * BLOCK_TERMS + part * 16u;

    Batch batch = batch_at(copy, copies, 0u);
    Column column = column_at(batch, line);
    bool is_inside = line < (IS_RIGHT ? parameters.columns : parameters.rows);
    uvec4 elements[4];
    uint peak = 0u;
    uint count = 0u;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint term = first_term + 4u * i;
        elements[i] = uvec4(0u);
        if (HAS_VECTORS) {
            if (is_inside && term < parameters.terms) {
                elements[i] = fours_source[(IS_RIGHT ? right_index(column, term) : left_index(batch, line, term)) >> 2u];
            }
        } else {
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                if (is_inside && term + j < parameters.terms) {
                    elements[i][j] = words_source[IS_RIGHT ? right_index(column, term + j) : left_index(batch, line, term + j)];
                }
            }
        }
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            elements[i][j] = operand(elements[i][j]);
            peak = max(peak, elements[i][j] & MAGNITUDE_F32);
            count += min(elements[i][j], 1u);
        }
    }
    peaks[own] = peak;
    counts[own] = count;
    uint first_beside = ALONG_TERMS ? own - part : own_line; // of the invocations that have this line
    uint beside = ALONG_TERMS ? 1u : LINES;
    barrier();
    [[unroll]] for (uint i = 0u; i < PARTS; ++i) {
        peak = max(peak, peaks[first_beside + i * beside]);
    }
    uint exponent = EXPONENT_OF_BLOCK(peak);
    float scale = uintBitsToFloat(276u - min(exponent, LARGEST_EXPONENT) << 23u);
    uint sum = 0u;
    uint square = 0u;
    bool is_exact = true;
    uvec4 planes[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uvec4 biased;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            int integer = integer_of(exponent <= LARGEST_EXPONENT ? elements[i][j] : 0u, scale, is_exact);
            elements[i][j] = uint(max(integer, -integer));
            sum += elements[i][j];
            biased[j] = uint(integer + 0x808080);
            int second = int(biased[j] >> 8u & 255u) - 128;
            int third = int(biased[j] & 255u) - 128;
            square += uint(second * second + third * third);
        }
        uvec3 words = bytes_of(biased);
        planes[0][i] = words.x;
        planes[1][i] = words.y;
        planes[2][i] = words.z;
    }
    sums[own] = sum;
    squares[own] = square;
    are_rounded[own] = uint(!is_exact);
    barrier();
    sum = 0u;
    count = 0u;
    square = 0u;
    uint is_rounded = 0u;
    [[unroll]] for (uint i = 0u; i < PARTS; ++i) {
        sum += sums[first_beside + i * beside];
        count += counts[first_beside + i * beside];
        square += squares[first_beside + i * beside];
        is_rounded |= are_rounded[first_beside + i * beside];
    }
    uvec4 numbers = numbers_of_block(exponent, sum, count, square, is_rounded == 0u);
    // Of a term n p 2^-22 that was rounded, (2 |n| - 1) p 2^-23 is no more than its magnitude.
    int down = int(numbers.w >> 23u) + 23 - int(numbers.x >> 23u);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uvec4 doubled = 2u * elements[i] - min(elements[i], uvec4(1u));
        uvec4 units = down >= 0 ? doubled >> min(uint(down), 31u) : doubled << min(uint(-down), 7u);
        units = min(units, uvec4(127u));
        planes[MAGNITUDES][i] = units.x | units.y << 8u | units.z << 16u | units.w << 24u;
    }
    uint stored_line = own / PARTS;
    uint base = (BASE_WORD(output) >> 2u) + (first_line + stored_line) * LINE_VECTORS + block * BLOCK_VECTORS + own % PARTS;
    [[unroll]] for (uint plane = 0u; plane < 4u; ++plane) {
        uvec4 vector = planes[plane];
        if (!ALONG_TERMS) {
            barrier();
            staged[own_line * PITCH + part] = vector;
            barrier();
            vector = staged[stored_line * PITCH + own % PARTS];
        }
        fours_output[base + plane_at(copy, plane, lines)] = vector;
    }
    if (part == 0u) {
        fours_output[(BASE_WORD(output) >> 2u) + block_at(copies, copy, block, lines) + line] = numbers;
    }
}
