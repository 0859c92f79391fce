// The sum of four products of signed bytes, as 32-bit integers. The compile script passes HAS_DOT_PRODUCT: whether the device has an
// instruction for it.
#extension GL_EXT_control_flow_attributes : enable

#if HAS_DOT_PRODUCT
#extension GL_EXT_spirv_intrinsics : require
// OpSDotKHR of the SPIR-V extension, with its capabilities DotProduct and DotProductInput4x8BitPacked; glslang knows no word for it yet.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot_of_words(int a, int b, spirv_literal int packed_format);
uint four_products(uint a, uint b) { return uint(dot_of_words(int(a), int(b), 0)); }
#else
uint four_products(uint a, uint b) {
    int sum = 0;
    [[unroll]] for (int first = 0; first < 32; first += 8) {
        sum += bitfieldExtract(int(a), first, 8) * bitfieldExtract(int(b), first, 8);
    }
    return uint(sum);
}
#endif
