// ln(1 + e^(b * x)), times or divided by an attribute: without overflow, cancellation or a lost product.
//
// With t = |b * x|, ln(1 + e^(b * x)) is ln(1 + e^-t), plus t where b * x is above zero. The logarithm is e^-t times a polynomial in
// e^-t, so that it keeps its relative accuracy however small it is. The factor before it enters that polynomial, and t times the
// factor is known exactly or in two words: so there is one rounding, at the end. Attributes are the same for all elements; what
// depends on them alone is computed once for several elements. b and the factor enter by their significands: what they have beside
// that are powers of two, by which x and the result are multiplied.
#ifndef SOFTPLUS_GLSL
#define SOFTPLUS_GLSL

#include "exponential.glsl"
#include "quick_division.glsl"
#include "significand.glsl"

#define SOFTPLUS_IS_FAR 0x42000000 // 32: from there on ln(1 + e^-t) is e^-t, and is lost beside t
#define LARGEST_SOFTPLUS_EXPONENT 8
#define LARGEST_SOFTPLUS_COUNT 400 // e^-256, times or divided by any finite number, is below 2^-126

// Whether products and quotients by it cannot leave the range: from 2^-30 to 2^30.
bool is_moderate_exponent(int exponent) { return exponent >= -30 && exponent <= 30; }

// The bits of the |x| from which on t may be far, for numbers b with that exponent; zero where attributes are not moderate.
int end_of_softplus(int exponent, int factor_exponent)
{
    bool is_moderate = is_moderate_exponent(exponent) && is_moderate_exponent(factor_exponent);
    return is_moderate ? SOFTPLUS_IS_FAR - (exponent << 23) : 0;
}

// |x| * 2^exponent for a moderate exponent.
float moderate_magnitude(uint x, int exponent)
{
    precise float magnitude = uintBitsToFloat(x & MAGNITUDE_F32);
    magnitude = magnitude * power_of_two(min(max(exponent, -30), 30));
    return magnitude;
}

// |x| * 2^exponent for any exponent, or what gives the same result: at least 2^-60, and below 2^9.
float bounded_magnitude(uint x, int exponent)
{
    Scaled number = scaled(x & MAGNITUDE_F32);
    int bounded = min(max(number.exponent + exponent, -60), LARGEST_SOFTPLUS_EXPONENT);
    precise float magnitude = number.significand * power_of_two(bounded);
    return magnitude;
}

// e^-(head - tail), where head is between -0.35 and 0.35 and tail small: the first word has 12 bits. 16 operations.
Double softplus_power(float head, float tail)
{
    precise float a = (head + 6144.0) - 6144.0;
    precise float b = (head - a) - tail;
    precise float r = head - tail;
    precise float square = r * r;
    precise float quadratic = 0.00138204196 * r - 0.00836868025;
    quadratic = quadratic * r + 0.0416682698;
    quadratic = quadratic * r - 0.166665211;
    quadratic = quadratic * r + 0.49999994;
    precise float high = 1.0 - a;
    precise float low = square * quadratic - b;
    return Double(high, low);
}

// 2^-count, where shifted is count + 1.5 * 2^23.
float softplus_scale(float shifted) { return intBitsToFloat(int(ONE_F32) - (floatBitsToInt(shifted) << 23)); }

// ln(1 + u) / u for 0 <= u <= 1, less its tangent c - 5/16 u: between 0 and 0.04. c is in two words, the first one of 12 bits.
// 19 operations. The minimax polynomial was made by Lawson's weighted iteration (C. L. Lawson, 1961).
#define SOFTPLUS_BASE 0.966064453
#define SOFTPLUS_BASE_REST 7.97195e-05
float softplus_bend(float u)
{
    precise float v = u - 0.415440619;
    precise float series = -0.00496983668 + v * 0.00203243969;
    series = 0.00711047836 + v * series;
    series = -0.0104241604 + v * series;
    series = 0.0168317389 + v * series;
    series = -0.0277564302 + v * series;
    series = 0.0467383303 + v * series;
    series = -0.0816980973 + v * series;
    series = 0.151485443 + v * series;
    precise float bend = v * (v * series);
    return bend;
}

// From here on ln(1 + e^-t) is e^-t, and may be so small that its parts are denormal: 48.
#define SOFTPLUS_IS_LONE 0x42400000

