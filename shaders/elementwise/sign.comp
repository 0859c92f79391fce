// Floats: the sign bit of x joined to the bits of 1, where x is a number other than zero. Not written as a choice between
// the constants -1 and 0: Mesa 22.3 (llvmpipe) takes the bits 0xbf800000 and 0 for floats, folds the choice into the
// negation of 0 or 1, and so gives -0.
uint sign_f32(uint x) { return (x & 0x7fffffffu) - 1u < 0x7f800000u ? (x & 0x80000000u) | 0x3f800000u : 0u; }
uint sign_f16(uint x) { return (x & 0x7fffu) - 1u < 0x7c00u ? (x & 0x8000u) | 0x3c00u : 0u; }
uint sign_i32(uint x) { return uint(int(x) >> 31) | uint(x != 0u); }
uint sign_u32(uint x) { return min(x, 1u); }
uvec2 sign_i64(uvec2 x) { return uvec2(uint(int(x.y) >> 31)) | uvec2(uint((x.x | x.y) != 0u), 0u); }
uvec2 sign_u64(uvec2 x) { return uvec2(min(x.x | x.y, 1u), 0u); }

#define OPERATION(x) FORM(sign, INPUT_0)(x)
