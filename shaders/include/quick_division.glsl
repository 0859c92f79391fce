// Quotients and square roots in two words, precise enough for one rounding to follow: about half the cost of those of
// error_free.glsl.
//
// Both begin with a guess from the bits, which are a logarithm in a way, and take two steps of Newton's iteration. Its
// constants differ from the textbook's 2 and 3/2 so that the errors, which would all be of one sign, spread around zero.
#ifndef QUICK_DIVISION_GLSL
#define QUICK_DIVISION_GLSL

#include "error_free.glsl"

// 1 / b within 2^-19.5 (relative) for 2^-60 <= b <= 2^100: a linear guess in the logarithm, made by subtracting the bits, and
// Newton's iteration twice with constants that spread its error around zero. 7 operations.
float quick_inverse(float b) {
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(b));
    inverse = inverse * (2.00127991 - b * inverse);
    inverse = inverse * (2.00000072 - b * inverse);
    return inverse;
}

// a / b within 2^-30 (relative), for 2^-60 <= |b| <= 2^60 and |a| in that range or 0; low is below 2^-10 of high.
// 17 operations. The quotient's head has 12 bits, so that its products with the halves of b are exact, and what is left
// of a is known but for one small rounding.
Double quick_quotient(Double a, Double b) {
    precise float inverse = uintBitsToFloat(0x7ef33400u - floatBitsToUint(b.high));
    inverse = inverse * (2.00127991 - b.high * inverse);
    inverse = inverse * (2.00000072 - b.high * inverse);
    precise float head = leading_half(a.high * inverse);
    precise float b_head = leading_half(b.high);
    precise float b_tail = (b.high - b_head) + b.low;
    precise float rest = (exact_product_plus(-head, b_head, a.high) - head * b_tail) + a.low;
    precise float low = rest * inverse;
    return Double(head, low);
}

// sqrt(a) within 2^-31 (relative), for 2^-60 <= a <= 2^60, and of 0; low is below 2^-10 of high. 18 operations.
Double quick_square_root(float a) {
    precise float half_a = 0.5 * a;
    precise float inverse = uintBitsToFloat(0x5f376800u - (floatBitsToUint(a) >> 1));
    inverse = inverse * (1.50081661 - (half_a * inverse) * inverse);
    inverse = inverse * (1.50000072 - (half_a * inverse) * inverse);
    precise float head = leading_half(a * inverse);
    precise float half_inverse = 0.5 * inverse;
    // With the head h, sqrt(a) - h = (a - h^2) / (2 sqrt(a)) + (sqrt(a) - h)^2 / (2 sqrt(a)).
    precise float low = exact_product_plus(-head, head, a) * half_inverse;
    low = low + (low * low) * half_inverse;
    return Double(head, low);
}

#endif
