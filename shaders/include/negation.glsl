// The other sign and the absolute value. Floats: the sign bit alone changes. Integers wrap: the most negative one stays.
#ifndef NEGATION_GLSL
#define NEGATION_GLSL

uint negated_f32(uint x) { return x ^ 0x80000000u; }
uint negated_f16(uint x) { return x ^ 0x8000u; }
uint negated_i32(uint x) { return ~x + 1u; }
uvec2 negated_i64(uvec2 x) {
    uint low = ~x.x + 1u;
    return uvec2(low, ~x.y + uint(low == 0u));
}

uint absolute_f32(uint x) { return x & 0x7fffffffu; }
uint absolute_f16(uint x) { return x & 0x7fffu; }
uint absolute_i32(uint x) { return int(x) < 0 ? negated_i32(x) : x; }
uvec2 absolute_i64(uvec2 x) { return int(x.y) < 0 ? negated_i64(x) : x; }

#endif
