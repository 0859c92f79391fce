// x divided by the fourth root, the square root or the product of both of a base: what LOCAL_RESPONSE_NORMALIZATION takes with a Beta of 1/4, 1/2 and
// 3/4, without a general power. Square roots are those of quick_division.glsl; the head of each has 12 bits, so that the product of two heads is
// exact, and what estimates of the inverse roots come to is the estimate of the quotient's inverse (J.-M. Muller et al., «Handbook of Floating-Point
// Arithmetic», 4.7: correction by the remainder).
#ifndef QUARTER_POWER_GLSL
#define QUARTER_POWER_GLSL

#include "error_free.glsl"

// A square root in two words, of which the first has 12 bits, and about 1 / root.
struct Root {
    float high, low, inverse;
};

// sqrt(high + low) within 2^-29 (relative), where high has 24 bits and low is 0, or high has 12 bits; for 2^-60 <= number <= 2^60. 20 operations.
Root root_of(float high, float low) {
    precise float number = high + low;
    precise float half_number = 0.5 * number;
    precise float inverse = uintBitsToFloat(0x5f376800u - (floatBitsToUint(number) >> 1));
    inverse = inverse * (1.50081661 - (half_number * inverse) * inverse);
    inverse = inverse * (1.50000072 - (half_number * inverse) * inverse);
    precise float head = leading_half(number * inverse);
    precise float half_inverse = 0.5 * inverse;
    precise float rest = exact_product_plus(-head, head, high) + low;
    precise float correction = rest * half_inverse;
    correction = correction + (correction * correction) * half_inverse;
    return Root(head, correction, inverse);
}

// The product of two roots, as a root.
Root product_of(Root a, Root b) {
    precise float product = a.high * b.high; // exact
    precise float head = leading_half(product);
    precise float rest = (product - head) + (a.high * b.low + a.low * (b.high + b.low));
    precise float inverse = a.inverse * b.inverse;
    return Root(head, rest, inverse);
}

// base^(quarters / 4) for 1 to 3 quarters.
Root power_by_quarters(float base, uint quarters) {
    Root square_root = root_of(base, 0.0);
    if (quarters == 2u) { return square_root; }
    Root fourth_root = root_of(square_root.high, square_root.low);
    if (quarters == 1u) { return fourth_root; }
    return product_of(square_root, fourth_root);
}

// x / base^(quarters / 4) within 0.5 ULP + 2^-28 of it; 2^-30 <= base < 2^60, and |x| is 0 or from 2^-40 up to 2^64.
// 55 operations for three quarters.
uint quotient_by_quarters(uint x, float base, uint quarters) {
    precise float number = uintBitsToFloat(x & 0x7fffffffu);
    Root divisor = power_by_quarters(base, quarters);
    precise float head = leading_half(number * divisor.inverse);
    precise float rest = exact_product_plus(-head, divisor.high, number) - head * divisor.low;
    precise float quotient = head + rest * divisor.inverse;
    return floatBitsToUint(quotient) | (x & 0x80000000u);
}

#endif
