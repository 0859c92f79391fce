// Makes planes of rows (packed_planes.glsl), which packed_rows.glsl and packed_dots.glsl multiply. The compile script passes OPERAND,
// OPERAND_BITS and IS_WIDE.
//
// An invocation has the terms of two words of each plane, which are eight of a line's chunk; those of a chunk are neighbours.
#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"

#define LANES 4
layout(push_constant) uniform Parameters {
    uint base_left, base_output;
    uint work_items; // work groups
    uint rows, terms;
    uint lines; // rows and those that fill up tiles
    uint chunks;
    uint left_row; // strides in elements
    uint left_term;
} parameters;
#include "buffers.glsl"
#include "arithmetic.glsl"
#include "comparison.glsl"
#include "float16.glsl"
#define CONVOLUTION 0
#include "products/matrix_terms.glsl"
#include "products/packed_terms.glsl"

layout(local_size_x = 256) in;

BUFFER(0, left)
BUFFER(1, output)

layout(constant_id = 2) const uint CHUNK = 32u;
layout(constant_id = 3) const bool LEFT_HAS_EIGHTS = false; // whether eight neighbouring terms can be loaded at once
layout(constant_id = 4) const uint WORD_PARTS = 2u;         // words of four bytes that a word of weights makes
#define PLANE_WORDS (CHUNK / 4u)
#include "products/packed_planes.glsl"

#define EIGHTHS (CHUNK / 8u) // invocations of a chunk
shared uint peaks[256], lows[256], rests[256];
shared ivec4 sums[256]; // of the bytes of each plane
shared int rest_sums[256];

void main() {
    WORK_GROUP(group)
    uint own = index_in_group();
    uint eighth = own % EIGHTHS;
    uint item = (group * 256u + own) / EIGHTHS;
    uint chunk = item % parameters.chunks;
    uint line = item / parameters.chunks;
    uint index = BASE(OPERAND_BITS, left) + line * parameters.left_row;
    uvec4 terms[2]; // as bits of FLOAT32: bytes of the words that this invocation makes
    bool is_inside = line < parameters.rows;
    if (is_inside && LEFT_HAS_EIGHTS && WORD_PARTS != 4u) {
        uint first = chunk * CHUNK + eighth * 8u;
        bool is_there = first < parameters.terms;
        index += is_there ? first : 0u;
        uint eight[8];
#if OPERAND_BITS == 32
        uvec4 low = fours_left[index >> 2u], high = fours_left[(index >> 2u) + 1u];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            eight[i] = operand(low[i]);
            eight[4u + i] = operand(high[i]);
        }
#else
        uvec4 pairs = fours_left[index >> 3u];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uvec2 pair = float32_from_float16_pair(pairs[i]);
            eight[2u * i] = pair.x;
            eight[2u * i + 1u] = pair.y;
        }
#endif
        [[unroll]] for (uint k = 0u; k < 2u; ++k) {
            [[unroll]] for (uint b = 0u; b < 4u; ++b) {
                uint bits = WORD_PARTS == 2u ? eight[b * 2u + k] : eight[k * 4u + b];
                terms[k][b] = is_there ? bits : 0u;
            }
        }
    } else {
        [[unroll]] for (uint k = 0u; k < 2u; ++k) {
            [[unroll]] for (uint b = 0u; b < 4u; ++b) {
                uint term = chunk * CHUNK + TERM_OF_BYTE(eighth * 2u + k, b);
                bool is_there = is_inside && term < parameters.terms;
                uint at = is_there ? index + term * parameters.left_term : BASE(OPERAND_BITS, left);
                uint bits = operand(LOAD(OPERAND, words_left, at));
                terms[k][b] = is_there ? bits : 0u;
            }
        }
    }
    uint peak = 0u;
    uint lowest = NO_LOWEST;
    [[unroll]] for (uint k = 0u; k < 2u; ++k) {
        uvec4 magnitudes = terms[k] & MAGNITUDE_F32;
        peak = max(peak, max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w)));
        lowest = min(lowest, lowest_of_four(terms[k]));
    }
    peaks[own] = peak;
    lows[own] = lowest;
    barrier();
    uint first_of_chunk = own - eighth;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint at = first_of_chunk + min(i, EIGHTHS - 1u);
        peak = max(peak, peaks[at]);
        lowest = min(lowest, lows[at]);
    }
    bool in_range = is_in_range(peak);
    float units = units_of(peak, in_range);
    BYTES words[2];
    ivec4 own_sums = ivec4(0);
    int own_rests = 0;
    uint own_bits = 0u;
    [[unroll]] for (uint k = 0u; k < 2u; ++k) {
        ivec4 integers;
        [[unroll]] for (uint b = 0u; b < 4u; ++b) {
            precise float number = uintBitsToFloat(in_range ? terms[k][b] : 0u) * units;
            float left_over;
            integers[b] = integer_of_term(number, left_over);
            own_bits |= left_over != 0.0 ? 1u << TERM_OF_BYTE(eighth * 2u + k, b) : 0u;
            own_rests += rest_of_left_over(left_over);
        }
        words[k] = bytes_of(integers);
        [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) {
            [[unroll]] for (int b = 0; b < 32; b += 8) { own_sums[plane] += bitfieldExtract(int(words[k][plane]), b, 8); }
        }
    }
    sums[own] = own_sums;
    rests[own] = own_bits;
    rest_sums[own] = own_rests;
    barrier();
    if (group >= parameters.work_items || line >= parameters.lines) { return; }
    uint at = (BASE_WORD(output) >> 2u) + LINE_AT(chunk, line, parameters.lines);
    [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) {
        pairs_output[(at + plane * PLANE_VECTORS) * 2u + eighth] = uvec2(words[0][plane], words[1][plane]);
    }
    if (eighth == 0u) {
        [[unroll]] for (uint i = 1u; i < 4u; ++i) {
            if (i < EIGHTHS) {
                own_sums += sums[own + i];
                own_bits |= rests[own + i];
                own_rests += rest_sums[own + i];
            }
        }
        uint behind[8];
        [[unroll]] for (uint i = 0u; i < 8u; ++i) { behind[i] = 0u; }
        [[unroll]] for (uint plane = 0u; plane < PLANES; ++plane) { behind[plane] = uint(own_sums[plane]); }
        behind[LINE_UNIT] = floatBitsToUint(unit_of(peak, in_range, is_thin(peak, lowest)));
        behind[LINE_SCALE] = floatBitsToUint(units);
        behind[LINE_RESTS] = own_bits;
#ifdef IS_WIDE
        int upper = own_sums.x * 256 + own_sums.y, lower = own_sums.z * 256 + own_sums.w;
        precise float of_terms = number_of_halves(upper, lower) + rest_of_sum(own_rests);
        behind[LINE_TERMS] = floatBitsToUint(of_terms);
#endif
        fours_output[at + PLANE_SPACE] = uvec4(behind[0], behind[1], behind[2], behind[3]);
        fours_output[at + PLANE_SPACE + 1u] = uvec4(behind[4], behind[5], behind[6], behind[7]);
    }
}
