// GRU, before the product of the hidden gate: R H, rounded to OPERAND.
#version 450
#extension GL_GOOGLE_include_directive : require
#define GATES 3u
#include "recurrent.glsl"

#define RESET_GATE 1u

Unit stepped(uint unit)
{
    uint products = add_f32(projection(RESET_GATE, unit), recurrence(0u, 2u, RESET_GATE, unit));
    uint reset = activation(0u, add_f32(products, bias(RESET_GATE, unit)));
    return Unit(0u, multiply_f32(reset, state_at(0u, unit)));
}

#define WRITES_HIDDEN 0
#define WRITES_SECOND 1
#include "recurrent_step.glsl"
