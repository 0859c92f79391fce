// LOG_SOFTMAX of a row's elements: their terms, e^x relative to the peak, which pairs of coefficients give, and their logarithms less
// that of the sum of all terms.
//
// e^y, of an element's difference y, is e^point * e^r, the point being the nearest multiple of 2^-5, and the peak's own point is
// subtracted from it: no element needs to be subtracted from the peak in two words. e^point comes from a pair of coefficients.
//
// The error: terms are off by numbers from -0.054 to 0.049 * 2^-24 (of 96 million, in all rows), the power by which their sum is
// multiplied, once for a row, by 0.02 * 2^-24, and the product by 0.05 * 2^-24: 0.12 * 2^-24 together. The second words, which are below
// 2^-5.8 of the first, have 6 roundings at most on their way into a lane's sum: it loses less than 0.11 * 2^-24. The sums of lanes lose
// 2^-31, and ln adds 2^-28.5. An error of 2^-24 is at most one ULP, and the last sum, next to 2^-10, has another 0.07: so a result has
// 0.5 + 0.12 + 0.11 + 0.01 + 0.05 + 0.07 ULP at the very most.
//
// Elements that are more than 80 below the peak are rare in most rows. What they need beside the others is in branches.
#ifndef LOG_SOFTMAX_GLSL
#define LOG_SOFTMAX_GLSL

#define COEFFICIENTS_ARE_PAIRS
#include "coefficients.glsl"
#include "error_free.glsl"
#include "float32.glsl"
#include "logarithm.glsl"
#include "peak.glsl"
#include "significand.glsl"

#define FAR_LOGARITHM 0x42a00000 // 80
#define NEAR_LOGARITHM 0x40f00000 // 7.5: so near below the peak a term is above 2^-11 of the greatest

// Terms are multiplied by a power of two, which is in the coefficients of their rows, because the sum of the others is the peak's own
// result where they are far below.
#define LOGARITHM_EXPONENT 90
#define LOWEST_LOGARITHM 130.0 // further below the peak a term is below 2^-187, which is nothing even 2^32 times
#define HUGE_DIFFERENCE 0x71800000 // 2^100
#define SMALLEST_SECOND_WORD 0x30800000 // 2^-30, scaled
#define TINY_SUM 0x58800000 // 2^-40, scaled
#define SMALL_LOGARITHM 0x3a800000 // 2^-10

// What a row's elements are seen relative to. `lowest` is the least difference that e is taken to the power of, and `nothing` one
// whose power is 0; so is that of every element where the row has no sum. `pairs` less the bits of a number's nearest point is the
// number of its pair of coefficients.
struct PowerBasis {
    float peak, shift;
    float difference; // the peak's
    float lowest, nothing;
    uint pairs;
    bool has_sum;
};

// 1.5 * 2^18: added to a number below 2^17, it leaves the nearest multiple of 2^-5, and that multiple in the last bits of the sum.
#define NEAREST_POINT 393216.0

PowerBasis logarithm_basis_of(float peak) {
    bool is_shifted = is_large(peak);
    uint bits = floatBitsToUint(peak);
    float shift = uintBitsToFloat(is_shifted ? bits : 0u);
    float difference = uintBitsToFloat(is_shifted ? 0u : bits);
    precise float point = difference + NEAREST_POINT;
    precise float lowest = difference - LOWEST_LOGARITHM;
    precise float nothing = lowest - 1.0;
    bool has_sum = int(bits & MAGNITUDE_F32) < int(INFINITY_F32);
    return PowerBasis(peak, shift, difference, lowest, nothing, LOGARITHM_TERM_PAIRS + floatBitsToUint(point), has_sum);
}

// An element of a row without a sum may have no pair of coefficients: it counts as far below.
bool is_far_logarithm(uint x, PowerBasis basis) {
    return !basis.has_sum || is_further_below(x, basis.peak, FAR_LOGARITHM);
}
bool is_near_logarithm(uint x, PowerBasis basis) { return basis.has_sum && is_within(x, basis.peak, NEAR_LOGARITHM); }
float bounded_logarithm(uint x, float difference, PowerBasis basis) {
    return bounded_difference(basis.has_sum ? x : MINUS_INFINITY, difference, basis.lowest, basis.nothing);
}

