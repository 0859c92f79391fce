// LSTM: C = F C + I g(…), H = O h(C); I, F and O are f of sums, which the cell may be part of (peepholes).
#define GATES 4u
#include "composed/recurrent.glsl"

// As the weights lie.
#define INPUT_GATE 0u
#define OUTPUT_GATE 1u
#define FORGET_GATE 2u
#define CELL_GATE 3u

uint gate_sum(uint gate, uint unit, uint cell) {
    uint products = add_f32(projection(gate, unit), recurrence(gate, unit));
    uint sum = add_f32(products, bias(gate, unit));
    if (HAS(HAS_PEEPHOLES) && gate != CELL_GATE) {
        uint peephole = constant_at(parameters.peepholes + (direction * 3u + gate) * parameters.hidden + unit);
        sum = add_f32(sum, multiply_f32(peephole, cell));
    }
    return sum;
}

Unit stepped(uint unit) {
    uint cell = state_at(parameters.second_state, unit);
    uint in_gate = 0u;
    uint forget = 0u;
    uint hidden = 0u;
    // The activations' code stands in a loop: it is long.
    for (uint iteration = 0u; iteration < 5u; ++iteration) {
        uint gate = iteration == 0u ? INPUT_GATE : iteration == 1u ? FORGET_GATE : iteration == 2u ? CELL_GATE : OUTPUT_GATE;
        uint x = iteration == 4u ? cell : gate_sum(gate, unit, cell);
        uint result = activation(iteration == 2u ? 1u : iteration == 4u ? 2u : 0u, x);
        if (iteration == 0u) {
            in_gate = result;
        } else if (iteration == 1u) {
            forget = HAS(IS_COUPLED) ? subtract_f32(ONE_F32, in_gate) : result;
        } else if (iteration == 2u) {
            uint next = NARROW(add_f32(multiply_f32(forget, cell), multiply_f32(in_gate, result)));
            cell = WIDE(next);
        } else if (iteration == 3u) {
            hidden = result;
        } else {
            hidden = multiply_f32(hidden, result);
        }
    }
    return Unit(hidden, cell);
}

#define WRITES_HIDDEN 1
#define WRITES_SECOND 1
#define LATER_PRODUCTS GATES
#define FIRST_GATE 0u
#define PRODUCT_GATES 4u
#define MULTIPLIED_STATE read_state
#include "composed/recurrent_step.glsl"
