// MEAN_VARIANCE_NORMALIZATION of rows that a work group holds, in one step: FusedActivation((x - mean) / sqrt(variance + Epsilon) * Scale + Bias),
// with the bits of the steps one by one: reduction/sum.comp, inverse_deviation.comp and mean_variance_normalization.comp.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "held_rows.glsl"
#include "arithmetic.glsl"
#include "comparison.glsl"
#include "division.glsl"
#include "mean_difference.glsl"

#define term_itself(base) (base)
ADD_RARE_TERM(add_rare_term, term_itself, LEAST_ORDINARY_TERM, LEAST_LARGE_TERM)
ADD_RARE_TERM(add_rare_square, square_of, LEAST_ORDINARY_BASE, LEAST_LARGE_BASE)

// Twice the distance of a magnitude from the least one of a range; zero lies beyond all.
#define ABOVE(bits, least) (((bits) << 1u) - 2u * (least))
uint farthest_above(uvec4 bits, uint least)
{
    return max(max(ABOVE(bits.x, least), ABOVE(bits.y, least)), max(ABOVE(bits.z, least), ABOVE(bits.w, least)));
}
// The same where zeros are as good as what lies in the range.
uint in_range(uint bits, uint least) { return (bits & MAGNITUDE_F32) == 0u ? least : bits; }
uvec4 all_in_range(uvec4 bits, uint least)
{
    return uvec4(in_range(bits.x, least), in_range(bits.y, least), in_range(bits.z, least), in_range(bits.w, least));
}
bool are_in_range(uvec4 bits, uint least, uint large)
{
    return farthest_above(all_in_range(bits, least), least) < 2u * (large - least);
}

// The block of a group by its number.
uvec4 block_of(uint number, uvec4 a, uvec4 b, uvec4 c, uvec4 d)
{
    uvec4 left = number == 0u ? a : b;
    uvec4 right = number == 2u ? c : d;
    return number < 2u ? left : right;
}

Double number(uint bits) { return Double(uintBitsToFloat(bits), 0.0); }
Double sum_of_block(uvec4 x) { return sum_of_four(number(x.x), number(x.y), number(x.z), number(x.w)); }

// Whether all elements of this lane so far were ordinary ones or zeros: then the leading word of a difference from the mean, as squares
// are made of it, is the difference rounded too, since nothing on the way is denormal.
bool is_plain;

// A lane's sum with the elements of four blocks.
TermSum with_elements(TermSum sum, uvec4 a, uvec4 b, uvec4 c, uvec4 d)
{
    const uint least = LEAST_ORDINARY_TERM;
    const uint reach = 2u * (LEAST_LARGE_TERM - least);
    bool is_ordinary = max(max(farthest_above(a, least), farthest_above(b, least)),
                           max(farthest_above(c, least), farthest_above(d, least)))
        < reach;
    if (!is_ordinary) {
        is_ordinary = are_in_range(a, least, LEAST_LARGE_TERM) && are_in_range(b, least, LEAST_LARGE_TERM)
            && are_in_range(c, least, LEAST_LARGE_TERM) && are_in_range(d, least, LEAST_LARGE_TERM);
    }
    if (is_ordinary) {
        Double group = with_next_four(Double(0.0, 0.0), sum_of_block(a));
        group = with_next_four(group, sum_of_block(b));
        group = with_next_four(group, sum_of_block(c));
        group = with_next_four(group, sum_of_block(d));
        return TermSum(double_sum(sum.ordinary, group), sum.small, sum.large, sum.flags);
    }
    is_plain = false;
    TermSum group = EMPTY_SUM;
    for (uint i = 0u; i < 4u; ++i) {
        uvec4 x = block_of(i, a, b, c, d);
        if (are_in_range(x, least, LEAST_LARGE_TERM)) {
            group = with_sum_of_four(group, sum_of_block(x));
        } else {
            add_rare_term(group, number(x.x));
            add_rare_term(group, number(x.y));
            add_rare_term(group, number(x.z));
            add_rare_term(group, number(x.w));
        }
    }
    return joined_sums(sum, group);
}

Double mean;

// A block's squared differences from the mean; also these differences, and how far they are above the least ordinary one.
Double squares_of_block(uvec4 x, out uvec4 differences, inout uint farthest)
{
    Double a = difference_in_two_words(uintBitsToFloat(x.x), mean);
    Double b = difference_in_two_words(uintBitsToFloat(x.y), mean);
    Double c = difference_in_two_words(uintBitsToFloat(x.z), mean);
    Double d = difference_in_two_words(uintBitsToFloat(x.w), mean);
    differences = floatBitsToUint(vec4(a.high, b.high, c.high, d.high));
    farthest = max(farthest, farthest_above(differences, LEAST_ORDINARY_BASE));
    return sum_of_four(square_of(a), square_of(b), square_of(c), square_of(d));
}