// ln(1 + e^x). With u = e^-|x|, ln(1 + u) / u is a constant that is very near to a float, less u / 4, and a polynomial in u, less
// 0.432813048, which is below 0.07. The first 12 bits of that and of u are apart, so that their product is exact; what the other parts add
// to it is added to the lesser one of it and x first. The minimax polynomial was made as that of softplus_bend. Largest error over all
// 2^32 inputs: 0.9273 ULP, at -5.84908819 (0xc0bb2bbb). 62 operations.
uint softplus_of_one(uint x)
{
    precise float magnitude = uintBitsToFloat(x & MAGNITUDE_F32);
    precise float shifted = magnitude * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float r = exact_product_plus(count, -0.693145752, magnitude) - count * 1.42860677e-06;
    precise float a = (r + 6144.0) - 6144.0;
    precise float b = r - a;
    precise float quadratic = 0.00138204196 * r - 0.00836868025;
    quadratic = quadratic * r + 0.0416682698;
    quadratic = quadratic * r - 0.166665211;
    quadratic = quadratic * r + 0.49999994;
    precise float power_high = 1.0 - a;
    precise float power_low = r * r * quadratic - b;
    float scale = softplus_scale(shifted);
    precise float u_high = power_high * scale;
    precise float u_low = power_low * scale;
    precise float u = u_high + u_low;
    precise float v = u - 0.432813048;
    precise float series = 0.00720074167 + v * -0.00324158161;
    series = -0.010095004 + v * series;
    series = 0.0155034689 + v * series;
    series = -0.0259767585 + v * series;
    series = 0.04440834 + v * series;
    series = -0.0785371289 + v * series;
    series = 0.147310644 + v * series;
    series = -0.057309594 + v * series;
    precise float bend = v * series;
    precise float factor = leading_half(exact_product_plus(-0.25, u, 0.939138651) + bend);
    precise float factor_rest = exact_product_plus(-0.25, u, 0.939138651 - factor) + bend;
    precise float logarithm = u_high * factor;
    precise float small = u_low * factor + u * factor_rest;
    int base_bits = max(int(x), 0);
    precise float larger = intBitsToFloat(max(base_bits, floatBitsToInt(logarithm)));
    precise float lesser = intBitsToFloat(min(base_bits, floatBitsToInt(logarithm)));
    precise float value = larger + (lesser + small);
    uint result = floatBitsToUint(value);
    if (int(x & MAGNITUDE_F32) >= SOFTPLUS_IS_LONE) {
        int exponent = min(floatBitsToInt(shifted) - 0x4b400000, LARGEST_SOFTPLUS_COUNT);
        precise float sum = power_high + power_low;
        result = int(x) >= 0 ? x : scaled_bits(sum, -exponent) & MAGNITUDE_F32;
        result = int(x & MAGNITUDE_F32) > int(INFINITY_F32) ? NAN_F32 : result;
    }
    return result;
}

// ln(1 + e^-t) * factor, the first word of 24 bits but not normalized, and e^-t = (power.high + power.low) * 2^-count, power.high
// being of 12 bits and shifted count + 1.5 * 2^23.
struct Softplus {
    Double logarithm;
    Double power;
    float shifted;
};

// For t = b * magnitude, the first words of b and factor having 12 bits, and the factor being between 1/2 and 2. Relative error:
// 2^-24.8. 61 operations, beside those on b and factor alone.
Softplus softplus_parts(float magnitude, Double b, Double factor)
{
    // As in softplus_of_one, but that the product with b is in two words, the first of which is exact, as is the difference
    // from the multiple of ln 2.
    precise float b_whole = b.high + b.low;
    precise float b_binary = b_whole * 1.44269504;
    precise float number_high = leading_half(magnitude);
    precise float number_low = magnitude - number_high;
    precise float shifted = magnitude * b_binary + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float head = exact_product_plus(count, -0.693145752, number_high * b.high);
    precise float tail = (count * 1.42860677e-06 - number_high * b.low) - number_low * b_whole;
    Double power = softplus_power(head, tail);
    float scale = softplus_scale(shifted);
    precise float u_high = power.high * scale;
    precise float u_low = power.low * scale;
    precise float u = u_high + u_low;
    precise float bend = softplus_bend(u);

    // (c - 5/16 u + bend) * factor: the slope is a power of two, by which products are exact, less a part of it.
    precise float factor_whole = factor.high + factor.low;
    precise float base = SOFTPLUS_BASE * factor.high;
    precise float base_rest = SOFTPLUS_BASE * factor.low + SOFTPLUS_BASE_REST * factor_whole;
    precise float exact_slope = 0.3125 * factor.high;
    precise float slope = uintBitsToFloat((floatBitsToUint(exact_slope) + 0x00400000u) & INFINITY_F32);
    precise float slope_rest = (slope - exact_slope) - 0.3125 * factor.low;
    precise float small = slope_rest * u + factor_whole * bend;
    precise float first = leading_half(exact_product_plus(-slope, u, base) + small);
    precise float rest = (exact_product_plus(-slope, u, base - first) + small) + base_rest;
    precise float logarithm = u_high * first;
    precise float logarithm_rest = u_low * first + u * rest;
    return Softplus(Double(logarithm, logarithm_rest), power, shifted);
}

// e^-t * factor * 2^exponent, for any exponent.
uint softplus_far_below(Softplus s, Double factor, int exponent)
{
    int count = min(floatBitsToInt(s.shifted) - 0x4b400000, LARGEST_SOFTPLUS_COUNT);
    return rounded_product(factor, fast_two_sum(s.power.high, s.power.low), exponent - count);
}

