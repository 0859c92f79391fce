// Quotients, reciprocals and square roots of floats, correctly rounded. FLOAT32 denormals count as zeros of their sign, in
// operands and in results; FLOAT16 denormals are the numbers they are.
//
// Each is estimated with a few multiplications, and the estimate's significand, taken as an integer, is then off by no more
// than a unit or two. How far tells the remainder, which is exact: it fits into 32 bits, where arithmetic modulo 2^32 finds
// it from products of 48 bits. (Correction by an exact remainder: J.-M. Muller et al., «Handbook of Floating-Point
// Arithmetic», 2nd edition, 4.7 and 4.8.) A quotient of two significands, and a square root, is never halfway between two
// numbers of 24 bits, so that no tie has to be broken. Reciprocals and roots of all 2^32 inputs, and quotients of 1.2 * 10^9
// pairs, most of them chosen near ties and at the ends of the range, were found correctly rounded.
#ifndef DIVISION_GLSL
#define DIVISION_GLSL

#include "float16.glsl"
#include "float32.glsl"

// 1 / m within 1.63 * 2^-24 (relative), for 1 <= m < 2. 11 operations: the quadratic polynomial of least relative error
// (from the Chebyshev polynomial of degree 3), then Newton's iteration twice, the second time as a correction.
float significand_reciprocal(float m)
{
    precise float y = 2.12121212 + m * (m * 0.323232323 - 1.45454545);
    y = y * (2.0 - m * y);
    precise float error = 1.0 - m * y;
    precise float correction = y * error;
    y = y + correction;
    return y;
}

// a / b. 66 operations.
//
// Both significands are integers of 24 bits, A and B. Where A is less than B it is doubled, so that A / B is at least 1 and,
// as 2 * B - 1 is the largest A, its nearest number of 24 bits below 2. The estimate is off by less than 2.2 units.
uint divide_f32(uint a, uint b)
{
    int field_a = int((a >> 23) & 0xffu);
    int field_b = int((b >> 23) & 0xffu);
    uint fraction_a = a & 0x7fffffu;
    uint fraction_b = b & 0x7fffffu;
    uint doubling = uint(int(fraction_a) < int(fraction_b));
    precise float inverse = significand_reciprocal(uintBitsToFloat(fraction_b | ONE_F32));
    precise float estimate = uintBitsToFloat((fraction_a | ONE_F32) + (doubling << 23)) * inverse;
    int quotient = max(floatBitsToInt(estimate), int(ONE_F32)) - 0x3f000000;
    int divisor = int(fraction_b | SMALLEST_NORMAL_F32);
    uint dividend = (fraction_a | SMALLEST_NORMAL_F32) << doubling;
    int twice = int((dividend << 23) - uint(quotient) * uint(divisor)) << 1; // twice the remainder
    int thrice = divisor + divisor + divisor;
    quotient += int(twice > divisor) + int(twice > thrice) - int(twice < -divisor) - int(twice < -thrice);

    int field = field_a - field_b + 127 - int(doubling);
    uint finite = (uint(field) << 23) + uint(quotient) - SMALLEST_NORMAL_F32;
    bool is_zero = field_a == 0 || field_b == 255;
    bool is_infinite = field_a == 255 || field_b == 0;
    bool is_nan = (is_zero && is_infinite) || max(int(a & MAGNITUDE_F32), int(b & MAGNITUDE_F32)) > int(INFINITY_F32);
    uint magnitude = is_zero || field <= 0 ? 0u : finite;
    magnitude = is_infinite || (field >= 255 && !is_zero) ? INFINITY_F32 : magnitude;
    return is_nan ? NAN_F32 : ((a ^ b) & SIGN_F32) | magnitude;
}
FLOAT16_FORM_2(divide)

// 1 / x. 34 operations. The remainder of 1 is what the product of estimate and significand lacks to a multiple of 2^32.
// A power of two has the quotient 2^24 in units of 2^-24: it carries into the exponent.
uint recip_f32(uint x)
{
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

// sqrt(x). 42 operations. The radicand is brought into [1, 4) by an even power of two; the inverse of its root comes from
// halving the logarithm (its bits) and Newton's iteration twice. NaN below zero; -0 gives -0.
uint sqrt_f32(uint x)
{
    uint field = (x >> 23) & 0xffu;
    uint doubling = ~field & 1u;
    uint fraction = x & 0x7fffffu;
    uint radicand_bits = (fraction | ONE_F32) + (doubling << 23);
    precise float radicand = uintBitsToFloat(radicand_bits);
    precise float half_radicand = 0.5 * radicand;
    precise float inverse = uintBitsToFloat(0x5f375a86u - (radicand_bits >> 1));
    inverse = inverse * (1.5 - half_radicand * (inverse * inverse));
    inverse = inverse * (1.5 - half_radicand * (inverse * inverse));
    precise float estimate = radicand * inverse;
    precise float lack = radicand - estimate * estimate;
    precise float correction = lack * (0.5 * inverse);
    estimate = estimate + correction;
    int root = floatBitsToInt(estimate) - 0x3f000000;
    // (root + 1/2)^2 and (root - 1/2)^2 less the square of root, compared with what that square lacks.
    int remainder = int(((fraction | SMALLEST_NORMAL_F32) << (23u + doubling)) - uint(root) * uint(root));
    root += int(remainder > root) - int(remainder <= -root);

    uint finite = (((field + 127u) >> 1) << 23) + uint(root) - SMALLEST_NORMAL_F32;
    uint positive = x == INFINITY_F32 ? x : finite;
    uint number = field == 0u ? x & SIGN_F32 : int(x) < 0 ? NAN_F32 : positive;
    return int(x & MAGNITUDE_F32) > int(INFINITY_F32) ? NAN_F32 : number;
}
FLOAT16_FORM_1(sqrt)

#endif
