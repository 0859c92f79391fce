// Rows of coefficients in memory, for functions that are short polynomials in each of many intervals: an idea of S. Gal and
// B. Bachelis, «An accurate elementary mathematical library for the IEEE floating point standard» (1991). One row of 16 bytes, or a pair
// of 8, is read for every element, through the caches. scripts/make_coefficients.py makes the rows; dmlvk/kernels/library/coefficients.py
// binds them behind a kernel's operands.
//
// A kernel reads rows of one width: COEFFICIENTS_ARE_PAIRS, defined before, says that it is pairs. The buffer is the same.
#ifndef COEFFICIENTS_GLSL
#define COEFFICIENTS_GLSL

#include "error_free.glsl"

// Only kernels of several operators have more than one output (elementwise_operands.glsl).
#ifndef FURTHER_OUTPUT_COUNT
#define FURTHER_OUTPUT_COUNT 0
#endif

#define COEFFICIENT_BINDING (INPUT_COUNT + 1 + FURTHER_OUTPUT_COUNT)

#ifdef COEFFICIENTS_ARE_PAIRS

// Not `coherent` as operands are: nothing writes it.
layout(std430, set = 0, binding = COEFFICIENT_BINDING) buffer Coefficients { uvec2 coefficient_pairs[]; };

// Where the pairs of each function begin, which are behind all rows; counted in pairs.
#define LOGARITHM_TERM_PAIRS 47522u

vec2 coefficient_pair(uint number) { return uintBitsToFloat(coefficient_pairs[number]); }

#else

// Not `coherent` as operands are: nothing writes it.
layout(std430, set = 0, binding = COEFFICIENT_BINDING) buffer Coefficients { uvec4 coefficient_rows[]; };

// Where the rows of each function begin.
#define GELU_ROWS 0u
#define ACOSH_ROWS 2753u
#define ATANH_ROWS 5441u
#define ATANH_BELOW_ONE_ROWS 6209u
#define SOFTPLUS_ROWS 9153u
#define TAN_ROWS 11713u
#define COTANGENT_ROWS 13505u
#define TANH_ROWS 15297u
#define COMPLEMENT_ROWS 16593u
#define ASINH_ROWS 18641u
#define ATAN_ROWS 21201u

vec4 coefficient_row(uint number) { return uintBitsToFloat(coefficient_rows[number]); }

// What the function of a row adds, at a distance from the row's point, to its value there, which is row.y to within 2^-8 of a unit
// in the last place. 3 operations.
float beside_point(vec4 row, float distance) {
    precise float difference = distance * (row.z + distance * row.w);
    return difference;
}

// The function at x >= 0, whose row the first 16 bits of x choose: rows from number `first` on are those of the bits from
// `first_bits` to `last_bits`. 5 float and 4 integer operations.
float value_by_leading_bits(float x, uint first, uint first_bits, uint last_bits) {
    uint leading = min(max(floatBitsToUint(x) >> 16, first_bits), last_bits);
    vec4 row = coefficient_row(first - first_bits + leading);
    precise float value = row.y + beside_point(row, x - row.x);
    return value;
}

// The function of a row at x in two words, of which the first one has 12 bits. 8 operations.
Double value_of_row(vec4 row, Double x) {
    precise float distance = (x.high - row.x) + x.low;
    float head = leading_half(row.y);
    precise float rest = (row.y - head) + beside_point(row, distance);
    return Double(head, rest);
}

#endif

#endif
