// Pairs of elements, (x, y), that become (x * cos - y * sin, y * cos + x * sin) by the angles of their places. FLOAT16 results are rounded
// once by whoever stores them. Included behind pairs.glsl; there are buffers `cosine` and `sine`, and a constant SIZE.

layout(constant_id = 16) const uint ROTATED = 0u; // half of the elements of a head that are rotated
layout(constant_id = 17) const bool ARE_NEIGHBOURS = false; // whether elements are rotated with their neighbours
layout(constant_id = 18) const bool HAS_POSITIONS = false; // of tokens, as an operand; otherwise a token's is its place in the cache

uint product(uint a, uint b) {
    precise float result = uintBitsToFloat(a) * uintBitsToFloat(b);
    return as_result(result);
}

// The number of the element that one is rotated with.
uint partner_of(uint element) {
    if (ARE_NEIGHBOURS) { return element ^ 1u; }
    return element < ROTATED ? element + ROTATED : element - ROTATED;
}

uint angle_of(uint element) { return ARE_NEIGHBOURS ? element >> 1u : element < ROTATED ? element : element - ROTATED; }

uint rotated(uint x, uint partner, uint element, uint angle) {
    bool is_second = ARE_NEIGHBOURS ? (element & 1u) == 1u : element >= ROTATED;
    uint cosine = NUMBER_AT(cosine, angle);
    uint sine = NUMBER_AT(sine, angle);
    uint own = product(x, cosine);
    uint other = product(partner, sine);
    precise float result = uintBitsToFloat(own) + uintBitsToFloat(is_second ? other : other ^ SIGN_F32);
    return as_result(result);
}

// Declares the bits of a pair of a head as `bits`; `first` is where the head begins, `row` whose angles are taken.
#define ROTATED_PAIR(bits, name, first, pair, row) \
    uvec2 bits = PAIR_BITS(name, (first) + (pair)); \
    if (2u * (pair) < 2u * ROTATED) { \
        uint element = 2u * (pair); \
        uvec2 partners = uvec2( \
            NUMBER_AT(name, 2u * (first) + partner_of(element)), NUMBER_AT(name, 2u * (first) + partner_of(element + 1u))); \
        bits = uvec2( \
            rotated(bits.x, partners.x, element, (row) * ROTATED + angle_of(element)), \
            rotated(bits.y, partners.y, element + 1u, (row) * ROTATED + angle_of(element + 1u))); \
    }