// e^r - 1 for |r| <= h = 2^-6 + 2^-9: r + r^2 * (1/2 + c + r / 6), within 2^-30.4. c * r^2, c = (sqrt(2) - 1) / 12 * h^2, is nearest
// to r^4 / 24 of the squares. 0 of 0, so that elements that are equal have equal powers. 5 operations.
float power_rest(float r) {
    precise float rest = r + (r * r) * (0.500010669 + r * 0.166666672);
    return rest;
}

// An element's term: e^difference, relative to e^point where point is the multiple of 2^-5 nearest to the peak's difference,
// times 2^LOGARITHM_EXPONENT. `high` has 9 bits, |low| is below 2^-5.8 * high. 12 operations and a pair.
//
// The nearest point to the difference is exact, and so is what the difference has beyond it. The pair of that point has the number of
// 9 bits that is nearest to e^point, and how far its logarithm lies beyond the point: so r is the rest of the difference, and
// |r| <= 2^-6 + 2^-9. All that is rounded is below 2^-5.8. (The products of power_rest's constants with the number, in rows of
// 16 bytes, would save an operation; a GPU reads such rows at half the rate.)
Double logarithm_term_of(float difference, PowerBasis basis) {
    precise float point = difference + NEAREST_POINT;
    vec2 pair = coefficient_pair(basis.pairs - floatBitsToUint(point));
    precise float r = (difference - (point - NEAREST_POINT)) - pair.y;
    precise float low = pair.x * power_rest(r);
    return Double(pair.x, low);
}

// A sum of first words, which begins with 0, and the next one: it, and what is to be added to the sum of second words. 7 operations with
// that: terms may all be tiny, but positive numbers have the order of their bits, and of two that are in order the sum is exact in 3.
Double next_sum(float sum, Double term) {
    int first = floatBitsToInt(sum);
    int second = floatBitsToInt(term.high);
    Double total = fast_two_sum(intBitsToFloat(max(first, second)), intBitsToFloat(min(first, second)));
    precise float low = total.low + term.low;
    return Double(total.high, low);
}

// The same bits where all 16 elements are near below the peak: their first words are multiples of 2^-19 of the greatest term there may
// be, and their sum is below 2^5 times that, so that it has 24 bits and nothing is left over. 2 operations a term.
Double next_near_sum(float sum, Double term) {
    precise float total = sum + term.high;
    return Double(total, term.low);
}

Double with_logarithm_term(Double sum, Double term) {
    Double next = next_sum(sum.high, term);
    precise float low = sum.low + next.low;
    return Double(next.high, low);
}

// Four terms more. Their second words are added up before: fewer roundings on the way. (In a function of its own: glslang takes
// minutes and gigabytes to follow what is precise through longer ones.)
float with_second_words(float low, float a, float b, float c, float d) {
    precise float sum = low + ((a + b) + (c + d));
    return sum;
}
#define WITH_TERMS(name, next) \
    Double name(Double sum, Double terms[4]) { \
        Double sum_0 = next(sum.high, terms[0]); \
        Double sum_1 = next(sum_0.high, terms[1]); \
        Double sum_2 = next(sum_1.high, terms[2]); \
        Double sum_3 = next(sum_2.high, terms[3]); \
        return Double(sum_3.high, with_second_words(sum.low, sum_0.low, sum_1.low, sum_2.low, sum_3.low)); \
    }
WITH_TERMS(with_logarithm_terms, next_sum)
WITH_TERMS(with_near_logarithm_terms, next_near_sum)

Double sum_of_terms(Double sum, float first) { return fast_two_sum(sum.high, sum.low); }

// A scaled sum as it is. Its second word, where that is next to nothing, is left out: it would be denormal.
Double unscaled(Double sum) {
    uint low_bits = floatBitsToUint(sum.low);
    uint kept = int(low_bits & MAGNITUDE_F32) < SMALLEST_SECOND_WORD ? 0u : low_bits;
    precise float high = sum.high * power_of_two(-LOGARITHM_EXPONENT);
    precise float low = uintBitsToFloat(kept) * power_of_two(-LOGARITHM_EXPONENT);
    return Double(high, low);
}

