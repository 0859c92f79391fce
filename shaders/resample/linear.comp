// RESAMPLE, RESAMPLE1, RESAMPLE2, RESAMPLE3, UPSAMPLE_2D with LINEAR: the weighted average of the two elements around the place
// along each resampled axis, A first; where an axis has a RADIUS, of all that are nearer to the place than that (antialiasing).
//
// Weights, products and sums are rounded to float32 one by one. An element of weight 0 is left out, so that an infinity there
// does no harm.
#define RESAMPLE_BLOCKS
#include "windows/resample.glsl"
#include "weighting.glsl"

#define NUMBER_OF(type, x) CONCATENATE(NUMBER_OF_, type)(x)
#define NUMBER_OF_float32(x) (x)
#define NUMBER_OF_float16(x) float32_from_float16(x)
#define NUMBER_OF_int8(x) floatBitsToUint(float(int(x)))
#define NUMBER_OF_uint8(x) floatBitsToUint(float(int(x)))

#define RESULT_OF(type, x) CONCATENATE(RESULT_OF_, type)(x)
#define RESULT_OF_float32(x) as_result(uintBitsToFloat(x))
#define RESULT_OF_float16(x) float16_from_float32(x)
#define RESULT_OF_int8(x) nearest_integer(x)
#define RESULT_OF_uint8(x) nearest_integer(x)

// To nearest even; an average of bytes is no larger than they are. 1.5 * 2^23 leaves the integer in the last bits.
uint nearest_integer(uint x) {
    precise float shifted = uintBitsToFloat(x) + 12582912.0;
    return floatBitsToUint(shifted) - 0x4b400000u;
}

// The elements around a place, by what they have in common along an axis.
struct Around {
    int first;
    uint count;
    float location, fraction, radius;
};
Around around(float location, uint radius) {
    if (radius == 0u) {
        Between low = between(location);
        return Around(int(low.element), is_zero(low.fraction) ? 1u : 2u, location, low.fraction, 0.0);
    }
    precise float reach = uintBitsToFloat(radius);
    int below = int(whole_of(reach)) + 1;
    return Around(int(whole_of(location)) - below, uint(2 * below + 2), location, 0.0, reach);
}

// The weight of one of these elements, and its number in the input.
uint weight_of(Around around, uint number, uint scale) {
    if (is_zero(around.radius)) {
        precise float rest = 1.0 - around.fraction;
        return floatBitsToUint(number == 0u ? rest : around.fraction);
    }
    precise float distance = float(around.first + int(number)) - around.location;
    precise float part = uintBitsToFloat(floatBitsToUint(distance) & MAGNITUDE_F32) * uintBitsToFloat(scale);
    precise float weight = 1.0 - part;
    return floatBitsToInt(weight) > 0 ? floatBitsToUint(weight) : 0u;
}
uint element_of(Around around, uint number, uint extent) {
    return uint(min(max(around.first + int(number), 0), int(extent) - 1));
}

// A sum of weighted numbers, and of their weights.
struct Weighted {
    uint sum, weights;
    bool is_empty;
};
#define NOTHING Weighted(0u, 0u, true)
Weighted with_weighted(Weighted sum, uint weight, uint number) {
    uint product = multiply_f32(weight, number);
    if (sum.is_empty) { return Weighted(product, weight, false); }
    return Weighted(add_f32(sum.sum, product), add_f32(sum.weights, weight), false);
}
uint average_of(Weighted sum, Around around) {
    return is_zero(around.radius) ? sum.sum : divide_f32(sum.sum, sum.weights);
}

