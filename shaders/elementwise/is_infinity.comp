bool is_infinity_f32(uint x, uint mode) {
    uint wanted = mode == 1u ? 0x7f800000u : 0xff800000u;
    return mode == 0u ? (x & 0x7fffffffu) == 0x7f800000u : x == wanted;
}
bool is_infinity_f16(uint x, uint mode) {
    uint wanted = mode == 1u ? 0x7c00u : 0xfc00u;
    return mode == 0u ? (x & 0x7fffu) == 0x7c00u : x == wanted;
}

#define OPERATION(x) uint(FORM(is_infinity, INPUT_0)(x, ATTRIBUTE_INFINITY_MODE))
