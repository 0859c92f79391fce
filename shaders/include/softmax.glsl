// What the softmax operators make of a row's elements, the row's largest value, the peak, being known. Everything is relative
// to the peak, so that nothing overflows; what is summed has two words (T. J. Dekker, «A floating-point technique for extending
// the available precision», 1971).
//
// An element's difference is y = x - shift, the shift being zero, or the peak where that is so large that numbers which are not
// far from it are subtracted without rounding (P. H. Sterbenz, «Floating-point computation», 1974): so y is exact wherever
// e^(x - peak) is not below 2^-126. e^y is 2^k * e^r with |r| <= 0.3467 as in exponential.glsl, and the peak's own k is
// subtracted from k: no element needs to be subtracted from the peak in two words.
//
// The error of a logarithm: a term is off by 0.175 * 2^-24 at most (measured on thirty million differences; 2^-28.2 of the
// polynomial, 2^-29 of each rounding), and so is the sum; what the sum and the quotient by the peak's term lose is below 2^-32,
// however long the row, and ln adds 2^-28.5. An error of 2^-24 is at most one ULP: so it has 0.5 + 0.35 + 0.05 ULP at the very most.
//
// The error of a share: the terms of elements that may be in one row are off by numbers that are no further apart than
// 0.338 * 2^-24 (of all differences that can be, in 200 million), and so are a term and the sum. What a lane's sum loses is below
// 2^-29.5, the sum of the lanes 2^-31, the reciprocal and the product with it 2^-31: so it has 0.5 + 0.338 + 0.04 ULP at most.
//
// Elements that are more than 40 below the peak are rare in most rows. What they need beside the others is in branches.
#ifndef SOFTMAX_GLSL
#define SOFTMAX_GLSL

#include "error_free.glsl"
#include "float32.glsl"
#include "logarithm.glsl"
#include "significand.glsl"

#define LARGEST_UNSHIFTED 0x43300000 // 176: from here on what is not below half the peak is all that matters
#define FAR_BELOW 0x42200000 // 40
#define NEAR_BELOW 0x40f00000 // 7.5: so near below the peak an element's k is at most 11 below the peak's
#define MINUS_INFINITY (SIGN_F32 | INFINITY_F32)

// Terms are multiplied by a power of two. It is 2^53 for shares: where a share is a normal number, so are both words of its term,
// or the second is below 2^-52 of the first and changes no result. (A device may flush denormals or keep them: no bit may depend on
// one.) And 2^90 for logarithms, because the sum of the others is the peak's own result where they are far below.
#define SHARE_EXPONENT 53
#define LOWEST_SHARE 100.0 // further below the peak a share is below 2^-126, and the term next to nothing in the sum
#define LOGARITHM_EXPONENT 90
#define LOWEST_LOGARITHM 130.0 // further below the peak a term is below 2^-187, which is nothing even 2^32 times
#define HUGE_DIFFERENCE 0x71800000 // 2^100
#define SMALLEST_SECOND_WORD 0x30800000 // 2^-30, scaled
#define SMALLEST_RECIPROCAL_REST 0x01000000 // 2^-125
#define TINY_SUM 0x58800000 // 2^-40, scaled
#define SMALL_LOGARITHM 0x3a800000 // 2^-10

// a + b, for numbers of one sign. Relative error: at most 3 * 2^-48. 11 operations.
Double sum_of(Double a, Double b)
{
    Double total = two_sum(a.high, b.high);
    precise float low = total.low + (a.low + b.low);
    return fast_two_sum(total.high, low);
}

// What a row's elements are seen relative to. Added to a number and subtracted again, `magic` leaves the nearest integer; the
// peak's own integer is subtracted in it, so that the sum's last bits count from there. `lowest` is the least difference that
// e is taken to the power of, and `nothing` one whose power is 0.
struct PowerBasis {
    float peak;
    float shift;
    float magic;
    float lowest;
    float nothing;
};

PowerBasis power_basis_of(float peak, float range, int sum_exponent)
{
    uint bits = floatBitsToUint(peak);
    bool is_large = int(bits & MAGNITUDE_F32) > LARGEST_UNSHIFTED;
    float shift = uintBitsToFloat(is_large ? bits : 0u);
    float difference = uintBitsToFloat(is_large ? 0u : bits);
    // 1.5 * 2^23: added to a number below 2^22, it leaves the nearest integer in the last bits of the sum.
    precise float shifted = difference * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float magic = 12582912.0 - count;
    precise float lowest = difference - range;
    precise float nothing = (count - float(127 + sum_exponent)) * 0.693147182;
    return PowerBasis(peak, shift, magic, lowest, nothing);
}

