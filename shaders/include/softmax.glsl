// SOFTMAX of a row's elements: their terms, e^x relative to the peak, and their shares of the sum of all terms.
//
// e^y, of an element's difference y, is 2^k * e^r with |r| <= 0.3467 as in exponential.glsl, and the peak's own k is subtracted
// from k: no element needs to be subtracted from the peak in two words.
//
// The error: the terms of elements that may be in one row are off by numbers that are no further apart than 0.338 * 2^-24 (of all
// differences that can be, in 200 million), and so are a term and the sum. What a lane's sum loses is below 2^-29.5, the sum of
// the lanes 2^-31, the reciprocal and the product with it 2^-31. An error of 2^-24 is at most one ULP: so a share has
// 0.5 + 0.338 + 0.04 ULP at most.
//
// Elements that are more than 40 below the peak are rare in most rows. What they need beside the others is in branches.
#ifndef SOFTMAX_GLSL
#define SOFTMAX_GLSL

#include "error_free.glsl"
#include "float32.glsl"
#include "peak.glsl"

#define FAR_SHARE 0x42200000 // 40
#define NEAR_SHARE 0x40f00000 // 7.5: so near below the peak an element's k is at most 11 below the peak's

// Terms are multiplied by a power of two: where a share is a normal number, so are both words of its term, or the second is below
// 2^-52 of the first and changes no result. (A device may flush denormals or keep them: no bit may depend on one.)
#define SHARE_EXPONENT 53
#define LOWEST_SHARE 100.0 // further below the peak a share is below 2^-126, and the term next to nothing in the sum
#define SMALLEST_RECIPROCAL_REST 0x01000000 // 2^-125

// What a row's elements are seen relative to. Added to a number and subtracted again, `magic` leaves the nearest integer; the
// peak's own integer is subtracted in it, so that the sum's last bits count from there. `lowest` is the least difference that
// e is taken to the power of, and `nothing` one whose power is 0.
struct PowerBasis {
    float peak, shift, magic, lowest, nothing;
};

PowerBasis share_basis_of(float peak) {
    bool is_shifted = is_large(peak);
    uint bits = floatBitsToUint(peak);
    float shift = uintBitsToFloat(is_shifted ? bits : 0u);
    float difference = uintBitsToFloat(is_shifted ? 0u : bits);
    // 1.5 * 2^23: added to a number below 2^22, it leaves the nearest integer in the last bits of the sum.
    precise float shifted = difference * 1.44269504 + 12582912.0;
    precise float count = shifted - 12582912.0;
    precise float magic = 12582912.0 - count;
    precise float lowest = difference - LOWEST_SHARE;
    precise float nothing = (count - float(127 + SHARE_EXPONENT)) * 0.693147182;
    return PowerBasis(peak, shift, magic, lowest, nothing);
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
Double share_term_of(float difference, PowerBasis basis) {
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

// The sum of up to 16 shares. It begins with 2^(SHARE_EXPONENT + 1), which no term exceeds: so fast_two_sum is exact, whatever
// their order. 5 operations a term. The sums of up to 16 lanes and of their sums, of 4096 terms at most, begin with
// 2^(SHARE_EXPONENT + 9).
#define FIRST_SHARE 18014398509481984.0
#define FIRST_SUM_OF_SHARES 4611686018427387904.0
Double with_share(Double sum, Double term) {
    precise float total = sum.high + term.high;
    precise float added = total - sum.high;
    precise float low = sum.low + ((term.high - added) + term.low);
    return Double(total, low);
}

// The same bits where all 16 elements are near below the peak: their first words are multiples of 2^-19 * 2^SHARE_EXPONENT, and
// their sum is below 2^5 * 2^SHARE_EXPONENT, so that it has 24 bits and nothing is left over. 2 operations a term.
Double with_near_share(Double sum, Double term) {
    precise float total = sum.high + term.high;
    precise float low = sum.low + term.low;
    return Double(total, low);
}

Double sum_of_shares(Double sum, float first) {
    precise float high = sum.high - first; // exact
    return two_sum(high, sum.low);
}

// The reciprocal of a row's sum, with a first word of 12 bits, and as one word.
struct SoftmaxRow {
    Double reciprocal;
    float rounded;
};
uvec3 softmax_row_words(Double sum) {
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
SoftmaxRow softmax_row(uvec3 words, bool has_far) {
    float scale = power_of_two(has_far ? FAR_EXPONENT : 0);
    precise float high = uintBitsToFloat(words.x) * scale;
    precise float low = uintBitsToFloat(words.y) * scale;
    precise float rounded = high + low;
    return SoftmaxRow(Double(high, low), rounded);
}

// The term's share of the sum: the product of the first words is exact. 4 operations.
uint softmax_f32(Double term, SoftmaxRow row) {
    precise float low = term.high * row.reciprocal.low + term.low * row.rounded;
    return floatBitsToUint(exact_product_plus(term.high, row.reciprocal.high, low));
}

// The same among far elements.
uint unscaled_share(uint share) {
    int bits = int(share) - (FAR_EXPONENT << 23);
    return bits < int(SMALLEST_NORMAL_F32) ? 0u : uint(bits);
}

#endif
