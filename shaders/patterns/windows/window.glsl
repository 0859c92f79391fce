// Results that depend on a window over the spatial axes of the input: depth, height and width, behind batch and channel.
//
// Output axes are gone through in the order of the output's memory, axis 0 the innermost: where the output is one run of
// neighbouring elements (OUTPUT_PACKED), an invocation takes the elements of a whole 32-bit word, and neighbours take
// neighbours; otherwise one element each.
//
// The operator's file defines before
//   WINDOW_NUMBERS        where it has parameters.factor and parameters.summand
//   WINDOW_INDICES        where there is an optional second output, words_indices, for positions
//   WINDOW_BLOCKS         where several windows below each other can be gone through at once
//   WINDOW_SCALES         where there are scales and zero points of the input (source_scale, source_zero) and of the output
//                         (scale, zero), for all or for each channel; a window's number then is its channel
// and behind
//   VALUE(OUTPUT) pooled(Window window, out uint index)     the result, and what is stored for its position
//                                                         (where IN_PARTS, anything before the last launch)
//   uvec4 pooled_block(Place place)                         with WINDOW_BLOCKS: the results of WINDOWS_OF_BLOCK windows one below the other
// for which it has INPUT and OUTPUT, their widths, Window, FOR_EACH_TAP and FOR_EACH_ROW_OF_BLOCK.

#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
#ifdef WINDOW_SCALES
    uint base_source_scale, base_source_zero, base_scale, base_zero;
#endif
    uint base_output;
#ifdef WINDOW_INDICES
    uint base_indices;
#endif
    uint base_state, work_items;
    uint elements;  // of the output
    uint first_tap; // those that this launch takes, where it is one of several
    uint end_tap;
    uint round;    // how many times all taps have been taken before
    uint exponent; // P of LP_POOLING, or a float32
#ifdef WINDOW_NUMBERS
    uint factor; // further float32
    uint summand;
#endif
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
#ifdef WINDOW_SCALES
BUFFER(1, source_scale)
BUFFER(2, source_zero) // where there is no zero point, something else is bound in its place, and not read
BUFFER(3, scale)
BUFFER(4, zero)
BUFFER(5, output)
BUFFER(6, state) // what one of several launches hands on to the next: STATE_WORDS for each element of the output
#elif defined WINDOW_INDICES
BUFFER(1, output)
BUFFER(2, indices)
BUFFER(3, state)
#else
BUFFER(1, output)
BUFFER(2, state)
#endif

layout(constant_id = 2) const bool OUTPUT_PACKED = false;
layout(constant_id = 3) const uint WORDS_OF_INDEX = 0u; // 0: there is no second output
layout(constant_id = 4) const bool COUNTS_PADDING = false;

// What a step along an axis of the output adds: to the element of the input, to the places along depth, height and width in
// the padded input, to the element of the output and of the indices, and to the number of the input's element in its logical
// order.
#define OUTPUT_AXIS(axis, first_id) \
    layout(constant_id = first_id) const uint SIZE_##axis = 1u; \
    layout(constant_id = first_id + 1) const uint INPUT_STEP_##axis = 0u; \
    layout(constant_id = first_id + 2) const uint DEPTH_STEP_##axis = 0u; \
    layout(constant_id = first_id + 3) const uint HEIGHT_STEP_##axis = 0u; \
    layout(constant_id = first_id + 4) const uint WIDTH_STEP_##axis = 0u; \
    layout(constant_id = first_id + 5) const uint OUTPUT_STEP_##axis = 0u; \
    layout(constant_id = first_id + 6) const uint INDICES_STEP_##axis = 0u; \
    layout(constant_id = first_id + 7) const uint NUMBER_STEP_##axis = 0u;
OUTPUT_AXIS(0, 5) OUTPUT_AXIS(1, 13) OUTPUT_AXIS(2, 21) OUTPUT_AXIS(3, 29) OUTPUT_AXIS(4, 37)

// Along each spatial axis: taps of a window, how far apart they are, padding before the first element, elements of the input,
// and what a step from tap to tap adds to the input's element and to its number.
#define SPATIAL_AXIS(axis, first_id) \
    layout(constant_id = first_id) const uint TAPS_##axis = 1u; \
    layout(constant_id = first_id + 1) const uint DILATION_##axis = 1u; \
    layout(constant_id = first_id + 2) const uint PADDING_##axis = 0u; \
    layout(constant_id = first_id + 3) const uint EXTENT_##axis = 1u; \
    layout(constant_id = first_id + 4) const uint TAP_STEP_##axis = 0u; \
    layout(constant_id = first_id + 5) const uint TAP_NUMBER_##axis = 0u;
