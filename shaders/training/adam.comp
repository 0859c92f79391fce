// ADAM_OPTIMIZER: M' = Beta1 * M + (1 - Beta1) * G, V' = Beta2 * V + ((1 - Beta2) * G) * G, X' = X - (rate * M') / (sqrt(V') + Epsilon), each step
// rounded to FLOAT32; of FLOAT16 tensors the results are rounded once more. adam_rate.comp has made the rate, which the table is.
// (D. P. Kingma and J. Ba, «Adam: a method for stochastic optimization», 2015, in the form at the end of its section 2.)
#define LONG_OPERATION
#if INPUT_0_BITS == 16
#define WORD_BY_WORD
#endif
#include "elementwise/several_outputs.glsl"
#include "arithmetic.glsl"
#include "division.glsl"
#include "widening.glsl"

#define BETA_1 parameters.attributes[0]
#define REST_1 parameters.attributes[1] // 1 - Beta1
#define BETA_2 parameters.attributes[2]
#define REST_2 parameters.attributes[3]
#define EPSILON parameters.attributes[4]
#define COEFFICIENTS_ARE_ORDINARY (parameters.attributes[5] != 0u) // each of the above is 0 or from 2^-20 up to 1, Epsilon from 2^-100

struct Moments {
    uint first, second;
};

Moments moments_of(uint first, uint second, uint gradient) {
    uint rest = multiply_f32(multiply_f32(REST_2, gradient), gradient);
    return Moments(add_f32(multiply_f32(BETA_1, first), multiply_f32(REST_1, gradient)), add_f32(multiply_f32(BETA_2, second), rest));
}

// Whether a magnitude is 0 or from `least` up to, but not, `large`.
bool is_zero_or_between(uint bits, uint least, uint large) {
    uint doubled = bits << 1;
    return doubled - 2u * least < 2u * (large - least) || doubled == 0u;
}

// The same where no product and no sum can be denormal or infinite: of such operands products are 0 or from 2^-120 up to 2^81, and sums
// multiples of 2^-104 (M') or of positive numbers.
bool have_quick_moments(uint first, uint second, uint gradient) {
    return COEFFICIENTS_ARE_ORDINARY && is_zero_or_between(first, 0x21800000u, 0x5d800000u)    // 2^-60, 2^60
        && is_zero_or_between(second, 0x0d800000u, 0x67800000u) && int(second) >= 0            // 2^-100, 2^80
        && is_zero_or_between(gradient, 0x29000000u, 0x53800000u);                             // 2^-45, 2^40
}
Moments quick_moments_of(uint first, uint second, uint gradient) {
    precise float kept = uintBitsToFloat(BETA_1) * uintBitsToFloat(first);
    precise float added = uintBitsToFloat(REST_1) * uintBitsToFloat(gradient);
    precise float first_sum = kept + added;
    precise float kept_square = uintBitsToFloat(BETA_2) * uintBitsToFloat(second);
    precise float share = uintBitsToFloat(REST_2) * uintBitsToFloat(gradient);
    precise float square = share * uintBitsToFloat(gradient);
    precise float second_sum = kept_square + square;
    return Moments(floatBitsToUint(first_sum), floatBitsToUint(second_sum));
}

// rate * M' and sqrt(V') + Epsilon. The latter is NaN where both are infinities of different signs.
uint step_of(Moments moments, uint rate, bool is_quick) {
    uint root = sqrt_f32(moments.second);
    uint dividend, divisor;
    if (is_quick) {
        precise float product = uintBitsToFloat(rate) * uintBitsToFloat(moments.first);
        precise float sum = uintBitsToFloat(root) + uintBitsToFloat(EPSILON);
        dividend = floatBitsToUint(product);
        divisor = floatBitsToUint(sum);
        is_quick = int(dividend & MAGNITUDE_F32) > int(SMALLEST_NORMAL_F32);
    }
    if (!is_quick) {
        dividend = multiply_f32(rate, moments.first);
        divisor = add_f32(root, EPSILON);
    }
    return divide_f32(dividend, divisor);
}

uint adam(uint parameter, uint first, uint second, uint gradient) {
    uint rate = words_table[parameters.base_table];
    // A processor would execute both sides of the branch.
    bool is_quick = !ON_PROCESSOR && have_quick_moments(first, second, gradient);
    Moments moments;
    if (is_quick) {
        moments = quick_moments_of(first, second, gradient);
    } else {
        moments = moments_of(first, second, gradient);
    }
    further_0 = FORM(narrowed, OUTPUT)(moments.first);
    further_1 = FORM(narrowed, OUTPUT)(moments.second);
    return FORM(narrowed, OUTPUT)(subtract_f32(parameter, step_of(moments, rate, is_quick)));
}

#define OPERATION(parameter, first, second, gradient) \
    adam(FORM(widened, INPUT_0)(parameter), FORM(widened, INPUT_1)(first), FORM(widened, INPUT_2)(second), FORM(widened, INPUT_3)(gradient))
