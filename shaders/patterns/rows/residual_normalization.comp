// RESIDUAL_NORMALIZATION: x = Input + Skip (+ Bias), x / sqrt(mean(x^2) + Epsilon) * Scale.
// RESIDUAL_NORMALIZATION: a work group for each row. Sums are rounded to the tensors' type; the factor and the products with it and
// with the scale to FLOAT32 each, as MEAN_VARIANCE_NORMALIZATION does it.
//
// The mean square has two words. Invocation i adds the squares of the pairs i, i + 256, … in order; then one half of the invocations
// is added to the other, until one is left. Numbers below 2^-50 count as zeros there, and rows with numbers above 2^20 are scaled by a
// power of two. Of FLOAT16 squares are exact, and no sum or product is a denormal of FLOAT32.
//
// What an invocation reads of a row is loaded at once, and kept in shared memory for those who add: GPUs wait for each load of a loop,
// and for instructions that are executed once. So more invocations load and multiply than add.
//
// The compile script passes ELEMENT_BITS (16 or 32) and INVOCATIONS (256, or a multiple). Elements are gone through in pairs.
#extension GL_EXT_control_flow_attributes : enable

layout(local_size_x = 256) in; // INVOCATIONS when a kernel is made

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_skip, base_scale, base_bias, base_output, base_sum, rows;
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
layout(constant_id = 5) const uint LOADED = 1u; // pairs of an invocation that are loaded at once, at most MOST_LOADED
layout(constant_id = 6) const bool ALL_ARE_LOADED = false; // whether a row has no more
// Whether a row is so many pairs of every invocation: without branches all loads are under way before the first is waited for.
layout(constant_id = 7) const bool TILES_ARE_WHOLE = false;

#include "arithmetic.glsl"
#include "division.glsl"
#include "error_free.glsl"
#include "pairs.glsl"

#define CHAINS 256u // invocations that add
#define MOST_KEPT (ELEMENT_BITS == 16 ? 2048u : 1024u)
#define MOST_LOADED (MOST_KEPT / INVOCATIONS)
#define TILE (LOADED * INVOCATIONS)

shared float highs[CHAINS], lows[CHAINS];
shared uint shared_factor;
#if ELEMENT_BITS == 16
shared uint kept[MOST_KEPT];
#define KEPT_BITS(pair) float32_from_float16_pair(kept[pair])
#define KEEP(pair, bits) kept[pair] = float16_from_float32((bits).x) | float16_from_float32((bits).y) << 16u;
#else
shared uvec2 kept[MOST_KEPT];
#define KEPT_BITS(pair) kept[pair]
#define KEEP(pair, bits) kept[pair] = bits;
#endif
#if ELEMENT_BITS == 32
shared uint least; // of the magnitudes' complements
#endif

uint rounded(uint x) {
#if ELEMENT_BITS == 16
    return float32_from_float16(float16_from_float32(x));
#else
    return x;
#endif
}

#if ELEMENT_BITS == 16
#define SUM(a, b) plain_sum(a, b)
#define PRODUCT(a, b) plain_product(a, b) // a factor is at least 2^-65
#else
#define SUM(a, b) add_f32(a, b)
#define PRODUCT(a, b) multiply_f32(a, b)
#endif

uint scaled(uint x, uint factor, uint scale) {
    uint product = PRODUCT(x, factor);
    return PRODUCT(product, scale);
}

uvec2 sum_at(uint row, uint pair) {
    uvec2 a = PAIR_BITS(input, row * parameters.pairs + pair);
    if (!HAS_SKIP) { return a; }
    uvec2 b = PAIR_BITS(skip, (row % parameters.skip_rows) * parameters.pairs + pair);
    uvec2 result = uvec2(rounded(SUM(a.x, b.x)), rounded(SUM(a.y, b.y)));
    if (HAS_BIAS) {
        uvec2 c = PAIR_BITS(bias, pair);
        result = uvec2(rounded(SUM(result.x, c.x)), rounded(SUM(result.y, c.y)));
    }
    return result;
}

// The second word of something that is not finite is nothing.
Double finite_words(float high, float low) {
    bool is_finite = (floatBitsToUint(high) & MAGNITUDE_F32) < INFINITY_F32;
    return Double(high, is_finite ? low : 0.0);
}

Double added(Double a, Double b) {
    Double high = two_sum(a.high, b.high);
    precise float low = a.low + b.low;
    precise float all = low + high.low;
    return finite_words(high.high, all);
}

