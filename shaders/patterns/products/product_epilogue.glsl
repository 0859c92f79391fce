// What a graph computes of a GEMM's results before anything else reads them: the sum with a bias, which is the addend then, GELU, the
// product with a number for each column, and the sum with another tensor of the same layout. Sums and products have the bits that the operators themselves give, GELU those of device_gelu.glsl. (RELU is
// the last of it: APPLIES_RELU.) Included by matrix.glsl.
//
// An operand that there is no use for is bound to something else, and not read.

#include "arithmetic.glsl"
#include "device_gelu.glsl"

// Whether the addend is a tensor that is added to results, and not to sums.
layout(constant_id = 35) const bool ADDEND_IS_APART = false;
layout(constant_id = 36) const bool EPILOGUE_ADDS = false;
layout(constant_id = 37) const bool EPILOGUE_APPLIES_GELU = false;
layout(constant_id = 52) const bool EPILOGUE_SCALES = false;

// Where what is added at last lies, for a place of the output.
uint residual_index(uint output_index) { return output_index - BASE(RESULT_BITS, output) + BASE(RESULT_BITS, residual); }

// Where the number lies that a column's results are multiplied by.
uint scale_index(uint column) { return BASE(RESULT_BITS, scale) + column; }

uint with_epilogue(Batch batch, uint result, uint residual, uint row, uint column) {
    if (HAS_ADDEND && ADDEND_IS_APART) {
        result = FORM(add, OPERAND)(result, LOAD(OPERAND, words_addend, addend_index(batch, row, column)));
    }
    if (EPILOGUE_APPLIES_GELU) { result = float16_from_float32(device_gelu_of_any(float32_from_float16(result))); }
    if (EPILOGUE_SCALES) { result = FORM(multiply, OPERAND)(result, LOAD(OPERAND, words_scale, scale_index(column))); }
    return EPILOGUE_ADDS ? FORM(add, OPERAND)(result, residual) : result;
}