bool is_shifted(PowerBasis basis) { return (floatBitsToUint(basis.shift) & MAGNITUDE_F32) != 0u; }

// An element's difference, which matters unless it is far below the peak: the element itself where nothing is shifted.
float difference_of(uint x, PowerBasis basis)
{
    precise float difference = uintBitsToFloat(x) - basis.shift;
    return difference;
}

bool is_far_below(uint x, PowerBasis basis)
{
    precise float distance = basis.peak - uintBitsToFloat(x);
    return x == MINUS_INFINITY || floatBitsToInt(distance) > FAR_BELOW;
}

bool is_near_below(uint x, PowerBasis basis)
{
    precise float distance = basis.peak - uintBitsToFloat(x);
    return floatBitsToInt(distance) <= NEAR_BELOW;
}

// The difference of an element that may be far below: never below the lowest, and that of -infinity is `nothing`.
float bounded_difference(uint x, float difference, PowerBasis basis)
{
    uint bits = floatBitsToUint(difference);
    uint lowest = floatBitsToUint(basis.lowest);
    // Of two negative numbers, the one further from zero has the greater bits.
    uint bounded = int(lowest) < 0 ? min(bits, lowest) : uint(max(int(bits), int(lowest)));
    return uintBitsToFloat(x == MINUS_INFINITY ? floatBitsToUint(basis.nothing) : bounded);
}

// A share's term: e^difference, relative to the peak's 2^k, times 2^SHARE_EXPONENT. `high` has 9 bits, |low| is below 2^-8 * high.
// 25 operations.
//
// ln 2 is 2^-29 * 1.02 below a number of 21 bits, LN2_15_BITS + LN2_6_BITS. With that in its place nothing is rounded in r: both
// products are exact, and r is a multiple of 2^-25 (or the difference itself, where count is 0). Then e^difference is
// 2^count * e^r * e^(count * excess), the last within 2^-41 of 1 + count * excess; that has the first word for a factor here, and
// the product, count having 9 bits, needs no rounding.
//
// e^r = 1 + r + r^2 * p(r): the minimax polynomial p (found by weights as in C. L. Lawson, «Contributions to the theory of linear
// least maximum approximations», 1961), its coefficients then changed at random while errors, roundings included, came to lie
// closer together: in a share the sum's error is subtracted from the term's. `high` is e^r rounded to a multiple of 2^-8, and the
// rest has only the roundings of r^2 * p(r).
#define LN2_15_BITS 0.693145752
#define LN2_6_BITS 1.43051147e-06 // 3 * 2^-21
#define LN2_EXCESS 1.89174898e-09 // 65 * 2^-35
Double share_term_of(float difference, PowerBasis basis)
{
    precise float shifted = difference * 1.44269504 + basis.magic;
    precise float count = shifted - basis.magic;
    precise float head = exact_product_plus(count, -LN2_15_BITS, difference);
    precise float r = exact_product_plus(count, -LN2_6_BITS, head);
    precise float curve = 1.37881329e-03 * r + 8.37055035e-03;
    curve = curve * r + 4.16684598e-02;
    curve = curve * r + 1.66665062e-01;
    curve = curve * r + 0.5;
    curve = curve * (r * r);
    // 1.5 * 2^15 leaves the nearest multiple of 2^-8.
    precise float rounded = ((r + curve) + 49152.0) - 49152.0;
    precise float power_rest = (r - rounded) + curve;
    precise float excess = exact_product_plus(rounded, LN2_EXCESS, LN2_EXCESS); // 15 bits
    precise float rest = exact_product_plus(count, excess, power_rest);
    float factor = uintBitsToFloat((floatBitsToUint(shifted) << 23) + (uint(127 + SHARE_EXPONENT) << 23));
    precise float high = exact_product_plus(rounded, factor, factor);
    precise float low = rest * factor;
    return Double(high, low);
}

