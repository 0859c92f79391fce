// The angle of a point whose coordinates are FLOAT16, in plain float32.
//
// The smaller coordinate over the larger one, within 2^-19.5, goes into one polynomial for the arctangent between 0 and 1; the
// angles of the other seven eighths of the plane are what is left of pi/2 and pi.
// Largest error of all 2^32 pairs: 0.5033 ULP of float16, at y = 0x016b, x = 0x19ca. 45 operations where the numbers are ordinary.
// (A minimax polynomial with coefficients of 24 bits, made by Sollya's fpminimax.)
#ifndef HALF_ANGLE_GLSL
#define HALF_ANGLE_GLSL

#include "float16.glsl"
#include "quick_division.glsl"

// arctan(smaller / larger), for 0 <= smaller <= larger, not both 0. 23 operations.
float angle_of_half(float smaller, float larger) {
    precise float tangent = smaller * quick_inverse(larger);
    precise float square = tangent * tangent;
    precise float series = -0.03701002 + square * 0.00786250643;
    series = 0.0838671 + square * series;
    series = -0.13486984 + square * series;
    series = 0.1988142 + square * series;
    series = -0.33326507 + square * series;
    precise float angle = tangent * (0.999999344 + square * series);
    return angle;
}

// The angle between 0 and pi that belongs to one between 0 and pi/4.
float unfolded_angle(float angle, bool is_steep, bool is_backward) {
    precise float complement = 1.57079637 - angle;
    precise float folded = is_steep ? complement : angle;
    precise float supplement = 3.14159274 - folded;
    return is_backward ? supplement : folded;
}

// Zeros and infinities as in C99's Annex F, denormals, and results that are. 0 and infinity are replaced by numbers with which they
// have the same angle.
uint general_atan_yx_f16(uint a, uint b) {
    int y = int(a & 0x7fffu);
    int x = int(b & 0x7fffu);
    int larger = max(x, y);
    int smaller = min(x, y);
    bool is_infinite = larger == int(INFINITY_F16);
    smaller = is_infinite ? (smaller == larger ? int(ONE_F16) : 0) : smaller;
    larger = is_infinite || larger == 0 ? int(ONE_F16) : larger;
    float angle = angle_of_half(
        uintBitsToFloat(float32_from_float16(uint(smaller))), uintBitsToFloat(float32_from_float16(uint(larger)))
    );
    float whole = unfolded_angle(angle, y > x, (b & 0x8000u) != 0u);
    uint magnitude = float16_from_float32(floatBitsToUint(whole));
    return max(x, y) > int(INFINITY_F16) ? NAN_F16 : magnitude | (a & 0x8000u);
}

// The angle of the point (b, a). Normal numbers whose angle is a normal number come from one path; angles are rounded to nearest
// there and, where they lie in the middle, up.
uint atan_yx_f16(uint a, uint b) {
    int y = int(a & 0x7fffu);
    int x = int(b & 0x7fffu);
    int larger = max(x, y);
    int smaller = min(x, y);
    float angle = angle_of_half(
        intBitsToFloat(smaller * 0x2000 + 0x38000000), intBitsToFloat(larger * 0x2000 + 0x38000000)
    );
    float whole = unfolded_angle(angle, y > x, (b & 0x8000u) != 0u);
    bool is_ordinary = smaller >= 0x400 && larger < int(INFINITY_F16) && floatBitsToInt(whole) >= 0x38800000; // 2^-14
    uint result = quick_float16_from_float32(floatBitsToUint(whole)) | (a & 0x8000u);
    if (!is_ordinary) { result = general_atan_yx_f16(a, b); }
    return result;
}

#endif
