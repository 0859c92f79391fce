// Sums over windows of numbers, in two words, and what averages and norms make of them.
//
// two_sum of the first words is exact, and what is left over goes to the second words. These are brought to below half a place of
// the first ones after each number, so that n numbers lose less than n * 2^-47 of the sum of their magnitudes; up to 16 of
// them do without that, and lose less than 2^-41. Sums of up to 256 float16 are exact: they are multiples of 2^-24 below 2^24.
#ifndef WINDOW_SUMS_GLSL
#define WINDOW_SUMS_GLSL

#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "quick_division.glsl"
#include "rounding_to_odd.glsl"

// The sum with one more number. 10 operations.
Double with_number(Double sum, float number) {
    Double total = two_sum(sum.high, number);
    precise float low = sum.low + total.low;
    return fast_two_sum(total.high, low);
}

// The same where the second word need not be brought down, because few numbers are added. 7 operations.
Double with_one_of_few(Double sum, float number) {
    Double total = two_sum(sum.high, number);
    precise float low = sum.low + total.low;
    return Double(total.high, low);
}

// The sum with what is left over from the number before, which is small beside that one.
Double with_rest(Double sum, float rest) {
    precise float low = sum.low + rest;
    return Double(sum.high, low);
}

// sum / count within 2^-46 (relative), for integers below 2^12, whose products with half of a number's bits are exact: low has
// the sign of what the quotient lacks of the exact one where sum and remainder are exact (that is so for up to 256 float16).
// 18 operations.
Double quotient_by_few(Double sum, float count) {
    float inverse = quick_inverse(count);
    precise float guess = sum.high * inverse;
    precise float head = leading_half(guess);
    precise float tail = guess - head;
    precise float rest = exact_product_plus(-count, tail, exact_product_plus(-count, head, sum.high)) + sum.low;
    precise float quotient = guess + rest * inverse;
    head = leading_half(quotient);
    tail = quotient - head;
    rest = exact_product_plus(-count, tail, exact_product_plus(-count, head, sum.high)) + sum.low;
    precise float low = rest * inverse;
    return Double(quotient, low);
}

// sum / count within 2^-40 (relative), for any count that is not 0.
Double quotient_by(Double sum, uint count) {
    if (count < 4096u) { return quotient_by_few(sum, float(int(count))); }
    precise float high = float(int(count >> 12)) * 4096.0; // 20 bits
    return quotient(sum, fast_two_sum(high, float(int(count & 4095u))));
}

// sqrt(a.high + a.low) within 2^-42 (relative), for 2^-60 <= a <= 2^120, and of 0.
Double square_root(Double a) {
    if (floatBitsToUint(a.high) == 0u) { return Double(0.0, 0.0); }
    float inverse = inverse_square_root_estimate(a.high);
    precise float guess = a.high * inverse;
    Double square = two_square(guess);
    precise float remainder = ((a.high - square.high) - square.low) + a.low;
    precise float correction = remainder * (0.5 * inverse);
    return fast_two_sum(guess, correction);
}

// The bits of a number times 2^exponent: for elements, 0 where that is below 2^-126; and for results, which become infinite
// beyond the largest number. The number is neither denormal nor infinite nor NaN.
uint times_power_of_two(uint x, int exponent) {
    int field = int((x & MAGNITUDE_F32) >> 23) + exponent;
    uint moved = field >= 255 ? (x & SIGN_F32) | INFINITY_F32 : x + (uint(exponent) << 23);
    return (x & INFINITY_F32) == 0u || field <= 0 ? x & SIGN_F32 : moved;
}

#endif