// A logarithm's term: e^difference, relative to the peak's 2^k, times 2^sum_exponent: high has 12 bits, |low| is below
// 2^-11 * high. 30 operations.
//
// e^r = 1 + r + r^2 * p(r), where p is the minimax polynomial with single precision coefficients: relative error 2^-28.2 (found
// by weights as in C. L. Lawson, «Contributions to the theory of linear least maximum approximations», 1961). `high` is e^r
// rounded to a multiple of 2^-11, and the rest has only the roundings of r^2 * p(r): that of r itself, r_rest, is added to it.
Double term_of(float difference, PowerBasis basis, int sum_exponent)
{
    precise float shifted = difference * 1.44269504 + basis.magic;
    precise float count = shifted - basis.magic;
    precise float head = exact_product_plus(count, -0.693145752, difference); // and so is the difference
    precise float tail = count * 1.42860677e-06;
    precise float r = head - tail;
    precise float r_rest = (head - r) - tail;
    precise float curve = 1.38211518e-03 * r + 8.36867746e-03;
    curve = curve * r + 4.16682623e-02;
    curve = curve * r + 1.66665211e-01;
    curve = curve * r + 0.49999994;
    curve = curve * (r * r);
    // 1.5 * 2^12 leaves the nearest multiple of 2^-11.
    precise float rounded = ((r + curve) + 6144.0) - 6144.0;
    precise float head_power = 1.0 + rounded;
    precise float rest = ((r - rounded) + curve) + r_rest * head_power;
    float factor = uintBitsToFloat((floatBitsToUint(shifted) << 23) + (uint(127 + sum_exponent) << 23));
    precise float high = head_power * factor;
    precise float low = rest * factor;
    return Double(high, low);
}

// The sum of up to 16 shares. It begins with 2^(SHARE_EXPONENT + 1), which no term exceeds: so fast_two_sum is exact, whatever
// their order. 5 operations a term. The sums of up to 16 lanes and of their sums, of 4096 terms at most, begin with
// 2^(SHARE_EXPONENT + 9).
#define FIRST_SHARE 18014398509481984.0
#define FIRST_SUM_OF_SHARES 4611686018427387904.0
Double with_share(Double sum, Double term)
{
    precise float total = sum.high + term.high;
    precise float added = total - sum.high;
    precise float low = sum.low + ((term.high - added) + term.low);
    return Double(total, low);
}

// The same bits where all 16 elements are near below the peak: their first words are multiples of 2^-19 * 2^SHARE_EXPONENT, and
// their sum is below 2^5 * 2^SHARE_EXPONENT, so that it has 24 bits and nothing is left over. 2 operations a term.
Double with_near_share(Double sum, Double term)
{
    precise float total = sum.high + term.high;
    precise float low = sum.low + term.low;
    return Double(total, low);
}

Double sum_of_shares(Double sum, float first)
{
    precise float high = sum.high - first; // exact
    return two_sum(high, sum.low);
}

// The sum of up to 16 terms that may all be tiny; it begins with 0. 7 operations a term: positive numbers have the order of
// their bits, and of two that are in order the sum is exact in 3.
Double with_term(Double sum, Double term)
{
    int first = floatBitsToInt(sum.high);
    int second = floatBitsToInt(term.high);
    Double total = fast_two_sum(intBitsToFloat(max(first, second)), intBitsToFloat(min(first, second)));
    precise float low = sum.low + (total.low + term.low);
    return Double(total.high, low);
}
Double sum_of_terms(Double sum, float first) { return fast_two_sum(sum.high, sum.low); }

// The reciprocal of a row's sum, with a first word of 12 bits, and as one word.
struct SoftmaxRow {
    Double reciprocal;
    float rounded;
};
uvec3 softmax_row_words(Double sum)
{
    // 1 minus the product of two first words is exact, and so the quotient of what is left needs one word.
    float inverse = reciprocal_estimate(sum.high);
    float high = leading_half(inverse);
    float sum_high = leading_half(sum.high);
    precise float sum_low = (sum.high - sum_high) + sum.low;
    precise float rest = exact_product_plus(-high, sum_high, 1.0) - high * sum_low;
    precise float low = rest * inverse;
    bool is_denormal = int(floatBitsToUint(low) & MAGNITUDE_F32) < SMALLEST_RECIPROCAL_REST;
    return uvec3(floatBitsToUint(high), is_denormal ? 0u : floatBitsToUint(low), 0u);
}

// Among far elements, shares are 2^FAR_EXPONENT times as large until they are complete, so that all steps have normal numbers.
#define FAR_EXPONENT 60
SoftmaxRow softmax_row(uvec3 words, bool has_far)
{
    float scale = power_of_two(has_far ? FAR_EXPONENT : 0);
    precise float high = uintBitsToFloat(words.x) * scale;
    precise float low = uintBitsToFloat(words.y) * scale;
    precise float rounded = high + low;
    return SoftmaxRow(Double(high, low), rounded);
}

