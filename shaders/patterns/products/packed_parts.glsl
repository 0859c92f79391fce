// Makes of rows what packed_layout.glsl says. The compile script passes OPERAND and OPERAND_BITS, and IS_WIDE.
//
// A work group has four chunks of 16 rows, and an invocation eight terms.
#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"

#define LANES 4
layout(push_constant) uniform Parameters {
    uint base_left, base_output;
    uint work_items; // work groups
    uint rows, terms;
    uint lines; // of the output, a multiple of 16
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

layout(local_size_x = 256) in;

BUFFER(0, left)
BUFFER(1, output)

layout(constant_id = 2) const uint CHUNK = 32u;
layout(constant_id = 3) const bool LEFT_HAS_EIGHTS = false; // whether eight terms can be loaded at once
layout(constant_id = 4) const bool IS_FOR_BYTES = false;    // of weights: terms n and n + 2 are a pair then, else n and n + 4
layout(constant_id = 6) const uint LARGEST = 0u; // magnitude, as FLOAT32, whose chunk's third parts have exact sums
layout(constant_id = 5) const bool ARE_PEAKS = false;       // whether there are largest magnitudes alone
#include "products/packed_layout.glsl"
#ifdef IS_WIDE
#include "products/packed_terms.glsl"
#endif

#define GROUP_CHUNKS 4u
#define GROUP_ROWS 16u
#define PARTS_OF_CHUNK 4u
shared uint peaks[256];
#ifdef IS_WIDE
shared uint lows[256];
shared ivec3 sums[256]; // of what parts are made of
#endif
shared uint rests[64]; // whether a row's chunk has third parts, or one of eight rows

#ifndef IS_WIDE
float rounded_to(float number, uint exponent) {
    precise float biased = number + BIAS_OF(exponent);
    precise float rounded = biased - BIAS_OF(exponent);
    return rounded;
}

#endif

uint pair_of(float low, float high) {
    if (PACKS_TO_NEAREST_EVEN) { return packHalf2x16(vec2(low, high)); }
    return float16_from_number(floatBitsToUint(low)) | float16_from_number(floatBitsToUint(high)) << 16u;
}

// Whichever it is: nothing is indexed by a variable.
#define OF_ORDER(numbers, k, second) \
    (IS_FOR_BYTES ? numbers[(k) % 2u + (k) / 2u * 4u + (second) * 2u] : numbers[(k) + (second) * 4u])
#define PAIR(numbers, k) pair_of(OF_ORDER(numbers, k, 0u), OF_ORDER(numbers, k, 1u))
#define STORE_PART(part, numbers) \
    fours_output[(BASE_WORD(output) >> 2u) + PART_AT(chunk, part, line, parameters.lines) + own % PARTS_OF_CHUNK] = \
        uvec4(PAIR(numbers, 0u), PAIR(numbers, 1u), PAIR(numbers, 2u), PAIR(numbers, 3u));

void main() {
    WORK_GROUP(group)
    uint own = index_in_group();
    uint row_groups = parameters.lines / GROUP_ROWS;
    uint line = group % row_groups * GROUP_ROWS + own / (GROUP_CHUNKS * PARTS_OF_CHUNK);
    uint own_chunk = own / PARTS_OF_CHUNK % GROUP_CHUNKS;
    uint chunk = group / row_groups * GROUP_CHUNKS + own_chunk;
    uint first = chunk * CHUNK + own % PARTS_OF_CHUNK * 8u;
    bool is_inside = line < parameters.rows && own % PARTS_OF_CHUNK * 8u < CHUNK && first < parameters.terms;
    float terms[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        terms[i] = 0.0;
    }
    uint index = BASE(OPERAND_BITS, left) + line * parameters.left_row + first * parameters.left_term;
#if OPERAND_BITS == 32
    if (is_inside && LEFT_HAS_EIGHTS) {
        uvec4 low = fours_left[index >> 2u], high = fours_left[(index >> 2u) + 1u];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            terms[i] = uintBitsToFloat(operand(low[i]));
            terms[4u + i] = uintBitsToFloat(operand(high[i]));
        }
#else
    if (is_inside && LEFT_HAS_EIGHTS) {
        uvec4 eight = fours_left[index >> 3u];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uvec2 pair = float32_from_float16_pair(eight[i]);
            terms[2u * i] = uintBitsToFloat(pair.x);
            terms[2u * i + 1u] = uintBitsToFloat(pair.y);
        }
#endif
    } else if (is_inside) {
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            if (first + i < parameters.terms) {
                terms[i] = uintBitsToFloat(operand(LOAD(OPERAND, words_left, index + i * parameters.left_term)));
            }
        }
    }
    uint peak = 0u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        peak = max(peak, floatBitsToUint(terms[i]) & MAGNITUDE_F32);
    }
    peaks[own] = peak;
