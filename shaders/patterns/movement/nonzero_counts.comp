// NONZERO_COORDINATES: how many elements of each segment are not zero.
// How many elements of each segment are not zero.
#include "movement/nonzero_elements.glsl"

void main() {
    uint segment = invocation_index();
    uint first = segment * SEGMENT;
    if (segment >= (parameters.elements + (SEGMENT - 1u)) / SEGMENT) { return; }
    uint end = min(parameters.elements - first, SEGMENT);
    uint count = 0u;
    for (uint k = 0u; k < end; ++k) { count += is_nonzero(first + k) ? 1u : 0u; }
    words_numbers[BASE_WORD(numbers) + segment] = count;
}
