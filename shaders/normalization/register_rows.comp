// MEAN_VARIANCE_NORMALIZATION of rows that a work group holds, in one step: FusedActivation((x - mean) / sqrt(variance + Epsilon) * Scale +
// Bias), with the bits of the steps one by one: reduction/sum.comp, inverse_deviation.comp and mean_variance_normalization.comp.
#include "rows/register_rows.glsl"
#include "arithmetic.glsl"
#include "comparison.glsl"
#include "division.glsl"
#include "mean_difference.glsl"
#include "rounded_squares.glsl"

#define term_itself(base) (base)
ADD_SLOW_PATH_TERM(add_term_on_slow_path, term_itself, LEAST_ORDINARY_TERM, LEAST_LARGE_TERM)

// Twice the distance of a magnitude from the least one of a range; zero lies beyond all.
#define ABOVE(bits, least) (((bits) << 1u) - 2u * (least))
uint farthest_above(uvec4 bits, uint least) {
    return max(max(ABOVE(bits.x, least), ABOVE(bits.y, least)), max(ABOVE(bits.z, least), ABOVE(bits.w, least)));
}
// The same where zeros are as good as what lies in the range.
uint in_range(uint bits, uint least) { return (bits & MAGNITUDE_F32) == 0u ? least : bits; }
uint farthest_number_above(uvec4 bits, uint least) {
    return farthest_above(
        uvec4(in_range(bits.x, least), in_range(bits.y, least), in_range(bits.z, least), in_range(bits.w, least)), least);
}
#define REACH(least, large) (2u * ((large) - (least)))

// Sums are made as if all terms were ordinary, of what is held; where they were not, anew, of what is loaded again.
uvec4 loaded_again(uint block) { return four_of_input(input_row + FIRST_OF(block)); }

// The least magnitude, twice; zero is the least. FLOAT16's numbers are never too small, nor too large: what is not finite is seen by the sum.
#define ALL_ARE_ORDINARY (WIDTH == 16u)
uint nearest;
uint least_of(uvec4 bits) { return min(min(bits.x << 1u, bits.y << 1u), min(bits.z << 1u, bits.w << 1u)); }

Double number(uint bits) { return Double(uintBitsToFloat(bits), 0.0); }
#define NUMBERS(kept) number(kept.x), number(kept.y), number(kept.z), number(kept.w)

// Compilers for GPUs mix the sums of groups, which gains something while registers last. A branch, though it is always taken (nothing
// nearest is 1), keeps them from it.
#define CAN_MIX_GROUPS (BLOCKS_OF_LANE < 14u)