SPATIAL_AXIS(DEPTH, 45) SPATIAL_AXIS(HEIGHT, 51) SPATIAL_AXIS(WIDTH, 57)

// How many elements, and numbers of elements, the padded input begins before the input.
layout(constant_id = 63) const uint INPUT_START = 0u;
layout(constant_id = 64) const uint NUMBER_START = 0u;

#ifdef WINDOW_SCALES
layout(constant_id = 65) const bool HAS_SOURCE_ZERO = false;
layout(constant_id = 66) const bool HAS_ZERO = false;
// From one channel's to the next one's; 0 where there is one for all.
layout(constant_id = 67) const uint SOURCE_SCALE_STEP = 0u;
layout(constant_id = 68) const uint SOURCE_ZERO_STEP = 0u;
layout(constant_id = 69) const uint SCALE_STEP = 0u;
layout(constant_id = 70) const uint ZERO_STEP = 0u;
#endif
// Whether this is one of several launches, each of which takes some taps; an invocation has one element then.
layout(constant_id = 71) const bool IN_PARTS = false;

#ifdef WINDOW_BLOCKS
// Whether an invocation goes through four windows one below the other, which share rows of the input and most of the arithmetic of places: steps
// along the output's height are four windows long then. Every window has a tap inside of the input.
layout(constant_id = 72) const bool IN_BLOCKS = false;
layout(constant_id = 73) const uint ROW_STEP = 1u;        // rows of the input from window to window
layout(constant_id = 74) const uint ROW_OUTPUT_STEP = 0u; // elements of the output
layout(constant_id = 75) const uint OUTPUT_ROWS = 1u;
#define WINDOWS_OF_BLOCK 4u
#endif

// The part of a window that lies inside the input.
struct Window {
    uint at;     // the first tap's element of the input
    uint number; // its number in logical order
    uint origin; // the element of the input that lies where the window's padding ends
    uint depth_first; // how many taps along the depth lie before the first one
    uint depth_taps, height_taps, width_taps;
};

bool is_whole(Window window) {
    return window.depth_taps == TAPS_DEPTH && window.height_taps == TAPS_HEIGHT && window.width_taps == TAPS_WIDTH;
}
uint taps_inside(Window window) { return window.depth_taps * window.height_taps * window.width_taps; }
#define TAPS_OF_WINDOW (TAPS_DEPTH * TAPS_HEIGHT * TAPS_WIDTH)

// Does TAKE(at, number) for every tap, row by row.
#define FOR_EACH_TAP_OF(window, depth_taps_, height_taps_, width_taps_, TAKE) \
    { \
        uint depth_at_ = window.at; \
        uint depth_number_ = window.number; \
        for (uint depth_ = 0u; depth_ < depth_taps_; ++depth_) { \
            uint height_at_ = depth_at_; \
            uint height_number_ = depth_number_; \
            for (uint height_ = 0u; height_ < height_taps_; ++height_) { \
                uint at_ = height_at_; \
                uint number_ = height_number_; \
                for (uint width_ = 0u; width_ < width_taps_; ++width_) { \
                    TAKE(at_, number_) \
                    at_ += TAP_STEP_WIDTH; \
                    number_ += TAP_NUMBER_WIDTH; \
                } \
                height_at_ += TAP_STEP_HEIGHT; \
                height_number_ += TAP_NUMBER_HEIGHT; \
            } \
            depth_at_ += TAP_STEP_DEPTH; \
            depth_number_ += TAP_NUMBER_DEPTH; \
        } \
    }

// A slow path, in little code.
#define FOR_EACH_TAP_SLOWLY(window, TAKE) \
    FOR_EACH_TAP_OF(window, window.depth_taps, window.height_taps, window.width_taps, TAKE)

