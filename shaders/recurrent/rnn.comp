// RNN: H = f(X W + H R + (Wb + Rb)).
#define GATES 1u
#include "composed/recurrent.glsl"

Unit stepped(uint unit) {
    uint products = add_f32(projection(0u, unit), recurrence(0u, unit));
    return Unit(activation(0u, add_f32(products, bias(0u, unit))), 0u);
}

#define WRITES_HIDDEN 1
#define WRITES_SECOND 0
#define LATER_PRODUCTS GATES
#define FIRST_GATE 0u
#define PRODUCT_GATES 1u
#define MULTIPLIED_STATE read_state
#include "composed/recurrent_step.glsl"
