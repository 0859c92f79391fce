// FLOAT16 from FLOAT32, rounded to nearest even: devices whose own conversion should be taken are tried by it
// (dmlvk/trials/half_trial.py).
#include "float16.glsl"

// Bits beyond the half, which are dropped where it is stored, are seen.
uint float16_or_more(uint x) {
    uint bits = float16_from_float32(x);
    return bits | bits >> 16;
}

#define OPERATION(x) float16_or_more(x)