// Whole windows have loops of known length, which GPUs' compilers write out, so that loads do not wait for each other.
#define FOR_EACH_TAP(window, TAKE) \
    if (!ON_PROCESSOR && is_whole(window)) \
        FOR_EACH_TAP_OF(window, TAPS_DEPTH, TAPS_HEIGHT, TAPS_WIDTH, TAKE) \
    else \
        FOR_EACH_TAP_SLOWLY(window, TAKE)

// Does TAKE(at, number) for the taps of this launch, in the same order.
#define FOR_EACH_TAP_IN_PART(window, TAKE) \
    { \
        uint end_ = min(parameters.end_tap, taps_inside(window)); \
        for (uint tap_ = parameters.first_tap; tap_ < end_; ++tap_) { \
            uint row_ = tap_ / window.width_taps; \
            uint width_ = tap_ % window.width_taps; \
            uint height_ = row_ % window.height_taps; \
            uint depth_ = row_ / window.height_taps; \
            uint at_ = window.at + width_ * TAP_STEP_WIDTH + height_ * TAP_STEP_HEIGHT + depth_ * TAP_STEP_DEPTH; \
            uint number_ = window.number + width_ * TAP_NUMBER_WIDTH + height_ * TAP_NUMBER_HEIGHT \
                + depth_ * TAP_NUMBER_DEPTH; \
            TAKE(at_, number_) \
        } \
    }

// A word of what a launch hands on to the next, and whether an earlier launch has written it.
#define STATE_WORDS 5u
#define STATE(word) words_state[BASE_WORD(state) + STATE_WORDS * invocation_index() + word]
bool has_state() { return parameters.first_tap != 0u || parameters.round != 0u; }

// The element of the input that a tap is, by the number of its element.
#define TAP(at) LOAD(INPUT, words_input, BASE(INPUT_BITS, input) + at)

VALUE(OUTPUT) pooled(Window window, out uint index);

