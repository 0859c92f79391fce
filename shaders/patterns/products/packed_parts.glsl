// Makes of rows of FLOAT16 what packed_layout.glsl says.
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
#include "float16.glsl"

layout(local_size_x = 256) in;

BUFFER(0, left)
BUFFER(1, output)

layout(constant_id = 2) const uint CHUNK = 32u;
layout(constant_id = 3) const bool LEFT_HAS_EIGHTS = false; // whether eight terms can be loaded at once
layout(constant_id = 4) const bool IS_FOR_BYTES = false;    // of weights: terms n and n + 2 are a pair then, else n and n + 4
layout(constant_id = 6) const uint LARGEST = 0u; // magnitude, as FLOAT32, whose chunk's third parts have exact sums
layout(constant_id = 5) const bool ARE_PEAKS = false;       // whether there are largest magnitudes alone
#include "products/packed_layout.glsl"

#define GROUP_CHUNKS 4u
#define GROUP_ROWS 16u
#define PARTS_OF_CHUNK 4u
shared uint peaks[256];
shared uint rests[64]; // whether a row's chunk has third parts, or one of eight rows

float rounded_to(float number, uint exponent) {
    precise float biased = number + BIAS_OF(exponent);
    precise float rounded = biased - BIAS_OF(exponent);
    return rounded;
}

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
    uint index = BASE(16, left) + line * parameters.left_row + first * parameters.left_term;
    if (is_inside && LEFT_HAS_EIGHTS) {
        uvec4 eight = fours_left[index >> 3u];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uvec2 pair = float32_from_float16_pair(eight[i]);
            terms[2u * i] = uintBitsToFloat(pair.x);
            terms[2u * i + 1u] = uintBitsToFloat(pair.y);
        }
    } else if (is_inside) {
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            if (first + i < parameters.terms) {
                terms[i] = uintBitsToFloat(float32_from_float16(LOAD_float16(words_left, index + i * parameters.left_term)));
            }
        }
    }
    uint peak = 0u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        peak = max(peak, floatBitsToUint(terms[i]) & MAGNITUDE_F32);
    }
    peaks[own] = peak;
    if (own < 64u) { rests[own] = 0u; }
    barrier();
    [[unroll]] for (uint i = 0u; i < PARTS_OF_CHUNK; ++i) {
        peak = max(peak, peaks[own / PARTS_OF_CHUNK * PARTS_OF_CHUNK + i]);
    }
    bool is_out = peak > LARGEST;
    float firsts[8], seconds[8], thirds[8];
    bool has_rest = false;
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
}
