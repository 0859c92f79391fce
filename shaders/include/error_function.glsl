// The error function.
//
// The minimax polynomials were made with Sollya.
#ifndef ERROR_FUNCTION_GLSL
#define ERROR_FUNCTION_GLSL

#include "float16.glsl"
#include "float32.glsl"

// The parts of the positive axis: from 0, from 0.65625, from 1.0625, and from 1.65625 on.
#define ERF_SECOND_PART 0x3f280000
#define ERF_THIRD_PART 0x3f880000
#define ERF_LAST_PART 0x3fd40000
// From 0.46875 on erf(x) is nearer to x than to 9/8 x; from 3.9375 on it rounds to 1.
#define ERF_IS_BENT 0x3ef00000
#define ERF_IS_ONE 0x407c0000

float of_part(int x, float first, float second, float third, float last)
{
    return x < ERF_THIRD_PART ? (x < ERF_SECOND_PART ? first : second) : (x < ERF_LAST_PART ? third : last);
}

// The polynomials of erf_f32: one evaluation, whose coefficients are chosen.
float error_function_series(int part, float u, float constant)
{
    precise float series = of_part(part, -0.000699119293, -0.0123086423, 0.0214778446, 0.000178832951);
    series = of_part(part, 0.00514252251, -0.0664817244, -0.0302736145, -0.0013130377) + u * series;
    series = of_part(part, -0.0268459953, 0.110534772, -0.0310623292, 0.000239871762) + u * series;
    series = of_part(part, 0.112835608, 0.0955166593, 0.157463104, 0.020812802) + u * series;
    series = of_part(part, -0.376126289, -0.457496345, -0.232397109, -0.017650690) + u * series;
    series = of_part(part, constant, 0.0193740856, 0.0122869061, -0.283939511) + u * series;
    return series;
}

// With a = |x|, and d = a - c where c is 451/512 or 353/256, numbers whose erf lies within 2^-29 of a float:
//     first part           9/8 * a + a * series(a^2), or a + a * series(a^2)
//     second and third     erf(c) + slope * d + d * series(d)
//     last                 1 - (0.6896 + d * series(d))^8
// All but the last term of a sum is exact, or nearly so, and that term is below a sixth of the result.
// Largest error found: 0.722 ULP (of 0x3fd4e212), among all float32 between 2^-12 and 4 and samples of the others.
// 68 operations.
uint erf_f32(uint x)
{
    int magnitude = int(x & MAGNITUDE_F32);
    // Tiny numbers are moved away from the denormals, 60 powers of two up and down again.
    int shift = magnitude < 0x17800000 ? 0x1e000000 : 0;
    precise float a = intBitsToFloat(min(magnitude, ERF_IS_ONE) + shift);
    bool is_first = magnitude < ERF_SECOND_PART;
    precise float d = a - of_part(magnitude, 0.0, 0.880859375, 1.37890625, 1.37890625);
    bool is_bent = magnitude >= ERF_IS_BENT;
    precise float slope = is_bent ? 0.0 : 0.125;
    precise float constant = is_bent ? 0.128379166 : 0.00337916636;
    precise float term = d * error_function_series(magnitude, is_first ? a * a : d, constant);

    precise float base = of_part(magnitude, a, 0.787133992, 0.948831975, 0.0);
    precise float part = d * of_part(magnitude, slope, 0.5, 0.15625, 0.0);
    precise float sum = base + part;
    precise float near_value = sum + (((base - sum) + part) + term);

    precise float root = 0.689643383 + term;
    precise float square = root * root;
    precise float fourth_power = square * square;
    precise float far_value = 1.0 - fourth_power * fourth_power;

    int bits = floatBitsToInt(magnitude < ERF_LAST_PART ? near_value : far_value) - shift;
    bits = magnitude < int(SMALLEST_NORMAL_F32) ? 0 : bits;
    return magnitude > int(INFINITY_F32) ? NAN_F32 : uint(bits) | (x & SIGN_F32);
}
FLOAT16_FORM_1(erf)

#endif