// Of the taps along an axis from `location` in the padded input on, the first one inside the input, and how many are.
struct Taps {
    uint first, count;
};
#define TAPS_INSIDE(axis) \
    Taps taps_inside_##axis(uint location) { \
        int position = int(location) - int(PADDING_##axis); \
        uint first = position < 0 ? (uint(-position) + (DILATION_##axis - 1u)) / DILATION_##axis : 0u; \
        int left = int(EXTENT_##axis) - 1 - position; \
        uint end = left < 0 ? 0u : min(uint(left) / DILATION_##axis + 1u, TAPS_##axis); \
        return Taps(first, end > first ? end - first : 0u); \
    }
TAPS_INSIDE(DEPTH)
TAPS_INSIDE(HEIGHT)
TAPS_INSIDE(WIDTH)

#define MOVE(axis, coordinate) \
    location.at += coordinate * INPUT_STEP_##axis; \
    location.depth += coordinate * DEPTH_STEP_##axis; \
    location.height += coordinate * HEIGHT_STEP_##axis; \
    location.width += coordinate * WIDTH_STEP_##axis; \
    location.output_at += coordinate * OUTPUT_STEP_##axis; \
    location.indices_at += coordinate * INDICES_STEP_##axis; \
    location.number += coordinate * NUMBER_STEP_##axis;

// Where the window of an element of the output lies, by the element's number in the order of memory: at the first element of the input beside the
// padding, and at places in the padded input.
struct Location {
    uint at, number, depth, height, width, output_at, indices_at;
};
Location location_of(uint element) {
    Location location = Location(0u, 0u, 0u, 0u, 0u, 0u, 0u);
    uint rest = element;
    MOVE_BY_FOUR(rest)
    MOVE(4, rest)
    return location;
}

// The window there. What lies before the input's first element wraps below zero, and back with the taps that are left out.
Window window_at(Location location) {
    uint at = location.at - INPUT_START;
    uint number = location.number - NUMBER_START;
    Taps depth_taps = taps_inside_DEPTH(location.depth);
    Taps height_taps = taps_inside_HEIGHT(location.height);
    Taps width_taps = taps_inside_WIDTH(location.width);
    at += depth_taps.first * TAP_STEP_DEPTH + height_taps.first * TAP_STEP_HEIGHT + width_taps.first * TAP_STEP_WIDTH;
    number += depth_taps.first * TAP_NUMBER_DEPTH + height_taps.first * TAP_NUMBER_HEIGHT
        + width_taps.first * TAP_NUMBER_WIDTH;
    return Window(at, number, location.at, depth_taps.first, depth_taps.count, height_taps.count, width_taps.count);
}

#ifdef WINDOW_INDICES
void store_index(uint at, uint index) {
    if (WORDS_OF_INDEX == 1u) {
        words_indices[BASE_WORD(indices) + at] = index;
    } else if (WORDS_OF_INDEX == 2u) {
        words_indices[BASE_WORD(indices) + 2u * at] = index;
        words_indices[BASE_WORD(indices) + 2u * at + 1u] = index == 0xffffffffu ? index : 0u;
    }
}
#else
#define store_index(at, index)
#endif

#define ELEMENT_RESULT(value, element) \
    uint index; \
    Location location = location_of(element); \
    VALUE(OUTPUT) value = pooled(window_at(location), index); \
    store_index(location.indices_at, index);
#include "packed_results.glsl"

#ifdef WINDOW_BLOCKS
uvec4 pooled_block(Location location);

// Goes through the rows of the input that the windows of a block have, in rising order: BEGIN, TAKE(at) for every tap of the row, and
// END(is_in) with a bvec4 that says which windows have the row. In the place of a tap outside of the input comes the nearest one inside, which is the
// same window's, so that nothing waits for a decision; taps are next to each other.
#define ROWS_OF_BLOCK (ROW_STEP * (WINDOWS_OF_BLOCK - 1u) + TAPS_HEIGHT)
#define IS_IN_WINDOW(row, window) (row >= window * ROW_STEP && row < window * ROW_STEP + TAPS_HEIGHT)
// How far a tap, or the nearest one inside, lies behind a place.
#define STEPS_TO_TAP(axis, location, tap) \
    uint(min(max(int(location + tap) - int(PADDING_##axis), 0), int(EXTENT_##axis) - 1) - int(location)) * TAP_STEP_##axis
#define FOR_EACH_ROW_OF_BLOCK(location, BEGIN, TAKE, END) \
    for (uint depth_ = 0u; depth_ < TAPS_DEPTH; ++depth_) { \
        uint depth_at_ = location.at + STEPS_TO_TAP(DEPTH, location.depth, depth_); \
        for (uint row_ = 0u; row_ < ROWS_OF_BLOCK; ++row_) { \
            uint row_at_ = depth_at_ + STEPS_TO_TAP(HEIGHT, location.height, row_); \
            BEGIN \
            for (uint width_ = 0u; width_ < TAPS_WIDTH; ++width_) { \
                TAKE(row_at_ + STEPS_TO_TAP(WIDTH, location.width, width_)) \
            } \
            bvec4 is_in_ = \
                bvec4(IS_IN_WINDOW(row_, 0u), IS_IN_WINDOW(row_, 1u), IS_IN_WINDOW(row_, 2u), IS_IN_WINDOW(row_, 3u)); \
            END(is_in_) \
        } \
    }

// The results of a block: of 16 bits the words of two blocks side by side.
void store_block(uint item) {
#if OUTPUT_BITS == 16
    Location location = location_of(2u * item);
    Location next = location_of(2u * item + 1u);
    uvec4 results = (pooled_block(location) & 0xffffu) | (pooled_block(next) << 16);
#else
    Location location = location_of(item);
    uvec4 results = pooled_block(location);
#endif
    uint at = BASE(OUTPUT_BITS, output) + location.output_at;
    uint row = location.height / ROW_STEP;
#define STORE_WINDOW(window, result) \
    if (row + window < OUTPUT_ROWS) { \
        words_output[(at + window * ROW_OUTPUT_STEP) * uint(OUTPUT_BITS) / 32u] = result; \
    }
    STORE_WINDOW(0u, results.x)
    STORE_WINDOW(1u, results.y)
    STORE_WINDOW(2u, results.z)
    STORE_WINDOW(3u, results.w)
}
#endif

void main() {
    WORK_ITEM(item)
#ifdef WINDOW_BLOCKS
    if (IN_BLOCKS) {
        store_block(item);
        return;
    }
#endif
    STORE_IF_PACKED(item)
    uint index;
    Location location = location_of(item);
    VALUE(OUTPUT) value = pooled(window_at(location), index);
    STORE(OUTPUT_BITS, words_output, BASE(OUTPUT_BITS, output) + location.output_at, value);
    store_index(location.indices_at, index);
}