Double with_square(Double total, uint bits, float shrunk) {
#if ELEMENT_BITS == 16
    precise float square = uintBitsToFloat(bits) * uintBitsToFloat(bits);
    Double sum = two_sum(total.high, square);
    precise float low = total.low + sum.low;
    return Double(sum.high, low);
#else
    precise float x = uintBitsToFloat(bits) * shrunk;
    if ((floatBitsToUint(x) & MAGNITUDE_F32) < 0x26800000u) { // 2^-50
        return total;
    }
    return added(total, two_square(x));
#endif
}

// What two halvings leave of the sums of four invocations.
#define SUM_OF(invocation) Double(highs[invocation], lows[invocation])
Double sum_of_four(uint first, uint step) {
    Double even = added(SUM_OF(first), SUM_OF(first + 2u * step));
    Double odd = added(SUM_OF(first + step), SUM_OF(first + 3u * step));
    return added(even, odd);
}

#define PAIR(i) ((i) * INVOCATIONS + invocation)
#define IS_LOADED(first, i) ((i) < LOADED && (TILES_ARE_WHOLE || (first) + PAIR(i) < parameters.pairs))
// What stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define HOLD(first) \
    [[unroll]] for (uint i = 0u; i < MOST_LOADED; ++i) { \
        if (IS_LOADED(first, i)) { \
            loaded[i] = sum_at(row, (first) + PAIR(i)); \
            scales[i] = PAIR_BITS(scale, (first) + PAIR(i)); \
        } \
    } \
    [[unroll]] for (uint i = 0u; i < MOST_LOADED; ++i) { \
        if (IS_LOADED(first, i)) { \
            KEEP(PAIR(i), loaded[i]) \
            if (GIVES_SUM) { STORE_PAIR(sum, row * parameters.pairs + (first) + PAIR(i), loaded[i]); } \
        } \
    }

void main() {
    uint row = work_group_index();
    if (row >= parameters.rows) { return; }
    uint invocation = index_in_group();
    float shrunk = 1.0;
#if ELEMENT_BITS == 32
    if (invocation == 0u) { least = 0xffffffffu; }
    barrier();
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
    uvec2 loaded[MOST_LOADED], scales[MOST_LOADED];
    Double total = Double(0.0, 0.0);
    for (uint first = 0u; first < parameters.pairs; first += TILE) {
        if (first != 0u) {
            barrier(); // what was kept has been added
        }
        HOLD(first)
        barrier();
        uint count = min(TILE, parameters.pairs - first);
        for (uint pair = invocation; invocation < CHAINS && pair < count; pair += CHAINS) {
            uvec2 bits = KEPT_BITS(pair);
            total = with_square(with_square(total, bits.x, shrunk), bits.y, shrunk);
        }
    }
    if (invocation < CHAINS) {
        Double own = finite_words(total.high, total.low);
        highs[invocation] = own.high;
        lows[invocation] = own.low;
    }
    barrier();
    for (uint step = CHAINS / 4u; step > 1u; step /= 4u) {
        if (invocation < step) {
            Double joined = sum_of_four(invocation, step);
            highs[invocation] = joined.high;
            lows[invocation] = joined.low;
        }
        barrier();
    }
    if (invocation == 0u) {
        Double all = sum_of_four(0u, 1u);
        precise float whole = all.high + all.low;
        uint count = floatBitsToUint(float(int(2u * parameters.pairs)));
        uint mean = divide_f32(as_result(whole), count);
        int magnitude = int(floatBitsToUint(whole) & MAGNITUDE_F32);
        if (magnitude >= 0x21800000 && magnitude < 0x5d800000) { // 2^-60 to 2^60
            Double exact = quotient(all, Double(uintBitsToFloat(count), 0.0));
            mean = as_result(exact.high);
        }
        precise float epsilon = uintBitsToFloat(parameters.epsilon) * shrunk;
        epsilon = uintBitsToFloat(as_result(epsilon)) * shrunk;
        uint factor = recip_f32(sqrt_f32(add_f32(mean, as_result(epsilon))));
        shared_factor = multiply_f32(factor, floatBitsToUint(shrunk));
    }
    barrier();
    uint factor = shared_factor;
    for (uint first = 0u; first < parameters.pairs; first += TILE) {
        [[unroll]] for (uint i = 0u; i < MOST_LOADED; ++i) {
            if (IS_LOADED(first, i)) {
                uint pair = first + PAIR(i);
                uvec2 bits = ALL_ARE_LOADED ? KEPT_BITS(PAIR(i)) : sum_at(row, pair);
                uvec2 factors = ALL_ARE_LOADED ? scales[i] : PAIR_BITS(scale, pair);
                uvec2 result = uvec2(scaled(bits.x, factor, factors.x), scaled(bits.y, factor, factors.y));
                STORE_PAIR(output, row * parameters.pairs + pair, result);
            }
        }
    }
}
