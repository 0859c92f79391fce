// GRU, before the product of the hidden gate: R H, rounded to OPERAND; and from kernels that multiply Z, in the place of the next state.
#define GATES 3u
#include "composed/recurrent.glsl"

#define UPDATE_GATE 0u
#define RESET_GATE 1u
#define LATER_PRODUCTS 2u
#define FIRST_GATE 0u
#define PRODUCT_GATES 2u
#define MULTIPLIED_STATE read_state

Unit stepped(uint unit) {
    uint update = 0u;
    uint reset = 0u;
    // The activations' code stands in a loop: it is long.
    for (uint gate = MULTIPLIES != 0 ? UPDATE_GATE : RESET_GATE; gate <= RESET_GATE; ++gate) {
        uint products = add_f32(projection(gate, unit), recurrence(gate, unit));
        update = reset;
        reset = activation(0u, add_f32(products, bias(gate, unit)));
    }
    return Unit(update, multiply_f32(reset, state_at(parameters.read_state, unit)));
}

#define WRITES_HIDDEN 0
#define WRITES_SECOND 1
#include "composed/recurrent_step.glsl"