// The sum relative to the peak's term: times e^-r, r being what the peak has beyond its nearest point, which is exact. What is
// rounded is below 2^-5.9 of the first word, and the second word, which is half an ULP of the first, stays as it is: it loses less than
// 2^-28.4 all together. 13 operations.
Double relative_to_peak(Double sum, PowerBasis basis) {
    precise float point = (basis.difference + NEAREST_POINT) - NEAREST_POINT;
    precise float rest = power_rest(point - basis.difference);
    precise float low = sum.low + sum.high * rest;
    return fast_two_sum(sum.high, low);
}

// ln(1 + others), the others being the sum without the peak, relative to it; 0 where that is tiny. Then comes what the peak's
// result is, -others. 116 operations, once for a row.
uvec3 logarithm_row_words(Double sum, PowerBasis basis) {
    Double others = relative_to_peak(sum, basis);
    int magnitude = floatBitsToInt(others.high);
    bool is_tiny = magnitude < TINY_SUM;
    Double true_others = unscaled(others);
    Double logarithm = log1p(Double(is_tiny ? 1.0 : true_others.high, is_tiny ? 0.0 : true_others.low), 0);
    Double normalized = fast_two_sum(logarithm.high, logarithm.low);
    precise float opposite = -others.high - others.low;
    return uvec3(
        is_tiny ? 0u : floatBitsToUint(normalized.high),
        is_tiny ? 0u : floatBitsToUint(normalized.low),
        magnitude == 0 ? 0u : scaled_bits(opposite, -LOGARITHM_EXPONENT));
}

// ln(1 + others), and that plus the peak's difference: a multiple of 2^-12, and the rest.
struct LogarithmRow {
    Double logarithm;
    uint of_peak;
    float coarse, fine;
};
LogarithmRow logarithm_row(uvec3 words, PowerBasis basis) {
    Double logarithm = Double(uintBitsToFloat(words.x), uintBitsToFloat(words.y));
    Double total = two_sum(basis.difference, logarithm.high);
    // 1.5 * 2^11 leaves the nearest multiple of 2^-12.
    precise float coarse = (total.high + 3072.0) - 3072.0;
    precise float fine = (total.high - coarse) + (total.low + logarithm.low);
    return LogarithmRow(logarithm, words.z, coarse, fine);
}
bool has_small_logarithm(LogarithmRow row) { return floatBitsToInt(row.logarithm.high) < SMALL_LOGARITHM; }

// y - (the peak's y + ln(1 + others)), where the logarithm is not small and the element not far below: y - coarse, what its rounding
// lost, and the rest. Both are below 2^12, so that a unit in the last place of their difference is 2^-12 at most, and coarse a multiple
// of it. If y is one too, so is the rounded difference plus coarse, which is 2^24 units at most and so exact; else y has larger units,
// the difference is exact, and the sum is y. What is left has no rounding that counts beside 2^-10. 5 operations.
uint log_softmax_f32(float difference, LogarithmRow row) {
    precise float total = difference - row.coarse;
    precise float lost = difference - (total + row.coarse);
    precise float result = total + (lost - row.fine);
    return floatBitsToUint(result);
}

// x - peak. From 2^100 on the second word is left out: it makes no difference to any result, and what two_sum does on the way
// may overflow.
Double distance_of(uint x, float peak) {
    Double difference = two_sum(as_float32(x), -peak);
    bool is_huge = int(floatBitsToUint(difference.high) & MAGNITUDE_F32) >= HUGE_DIFFERENCE;
    return Double(difference.high, uintBitsToFloat(is_huge ? 0u : floatBitsToUint(difference.low)));
}

// The result where either is not so: (x - peak) - ln(1 + others) in two words. 33 operations.
uint slow_path_log_softmax_f32(uint result, uint x, PowerBasis basis, LogarithmRow row) {
    Double distance = distance_of(x, basis.peak);
    Double total = two_sum(distance.high, -row.logarithm.high);
    precise float low = total.low + (distance.low - row.logarithm.low);
    precise float value = total.high + low;
    int magnitude = int(floatBitsToUint(distance.high) & MAGNITUDE_F32);
    bool is_peak_of_tiny = magnitude == 0 && floatBitsToUint(row.logarithm.high) == 0u;
    uint slow_path = is_peak_of_tiny ? row.of_peak : floatBitsToUint(value);
    slow_path = magnitude >= int(INFINITY_F32) ? MINUS_INFINITY : slow_path;
    return has_small_logarithm(row) || is_far_logarithm(x, basis) ? slow_path : result;
}

#endif
