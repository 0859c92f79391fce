// LOCAL_RESPONSE_NORMALIZATION as quick_response.glsl has it, of packed tensors whose planes have a multiple of four elements.
// Local responses across a few channels of packed tensors: an invocation has four neighbours in each of some channels, and squares each element
// once. The results are those of local_response_normalization.comp.
#extension GL_EXT_control_flow_attributes : require

#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_output, work_items;
    uint exponent; // float32: Beta, Alpha / LocalSize, Bias
    uint factor, summand;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, output)

layout(constant_id = 3) const uint TAPS = 1u;     // channels that are summed over
layout(constant_id = 4) const uint BEFORE = 0u;   // those before the element's own
layout(constant_id = 5) const uint CHANNELS = 1u;
layout(constant_id = 6) const uint PLANE_FOURS = 1u; // a plane's elements, by four

// Channels of an invocation, and runs of so many in an image.
#ifndef CHANNELS_OF_RUN
#define CHANNELS_OF_RUN 8u
#endif
#define RUNS ((CHANNELS + (CHANNELS_OF_RUN - 1u)) / CHANNELS_OF_RUN)
#define MOST_BEHIND 4u

// The window of an element: channels from the first one on.
struct Window {
    uint at; // the first tap's element
    uint taps;
};
#define WINDOW_IS_GIVEN
#define TAPS_OF_WINDOW TAPS
#define TAP(at) LOAD(INPUT, words_input, BASE(INPUT_BITS, input) + at)
#define FOR_EACH_TAP_SLOWLY(window, TAKE) \
    { \
        uint at_ = window.at; \
        for (uint tap_ = 0u; tap_ < window.taps; ++tap_) { \
            TAKE(at_, 0u) \
            at_ += 4u * PLANE_FOURS; \
        } \
    }
#define FOR_EACH_TAP(window, TAKE) FOR_EACH_TAP_SLOWLY(window, TAKE)
#include "windows/local_response.glsl"
#include "windows/local_response_result.glsl"

#if INPUT_BITS == 32
uvec4 four_of(uint four) { return fours_input[(BASE_WORD(input) >> 2u) + four]; }
void store_four(uint four, uvec4 values) { fours_output[(BASE_WORD(output) >> 2u) + four] = values; }
#else
uvec4 four_of(uint four) {
    uvec2 words = pairs_input[(BASE_WORD(input) >> 1u) + four];
    return uvec4(NUMBER_OF_float16(words.x & 0xffffu), NUMBER_OF_float16(words.x >> 16), NUMBER_OF_float16(words.y & 0xffffu),
        NUMBER_OF_float16(words.y >> 16));
}
void store_four(uint four, uvec4 values) {
    pairs_output[(BASE_WORD(output) >> 1u) + four] = uvec2(values.x | (values.y << 16), values.z | (values.w << 16));
}
#endif

// What is not quick, of an element by its four, its lane and its channel.
void store_slowly(uint four, uint lane, uint channel) {
    uint first = uint(max(int(channel) - int(BEFORE), 0));
    uint end = min(channel - BEFORE + TAPS, CHANNELS); // of wrapping numbers
    uint element = 4u * four + lane;
    Window window = Window(element - (channel - first) * 4u * PLANE_FOURS, end - first);
    VALUE(OUTPUT) value = any_response(NUMBER_OF(INPUT, TAP(element)), window);
    STORE(OUTPUT_BITS, words_output, BASE(OUTPUT_BITS, output) + element, value);
}

// The results of four neighbours, by their squares in five channels, and which of them are not quick.
uvec4 responses(uvec4 x, vec4 a, vec4 b, vec4 c, vec4 d, vec4 e, out uint slow) {
    float factor = uintBitsToFloat(parameters.factor);
    float summand = uintBitsToFloat(parameters.summand);
    uvec4 results;
    slow = 0u;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        float base = quick_base(a[lane], b[lane], c[lane], d[lane], e[lane], factor, summand);
        slow |= uint(!is_quick(x[lane], base)) << lane;
        results[lane] = RESULT_FROM(OUTPUT, quotient_by_quarters(x[lane], base, QUARTERS));
    }
    return results;
}

vec4 squares_of(uvec4 numbers) {
    precise vec4 x = uintBitsToFloat(numbers);
    precise vec4 square = x * x;
    return square;
}

