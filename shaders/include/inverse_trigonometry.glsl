// Arcsine, arccosine and arctangent, of one argument and of two.
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
float sum_of_angles(Double base, Double angle, float excess)
{
    precise float sum = base.high + angle.high;
    precise float rest = (base.high - sum) + angle.high;
    precise float total = sum + (((rest + base.low) + angle.low) + excess);
    return total;
}

// base + arctan(over / under), for a quotient of magnitude sqrt(2) - 1 at most. 37 operations.
float arctangent_of_quotient(Double over, Double under, Double base)
{
    Double tangent = quick_quotient(over, under);
    precise float t = tangent.high + tangent.low;
    precise float square = t * t;
    precise float series = 0.105994873 + square * -0.0609089360;
    series = 0.199985296 + square * (-0.142444298 + square * series);
    series = -0.333333164 + square * series;
    precise float excess = (t * square) * series;
    return sum_of_angles(base, tangent, excess);
}

#define SMALLEST_OF_MIDDLE_SECTOR 0x3ed413cd // sqrt(2) - 1
#define SMALLEST_OF_LAST_SECTOR 0x401a827a   // sqrt(2) + 1

// In three sectors arctan(x) is arctan(x / 1), pi/4 + arctan((x - 1) / (x + 1)) and pi/2 + arctan(-1 / x): with the cosine
// and the sine of the sector taken as 0 or 1 these are one formula. From 2^30 on the result is pi/2, rounded.
// Largest error found among every 41st float32: 0.662 ULP (of 0x3ee7075b). 66 operations.
uint atan_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    precise float tangent = uintBitsToFloat(uint(min(magnitude, 0x4e800000)));
    precise float sine = magnitude < SMALLEST_OF_MIDDLE_SECTOR ? 0.0 : 1.0;
    precise float cosine = magnitude < SMALLEST_OF_LAST_SECTOR ? 1.0 : 0.0;
    precise float along = tangent * cosine;
    precise float across = tangent * sine;
    precise float over = along - sine;
    precise float over_rest = along - (over + sine);
    precise float under = across + cosine;
    precise float under_rest = across - (under - cosine);
    precise float eighths = sine - cosine + 1.0;
    precise float base = eighths * 0.785398185;
    precise float base_rest = eighths * -2.18556941e-08;
    float angle = arctangent_of_quotient(Double(over, over_rest), Double(under, under_rest), Double(base, base_rest));
    // Small numbers stay: their quotients would have denormal parts.
    uint bits = magnitude < 0x35800000 ? without_denormal(uint(magnitude)) : floatBitsToUint(angle);
    return magnitude > int(INFINITY_F32) ? NAN_F32 : bits | (x & SIGN_F32);
}

// The exponent field of a number without its sign; those of zero and infinity are far from all others.
int distant_exponent(int magnitude)
{
    int field = magnitude >> 23;
    field = field == 0 ? -400 : field;
    return field == 255 ? 655 : field;
}

// As C99's Annex F has it, for zeros and infinities too. The quotient of the significands is taken, with up to 2^40 of the
// quotient of the powers of two; what that leaves behind of a small quotient is put back into the result's exponent.
// Largest error found among 3 million pairs: 0.673 ULP (of 0x9db12b35 and 0x1e5a1bbe). 103 operations.
uint atan_yx_f32(uint a, uint b)
{
    int y_magnitude = int(a & MAGNITUDE_F32);
    int x_magnitude = int(b & MAGNITUDE_F32);
    int distance = distant_exponent(y_magnitude) - distant_exponent(x_magnitude);
    distance = max(min(distance, 40), -168);
    int near_distance = max(distance, -40);
    precise float x = uintBitsToFloat((b & 0x007fffffu) | ONE_F32);
    precise float scaled = uintBitsToFloat(((a & 0x007fffffu) | ONE_F32) + uint(near_distance << 23));
    precise float y = y_magnitude < int(SMALLEST_NORMAL_F32) ? 0.0 : scaled;

    // The sectors of atan_f32, and the mirror image where x is negative.
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

// asin(|x|) and acos(|x|) come from an angle: itself where |x| <= 1/2, else its double, the angle's sine being
// sqrt((1 - |x|) / 2), whose square is exact. Returns quarters * pi/2 + that angle.
float angle_from_sine(float magnitude, bool is_steep, int quarters)
{
    precise float square = is_steep ? (1.0 - magnitude) * 0.5 : magnitude * magnitude;
    Double root = quick_square_root(square);
    precise float high = is_steep ? root.high + root.high : magnitude;
    precise float low = is_steep ? root.low + root.low : 0.0;
    precise float series = 0.0143819563 + square * 0.0375908576;
    series = 0.0445147779 + square * (0.0318240076 + square * series);
    series = 0.166666597 + square * (0.0750051737 + square * series);
    precise float excess = ((high + low) * square) * series;
    precise float turns = float(quarters);
    precise float base = turns * 1.57079637;
    precise float base_rest = turns * -4.37113883e-08;
    return sum_of_angles(Double(base, base_rest), Double(high, low), excess);
}

// pi/2 - angle is computed as angle - pi/2, and its sign turned. Largest error found among every 41st float32: 0.607 ULP
// (of 0x3f03f61c). 59 operations.
uint asin_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    bool is_steep = int(magnitude) > 0x3f000000;
    float angle = angle_from_sine(as_float32(magnitude), is_steep, is_steep ? -1 : 0);
    uint bits = (floatBitsToUint(angle) & MAGNITUDE_F32) | (x & SIGN_F32);
    return int(magnitude) > int(ONE_F32) ? NAN_F32 : bits;
}

// x >= 0: pi/2 - angle, or angle where x is large. x < 0: pi/2 + angle, or pi - angle. None is below zero.
// Largest error found among every 41st float32: 0.598 ULP (of 0x3f0dec99). 64 operations.
uint acos_f32(uint x)
{
    uint magnitude = x & MAGNITUDE_F32;
    bool is_steep = int(magnitude) > 0x3f000000;
    bool is_negative = int(x) < 0;
    int quarters = is_steep ? (is_negative ? -2 : 0) : (is_negative ? 1 : -1);
    float angle = angle_from_sine(as_float32(magnitude), is_steep, quarters);
    uint bits = floatBitsToUint(angle) & MAGNITUDE_F32;
    return int(magnitude) > int(ONE_F32) ? NAN_F32 : bits;
}

FLOAT16_FORM_1(asin)
FLOAT16_FORM_1(acos)
FLOAT16_FORM_1(atan)
FLOAT16_FORM_2(atan_yx)

#endif
