// GRU: H = (1 - Z) g(…) + Z H, where the products of the state stand in three rows, or in two and one of R H.
// The compile script passes LINEAR_BEFORE_RESET: 1 where R is a factor of the product, 0 where it is one of the state. There kernels
// that multiply find Z where gru_reset.comp has left it: in the place of the next state.
#define GATES 3u
#include "composed/recurrent.glsl"

#define UPDATE_GATE 0u
#define RESET_GATE 1u
#define HIDDEN_GATE 2u

#if LINEAR_BEFORE_RESET
#define FIRST_ITERATION 0u
#define LATER_PRODUCTS GATES
#define FIRST_GATE 0u
#define PRODUCT_GATES 3u
#define MULTIPLIED_STATE read_state
#else
#define FIRST_ITERATION (MULTIPLIES != 0 ? 2u : 1u)
#define LATER_PRODUCTS HIDDEN_GATE
#define FIRST_GATE HIDDEN_GATE
#define PRODUCT_GATES 1u
#define MULTIPLIED_STATE second_state
#endif

uint gate_sum(uint gate, uint unit) {
    return add_f32(add_f32(projection(gate, unit), recurrence(gate, unit)), bias(gate, unit));
}

Unit stepped(uint unit) {
    uint state = state_at(parameters.read_state, unit);
    uint update = FIRST_ITERATION == 2u ? state_at(parameters.written_state, unit) : 0u;
    uint reset = 0u;
    uint hidden = 0u;
    // The activations' code stands in a loop: it is long.
    for (uint iteration = FIRST_ITERATION; iteration < 3u; ++iteration) {
        uint x;
        if (iteration < 2u) {
            x = gate_sum(iteration == 0u ? RESET_GATE : UPDATE_GATE, unit);
        } else {
#if LINEAR_BEFORE_RESET
            uint product = add_f32(recurrence(HIDDEN_GATE, unit), recurrence_bias(HIDDEN_GATE, unit));
            x = add_f32(projection(HIDDEN_GATE, unit), multiply_f32(reset, product));
            x = add_f32(x, input_bias(HIDDEN_GATE, unit));
#else
            x = gate_sum(HIDDEN_GATE, unit);
#endif
        }
        uint result = activation(iteration == 2u ? 1u : 0u, x);
        reset = iteration == 0u ? result : reset;
        update = iteration == 1u ? result : update;
        hidden = result;
    }
    uint fresh = multiply_f32(subtract_f32(ONE_F32, update), hidden);
    return Unit(add_f32(fresh, multiply_f32(update, state)), 0u);
}

#define WRITES_HIDDEN 1
#define WRITES_SECOND 0
#include "composed/recurrent_step.glsl"
