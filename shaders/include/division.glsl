// Quotients, reciprocals and square roots of floats, correctly rounded. FLOAT32 denormals count as zeros of their sign, in
// operands and in results; FLOAT16 denormals are the numbers they are.
//
// A reciprocal's estimate has a significand that, taken as an integer, is off by no more than a unit. How far tells the
// remainder, which is exact: it fits into 32 bits, where arithmetic modulo 2^32 finds it from products of 48 bits.
// (Correction by an exact remainder: J.-M. Muller et al., «Handbook of Floating-Point Arithmetic», 2nd edition, 4.7 and 4.8.)
// Quotients and roots are computed with 15 bits more than needed, and rounded; only where these bits do not decide, one in
// thousands of times, the remainder does. A quotient of two significands, and a square root, is never halfway between two
// numbers of 24 bits, so that no tie has to be broken. Reciprocals and roots of all 2^32 inputs, and quotients of 1.2 * 10^9
// pairs, most of them chosen near ties and at the ends of the range, were found correctly rounded.
#ifndef DIVISION_GLSL
#define DIVISION_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "quick_division.glsl"

// 1 / m within 1.63 * 2^-24 (relative), for 1 <= m < 2. 11 operations: the quadratic polynomial of least relative error
// (from the Chebyshev polynomial of degree 3), then Newton's iteration twice, the second time as a correction.
float significand_reciprocal(float m) {
    precise float y = 2.12121212 + m * (m * 0.323232323 - 1.45454545);
    y = y * (2.0 - m * y);
    precise float error = 1.0 - m * y;
    precise float correction = y * error;
    y = y + correction;
    return y;
}

// What the words of a result rounded to nearest, and of an error of theirs below 2^-12 of half a place, leave undecided: the
// second word is about half a place of the first one (A. Ziv, «Fast evaluation of elementary mathematical functions with
// correctly rounded last bit», 1991).
bool is_undecided(Double words) {
    precise float check = words.high + words.low * 1.00048828;
    return floatBitsToInt(check) != floatBitsToInt(words.high);
}

// Numbers whose quotients, and these times 2^-25, are far from the ends of float32's range: from 2^-40 up to 2^40.
bool is_middling(uint magnitude) { return int(magnitude) >= 0x2b800000 && int(magnitude) < 0x53800000; }

// The quotient of magnitudes that was rounded, or to a neighbour of the right result: that one which leaves the remainder that is
// nearest to zero. Both significands are integers of 24 bits; where a's is less than b's it is doubled, so that the quotient is
// at least 1 and, as 2 * B - 1 is the largest A, its nearest number of 24 bits below 2.
uint corrected_quotient(uint a, uint b, uint quotient) {
    int fraction_a = int(a & 0x7fffffu);
    int divisor = int((b & 0x7fffffu) | SMALLEST_NORMAL_F32);
    uint doubling = uint(fraction_a < int(b & 0x7fffffu));
    uint dividend = (uint(fraction_a) | SMALLEST_NORMAL_F32) << doubling;
    uint multiple = (quotient & 0x7fffffu) | SMALLEST_NORMAL_F32;
    int twice = int((dividend << 23) - multiple * uint(divisor)) << 1; // twice the remainder
    return quotient + uint(int(twice > divisor) - int(twice < -divisor));
}

// a / b. 31 operations, but for zeros, infinities, NaN and numbers near the ends of the range.
uint divide_f32(uint a, uint b) {
    uint dividend = a & MAGNITUDE_F32;
    uint divisor = b & MAGNITUDE_F32;
    bool is_ordinary = is_middling(dividend) && is_middling(divisor);
    if (!is_ordinary) {
        dividend = (a & 0x7fffffu) | ONE_F32;
        divisor = (b & 0x7fffffu) | ONE_F32;
    }
    precise float number = uintBitsToFloat(dividend);
    precise float by = uintBitsToFloat(divisor);
    precise float inverse = quick_inverse(by);
    precise float guess = number * inverse;
    // What is left of the number: head and by_head have 12 bits, so that no step but the last has more than 24, and that one rounds
    // what is below 2^-18 of the number.
    precise float head = leading_half(guess);
    precise float tail = guess - head;
    precise float by_head = leading_half(by);
    precise float by_tail = by - by_head;
    precise float rest = exact_product_plus(-head, by_tail, exact_product_plus(-head, by_head, number));
    rest = exact_product_plus(-tail, by_tail, exact_product_plus(-tail, by_head, rest));
    precise float correction = rest * inverse;
    Double words = fast_two_sum(guess, correction);
    uint quotient = floatBitsToUint(words.high);
    if (is_undecided(words)) { quotient = corrected_quotient(dividend, divisor, quotient); }
    if (!is_ordinary) {
        int field_a = int((a >> 23) & 0xffu);
        int field_b = int((b >> 23) & 0xffu);
        int exponent = field_a - field_b;
        int field = int(quotient >> 23) + exponent;
        bool is_zero = field_a == 0 || field_b == 255;
        bool is_infinite = field_a == 255 || field_b == 0;
        bool is_nan = (is_zero && is_infinite) || max(int(a & MAGNITUDE_F32), int(b & MAGNITUDE_F32)) > int(INFINITY_F32);
        quotient = is_zero || field <= 0 ? 0u : quotient + (uint(exponent) << 23);
        quotient = is_infinite || (field >= 255 && !is_zero) ? INFINITY_F32 : quotient;
        return is_nan ? NAN_F32 : ((a ^ b) & SIGN_F32) | quotient;
    }
    return ((a ^ b) & SIGN_F32) | quotient;
}