TermSum with_rare_squares(TermSum sum, uvec4 x)
{
    Double a = difference_from_mean(x.x, mean);
    Double b = difference_from_mean(x.y, mean);
    Double c = difference_from_mean(x.z, mean);
    Double d = difference_from_mean(x.w, mean);
    uvec4 differences = floatBitsToUint(vec4(a.high, b.high, c.high, d.high));
    if (are_in_range(differences, LEAST_ORDINARY_BASE, LEAST_LARGE_BASE)) {
        return with_sum_of_four(sum, sum_of_four(square_of(a), square_of(b), square_of(c), square_of(d)));
    }
    add_rare_square(sum, a);
    add_rare_square(sum, b);
    add_rare_square(sum, c);
    add_rare_square(sum, d);
    return sum;
}

// Puts a block's differences from the mean in its elements' place, and adds their squares to a group's sum.
#define TAKE_SQUARES(block, x) \
    if (IS_THERE(block)) { \
        group = with_next_four(group, squares_of_block(x, differences_##x, farthest)); \
    }

// A lane's sum with the squares of four blocks' differences; plain elements are replaced by these. Of plain elements the sum is made before it is
// known whether it is good for anything.
TermSum with_squares(TermSum sum, uint first, inout uvec4 a, inout uvec4 b, inout uvec4 c, inout uvec4 d)
{
    const uint least = LEAST_ORDINARY_BASE;
    const uint reach = 2u * (LEAST_LARGE_BASE - least);
    uvec4 differences_a = a;
    uvec4 differences_b = b;
    uvec4 differences_c = c;
    uvec4 differences_d = d;
    bool is_ordinary = false;
    if (is_plain) {
        uint farthest = 0u;
        Double group = Double(0.0, 0.0);
        TAKE_SQUARES(first, a)
        TAKE_SQUARES(first + 1u, b)
        TAKE_SQUARES(first + 2u, c)
        TAKE_SQUARES(first + 3u, d)
        is_ordinary = farthest < reach;
        if (!is_ordinary) {
            is_ordinary = are_in_range(differences_a, least, LEAST_LARGE_BASE) && are_in_range(differences_b, least, LEAST_LARGE_BASE)
                && are_in_range(differences_c, least, LEAST_LARGE_BASE) && are_in_range(differences_d, least, LEAST_LARGE_BASE);
        }
        if (is_ordinary) {
            sum.ordinary = double_sum(sum.ordinary, group);
        }
    }
    if (!is_ordinary) {
        TermSum group = EMPTY_SUM;
        for (uint i = 0u; i < 4u; ++i) {
            if (IS_THERE(first + i)) {
                group = with_rare_squares(group, block_of(i, a, b, c, d));
            }
        }
        sum = joined_sums(sum, group);
    }
    if (is_plain) {
        a = differences_a;
        b = differences_b;
        c = differences_c;
        d = differences_d;
    }
    return sum;
}

uvec2 mean_of(TermSum sum)
{
    if (is_special_sum(sum.flags)) {
        return uvec2(special_sum_of_terms(sum.flags), 0u);
    }
    int exponent;
    Double total = sum_of_terms(sum, 1, exponent);
    return mean_in_two_words(mean_of_total(total, parameters.row_length), exponent);
}

// 1 / sqrt(variance + Epsilon), each step rounded.
uint factor_of(TermSum squares)
{
    uint variance = special_sum_of_squares(squares.flags);
    if (!is_special_sum(squares.flags)) {
        int exponent;
        Double total = sum_of_terms(squares, 2, exponent);
        variance = result_times_power(mean_of_total(total, parameters.row_length).high, exponent);
    }
    return recip_f32(sqrt_f32(add_f32(variance, parameters.epsilon)));
}

uint factor;
uint scale_row;
uint bias_row;
uint output_row;
uint scale_of_row;
uint bias_of_row;

uvec4 scale_of(uint element) { return SCALE == ALONG_ROW ? four_of_scale(scale_row + element) : uvec4(scale_of_row); }
uvec4 bias_of(uint element) { return BIAS == ALONG_ROW ? four_of_bias(bias_row + element) : uvec4(bias_of_row); }

// FLOAT16 results are rounded once more.
uint finished(uint x)
{
    if (WIDTH == 16u) {
        uint result = float16_from_float32(x);
        return HAS_RELU ? larger_f16(result, 0u) : result;
    }
    return HAS_RELU ? larger_f32(x, 0u) : x;
}
uvec4 all_finished(uvec4 x) { return uvec4(finished(x.x), finished(x.y), finished(x.z), finished(x.w)); }

// The result of an element, or of its difference from the mean where elements are plain.
uint normalized(uint x, uint scale, uint bias)
{
    uint result = is_plain ? x : difference_from(x, floatBitsToUint(vec2(mean.high, mean.low)));
    result = multiply_f32(result, factor);
    if (SCALE != ABSENT) {
        result = multiply_f32(result, scale);
    }
    if (BIAS != ABSENT) {
        result = add_f32(result, bias);
    }
    return canonical_f32(result);
}
uvec4 all_normalized(uvec4 x, uint element)
{
    uvec4 scale = scale_of(element);
    uvec4 bias = bias_of(element);
    return uvec4(normalized(x.x, scale.x, bias.x), normalized(x.y, scale.y, bias.y), normalized(x.z, scale.z, bias.z),
        normalized(x.w, scale.w, bias.w));
}

// The same of differences whose product with the factor is zero or from 2^-80 up to 2^20, without a look at what may be denormal: right where
// the product with Scale is from 2^-100 up to 2^100. A denormal Scale leaves less than that, and a denormal Bias is less than half a place.
#define LEAST_PRODUCT 0x0d800000u // 2^-100
#define LEAST_LARGE_PRODUCT 0x71800000u
uvec4 quickly_normalized(uvec4 difference, uint element, inout uint farthest, inout uint no_number)
{
    precise vec4 result = uintBitsToFloat(difference) * uintBitsToFloat(factor);
    if (SCALE != ABSENT) {
        result = result * uintBitsToFloat(scale_of(element));
    }
    farthest = max(farthest, farthest_above(floatBitsToUint(result), LEAST_PRODUCT));
    if (BIAS != ABSENT) {
        result = result + uintBitsToFloat(bias_of(element));
        precise float total = (result.x + result.y) + (result.z + result.w); // NaN where one is
        no_number = max(no_number, floatBitsToUint(total) & MAGNITUDE_F32);
    }
    return floatBitsToUint(result);
}

bool is_quick; // whether the lane's differences are such

#define NORMALIZE_QUICKLY(block, x) \
    if (IS_THERE(block)) { \
        result_##x = quickly_normalized(x, FIRST_OF(block), farthest, no_number); \
    }
#define STORE_BLOCK(block, x) \
    if (is_row && IS_THERE(block)) { \
        store_four(output_row + FIRST_OF(block), all_finished(result_##x)); \
    }
void store_results(bool is_row, uint first, uvec4 a, uvec4 b, uvec4 c, uvec4 d)
{
    uvec4 result_a = a;
    uvec4 result_b = b;
    uvec4 result_c = c;
    uvec4 result_d = d;
    bool is_right = false;
    if (is_quick) {
        uint farthest = 0u;
        uint no_number = 0u;
        NORMALIZE_QUICKLY(first, a)
        NORMALIZE_QUICKLY(first + 1u, b)
        NORMALIZE_QUICKLY(first + 2u, c)
        NORMALIZE_QUICKLY(first + 3u, d)
        is_right = farthest < 2u * (LEAST_LARGE_PRODUCT - LEAST_PRODUCT) && no_number <= INFINITY_F32;
    }
    if (is_right) {
        STORE_BLOCK(first, a)
        STORE_BLOCK(first + 1u, b)
        STORE_BLOCK(first + 2u, c)
        STORE_BLOCK(first + 3u, d)
        return;
    }
    for (uint i = 0u; i < 4u; ++i) {
        uint element = FIRST_OF(first + i);
        if (is_row && IS_THERE(first + i)) {
            store_four(output_row + element, all_finished(all_normalized(block_of(i, a, b, c, d), element)));
        }
    }
}

#define WITH_ELEMENTS(a, b, c, d) sum = with_elements(sum, x_##a, x_##b, x_##c, x_##d);
#define WITH_SQUARES(a, b, c, d) squares = with_squares(squares, a, x_##a, x_##b, x_##c, x_##d);
#define STORE_RESULTS(a, b, c, d) store_results(is_row, a, x_##a, x_##b, x_##c, x_##d);

void held_row(uint row, bool is_row)
{
    uint input_row = row_of_input(row);
    LOAD_ROW(input_row)
    output_row = row_of_output(row);
    scale_row = SCALE == ABSENT ? 0u : row_of_scale(row);
    bias_row = BIAS == ABSENT ? 0u : row_of_bias(row);
    scale_of_row = SCALE == ONE_FOR_ROW ? one_of_scale(scale_row) : 0u;
    bias_of_row = BIAS == ONE_FOR_ROW ? one_of_bias(bias_row) : 0u;

    is_plain = true;
    TermSum sum = EMPTY_SUM;
    EACH_GROUP_OF_BLOCKS(WITH_ELEMENTS)
    sum = sum_of_lanes(sum);
    uvec2 words = uvec2(0u);
    if (slot < ROWS_OF_GROUP) {
        words = mean_of(sum);
    }
    words = words_of_row(words);
    mean = Double(uintBitsToFloat(words.x), uintBitsToFloat(words.y));
    is_plain = is_plain && (words.x & MAGNITUDE_F32) < INFINITY_F32;

    TermSum squares = EMPTY_SUM;
    EACH_GROUP_OF_BLOCKS(WITH_SQUARES)
    float own = squares.ordinary.high;
    bool is_ordinary = is_plain && squares.flags == 0u;
    squares = sum_of_lanes(squares);
    words = uvec2(0u);
    if (slot < ROWS_OF_GROUP) {
        words.x = factor_of(squares);
    }
    factor = words_of_row(words).x;
    // No square is above their sum.
    precise float product = uintBitsToFloat(factor) * uintBitsToFloat(factor);
    product = product * own;
    is_quick = is_ordinary && factor >= LEAST_ORDINARY_BASE && factor < LEAST_LARGE_BASE && floatBitsToUint(product) < 0x52800000u; // 2^38
    EACH_GROUP_OF_BLOCKS(STORE_RESULTS)
}