// The channels' fours from the first channel's place on, one after the other in a loop: what is written out takes processors' compilers long.
#define BEHIND (TAPS - 1u - BEFORE)
uint run_in_loop(uint first, uint location) {
    vec4 before[4] = vec4[](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0)); // squares in the channels before the newest one
    uvec4 last = uvec4(0u);
    uvec4 last_but_one = uvec4(0u);
    uint slow = 0u;
    uint end = min(CHANNELS - first, CHANNELS_OF_RUN) + (TAPS - 1u);
    for (uint tap = 0u; tap < end; ++tap) {
        uvec4 newest = uvec4(0u);
        if (first + tap - BEFORE < CHANNELS) { newest = four_of(location + (tap - BEFORE) * PLANE_FOURS); }
        vec4 square = squares_of(newest);
        if (tap + 1u >= TAPS) {
            uint own = tap + 1u - TAPS;
            vec4 a = TAPS == 5u ? before[0] : (TAPS == 4u ? before[1] : (TAPS == 3u ? before[2] : (TAPS == 2u ? before[3] : square)));
            vec4 b = TAPS == 5u ? before[1] : (TAPS == 4u ? before[2] : (TAPS == 3u ? before[3] : (TAPS == 2u ? square : vec4(0.0))));
            vec4 c = TAPS == 5u ? before[2] : (TAPS == 4u ? before[3] : (TAPS == 3u ? square : vec4(0.0)));
            vec4 d = TAPS == 5u ? before[3] : (TAPS == 4u ? square : vec4(0.0));
            uvec4 x = BEHIND == 0u ? newest : (BEHIND == 1u ? last : last_but_one);
            uint slow_lanes;
            store_four(location + own * PLANE_FOURS, responses(x, a, b, c, d, TAPS == 5u ? square : vec4(0.0), slow_lanes));
            slow |= slow_lanes << (4u * own);
        }
        before[0] = before[1];
        before[1] = before[2];
        before[2] = before[3];
        before[3] = square;
        last_but_one = last;
        last = newest;
    }
    return slow;
}

// The same with all loads before anything is stored.
uint run_written_out(uint first, uint location) {
    uvec4 numbers[CHANNELS_OF_RUN + MOST_BEHIND];
    vec4 squares[CHANNELS_OF_RUN + MOST_BEHIND];
    [[unroll]] for (uint tap = 0u; tap < CHANNELS_OF_RUN + MOST_BEHIND; ++tap) {
        numbers[tap] = uvec4(0u);
        if (first + tap - BEFORE < CHANNELS) { numbers[tap] = four_of(location + (tap - BEFORE) * PLANE_FOURS); }
        squares[tap] = squares_of(numbers[tap]);
    }
    uint slow = 0u;
    [[unroll]] for (uint own = 0u; own < CHANNELS_OF_RUN; ++own) {
        if (first + own < CHANNELS) {
            uvec4 x = BEFORE == 0u ? numbers[own] : (BEFORE == 1u ? numbers[own + 1u] : numbers[own + 2u]);
            uint slow_lanes;
            uvec4 results = responses(x, squares[own], TAPS > 1u ? squares[own + 1u] : vec4(0.0), TAPS > 2u ? squares[own + 2u] : vec4(0.0),
                TAPS > 3u ? squares[own + 3u] : vec4(0.0), TAPS > 4u ? squares[own + 4u] : vec4(0.0), slow_lanes);
            store_four(location + own * PLANE_FOURS, results);
            slow |= slow_lanes << (4u * own);
        }
    }
    return slow;
}

void main() {
    WORK_ITEM(item)
    uint run = item / PLANE_FOURS;
    uint four = item % PLANE_FOURS;
    uint image = run / RUNS;
    uint first = (run % RUNS) * CHANNELS_OF_RUN;
    // Of the first channel.
    uint location = (image * CHANNELS + first) * PLANE_FOURS + four;

    uint slow = ON_PROCESSOR ? run_in_loop(first, location) : run_written_out(first, location);
    while (slow != 0u) {
        uint element = uint(findLSB(slow));
        slow &= slow - 1u;
        store_slowly(location + (element >> 2u) * PLANE_FOURS, element & 3u, first + (element >> 2u));
    }
}