#ifdef IS_WIDE
    uint lowest = NO_LOWEST;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        lowest = min(lowest, lowest_of(floatBitsToUint(terms[i])));
    }
    lows[own] = lowest;
#endif
    if (own < 64u) { rests[own] = 0u; }
    barrier();
    [[unroll]] for (uint i = 0u; i < PARTS_OF_CHUNK; ++i) {
        peak = max(peak, peaks[own / PARTS_OF_CHUNK * PARTS_OF_CHUNK + i]);
    }
    float firsts[8], seconds[8], thirds[8];
    bool has_rest = false;
#ifdef IS_WIDE
    [[unroll]] for (uint i = 0u; i < PARTS_OF_CHUNK; ++i) {
        lowest = min(lowest, lows[own / PARTS_OF_CHUNK * PARTS_OF_CHUNK + i]);
    }
    bool in_range = is_in_range(peak);
    float units = units_of(peak, in_range);
    float unit = unit_of(peak, in_range, is_thin(peak, lowest));
    has_rest = unit < 0.0; // so that sums are looked at
    float fourths[8], fifths[8];
    ivec3 own_sums = ivec3(0);
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        precise float number = (in_range ? terms[i] : 0.0) * units;
        float left_over;
        int integer = integer_of_term(number, left_over);
        int n = int(uint(integer) + 128u) >> 8;
        int first = n + 2048 >> 12;
        int rest = rest_of_left_over(left_over);
        firsts[i] = float(first) * 16.0;
        seconds[i] = float(n - first * 4096) * 0.00390625; // 2^-8
        thirds[i] = float(integer - n * 256) * 0.0000152587890625; // 2^-16
        fourths[i] = float(rest >> 9);
        fifths[i] = float(rest & 511);
        has_rest = has_rest || rest != 0;
        own_sums += ivec3(n, integer - n * 256, rest);
    }
    sums[own] = own_sums;
#else
    bool is_out = peak > LARGEST;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        float term = is_out ? 0.0 : terms[i];
        firsts[i] = rounded_to(term, FIRST_UNIT(peak));
        precise float after_first = term - firsts[i];
        seconds[i] = rounded_to(after_first, SECOND_UNIT(peak));
        precise float third = after_first - seconds[i];
        thirds[i] = third;
        has_rest = has_rest || third != 0.0;
        firsts[i] = is_out ? uintBitsToFloat(INFINITY_F32) : firsts[i];
    }
#endif
    uint place = ARE_PEAKS ? own / PARTS_OF_CHUNK : own / 128u * GROUP_CHUNKS + own_chunk; // of eight rows
    if (has_rest) { atomicOr(rests[place], 1u); }
    barrier();
    if (chunk >= parameters.chunks) { return; }
    if (ARE_PEAKS) {
        if (own % PARTS_OF_CHUNK == 0u) {
            words_output[BASE_WORD(output) + chunk * parameters.lines + line] = peak | rests[place];
        }
        return;
    }
    if (own % 128u == own_chunk * PARTS_OF_CHUNK) {
        words_output[BASE_WORD(output) + FLAG_AT(chunk, line, parameters.lines, parameters.chunks)] = rests[place];
    }
    STORE_PART(0u, firsts)
    STORE_PART(1u, seconds)
    STORE_PART(2u, thirds)
#ifdef IS_WIDE
    if (rests[place] != 0u) {
        STORE_PART(3u, fourths)
        STORE_PART(4u, fifths)
    }
    if (own % PARTS_OF_CHUNK == 0u) {
        ivec3 all = sums[own] + sums[own + 1u] + sums[own + 2u] + sums[own + 3u];
        int whole = all.x + (all.y >> 8); // rounded once, of 256 whole + all.y & 255
        float number = exact_product_plus(float(whole >> 12), 1048576.0, float((whole & 4095) << 8 | all.y & 255)); // 2^20
        precise float with_rests = number + rest_of_sum(all.z);
        precise float of_terms = with_rests * abs(unit);
        precise float of_parts = unit * 65536.0;
        uint at = BASE_WORD(output) + NUMBERS_AT(chunk, line, parameters.lines, parameters.chunks);
        words_output[at] = floatBitsToUint(of_parts);
        words_output[at + 1u] = floatBitsToUint(of_terms);
    }
#endif
}
