// Elements of a packed tensor [batch and channels, spatial axes] as sums over the positions of a window that had them: the input
// is packed [batch and channels, places of the window, positions]. An invocation computes a word of the output.
#include "datatypes.glsl"

#define LANES 4
layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input;
#if HAS_INDICES
    uint base_indices;
#endif
    uint base_output, base_state, count;
    // Of several launches: the turns that this one takes, and whether it adds, after all have been looked at.
    uint first, end, adds;
} parameters;

#include "buffers.glsl"

BUFFER(0, input)
#if HAS_INDICES
BUFFER(1, indices) // for each element of the input, the number of that element of the output which it belongs to
BUFFER(2, output)
BUFFER(3, state)
#else
BUFFER(1, output)
BUFFER(2, state) // what one of several launches hands on to the next: STATE_WORDS for each element
#endif

// Of each of six spatial axes: its size, the window's places, how far these lie apart, how far the window moves, the padding before,
// and how many positions there are.
layout(constant_id = 2) const uint WINDOW_POSITIONS = 1u;
layout(constant_id = 3) const uint POSITIONS = 1u;
#define SPATIAL_AXIS(axis) \
    layout(constant_id = 4 + 6 * axis) const uint SIZE_##axis = 1u; \
    layout(constant_id = 5 + 6 * axis) const uint WINDOW_##axis = 1u; \
    layout(constant_id = 6 + 6 * axis) const uint DILATION_##axis = 1u; \
    layout(constant_id = 7 + 6 * axis) const uint STRIDE_##axis = 1u; \
    layout(constant_id = 8 + 6 * axis) const uint START_##axis = 0u; \
    layout(constant_id = 9 + 6 * axis) const uint BLOCKS_##axis = 1u;
SPATIAL_AXIS(0) SPATIAL_AXIS(1) SPATIAL_AXIS(2) SPATIAL_AXIS(3) SPATIAL_AXIS(4) SPATIAL_AXIS(5)
layout(constant_id = 40) const bool IN_PARTS = false;
// The input has an element for each position, which is that of every place of the window (gradients of averages).
layout(constant_id = 41) const bool IS_ALIKE_IN_WINDOW = false;
// What the sum is divided by; and whether each addend is divided by how many places of its window lie in the output.
layout(constant_id = 42) const uint DIVISOR = 1u;
layout(constant_id = 43) const bool DIVIDES_BY_POSITIONS_INSIDE = false;

// Whether the positions are gone through that a window may have over an element, rather than the window's places: whichever are fewer. In
// all axes earlier places are those of later positions, so that both give the same order.
layout(constant_id = 44) const bool BY_POSITIONS = false;
// Of either how many there are, and along each axis how many positions.
layout(constant_id = 45) const uint ITERATIONS = 1u;
layout(constant_id = 46) const uint CANDIDATES_0 = 1u;
layout(constant_id = 47) const uint CANDIDATES_1 = 1u;
layout(constant_id = 48) const uint CANDIDATES_2 = 1u;
layout(constant_id = 49) const uint CANDIDATES_3 = 1u;
layout(constant_id = 50) const uint CANDIDATES_4 = 1u;
layout(constant_id = 51) const uint CANDIDATES_5 = 1u;

// Where along an axis, and in how many positions before it, an element of the padded output is a place of the window. The last axis
// is the innermost one.
#define COORDINATE(axis) \
    uint coordinate_##axis = rest % SIZE_##axis + START_##axis; \
    rest /= SIZE_##axis;
#define POSITION_ALONG(axis) \
    { \
        uint along, inside; \
        if (BY_POSITIONS) { \
            uint last = min(coordinate_##axis / STRIDE_##axis, BLOCKS_##axis - 1u); \
            uint before = iteration % CANDIDATES_##axis; \
            iteration /= CANDIDATES_##axis; \
            along = last - before; \
            uint moved = coordinate_##axis - along * STRIDE_##axis; \
            inside = moved / DILATION_##axis; \
            is_there = is_there && before <= last && moved % DILATION_##axis == 0u && inside < WINDOW_##axis; \
            location += inside * tap_weight; \
            tap_weight *= WINDOW_##axis; \
        } else { \
            inside = iteration % WINDOW_##axis; \
            iteration /= WINDOW_##axis; \
            uint moved = coordinate_##axis - inside * DILATION_##axis; \
            along = moved / STRIDE_##axis; \
            is_there = is_there && inside * DILATION_##axis <= coordinate_##axis && moved % STRIDE_##axis == 0u \
                && along < BLOCKS_##axis; \
        } \
        position += along * weight; \
        weight *= BLOCKS_##axis; \
        uint begin = along * STRIDE_##axis; \
        if (DIVIDES_BY_POSITIONS_INSIDE) { /* such windows are not dilated */ \
            inside_count *= min(begin + WINDOW_##axis, START_##axis + SIZE_##axis) - max(begin, START_##axis); \
        } \
    }

#if HAS_INDICES
#define IS_CHOSEN(index, number) (words_indices[BASE_WORD(indices) + index] == number)
#else
#define IS_CHOSEN(index, number) true
#endif

// DO(index, count): for every element of the input that belongs to the element `number` of the output, by rising place in the window (of the
// turns that this launch takes).
#define FOR_EACH_ADDEND(number, DO) \
    { \
        uint rest = number; \
        COORDINATE(5) COORDINATE(4) COORDINATE(3) COORDINATE(2) COORDINATE(1) COORDINATE(0) \
        uint end = IN_PARTS ? min(parameters.end, ITERATIONS) : ITERATIONS; \
        for (uint each = IN_PARTS ? parameters.first : 0u; each < end; ++each) { \
            uint iteration = each; \
            uint location = BY_POSITIONS ? 0u : each; \
            uint tap_weight = 1u; \
            uint position = 0u; \
            uint weight = 1u; \
            uint inside_count = 1u; \
            bool is_there = true; \
            POSITION_ALONG(5) POSITION_ALONG(4) POSITION_ALONG(3) POSITION_ALONG(2) POSITION_ALONG(1) POSITION_ALONG(0) \
            uint index = (IS_ALIKE_IN_WINDOW ? rest : rest * WINDOW_POSITIONS + location) * POSITIONS + position; \
            if (is_there && IS_CHOSEN(index, number)) { \
                DO(index, inside_count) \
            } \
        } \
    }
