// The main function of one step: see recurrent.glsl. The file defines
//   WRITES_HIDDEN       1 where the state is written, and the output with it; 0 where something else is left in its place
//   WRITES_SECOND       1 where its other part is
//   LATER_PRODUCTS      the gate whose products GEMM makes later than the others', in rows of their own; GATES where there is none
// and, for kernels that multiply,
//   FIRST_GATE          the first of the gates whose products of the state are made
//   PRODUCT_GATES       how many they are
//   MULTIPLIED_STATE    which state that is: read_state or second_state
#define WORDS ((parameters.hidden + UNITS_OF_WORD - 1u) / UNITS_OF_WORD) // of a row of the state

// A word of a sequence's state behind the step. Where the sequence has none, it keeps the one that it has.
void store_word(uint word, uint hidden, uint second) {
    uint time = parameters.times[direction];
    uint position = BASE_WORD(state) + state_row + word;
#if WRITES_HIDDEN
    bool is_there = !HAS(HAS_LENGTHS) || time < words_constants[BASE_WORD(constants) + parameters.lengths + row];
    words_state[position + parameters.written_state] = is_there ? hidden : words_state[position + parameters.read_state];
    if (HAS(HAS_SEQUENCE)) {
        uint step_row = (time * parameters.directions + direction) * parameters.batch + row;
        words_sequence[BASE_WORD(sequence) + step_row * WORDS + word] = is_there ? hidden : 0u;
    }
#else
    bool is_there = true;
#if MULTIPLIES
    words_state[position + parameters.written_state] = hidden;
#endif
#endif
#if WRITES_SECOND
    if (is_there) { words_state[position + parameters.second_state] = second; }
#endif
}

#if MULTIPLIES == 0
#include "composed/recurrent_gates.glsl"
#elif MULTIPLIES == 1
#include "composed/recurrent_products.glsl"
#else
#include "composed/recurrent_processors.glsl"
#endif
