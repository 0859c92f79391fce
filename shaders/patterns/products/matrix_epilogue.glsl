// What a graph computes of a convolution's results before anything else reads them: BATCH_NORMALIZATION and the sum with another tensor
// of the same layout, each with the bits that the operator itself gives. (RELU is the last of it: APPLIES_RELU; of FLOAT16, for those who
// permit a device its own arithmetic, it may be ACTIVATION_SWISH instead.) Included by matrix.glsl.
//
// An operand that there is no use for is bound to something else, and not read.

#include "shifted_and_scaled.glsl"
#include "widening.glsl"

layout(constant_id = 36) const bool EPILOGUE_NORMALIZES = false;
layout(constant_id = 37) const bool EPILOGUE_ADDS = false;
#if OPERAND_BITS == 16
#include "device_swish.glsl"
layout(constant_id = 43) const bool EPILOGUE_APPLIES_SWISH = false;
#endif

// Where what is added lies, for a place of the output.
uint residual_index(uint output_index) { return output_index - BASE(RESULT_BITS, output) + BASE(RESULT_BITS, residual); }

uint with_epilogue(Batch batch, uint result, uint residual, uint row, uint column)
{
    if (EPILOGUE_NORMALIZES) { // as normalization/batch_normalization.comp does
        uint channel = batch.channel + row;
        uint mean = FORM(widened, OPERAND)(LOAD(OPERAND, words_mean, BASE(OPERAND_BITS, mean) + channel));
        uint bias = FORM(widened, OPERAND)(LOAD(OPERAND, words_bias, BASE(OPERAND_BITS, bias) + channel));
        uint factor = words_factor[BASE(32, factor) + channel];
        result = FORM(narrowed, OPERAND)(shifted_and_scaled(FORM(widened, OPERAND)(result), mean, factor, bias));
    }
    result = EPILOGUE_ADDS ? FORM(add, OPERAND)(result, residual) : result;
#if OPERAND_BITS == 16
    result = EPILOGUE_APPLIES_SWISH ? float16_from_float32(device_swish_of_any(float32_from_float16(result))) : result;
#endif
    return result;
}