// 1 / number in two words, the first one of 12 bits, as that of number is: within 2^-31, for numbers from 1 to 2.
Double softplus_inverse(Double number)
{
    float inverse = quick_inverse(number.high + number.low);
    precise float head = leading_half(inverse);
    precise float rest = ((1.0 - head * number.high) - head * number.low) * inverse;
    return Double(head, rest);
}

// ln(1 + e^(steepness * x)) / steepness, where t divided by the steepness is |x|. Zeros and infinities are taken as IEEE 754
// evaluates the formula. Largest error found with 9000 steepnesses: 0.920 ULP. 83 operations, beside those on the
// steepness alone; softplus_of_one's where that is 1, and special therefore the same (special_attribute.glsl).
uint softplus_f32(uint x, uint steepness, uint special)
{
    int magnitude = int(x & MAGNITUDE_F32);
    if (special == ONE_F32) {
        return softplus_of_one(x);
    }
    Scaled divisor = scaled(steepness & MAGNITUDE_F32);
    Double slope = shortened(divisor.significand);
    Double factor = softplus_inverse(slope);
    bool is_rising = int(x ^ steepness) >= 0;
    bool is_ordinary = magnitude < end_of_softplus(divisor.exponent, 0);
    float number = moderate_magnitude(x, divisor.exponent);
    if (!is_ordinary) {
        number = bounded_magnitude(x, divisor.exponent);
    }
    Softplus s = softplus_parts(number, slope, factor);
    Double sum = two_sum(is_rising ? number : 0.0, s.logarithm.high);
    precise float value = sum.high + (sum.low + s.logarithm.low);
    uint result = uint(floatBitsToInt(value) - (divisor.exponent << 23)) | (steepness & SIGN_F32);
    if (!is_ordinary) {
        uint bits = scaled_bits(value, -divisor.exponent);
        if (floatBitsToInt(number) >= SOFTPLUS_IS_FAR) {
            bits = is_rising ? uint(magnitude) : softplus_far_below(s, factor, -divisor.exponent);
        }
        // 0 * infinity, and infinity by infinity.
        bool is_ratio_of_infinities = (steepness & MAGNITUDE_F32) == INFINITY_F32 && is_rising;
        bool is_number = has_product(x, steepness) && !is_ratio_of_infinities;
        result = is_number ? bits | (steepness & SIGN_F32) : NAN_F32;
    }
    return result;
}
uint softplus_f16(uint x, uint steepness, uint special)
{
    return float16_from_float32(softplus_f32(float32_from_float16(x), steepness, special));
}

// alpha * ln(1 + e^(beta * x)). Zeros and infinities are taken as IEEE 754 evaluates the formula. Largest error found with 9000
// pairs of attributes: 0.909 ULP. 90 operations, beside those on alpha and beta alone.
uint parametric_softplus_f32(uint x, uint alpha, uint beta)
{
    Scaled inner = scaled(beta & MAGNITUDE_F32);
    Scaled outer = scaled(alpha & MAGNITUDE_F32);
    Double slope = shortened(inner.significand);
    Double factor = shortened(outer.significand);
    Double line = shortened(two_product(inner.significand, outer.significand));
    int magnitude = int(x & MAGNITUDE_F32);
    bool is_rising = int(x ^ beta) >= 0;
    bool is_ordinary = magnitude < end_of_softplus(inner.exponent, outer.exponent);
    float number = moderate_magnitude(x, inner.exponent);
    if (!is_ordinary) {
        number = bounded_magnitude(x, inner.exponent);
    }
    Softplus s = softplus_parts(number, slope, factor);
    Double base = short_product(shortened(is_rising ? number : 0.0), line);
    Double sum = two_sum(base.high, s.logarithm.high);
    precise float value = sum.high + (sum.low + (base.low + s.logarithm.low));
    uint result = uint(floatBitsToInt(value) + (outer.exponent << 23)) | (alpha & SIGN_F32);
    if (!is_ordinary) {
        uint bits = scaled_bits(value, outer.exponent);
        if (floatBitsToInt(number) >= SOFTPLUS_IS_FAR) {
            Scaled parts = scaled(uint(magnitude));
            uint above = rounded_product(line, Double(parts.significand, 0.0), parts.exponent + inner.exponent + outer.exponent);
            bits = is_rising ? above : softplus_far_below(s, factor, outer.exponent);
        }
        // What the logarithm is to alpha: zero or infinity where x or beta is infinite.
        bool is_infinite = max(magnitude, int(beta & MAGNITUDE_F32)) == int(INFINITY_F32);
        uint logarithm = is_infinite ? (is_rising ? INFINITY_F32 : 0u) : ONE_F32;
        bool is_number = has_product(x, beta) && has_product(alpha, logarithm);
        result = is_number ? bits | (alpha & SIGN_F32) : NAN_F32;
    }
    return result;
}
uint parametric_softplus_f16(uint x, uint alpha, uint beta)
{
    return float16_from_float32(parametric_softplus_f32(float32_from_float16(x), alpha, beta));
}

#endif