// The term's share of the sum: the product of the first words is exact. 4 operations.
uint softmax_f32(Double term, SoftmaxRow row)
{
    precise float low = term.high * row.reciprocal.low + term.low * row.rounded;
    return floatBitsToUint(exact_product_plus(term.high, row.reciprocal.high, low));
}

// The same among far elements.
uint unscaled_share(uint share)
{
    int bits = int(share) - (FAR_EXPONENT << 23);
    return bits < int(SMALLEST_NORMAL_F32) ? 0u : uint(bits);
}

// A scaled sum as it is. Its second word, where that is next to nothing, is left out: it would be denormal.
Double unscaled(Double sum)
{
    uint low_bits = floatBitsToUint(sum.low);
    uint kept = int(low_bits & MAGNITUDE_F32) < SMALLEST_SECOND_WORD ? 0u : low_bits;
    precise float high = sum.high * power_of_two(-LOGARITHM_EXPONENT);
    precise float low = uintBitsToFloat(kept) * power_of_two(-LOGARITHM_EXPONENT);
    return Double(high, low);
}

// ln(1 + others), the others being the sum without the peak, relative to it; 0 where that is tiny. Then comes what the peak's
// result is, -others. 150 operations, once for a row.
uvec3 logarithm_row_words(Double sum, PowerBasis basis)
{
    Double of_peak = term_of(difference_of(floatBitsToUint(basis.peak), basis), basis, 0);
    Double others = quotient(sum, fast_two_sum(of_peak.high, of_peak.low));
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
    float coarse;
    float fine;
};
LogarithmRow logarithm_row(uvec3 words, PowerBasis basis)
{
    Double logarithm = Double(uintBitsToFloat(words.x), uintBitsToFloat(words.y));
    Double total = two_sum(difference_of(floatBitsToUint(basis.peak), basis), logarithm.high);
    // 1.5 * 2^11 leaves the nearest multiple of 2^-12.
    precise float coarse = (total.high + 3072.0) - 3072.0;
    precise float fine = (total.high - coarse) + (total.low + logarithm.low);
    return LogarithmRow(logarithm, words.z, coarse, fine);
}
bool has_small_logarithm(LogarithmRow row) { return floatBitsToInt(row.logarithm.high) < SMALL_LOGARITHM; }

// y - (the peak's y + ln(1 + others)), where the logarithm is not small and the element not far below: the difference of two
// multiples of 2^-12 is exact, and what is left of them has no rounding that counts beside 2^-10. 7 operations.
uint log_softmax_f32(uint x, PowerBasis basis, LogarithmRow row)
{
    float difference = difference_of(x, basis);
    precise float coarse = (difference + 3072.0) - 3072.0;
    precise float result = (coarse - row.coarse) + ((difference - coarse) - row.fine);
    return floatBitsToUint(result);
}

// x - peak. From 2^100 on the second word is left out: it makes no difference to any result, and what two_sum does on the way
// may overflow.
Double distance_of(uint x, float peak)
{
    Double difference = two_sum(as_float32(x), -peak);
    bool is_huge = int(floatBitsToUint(difference.high) & MAGNITUDE_F32) >= HUGE_DIFFERENCE;
    return Double(difference.high, uintBitsToFloat(is_huge ? 0u : floatBitsToUint(difference.low)));
}

// The result where either is not so: (x - peak) - ln(1 + others) in two words. 33 operations.
uint rare_log_softmax_f32(uint result, uint x, PowerBasis basis, LogarithmRow row)
{
    Double distance = distance_of(x, basis.peak);
    Double total = two_sum(distance.high, -row.logarithm.high);
    precise float low = total.low + (distance.low - row.logarithm.low);
    precise float value = total.high + low;
    int magnitude = int(floatBitsToUint(distance.high) & MAGNITUDE_F32);
    bool is_peak_of_tiny = magnitude == 0 && floatBitsToUint(row.logarithm.high) == 0u;
    uint rare = is_peak_of_tiny ? row.of_peak : floatBitsToUint(value);
    rare = magnitude >= int(INFINITY_F32) ? MINUS_INFINITY : rare;
    return has_small_logarithm(row) || is_far_below(x, basis) ? rare : result;
}

#endif
