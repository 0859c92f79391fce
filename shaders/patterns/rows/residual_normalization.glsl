// RESIDUAL_NORMALIZATION: a work group for each row. Sums are rounded to the tensors' type; the factor and the products with it and
// with the scale to FLOAT32 each, as MEAN_VARIANCE_NORMALIZATION does it.
//
// The mean square has two words. Invocation i adds the squares of the pairs i, i + 256, … in order; then one half of the invocations
// is added to the other, until one is left. Numbers below 2^-50 count as zeros there, and rows with numbers above 2^20 are scaled by a
// power of two.
//
// What an invocation reads of a row is loaded at once, as far as it is kept: GPUs wait for each load of a loop.
//
// The compile script passes ELEMENT_BITS (16 or 32). Elements are gone through in pairs.
#ifndef RESIDUAL_NORMALIZATION_GLSL
#define RESIDUAL_NORMALIZATION_GLSL
#extension GL_EXT_control_flow_attributes : enable

layout(local_size_x = 256) in; // INVOCATIONS

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_skip;
    uint base_scale;
    uint base_bias;
    uint base_output;
    uint base_sum;
    uint rows;
    uint pairs; // of a row
    uint skip_rows; // of the skip: it repeats
    uint epsilon; // a float32
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, skip)
BUFFER(2, scale)
BUFFER(3, bias)
BUFFER(4, output)
BUFFER(5, sum)

layout(constant_id = 2) const bool HAS_SKIP = false;
layout(constant_id = 3) const bool HAS_BIAS = false;
layout(constant_id = 4) const bool GIVES_SUM = false;
layout(constant_id = 5) const uint HELD = 1u; // pairs of an invocation that are loaded at once, at most MOST_HELD
layout(constant_id = 6) const bool ALL_ARE_HELD = false; // whether a row has no more

#include "arithmetic.glsl"
#include "division.glsl"
#include "error_free.glsl"
#include "pairs.glsl"

#define INVOCATIONS 256u
#define MOST_HELD 8u
#define TURN (HELD * INVOCATIONS)

shared float highs[INVOCATIONS];
shared float lows[INVOCATIONS];
shared uint least; // of the magnitudes' complements

uint rounded(uint x)
{
#if ELEMENT_BITS == 16
    return float32_from_float16(float16_from_float32(x));
#else
    return x;
#endif
}

uvec2 sum_at(uint row, uint pair)
{
    uvec2 a = PAIR_BITS(input, row * parameters.pairs + pair);
    if (!HAS_SKIP) {
        return a;
    }
    uvec2 b = PAIR_BITS(skip, (row % parameters.skip_rows) * parameters.pairs + pair);
    uvec2 result = uvec2(rounded(add_f32(a.x, b.x)), rounded(add_f32(a.y, b.y)));
    if (HAS_BIAS) {
        uvec2 c = PAIR_BITS(bias, pair);
        result = uvec2(rounded(add_f32(result.x, c.x)), rounded(add_f32(result.y, c.y)));
    }
    return result;
}

Double added(Double a, Double b)
{
    Double high = two_sum(a.high, b.high);
    precise float low = a.low + b.low;
    precise float all = low + high.low;
    bool is_finite = (floatBitsToUint(high.high) & MAGNITUDE_F32) < INFINITY_F32;
    return Double(high.high, is_finite ? all : 0.0);
}

Double with_square(Double total, uint bits, float shrunk)
{
    precise float x = uintBitsToFloat(bits) * shrunk;
    if ((floatBitsToUint(x) & MAGNITUDE_F32) < 0x26800000u) { // 2^-50
        return total;
    }
    return added(total, two_square(x));
}

#define PAIR(first, i) ((first) + (i) * INVOCATIONS)
#define IS_HELD(first, i) ((i) < HELD && PAIR(first, i) < parameters.pairs)
// What stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define HOLD(first) \
    [[unroll]] for (uint i = 0u; i < MOST_HELD; ++i) { \
        if (IS_HELD(first, i)) { \
            held[i] = sum_at(row, PAIR(first, i)); \
            scales[i] = PAIR_BITS(scale, PAIR(first, i)); \
        } \
    }

void main()
{
    uint row = work_group_index();
    if (row >= parameters.rows) {
        return;
    }
    uint invocation = index_in_group();
    if (invocation == 0u) {
        least = 0xffffffffu;
    }
    barrier();
    float shrunk = 1.0;
#if ELEMENT_BITS == 32
    uint greatest = 0u;
    for (uint pair = invocation; pair < parameters.pairs; pair += INVOCATIONS) {
        uvec2 bits = sum_at(row, pair);
        greatest = max(greatest, max(bits.x & MAGNITUDE_F32, bits.y & MAGNITUDE_F32));
    }
    atomicMin(least, ~greatest);
    barrier();
    greatest = ~least;
    if (greatest > 0x49800000u && greatest < INFINITY_F32) { // 2^20
        shrunk = power_of_two(127 - int(greatest >> 23));
    }
#endif
    uvec2 held[MOST_HELD];
    uvec2 scales[MOST_HELD];
    Double total = Double(0.0, 0.0);
    for (uint first = invocation; first < parameters.pairs; first += TURN) {
        HOLD(first)
        [[unroll]] for (uint i = 0u; i < MOST_HELD; ++i) {
            if (IS_HELD(first, i)) {
                if (GIVES_SUM) {
                    STORE_PAIR(sum, row * parameters.pairs + PAIR(first, i), held[i]);
                }
                total = with_square(with_square(total, held[i].x, shrunk), held[i].y, shrunk);
            }
        }
    }
    highs[invocation] = total.high;
    lows[invocation] = total.low;
    barrier();
    for (uint half_ = INVOCATIONS / 2u; half_ > 0u; half_ /= 2u) {
        if (invocation < half_) {
            uint other = invocation + half_;
            Double joined = added(Double(highs[invocation], lows[invocation]), Double(highs[other], lows[other]));
            highs[invocation] = joined.high;
            lows[invocation] = joined.low;
        }
        barrier();
    }
    precise float whole = highs[0] + lows[0];
    uint count = floatBitsToUint(float(int(2u * parameters.pairs)));
    uint mean = divide_f32(as_result(whole), count);
    int magnitude = int(floatBitsToUint(whole) & MAGNITUDE_F32);
    if (magnitude >= 0x21800000 && magnitude < 0x5d800000) { // 2^-60 to 2^60
        Double exact = quotient(Double(highs[0], lows[0]), Double(uintBitsToFloat(count), 0.0));
        mean = as_result(exact.high);
    }
    precise float epsilon = uintBitsToFloat(parameters.epsilon) * shrunk;
    epsilon = uintBitsToFloat(as_result(epsilon)) * shrunk;
    uint factor = recip_f32(sqrt_f32(add_f32(mean, as_result(epsilon))));
    factor = multiply_f32(factor, floatBitsToUint(shrunk));
    for (uint first = invocation; first < parameters.pairs; first += TURN) {
        if (!ALL_ARE_HELD) {
            HOLD(first)
        }
        [[unroll]] for (uint i = 0u; i < MOST_HELD; ++i) {
            if (IS_HELD(first, i)) {
                uvec2 result = uvec2(
                    multiply_f32(multiply_f32(held[i].x, factor), scales[i].x),
                    multiply_f32(multiply_f32(held[i].y, factor), scales[i].y));
                STORE_PAIR(output, row * parameters.pairs + PAIR(first, i), result);
            }
        }
    }
}

#endif
