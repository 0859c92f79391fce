// Arcsine, arccosine, and the arctangent of two arguments.
//
// Each is a multiple of pi/4 plus or minus a small angle, which is a number in two words plus a polynomial's correction;
// what is rounded is the last addition. The minimax polynomials were made with Sollya.
#ifndef INVERSE_TRIGONOMETRY_GLSL
#define INVERSE_TRIGONOMETRY_GLSL

#include "comparison.glsl"
#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"
#include "quick_division.glsl"

// base + angle + excess, rounded once: |base.high| >= |angle.high| or base.high = 0, and what is left is small. 7 operations.
float sum_of_angles(Double base, Double angle, float excess) {
    precise float sum = base.high + angle.high;
    precise float rest = (base.high - sum) + angle.high;
    precise float total = sum + (((rest + base.low) + angle.low) + excess);
    return total;
}

// base + arctan(over / under), for a quotient of magnitude sqrt(2) - 1 at most. 36 operations.
float arctangent_of_quotient(Double over, Double under, Double base) {
    Double tangent = quick_quotient(over, under);
    precise float t = tangent.high + tangent.low;
    precise float square = t * t;
    precise float series = 0.105994873 + square * -0.0609089360;
    series = 0.199985296 + square * (-0.142444298 + square * series);
    series = -0.333333164 + square * series;
    precise float excess = (t * square) * series;
    return sum_of_angles(base, tangent, excess);
}

// The exponent field of a number without its sign; those of zero and infinity are far from all others.
int distant_exponent(int magnitude) {
    int field = magnitude >> 23;
    field = field == 0 ? -400 : field;
    return field == 255 ? 655 : field;
}

// As C99's Annex F has it, for zeros and infinities too. The quotient of the significands is taken, with up to 2^40 of the
// quotient of the powers of two; what that leaves behind of a small quotient is put back into the result's exponent.
// Largest error found among 3 million pairs: 0.673 ULP (of 0x9db12b35 and 0x1e5a1bbe). 102 operations.
uint atan_yx_f32(uint a, uint b) {
    int y_magnitude = int(a & MAGNITUDE_F32);
    int x_magnitude = int(b & MAGNITUDE_F32);
    int distance = distant_exponent(y_magnitude) - distant_exponent(x_magnitude);
    distance = max(min(distance, 40), -168);
    int near_distance = max(distance, -40);
    precise float x = uintBitsToFloat((b & 0x007fffffu) | ONE_F32);
    precise float scaled = uintBitsToFloat(((a & 0x007fffffu) | ONE_F32) + uint(near_distance << 23));
    precise float y = y_magnitude < int(SMALLEST_NORMAL_F32) ? 0.0 : scaled;

    // Three sectors, and the mirror image where x is negative.
    precise float lower = 0.414213562 * x;
    precise float upper = 2.41421356 * x;
    precise float sine = floatBitsToInt(y) < floatBitsToInt(lower) ? 0.0 : 1.0;
    precise float cosine = floatBitsToInt(y) < floatBitsToInt(upper) ? 1.0 : 0.0;
    precise float y_along = y * cosine;
    precise float x_along = x * cosine;
    precise float y_across = y * sine;
    precise float x_across = -(x * sine);
    uint mirror = b & SIGN_F32;
    Double over = two_sum(y_along, x_across);
    Double mirrored = Double(
        uintBitsToFloat(floatBitsToUint(over.high) ^ mirror), uintBitsToFloat(floatBitsToUint(over.low) ^ mirror)
    );
    Double under = two_sum(y_across, x_along);
    precise float eighths = sine - cosine + 1.0;
    eighths = mirror != 0u ? 4.0 - eighths : eighths;
    // Three times the first word is exact.
    precise float base = eighths * 0.785398245;
    precise float base_rest = eighths * -8.14603425e-08;
    float angle = arctangent_of_quotient(mirrored, under, Double(base, base_rest));

    int shift = mirror != 0u ? 0 : distance - near_distance;
    int bits = floatBitsToInt(angle) + (shift << 23);
    bits = bits < int(SMALLEST_NORMAL_F32) ? 0 : bits;
    return no_nan_f32(a, b) ? uint(bits) | (a & SIGN_F32) : NAN_F32;
}

// asin(|x|) and acos(|x|) come from an angle: itself where |x| <= 1/2, else twice the angle whose sine is sqrt((1 - |x|) / 2). Its
// leading word is |x|, or the root of 2 - 2 * |x|, of which 12 bits are squared exactly; returns base + that angle, base being a
// multiple of the float nearest to pi/2.
float angle_from_sine(float magnitude, bool is_steep, float base) {
    precise float complement = 1.0 - magnitude;
    precise float doubled = complement + complement;
    precise float inverse = uintBitsToFloat(0x5f376800u - (floatBitsToUint(doubled) >> 1));
    inverse = inverse * (1.50081661 - (complement * inverse) * inverse);
    inverse = inverse * (1.50000072 - (complement * inverse) * inverse);
    precise float guess = doubled * inverse;
    float root = uintBitsToFloat((floatBitsToUint(guess) + 0x800u) & 0xfffff000u);
    // What (root_rest / root)^2 adds is at most 2^-25.
    precise float root_rest = exact_product_plus(-root, root, doubled) * (0.5 * inverse);

    precise float square = is_steep ? 0.5 * complement : magnitude * magnitude;
    float high = is_steep ? root : magnitude;
    float low = is_steep ? root_rest : 0.0;
    precise float series = 0.0241855029 + square * 0.042157013;
    series = 0.0454690196 + square * series;
    series = 0.0749531016 + square * series;
    series = 0.16666752 + square * series;
    precise float excess = ((high + low) * square) * series;
    precise float base_rest = base * -2.78275311e-08;
    precise float sum = base + high;
    precise float lost = (base - sum) + high;
    precise float angle = sum + ((lost + low) + (excess + base_rest));
    return angle;
}

// pi/2 - angle is computed as angle - pi/2, and its sign turned. Largest error over all 2^32 inputs: 0.7986 ULP, at -0.619002938
// (0xbf1e76fa). 50 operations.
uint asin_f32(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    bool is_steep = magnitude > 0x3f000000;
    float number = magnitude < int(SMALLEST_NORMAL_F32) ? 0.0 : intBitsToFloat(magnitude);
    float angle = angle_from_sine(number, is_steep, is_steep ? -1.57079637 : 0.0);
    uint bits = (floatBitsToUint(angle) & MAGNITUDE_F32) | (x & SIGN_F32);
    return magnitude > int(ONE_F32) ? NAN_F32 : bits;
}

// x >= 0: pi/2 - angle, or angle where x is large. x < 0: pi/2 + angle, or pi - angle. None is below zero.
// Largest error over all 2^32 inputs: 0.8131 ULP, at 0.60545665 (0x3f1aff35). 49 operations.
uint acos_f32(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    bool is_steep = magnitude > 0x3f000000;
    // pi/2 with the other sign; less pi/2 that is 0 or -pi.
    float flat_base = uintBitsToFloat((x & SIGN_F32) ^ 0xbfc90fdbu);
    precise float steep_base = -1.57079637 - flat_base;
    float angle = angle_from_sine(intBitsToFloat(magnitude), is_steep, is_steep ? steep_base : flat_base);
    uint bits = floatBitsToUint(angle) & MAGNITUDE_F32;
    return magnitude > int(ONE_F32) ? NAN_F32 : bits;
}

FLOAT16_FORM_1(asin)
FLOAT16_FORM_1(acos)

#endif
