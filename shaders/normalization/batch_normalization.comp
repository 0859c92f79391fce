// The second step of BATCH_NORMALIZATION: FusedActivation((x - mean) * factor + bias), each step rounded to FLOAT32; of FLOAT16 tensors the
// last result is rounded once more.
#include "fused_activation.glsl"
#include "elementwise/elementwise_operands.glsl"
#include "shifted_and_scaled.glsl"
#include "widening.glsl"

#define OPERATION(x, mean, factor, bias) \
    ACTIVATED(FORM(narrowed, OUTPUT)(shifted_and_scaled( \
        FORM(widened, INPUT_0)(x), FORM(widened, INPUT_1)(mean), factor, FORM(widened, INPUT_3)(bias))))
