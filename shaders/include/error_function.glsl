// The error function.
//
// The minimax polynomials were made by Lawson's weighted iteration (C. L. Lawson, 1961), rounded coefficient by coefficient.
#ifndef ERROR_FUNCTION_GLSL
#define ERROR_FUNCTION_GLSL

#include "float16.glsl"
#include "float32.glsl"

// From 0.86 on the error function is computed by its complement; from 3.9375 on it rounds to 1.
#define ERF_IS_FAR 0x3f5c28f6
#define ERF_IS_ONE 0x407c0000
// 2^-100: nearer to zero, products of the argument could be denormal.
#define ERF_IS_LINE 0x0d800000

// erf(x) for |x| below 2^-100, a multiple of x: computed 60 powers of two further up. NaN for NaN.
uint slow_path_error_function(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    precise float raised = intBitsToFloat(magnitude + 0x1e000000);
    precise float multiple = raised + 0.128379166 * raised;
    int bits = magnitude < int(SMALLEST_NORMAL_F32) ? 0 : floatBitsToInt(multiple) - 0x1e000000;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : uint(bits) | (x & SIGN_F32);
}

// With a = |x|, below 0.86
//     erf(a) = a - a * z * series(z),   z = a^2 - 0.38124, which is zero where erf(a) = a;
// and from there on, with d = a - c and g = erfc(c)^(1/4),
//     erf(a) = 1 - (g + t)^4 = erf(c) - w * (2 g^2 + w),   t = d * series(d), w = t * (2 g + t).
// At that c, erf(c), 2 g and 2 g^2 all lie very near to floats. Both parts share one evaluation, whose coefficients are chosen.
// Largest error over all 2^32 inputs: 0.8354 ULP, at 0.0275438204 (0x3ce1a394). 27 float and 14 integer operations.
uint erf_f32(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    bool is_near = magnitude < ERF_IS_FAR;
    precise float a = intBitsToFloat(min(magnitude, ERF_IS_ONE));
    precise float z = a * a - 0.381240636;
    precise float d = a - 1.07501221;
    precise float far = -0.000114569528 + d * 1.12643102e-05;
    far = 0.000285172544 + d * far;
    far = 0.000905641762 + d * far;
    precise float u = is_near ? z : d;
    precise float series = is_near ? -0.000126554951 : far;
    series = (is_near ? 0.00061937084 : -0.00454754615) + u * series;
    series = (is_near ? -0.00382231106 : -0.00580966379) + u * series;
    series = (is_near ? 0.0200192407 : 0.0494104847) + u * series;
    series = (is_near ? -0.0862287357 : 0.0156114139) + u * series;
    series = (is_near ? 0.300731033 : -0.413986385) + u * series;

    precise float near_term = a * z * series;
    precise float t = d * series;
    precise float w = t * (1.19729733 + t);
    precise float far_term = w * (0.716760457 + w);
    precise float value = (is_near ? a : 0.871563613) - (is_near ? near_term : far_term);

    uint result = floatBitsToUint(value) | (x & SIGN_F32);
    if (magnitude < ERF_IS_LINE || magnitude > int(INFINITY_F32)) { result = slow_path_error_function(x); }
    return result;
}
FLOAT16_FORM_1(erf)

#endif