#define QUICK_BLOCK(block) \
    if (IS_THERE(block)) { \
        group = with_next_four(group, sum_of_four_numbers(uintBitsToFloat(x_##block))); \
        if (!ALL_ARE_ORDINARY) { \
            nearest = min(nearest, least_of(x_##block)); \
        } \
    }
#define QUICK_GROUP(a, b, c, d) \
    if (CAN_MIX_GROUPS || nearest != 1u) { \
        Double group = Double(0.0, 0.0); \
        QUICK_BLOCK(a) QUICK_BLOCK(b) QUICK_BLOCK(c) QUICK_BLOCK(d) \
        quick = double_sum(quick, group); \
    }

TermSum with_slow_path_elements(TermSum sum, uvec4 x) {
    if (farthest_number_above(x, LEAST_ORDINARY_TERM) < REACH(LEAST_ORDINARY_TERM, LEAST_LARGE_TERM)) {
        return with_sum_of_four(sum, sum_of_four(NUMBERS(x)));
    }
    add_term_on_slow_path(sum, number(x.x));
    add_term_on_slow_path(sum, number(x.y));
    add_term_on_slow_path(sum, number(x.z));
    add_term_on_slow_path(sum, number(x.w));
    return sum;
}

Double mean;

// The leading words of differences from the mean: these are rounded.
#define FOUR_DIFFERENCES(difference, bits) \
    vec4(difference(bits.x).high, difference(bits.y).high, difference(bits.z).high, difference(bits.w).high)
#define difference_of_any(bits) difference_from_mean(bits, mean)
#define difference_of_ordinary(bits) difference_in_two_words(uintBitsToFloat(bits), mean)

// Squared differences of ordinary elements, and these differences in their place.
#define QUICK_DIFFERENCES(kept) \
    vec4 differences = FOUR_DIFFERENCES(difference_of_ordinary, kept); \
    kept = floatBitsToUint(differences); \
    float four = sum_of_four_squares(differences); \
    nearest = min(nearest, floatBitsToUint(four)); \
    group = with_next_number(group, four);
#define QUICK_SQUARES_OF_BLOCK(block) if (IS_THERE(block)) { QUICK_DIFFERENCES(x_##block) }
#define QUICK_SQUARES_OF_GROUP(a, b, c, d) \
    if (CAN_MIX_GROUPS || nearest != 1u) { \
        Double group = Double(0.0, 0.0); \
        QUICK_SQUARES_OF_BLOCK(a) QUICK_SQUARES_OF_BLOCK(b) QUICK_SQUARES_OF_BLOCK(c) QUICK_SQUARES_OF_BLOCK(d) \
        quick = double_sum(quick, group); \
    }

TermSum with_slow_path_squares(TermSum sum, uvec4 x) { return with_four_squares(sum, FOUR_DIFFERENCES(difference_of_any, x)); }

// A lane's sum of all its blocks, whatever is in them.
#define SLOW_PATH_SUM(name, with_slow_path) \
    TermSum name() { \
        TermSum sum = EMPTY_SUM; \
        for (uint first = 0u; first < BLOCKS_OF_LANE; first += 4u) { \
            TermSum group = EMPTY_SUM; \
            for (uint block = first; block < first + 4u; ++block) { \
                if (IS_THERE(block)) { group = with_slow_path(group, loaded_again(block)); } \
            } \
            sum = joined_sums(sum, group); \
        } \
        return sum; \
    }
SLOW_PATH_SUM(slow_path_sum, with_slow_path_elements)
SLOW_PATH_SUM(slow_path_sum_of_squares, with_slow_path_squares)

// Whether all elements of a lane are ordinary or zero.
bool is_ordinary_or_zero(uint x) {
    uint magnitude = x & MAGNITUDE_F32;
    return magnitude == 0u || (magnitude >= LEAST_ORDINARY_TERM && magnitude < LEAST_LARGE_TERM);
}
bool is_ordinary_lane() {
    bool is_ordinary = true;
    for (uint block = 0u; block < BLOCKS_OF_LANE; ++block) {
        if (IS_THERE(block)) {
            uvec4 x = loaded_again(block);
            is_ordinary = is_ordinary && is_ordinary_or_zero(x.x) && is_ordinary_or_zero(x.y) && is_ordinary_or_zero(x.z) && is_ordinary_or_zero(x.w);
        }
    }
    return is_ordinary;
}

// Of a sum of ordinary terms, whether it is zero or in the middle of the range: then no scaling is needed to divide it.
bool is_middling(Double sum) {
    uint magnitude = floatBitsToUint(sum.high) & MAGNITUDE_F32;
    return magnitude == 0u || (magnitude >= 0x2b800000u && magnitude < 0x5d800000u); // 2^-40, 2^60
}
Double middling_mean(Double sum) {
    bool is_zero = (floatBitsToUint(sum.high) & MAGNITUDE_F32) == 0u;
    return is_zero ? Double(0.0, 0.0) : quotient(sum, double_from_uint(parameters.row_length));
}

uvec2 mean_of(TermSum sum) {
    if (is_special_sum(sum.flags)) { return uvec2(special_sum_of_terms(sum.flags), 0u); }
    int exponent;
    Double total = sum_of_terms(sum, 1, exponent);
    return mean_in_two_words(mean_of_total(total, parameters.row_length), exponent);
}

uint variance_of(TermSum squares) {
    if (is_special_sum(squares.flags)) { return special_sum_of_squares(squares.flags); }
    int exponent;
    Double total = total_of_squares(squares, exponent);
    return result_times_power(mean_of_total(total, parameters.row_length).high, exponent);
}

// 1 / sqrt(variance + Epsilon), each step rounded.
uint factor_of(uint variance) { return recip_f32(sqrt_f32(add_f32(variance, parameters.epsilon))); }

uint factor, scale_row, bias_row, output_row, scale_of_row, bias_of_row;

uvec4 scale_of(uint element) { return SCALE == ALONG_ROW ? four_of_scale(scale_row + element) : uvec4(scale_of_row); }
uvec4 bias_of(uint element) { return BIAS == ALONG_ROW ? four_of_bias(bias_row + element) : uvec4(bias_of_row); }

// FLOAT16 results are rounded once more.
uint finished(uint x) {
    if (WIDTH == 16u) {
        uint result = float16_from_float32(x);
        return HAS_RELU ? larger_f16(result, 0u) : result;
    }
    return HAS_RELU ? larger_f32(x, 0u) : x;
}
uvec4 all_finished(uvec4 x) { return uvec4(finished(x.x), finished(x.y), finished(x.z), finished(x.w)); }

// The result of an element.
uint normalized(uint x, uint scale, uint bias) {
    uint result = difference_from(x, floatBitsToUint(vec2(mean.high, mean.low)));
    result = multiply_f32(result, factor);
    if (SCALE != ABSENT) { result = multiply_f32(result, scale); }
    if (BIAS != ABSENT) { result = add_f32(result, bias); }
    return canonical_f32(result);
}
#define NORMALIZE(lane) \
    if (ALWAYS) { result.lane = finished(normalized(x.lane, scale.lane, bias.lane)); }
uvec4 all_normalized(uvec4 x, uint element) {
    uvec4 scale = scale_of(element);
    uvec4 bias = bias_of(element);
    uvec4 result;
    NORMALIZE(x) NORMALIZE(y) NORMALIZE(z) NORMALIZE(w)
    return result;
}

// The same without a look at what may be denormal: right where the product with Scale is 2^-100 at least, Scale below 2^26, so that the
// product before it is no denormal, and all results are numbers. A denormal Bias is less than half a place. Of FLOAT16 a difference is zero or
// 2^-69 at least (2^-44 of a mean that is an element, which is 2^-25 at least), its factor 2^-17 and Scale 2^-24: nothing is denormal.
#define LEAST_PRODUCT 0x0d800000u     // 2^-100
#define LEAST_LARGE_SCALE 0x4c800000u // 2^26
struct Seen {
    uint nearest; // product's magnitude, twice
    float scales; // magnitudes in all
    uint totals;  // the greatest magnitude of four results' sum: infinite or NaN where a result is
};
uvec4 quickly_normalized(uvec4 difference, uint element, inout Seen seen) {
    precise vec4 result = uintBitsToFloat(difference) * uintBitsToFloat(factor);
    if (SCALE != ABSENT) {
        uvec4 scale = scale_of(element);
        result = result * uintBitsToFloat(scale);
        if (!ALL_ARE_ORDINARY) {
            vec4 magnitudes = uintBitsToFloat(scale & MAGNITUDE_F32);
            precise float scales = SCALE == ONE_FOR_ROW ? magnitudes.x : (magnitudes.x + magnitudes.y) + (magnitudes.z + magnitudes.w);
            precise float all_scales = seen.scales + scales;
            seen.scales = all_scales;
        }
    }
    if (!ALL_ARE_ORDINARY) { seen.nearest = min(seen.nearest, least_of(floatBitsToUint(result))); }
    if (BIAS != ABSENT) { result = result + uintBitsToFloat(bias_of(element)); }
    if (SCALE != ABSENT || BIAS != ABSENT) {
        precise float total = (result.x + result.y) + (result.z + result.w);
        seen.totals = max(seen.totals, floatBitsToUint(total) & MAGNITUDE_F32);
    }
    return floatBitsToUint(result);
}

bool is_quick; // whether the lane's products with the factor are below 2^20

#define NORMALIZE_QUICKLY(block, x) \
    if (IS_THERE(block)) { \
        result_##x = quickly_normalized(x, FIRST_OF(block), seen); \
    }
// Numbers, by the device's conversion where that rounds so.
void store_numbers(uint offset, uvec4 x) {
    if (WIDTH != 16u || !PACKS_TO_NEAREST_EVEN) {
        store_four(offset, all_finished(x));
        return;
    }
    uvec2 pair = packed_four(uintBitsToFloat(x));
    pairs_output[(BASE_WORD(output) >> 1u) + (offset >> 2u)] = HAS_RELU ? pair & ~((pair >> 15u & 0x10001u) * 0xffffu) : pair;
}
#define STORE_BLOCK(block, x) \
    if (is_row && IS_THERE(block)) { \
        store_numbers(output_row + FIRST_OF(block), result_##x); \
    }
void store_results(bool is_row, uint first, uvec4 a, uvec4 b, uvec4 c, uvec4 d) {
    uvec4 result_a = a;
    uvec4 result_b = b;
    uvec4 result_c = c;
    uvec4 result_d = d;
    bool is_right = false;
    if (is_quick) {
        Seen seen = Seen(0xffffffffu, 0.0, 0u);
        NORMALIZE_QUICKLY(first, a)
        NORMALIZE_QUICKLY(first + 1u, b)
        NORMALIZE_QUICKLY(first + 2u, c)
        NORMALIZE_QUICKLY(first + 3u, d)
        is_right = seen.nearest >= 2u * LEAST_PRODUCT && floatBitsToUint(seen.scales) < LEAST_LARGE_SCALE
            && seen.totals < INFINITY_F32;
    }
    if (is_right) {
        STORE_BLOCK(first, a)
        STORE_BLOCK(first + 1u, b)
        STORE_BLOCK(first + 2u, c)
        STORE_BLOCK(first + 3u, d)
        return;
    }
    for (uint block = first; block < first + 4u; ++block) {
        if (is_row && IS_THERE(block)) {
            store_four(output_row + FIRST_OF(block), all_normalized(loaded_again(block), FIRST_OF(block)));
        }
    }
}

#define STORE_RESULTS(a, b, c, d) store_results(is_row, a, x_##a, x_##b, x_##c, x_##d);

// All that was held is loaded again, so that no register is kept for it before.
void slow_path_row(bool is_row) {
    if (LANES_OF_ROW > 1u) {
        barrier(); // what was shared has been read
    }
    uvec2 words = uvec2(0u);
    TermSum sum = sum_of_lanes(slow_path_sum());
    if (slot < ROWS_OF_GROUP) { words = mean_of(sum); }
    words = words_of_row(words);
    mean = Double(uintBitsToFloat(words.x), uintBitsToFloat(words.y));
    TermSum squares = sum_of_lanes(slow_path_sum_of_squares());
    if (slot < ROWS_OF_GROUP) { words.x = factor_of(variance_of(squares)); }
    factor = words_of_row(words).x;
    for (uint block = 0u; block < BLOCKS_OF_LANE; ++block) {
        if (is_row && IS_THERE(block)) {
            store_four(output_row + FIRST_OF(block), all_normalized(loaded_again(block), FIRST_OF(block)));
        }
    }
}

// What the lanes of a row come to, of those who make their sum known; the others have NaN.
Double quick_sum_of_lanes(Double sum, bool is_right) {
    Double own = Double(is_right ? sum.high : uintBitsToFloat(NAN_F32), sum.low);
    return LANES_OF_ROW > 1u ? quick_tree(slot, own) : own;
}

void register_row(uint row, bool is_row) {
    input_row = row_of_input(row);
    LOAD_ROW
    output_row = row_of_output(row);
    scale_row = SCALE == ABSENT ? 0u : row_of_scale(row);
    bias_row = BIAS == ABSENT ? 0u : row_of_bias(row);
    scale_of_row = SCALE == ONE_FOR_ROW ? one_of_scale(scale_row) : 0u;
    bias_of_row = BIAS == ONE_FOR_ROW ? one_of_bias(bias_row) : 0u;
    begin_rows();

    // A large element leaves either a sum that is not middling or a difference whose square is infinite, and all is made anew.
    nearest = 0xfffffffeu;
    Double quick = Double(0.0, 0.0);
    EACH_GROUP_OF_BLOCKS(QUICK_GROUP)
    Double sum = quick_sum_of_lanes(quick, ALL_ARE_ORDINARY || nearest >= 2u * LEAST_ORDINARY_TERM || is_ordinary_lane());
    bool needs_slow_path = !is_middling(sum);
    uvec2 words = uvec2(0u);
    if (slot < ROWS_OF_GROUP && !needs_slow_path) { words = mean_in_two_words(middling_mean(sum), 0); }
    if (any_slow_path(0u, words, needs_slow_path)) {
        slow_path_row(is_row);
        return;
    }
    mean = Double(uintBitsToFloat(words.x), uintBitsToFloat(words.y));

    // All elements are ordinary or zero, so nothing on the way is denormal: then the leading word of a difference is the difference
    // rounded. No sum of four squares is above twice their sum.
    nearest = 0xfffffffeu;
    quick = Double(0.0, 0.0);
    EACH_GROUP_OF_BLOCKS(QUICK_SQUARES_OF_GROUP)
    bool is_ordinary = nearest >= LEAST_ORDINARY_FOUR && floatBitsToUint(quick.high) < LEAST_LARGE_FOUR - 0x00800000u;
    Double squares = quick_sum_of_lanes(quick, is_ordinary);
    needs_slow_path = !is_middling(squares);
    words = uvec2(0u);
    if (slot < ROWS_OF_GROUP && !needs_slow_path) {
        words.x = factor_of(floatBitsToUint(middling_mean(squares).high));
    }
    if (any_slow_path(1u, words, needs_slow_path)) {
        slow_path_row(is_row);
        return;
    }
    factor = words.x;
    precise float product = uintBitsToFloat(factor) * uintBitsToFloat(factor);
    product = product * quick.high;
    is_quick = factor >= LEAST_ORDINARY_BASE && factor < LEAST_LARGE_BASE && floatBitsToUint(product) < 0x52800000u; // 2^38
    EACH_GROUP_OF_BLOCKS(STORE_RESULTS)
}
