// One step of RNN, LSTM and GRU for all sequences of a batch: from the products to the next state.
//
// The file defines, before it includes this one,
//   GATES               gates of the operator: rows of weights for each unit of the state
// and behind it
//   stepped(unit)       computes what becomes of one unit of a sequence's state: a Unit
// and what recurrent_step.glsl says. The state, and the output of all steps, have rows of whole words; they hold OPERAND, and so do
// `constants`: biases, then peepholes, then (in words of their own) the sequences' lengths.
//
// Every sum, product and difference is rounded to FLOAT32; what is the argument of an activation, and what becomes the state, is
// rounded to OPERAND.
//
// The compile script passes OPERAND (float32 or float16), OPERAND_BITS, ANY_ACTIVATION (any_activation.glsl) and MULTIPLIES: 1 (on
// GPUs) or 2 (on processors) where the products of the state are made here too, 0 where kernels of GEMM have made them.
#extension GL_EXT_control_flow_attributes : enable

#define LANES 4
#define INPUT_COUNT 4
#if !MULTIPLIES
layout(local_size_x = 256) in;
#endif

layout(push_constant) uniform Parameters {
    uint base_projections;
#if MULTIPLIES
    uint base_right;
#else
    uint base_recurrences;
#endif
    uint base_constants, base_state, base_sequence, work_items;
    uint flags; // what there is, and above it the activations' kinds, eight bits each
    uint batch, hidden;
    uint first_direction; // of those that are computed now
    uint directions;      // of the operator
    // By direction: the time of this step, and where it stands among the projections.
    uint times[2], positions[2];
    uint projections_of_direction; // words from those of one direction to those of the next
    uint peepholes;                // where they begin among the constants, in elements
    uint lengths;                  // likewise, in words
    // Where parts of the state begin, in words: the hidden one before the step and behind it (the same where no other work group
    // reads what is written), and LSTM's cells or GRU's reset state.
    uint read_state, written_state, second_state;
    uint activations[6]; // their attributes, two each
    uint clip;           // the threshold
#if MULTIPLIES
    // Strides of the weights, in elements: of a direction, a unit of a gate, and a term.
    uint right_direction, right_unit, right_term;
#else
    uint second_recurrences; // where the other products begin
#endif
} parameters;

#include "datatypes.glsl"
#include "buffers.glsl"
#include "arithmetic.glsl"
#include "any_activation.glsl"

BUFFER(0, projections) // of the input, in rows of GATES * hidden
#if MULTIPLIES
BUFFER(1, right) // the weights of the state
#else
BUFFER(1, recurrences) // of the state, likewise
#endif
BUFFER(2, constants)
BUFFER(3, state)
BUFFER(4, sequence)

#define HAS_BIAS 1u
#define HAS_PEEPHOLES 2u
#define HAS_LENGTHS 4u
#define HAS_CLIP 8u
#define IS_COUPLED 16u
#define HAS_SEQUENCE 32u
#define HAS(flag) ((parameters.flags & (flag)) != 0u)
#define KIND(number) ((parameters.flags >> (8u + 8u * (number))) & 0xffu)

#define UNITS_OF_WORD (32u / OPERAND_BITS)

#if OPERAND_BITS == 32
#define WIDE(bits) (bits)
#define NARROW(bits) (bits)
#else
#define WIDE(bits) float32_from_float16(bits)
#define NARROW(bits) float16_from_float32(bits)
#endif

// Where an invocation computes.
uint direction;
uint row;   // of the batch
uint state_row; // the first word of its row of the state

// What a unit is told of itself, as FLOAT32: the products of the input and of the state.
uint projection(uint gate, uint unit);
uint recurrence(uint gate, uint unit);

uint projection_index(uint gate, uint unit) {
    uint position = parameters.positions[direction] * parameters.batch + row;
    return BASE_WORD(projections) + direction * parameters.projections_of_direction + (position * GATES + gate) * parameters.hidden + unit;
}
uint constant_at(uint number) { return WIDE(LOAD(OPERAND, words_constants, BASE(OPERAND_BITS, constants) + number)); }
uint input_bias(uint gate, uint unit) {
    return HAS(HAS_BIAS) ? constant_at((direction * 2u * GATES + gate) * parameters.hidden + unit) : 0u;
}
uint recurrence_bias(uint gate, uint unit) { return input_bias(GATES + gate, unit); }
// What the biases of a gate add together.
uint bias(uint gate, uint unit) { return add_f32(input_bias(gate, unit), recurrence_bias(gate, unit)); }

uint state_at(uint part, uint unit) {
    return WIDE(LOAD(OPERAND, words_state, (BASE_WORD(state) + part + state_row) * UNITS_OF_WORD + unit));
}

// An activation's result, as FLOAT32, of an argument in FLOAT32.
uint activation(uint number, uint sum) {
    uint x = NARROW(sum);
    if (HAS(HAS_CLIP)) {
        uint sign = 1u << (OPERAND_BITS - 1);
        uint bounded = FORM(larger, OPERAND)(FORM(smaller, OPERAND)(x, parameters.clip), parameters.clip | sign);
        x = FORM(is_nan, OPERAND)(x) ? x : bounded;
    }
    return WIDE(activated(KIND(number), x, parameters.activations[2u * number], parameters.activations[2u * number + 1u]));
}

// The state of a unit behind the step, as FLOAT32.
struct Unit {
    uint hidden;
    uint second; // the other part, where there is one
};
