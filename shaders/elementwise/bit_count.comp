uint bits_u32(uint x) { return uint(bitCount(x)); }
uint bits_u64(uvec2 x) { return uint(bitCount(x.x) + bitCount(x.y)); }

#define OPERATION(x) FORM(bits, INPUT_0)(x)
