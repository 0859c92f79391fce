// Hyperbolic functions.
#ifndef HYPERBOLIC_GLSL
#define HYPERBOLIC_GLSL

#include "exponential.glsl"
#include "ordinary.glsl"
#include "sigmoid.glsl"
#include "significand.glsl"

// From its parts: tanh(x) = head + rest, head being of 12 bits, where x is neither small nor large; there it is
// 1 - 2 * complement instead, which is all that 1 - (head + rest) cancels to.
struct Tangent {
    float head, rest, complement;
};

// tanh(x) = (2^count - power) / (2^count + power), where e^-2x = power / 2^count, for x from 0 to 44.
Tangent hyperbolic_tangent(Decay e) {
    precise float one = intBitsToFloat(e.exponent_bits + int(ONE_F32));
    precise float power = e.power.high + e.power.low;
    precise float divisor = one + power;
    precise float inverse = quick_inverse(divisor);
    // 12 bits of the quotient, so that the products are exact, and what is left of the dividend.
    precise float head = leading_half((one - power) * inverse);
    precise float rest = exact_product_plus(-head, e.power.high, exact_product_plus(-head, one, one - e.power.high));
    rest = ((rest - e.power.low) - head * e.power.low) * inverse;
    precise float complement = power * inverse;
    return Tangent(head, rest, complement);
}

// Where tanh(x) is neither small nor large in this sense: below, its series has two terms.
#define TANH_CENTRE 0x3b800000 // 2^-8
#define TANH_CENTRE_END 0x40900000 // 4.5
#define TANH_END 0x41200000 // 10: from here on 1

bool is_central(int magnitude) { return magnitude >= TANH_CENTRE && magnitude < TANH_CENTRE_END; }

// Largest error: 0.724 ULP, at 0.125309572 (0x3e005127): there 1 - e^-2x has lost two bits. 53 operations.
uint tanh_f32(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    precise float a = intBitsToFloat(magnitude);
    precise float doubled = a + a;
    Tangent tangent = hyperbolic_tangent(decay(doubled));
    precise float value = tangent.head + tangent.rest;
    uint result = floatBitsToUint(value);
    bool is_ordinary = is_central(magnitude);
    if (!is_ordinary) {
        precise float series = a - a * (a * a * 0.333333333);
        precise float far_value = 1.0 - (tangent.complement + tangent.complement);
        uint small = magnitude < int(SMALLEST_NORMAL_F32) ? 0u : floatBitsToUint(series);
        uint large = magnitude > TANH_END ? ONE_F32 : floatBitsToUint(far_value);
        result = magnitude < TANH_CENTRE ? small : large;
        return magnitude > int(INFINITY_F32) ? NAN_F32 : result | (x & SIGN_F32);
    }
    return result | (x & SIGN_F32);
}
FLOAT16_FORM_1(tanh)

// x = k * ln 2 + r with |r| <= 0.3467: e^x = 2^k * (cosh r + sinh r) and e^-x = 2^-k * (cosh r - sinh r), so that with
// q = 4^-k / 2
//     sinh x = 2^k * ((1/2 - q) * cosh r + (1/2 + q) * sinh r),  cosh x = 2^k * ((1/2 + q) * cosh r + (1/2 - q) * sinh r):
// no division, and no cancellation near zero, where k and 1/2 - q are 0. r = a + b, a being a multiple of 1/32: what 1 + a adds to
// e^r and 1 - a to e^-r is exact and added exactly; all else is small.
struct Hyperbolic {
    float growing; // (1 + a) / 2
    float q;
    float falling; // 1 - a
    float odd; // sinh r - a
    float even; // cosh r - 1
    float difference; // 1/2 - q
    float sum; // 1/2 + q
    uint exponent_bits; // k * 2^23, what a number's bits change by when it is multiplied by 2^k
};

// For 0 <= x <= 110, in 29 operations. The minimax polynomials were made with Sollya.
Hyperbolic hyperbolic(float x) {
    precise float shifted = x * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float head = exact_product_plus(count, -0.693145752, x);
    precise float tail = count * 1.42860677e-06;
    precise float a = (head + 393216.0) - 393216.0;
    precise float b = (head - a) - tail;
    precise float r = head - tail;
    precise float square = r * r;
    precise float even = 4.16664556e-02 + square * 1.39357673e-03;
    even = square * (0.5 + square * even);
    precise float odd = 0.00833319221 + square * 1.99584654e-04;
    odd = 0.166666671 + square * odd;
    odd = b + (r * square) * odd;

    // From k = 30 on e^-x no longer counts.
    int bounded = min(floatBitsToInt(shifted), 0x4b40001e);
    float q = uintBitsToFloat(0x3f000000u - (uint(bounded) << 24));
    precise float growing = exact_product_plus(0.5, a, 0.5);
    precise float falling = 1.0 - a;
    precise float difference = 0.5 - q;
    precise float sum = 0.5 + q;
    return Hyperbolic(growing, q, falling, odd, even, difference, sum, floatBitsToUint(shifted) << 23);
}

// The largest x whose sinh and cosh are finite.
#define LARGEST_HYPERBOLIC 0x42b2d4fc

// Largest error over all 2^32 inputs: 0.8146 ULP, at 0.364613473 (0x3ebaae9e). 34 float and 11 integer operations.
uint sinh_f32(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    Hyperbolic h = hyperbolic(intBitsToFloat(magnitude));
    precise float leading = exact_product_plus(-h.q, h.falling, h.growing);
    precise float rest = exact_product_plus(-h.q, h.falling, h.growing - leading); // exact
    precise float value = leading + ((h.sum * h.odd + h.difference * h.even) + rest);
    uint result = floatBitsToUint(value) + h.exponent_bits;
    result = magnitude > LARGEST_HYPERBOLIC ? INFINITY_F32 : result;
    result = magnitude < int(SMALLEST_NORMAL_F32) ? 0u : result;
    result |= x & SIGN_F32;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(sinh)

// Largest error over all 2^32 inputs: 0.7396 ULP, at 58.5881996 (0x426a5a51). 34 float and 8 integer operations.
uint cosh_f32(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    Hyperbolic h = hyperbolic(intBitsToFloat(magnitude));
    precise float leading = exact_product_plus(h.q, h.falling, h.growing);
    precise float rest = exact_product_plus(h.q, h.falling, h.growing - leading); // exact
    precise float value = leading + ((h.difference * h.odd + h.sum * h.even) + rest);
    uint result = floatBitsToUint(value) + h.exponent_bits;
    result = magnitude > LARGEST_HYPERBOLIC ? INFINITY_F32 : result;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : result;
}
FLOAT16_FORM_1(cosh)

#endif
