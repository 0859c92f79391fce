// GRU: H = (1 - Z) g(…) + Z H, where the products of the state stand in three rows, or in two and one of R H.
// The compile script passes LINEAR_BEFORE_RESET: 1 where R is a factor of the product, 0 where it is one of the state.
#version 450
#extension GL_GOOGLE_include_directive : require
#define GATES 3u
#include "recurrent.glsl"

#define UPDATE_GATE 0u
#define RESET_GATE 1u
#define HIDDEN_GATE 2u

uint gate_sum(uint gate, uint unit)
{
    uint gates = LINEAR_BEFORE_RESET == 1 ? 3u : 2u;
    return add_f32(add_f32(projection(gate, unit), recurrence(0u, gates, gate, unit)), bias(gate, unit));
}

Unit stepped(uint unit)
{
    uint state = state_at(0u, unit);
    uint update = 0u;
    uint reset = 0u;
    uint hidden = 0u;
    // The activations' code stands in a loop: it is long.
    for (uint turn = LINEAR_BEFORE_RESET == 1 ? 0u : 1u; turn < 3u; ++turn) {
        uint x;
        if (turn < 2u) {
            x = gate_sum(turn == 0u ? RESET_GATE : UPDATE_GATE, unit);
        } else {
#if LINEAR_BEFORE_RESET
            uint product = add_f32(recurrence(0u, 3u, HIDDEN_GATE, unit), recurrence_bias(HIDDEN_GATE, unit));
            x = add_f32(projection(HIDDEN_GATE, unit), multiply_f32(reset, product));
            x = add_f32(x, input_bias(HIDDEN_GATE, unit));
#else
            x = add_f32(projection(HIDDEN_GATE, unit), recurrence(parameters.second_recurrences, 1u, 0u, unit));
            x = add_f32(x, bias(HIDDEN_GATE, unit));
#endif
        }
        uint result = activation(turn == 2u ? 1u : 0u, x);
        reset = turn == 0u ? result : reset;
        update = turn == 1u ? result : update;
        hidden = result;
    }
    uint fresh = multiply_f32(subtract_f32(ONE_F32, update), hidden);
    return Unit(add_f32(fresh, multiply_f32(update, state)), 0u);
}

#define WRITES_HIDDEN 1
#define WRITES_SECOND 0
#include "recurrent_step.glsl"