// For everything: one axis inside the other.
#define BEGIN_AXIS(axis, outer) \
    Around around_##axis = around(POSITION(axis, source.outer), RADIUS_##axis); \
    Weighted sum_##axis = NOTHING; \
    for (uint number_##axis = 0u; number_##axis < around_##axis.count; ++number_##axis) { \
        uint weight_##axis = weight_of(around_##axis, number_##axis, SCALE_##axis); \
        if (weight_##axis == 0u) { continue; } \
        uint at_##axis = element_of(around_##axis, number_##axis, EXTENT_##axis) * STRIDE_##axis;
#define END_AXIS(axis, number) \
        sum_##axis = with_weighted(sum_##axis, weight_##axis, number); \
    }
#define AVERAGE(axis) average_of(sum_##axis, around_##axis)

uint weighted_one_by_one(Source source) {
    BEGIN_AXIS(D, d)
    BEGIN_AXIS(C, c)
    BEGIN_AXIS(B, b)
    BEGIN_AXIS(A, a)
    uint element = ELEMENT(source.at + at_D + at_C + at_B + at_A);
    END_AXIS(A, NUMBER_OF(INPUT, element))
    END_AXIS(B, AVERAGE(A))
    END_AXIS(C, AVERAGE(B))
    END_AXIS(D, AVERAGE(C))
    return AVERAGE(D);
}

// The same by several launches: those elements of the nested loops that this one takes. What the sums hold is handed on.
#define STATE_WORDS 12u
#define STATE(word) words_state[BASE_WORD(state) + STATE_WORDS * invocation_index() + word]
#define TAKE_STATE(axis, word) \
    if (parameters.first != 0u) { \
        sum_##axis = Weighted(STATE(word), STATE(word + 1u), STATE(word + 2u) != 0u); \
    }
#define HAND_ON(axis, word) \
    STATE(word) = sum_##axis.sum; \
    STATE(word + 1u) = sum_##axis.weights; \
    STATE(word + 2u) = uint(sum_##axis.is_empty);
#define AXIS_IN_PART(axis, outer, word) \
    Around around_##axis = around(POSITION(axis, source.outer), RADIUS_##axis); \
    Weighted sum_##axis = NOTHING; \
    TAKE_STATE(axis, word)
#define NUMBER_ALONG(axis) \
    uint number_##axis = rest % around_##axis.count; \
    rest /= around_##axis.count; \
    uint weight_##axis = weight_of(around_##axis, number_##axis, SCALE_##axis); \
    uint at_##axis = element_of(around_##axis, number_##axis, EXTENT_##axis) * STRIDE_##axis;
#define ADD_ALONG(axis, number) \
    if (weight_##axis != 0u) { \
        sum_##axis = with_weighted(sum_##axis, weight_##axis, number); \
    }
// Behind the last element along an axis, its average goes to the axis outside of it.
#define IS_LAST(axis) (number_##axis + 1u == around_##axis.count)

uint weighted_in_parts(Source source) {
    AXIS_IN_PART(D, d, 0u)
    AXIS_IN_PART(C, c, 3u)
    AXIS_IN_PART(B, b, 6u)
    AXIS_IN_PART(A, a, 9u)
    uint end = min(parameters.end, around_D.count * around_C.count * around_B.count * around_A.count);
    for (uint number = parameters.first; number < end; ++number) {
        uint rest = number;
        NUMBER_ALONG(A) NUMBER_ALONG(B) NUMBER_ALONG(C) NUMBER_ALONG(D)
        ADD_ALONG(A, NUMBER_OF(INPUT, ELEMENT(source.at + at_D + at_C + at_B + at_A)))
        if (IS_LAST(A)) {
            ADD_ALONG(B, AVERAGE(A))
            sum_A = NOTHING;
            if (IS_LAST(B)) {
                ADD_ALONG(C, AVERAGE(B))
                sum_B = NOTHING;
                if (IS_LAST(C)) {
                    ADD_ALONG(D, AVERAGE(C))
                    sum_C = NOTHING;
                }
            }
        }
    }
    HAND_ON(D, 0u) HAND_ON(C, 3u) HAND_ON(B, 6u) HAND_ON(A, 9u)
    return AVERAGE(D);
}

VALUE(OUTPUT) resampled(Source source) {
    if (IN_PARTS) { return RESULT_OF(OUTPUT, weighted_in_parts(source)); }
    if (IS_PLAIN) {
        Between column = between(POSITION(A, source.a));
        Between row = between(POSITION(B, source.b));
        uint at = source.at + column.element * STRIDE_A + row.element * STRIDE_B;
        uint right = is_zero(column.fraction) ? 0u : STRIDE_A;
        uint below = is_zero(row.fraction) ? 0u : STRIDE_B;
        uvec4 bits = uvec4(NUMBER_OF(INPUT, ELEMENT(at)), NUMBER_OF(INPUT, ELEMENT(at + right)),
            NUMBER_OF(INPUT, ELEMENT(at + below)), NUMBER_OF(INPUT, ELEMENT(at + below + right)));
        uint result = weighted_four(bits, column.fraction, row.fraction);
#if INPUT_BITS == 32
        if (has_tiny(bits)) { result = weighted_four_slowly(bits, column.fraction, row.fraction); }
#endif
        return RESULT_OF(OUTPUT, result);
    }
    return RESULT_OF(OUTPUT, weighted_one_by_one(source));
}

#define NUMBER_AT(at) NUMBER_OF(INPUT, ELEMENT(at))
#define NUMBERS_AT(at) uvec4(NUMBER_AT(at.x), NUMBER_AT(at.y), NUMBER_AT(at.z), NUMBER_AT(at.w))
uint least_of(uvec4 bits) {
    uvec4 less_one = (bits & MAGNITUDE_F32) - 1u;
    return min(min(less_one.x, less_one.y), min(less_one.z, less_one.w));
}

// What a row of the input is averaged to in these columns; with the least magnitude less one, of which zero is the greatest.
vec4 averages_of_row(uint at, Columns columns, inout uint least) {
    uvec4 first = NUMBERS_AT(at + columns.first);
    uvec4 second = NUMBERS_AT(at + columns.second);
    least = min(least, min(least_of(first), least_of(second)));
    return vec4(weighted(uintBitsToFloat(first.x), uintBitsToFloat(second.x), columns.fraction.x),
        weighted(uintBitsToFloat(first.y), uintBitsToFloat(second.y), columns.fraction.y),
        weighted(uintBitsToFloat(first.z), uintBitsToFloat(second.z), columns.fraction.z),
        weighted(uintBitsToFloat(first.w), uintBitsToFloat(second.w), columns.fraction.w));
}

// Four rows of the output that lie between four rows of the input from the first one's on, as they do where they are magnified by 2 at least.
#define STORE_AVERAGE(row, begin, a, b, c, d) \
    if (source.b + row < OUTPUT_ROWS) { \
        Between location = between(POSITION(B, source.b + row)); \
        uint behind = location.element - begin; \
        vec4 first = behind == 0u ? a : (behind == 1u ? b : c); \
        vec4 second = behind == 0u ? b : (behind == 1u ? c : d); \
        store_four_values(output_at + row * ROW_OUTPUT_STEP, AVERAGE_OF(x), AVERAGE_OF(y), AVERAGE_OF(z), AVERAGE_OF(w)); \
    }
#define AVERAGE_OF(lane) RESULT_OF(OUTPUT, floatBitsToUint(weighted(first.lane, second.lane, location.fraction)))
#define AVERAGES_OF_ROW(name, number) \
    vec4 name; \
    if (ALWAYS) { name = averages_of_row(source.at + number * STRIDE_B, columns, least); }
bool has_block(Source source, uint output_at, Columns columns) {
    uint begin = between(POSITION(B, source.b)).element;
    if (between(POSITION(B, source.b + 3u)).element - begin > 2u) { return false; }
    uint last = EXTENT_B - 1u;
    uint least = 0xffffffffu;
    AVERAGES_OF_ROW(a, begin)
    AVERAGES_OF_ROW(b, min(begin + 1u, last))
    AVERAGES_OF_ROW(c, min(begin + 2u, last))
    AVERAGES_OF_ROW(d, min(begin + 3u, last))
#if INPUT_BITS == 32
    if (least < LEAST_PLAIN - 1u) { return false; }
#endif
    STORE_AVERAGE(0u, begin, a, b, c, d)
    STORE_AVERAGE(1u, begin, a, b, c, d)
    STORE_AVERAGE(2u, begin, a, b, c, d)
    STORE_AVERAGE(3u, begin, a, b, c, d)
    return true;
}

// Two blocks where rows and columns are doubled: places lie a quarter and three quarters behind elements, so that eight rows of the output come
// from six of the input, and four columns from four. Beyond the first element and the last one these stand for themselves.
#define POSITION_OF(element, extent) uint(min(max(element, 0), int(extent) - 1))
float fraction_at(int element, uint extent, float inside) { return uint(element) < extent - 1u ? inside : 0.0; }

// The average of two finite numbers of equal signs of zero where the fraction is 0: then it is the first one without a look at it.
vec4 averages(vec4 first, vec4 second, vec4 fraction) {
    precise vec4 rest = 1.0 - fraction;
    precise vec4 average = first * rest + second * fraction;
    return average;
}

// What is seen of numbers: twice the least magnitude, less one, of which zero is the greatest; and the sum of magnitudes.
uint twice_less_one(uint bits) { return (bits << 1u) - 1u; }
vec4 doubled_row(uint at, uvec4 columns, vec4 fraction, inout uint least, inout float magnitudes) {
    uvec4 bits;
#if INPUT_BITS == 32
    if (HAS_PAIRS) {
        uvec2 pair = pairs_input[(BASE_WORD(input) + at + columns.y) >> 1u];
        bits = uvec4(ELEMENT(at + columns.x), pair, ELEMENT(at + columns.w));
    } else {
        bits = NUMBERS_AT((at + columns));
    }
    least = min(least, min(min(twice_less_one(bits.x), twice_less_one(bits.y)), min(twice_less_one(bits.z), twice_less_one(bits.w))));
#else
    bits = NUMBERS_AT((at + columns));
#endif
    vec4 x = uintBitsToFloat(bits);
    vec4 magnitude = uintBitsToFloat(bits & MAGNITUDE_F32);
    precise float sum = magnitudes + ((magnitude.x + magnitude.y) + (magnitude.z + magnitude.w));
    magnitudes = sum;
    return averages(x.xyyz, x.yzzw, fraction);
}

#if INPUT_BITS == 32
#define FINITE_RESULT(x) floatBitsToUint(x)
#else
#define FINITE_RESULT(x) RESULT_OF(OUTPUT, floatBitsToUint(x))
#endif
#define DOUBLED_ROW(name, number) \
    vec4 name; \
    if (ALWAYS) { \
        name = doubled_row(source.at + POSITION_OF(row + number, EXTENT_B) * STRIDE_B, columns, fraction, least, magnitudes); \
    }
#define STORE_DOUBLED(number, first, second, inside) \
    if (source.b + number < OUTPUT_ROWS) { \
        vec4 result = averages(first, second, vec4(fraction_at(row + (number + 1) / 2, EXTENT_B, inside))); \
        store_four_values(output_at + number * ROW_OUTPUT_STEP, FINITE_RESULT(result.x), FINITE_RESULT(result.y), \
            FINITE_RESULT(result.z), FINITE_RESULT(result.w)); \
    }
bool has_doubled_block(Source source, uint output_at) {
    int column = int(source.a >> 1u) - 1;
    int row = int(source.b >> 1u) - 1;
    uvec4 columns = uvec4(POSITION_OF(column, EXTENT_A), POSITION_OF(column + 1, EXTENT_A), POSITION_OF(column + 2, EXTENT_A),
        POSITION_OF(column + 3, EXTENT_A)) * STRIDE_A;
    vec4 fraction = vec4(fraction_at(column, EXTENT_A, 0.75), fraction_at(column + 1, EXTENT_A, 0.25),
        fraction_at(column + 1, EXTENT_A, 0.75), fraction_at(column + 2, EXTENT_A, 0.25));
    uint least = 0xffffffffu;
    float magnitudes = 0.0;
    DOUBLED_ROW(a, 0)
    DOUBLED_ROW(b, 1)
    DOUBLED_ROW(c, 2)
    DOUBLED_ROW(d, 3)
    DOUBLED_ROW(e, 4)
    DOUBLED_ROW(f, 5)
#if INPUT_BITS == 32
    if (least < 2u * LEAST_PLAIN - 1u) { return false; }
#endif
    if (floatBitsToUint(magnitudes) >= INFINITY_F32) { return false; }
    STORE_DOUBLED(0, a, b, 0.75)
    STORE_DOUBLED(1, b, c, 0.25)
    STORE_DOUBLED(2, b, c, 0.75)
    STORE_DOUBLED(3, c, d, 0.25)
    STORE_DOUBLED(4, c, d, 0.75)
    STORE_DOUBLED(5, d, e, 0.25)
    STORE_DOUBLED(6, d, e, 0.75)
    STORE_DOUBLED(7, e, f, 0.25)
    return true;
}
