// ELEMENT_WISE_ROUND_BFLOAT16: f(x) = the number of 8 significant bits (bfloat16) that is nearest to x, ties to even; NaN gives the canonical NaN.

// Half of the last place is added to the bits, less the smallest step where the last place is even: it carries into the
// exponent as it should, and into infinity beyond the largest number.
uint rounded_to_bfloat16_f32(uint x) {
    uint rounded = (x + 0x7fffu + (x >> 16 & 1u)) & 0xffff0000u;
    return (x & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : rounded;
}

#define OPERATION(x) FORM(rounded_to_bfloat16, INPUT_0)(x)