// a / b of float16. A quotient of significands A and B of 11 bits that is not halfway between two such, at M / 2, differs from
// it by 1 / B at least, since A * 2^k - M * B is an integer: by more than 2^-23 of M. So a quotient within 2^-24 rounds as the
// exact one, provided that one halfway is exact, as all of 12 bits are that were rounded from within 2^-28.
uint divide_f16(uint a, uint b) {
    uint magnitude_a = a & 0x7fffu;
    uint magnitude_b = b & 0x7fffu;
    precise float number = uintBitsToFloat(float32_from_float16(magnitude_a));
    precise float by = uintBitsToFloat(float32_from_float16(magnitude_b));
    precise float inverse = quick_inverse(by);
    precise float head = leading_half(number * inverse);
    precise float quotient = head + exact_product_plus(-head, by, number) * inverse; // and so is the difference
    uint result = float16_from_float32(floatBitsToUint(quotient));
    int larger = max(int(magnitude_a), int(magnitude_b));
    if (magnitude_b == 0u || larger >= int(INFINITY_F16)) {
        bool is_zero = magnitude_a == 0u || magnitude_b == INFINITY_F16;
        bool is_infinite = magnitude_b == 0u || magnitude_a == INFINITY_F16;
        result = is_infinite ? INFINITY_F16 : result;
        result = is_zero ? 0u : result;
        return (is_zero && is_infinite) || larger > int(INFINITY_F16) ? NAN_F16 : result | ((a ^ b) & 0x8000u);
    }
    return result | ((a ^ b) & 0x8000u);
}

// 1 / x. 34 operations. The remainder of 1 is what the product of estimate and significand lacks to a multiple of 2^32.
// A power of two has the quotient 2^24 in units of 2^-24: it carries into the exponent.
uint recip_f32(uint x) {
    int field = int((x >> 23) & 0xffu);
    uint fraction = x & 0x7fffffu;
    int divisor = int(fraction | SMALLEST_NORMAL_F32);
    precise float estimate = significand_reciprocal(uintBitsToFloat(fraction | ONE_F32));
    int quotient = floatBitsToInt(estimate) - 0x3e800000;
    int twice = int(0u - uint(quotient) * uint(divisor)) << 1;
    quotient += int(twice > divisor) - int(twice < -divisor);

    int finite = ((252 - field) << 23) + quotient;
    uint magnitude = finite < int(SMALLEST_NORMAL_F32) ? 0u : uint(finite);
    magnitude = field == 0 ? INFINITY_F32 : magnitude;
    return int(x & MAGNITUDE_F32) > int(INFINITY_F32) ? NAN_F32 : (x & SIGN_F32) | magnitude;
}
FLOAT16_FORM_1(recip)

// sqrt(x). 30 operations, but for zeros, infinities, NaN, negative numbers, and those near the ends of the range, which are
// moved by 2^64. NaN below zero; -0 gives -0.
uint sqrt_f32(uint x) {
    bool is_ordinary = is_middling(x);
    uint radicand = x;
    int moved = 0;
    if (!is_ordinary) {
        moved = (x & 0x40000000u) != 0u ? 64 << 23 : -(64 << 23);
        radicand = uint(int(x & MAGNITUDE_F32) - moved);
    }
    precise float number = uintBitsToFloat(radicand);
    precise float half_number = 0.5 * number;
    precise float inverse = uintBitsToFloat(0x5f376800u - (radicand >> 1));
    inverse = inverse * (1.50081661 - (half_number * inverse) * inverse);
    inverse = inverse * (1.50000072 - (half_number * inverse) * inverse);
    precise float guess = number * inverse;
    // What is left of the number, as for quotients.
    precise float head = leading_half(guess);
    precise float tail = guess - head;
    precise float rest = exact_product_plus(-(head + head), tail, exact_product_plus(-head, head, number));
    rest = exact_product_plus(-tail, tail, rest);
    precise float correction = rest * (0.5 * inverse);
    Double words = fast_two_sum(guess, correction);
    uint result = floatBitsToUint(words.high);
    if (is_undecided(words)) {
        // (root + 1/2)^2 and (root - 1/2)^2 less the square of root, compared with what that square lacks.
        uint root = (result & 0x7fffffu) | SMALLEST_NORMAL_F32;
        uint doubling = (~radicand >> 23) & 1u;
        int remainder = int((((radicand & 0x7fffffu) | SMALLEST_NORMAL_F32) << (23u + doubling)) - root * root);
        result += uint(int(remainder > int(root)) - int(remainder <= -int(root)));
    }
    if (!is_ordinary) {
        result += uint(moved >> 1);
        result = x == INFINITY_F32 ? x : result;
        result = (x & INFINITY_F32) == 0u ? x & SIGN_F32 : int(x) < 0 ? NAN_F32 : result;
        return int(x & MAGNITUDE_F32) > int(INFINITY_F32) ? NAN_F32 : result;
    }
    return result;
}
FLOAT16_FORM_1(sqrt)

#endif
