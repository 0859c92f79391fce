// Weights of block_weights.glsl by arithmetic of FLOAT16, two at a time: for devices that were found to round its products to nearest even,
// to denormals too. The bits are the same: an integer less another one is exact, and its product with the scale is rounded once, to FLOAT16.
//
// What stands for zero must be an integer, of which a difference would not be rounded twice.
//
// The integers are halves with a power of two added, as a mask leaves them (2^10 where they begin at bit 0 of 16, 2^(10 - n) at bit n): so
// Y. J. Kim et al., «Who says elephants can't run» (2022), have it. Integers that lie 16 bits apart are a pair.

layout(constant_id = 1005) const bool MULTIPLIES_HALVES = false;

#define PAIRS (WORD_TERMS / 2)
#define PAIRS_OF_BYTE (8 / WEIGHT_BITS)
#define FIRST_BIT(pair) ((pair) % PAIRS_OF_BYTE * WEIGHT_BITS)
// The compiler does not know these bits, as FIND_EXPONENTS has it.
#define EXPONENT_BITS(pair) ((0x6400u - (uint(FIRST_BIT(pair)) << 10u)) * 0x00010001u)

#define WEIGHTS_BY_HALVES(word, entry, weights, from) \
    { \
        uint word_ = FLIPPED(word); \
        uint hidden_ = HIDDEN_ZERO; \
        f16vec2 scale_ = unpackFloat2x16((entry).x); \
        [[unroll]] for (uint pair_ = 0u; pair_ < PAIRS; ++pair_) { \
            uint moved_ = word_ >> (pair_ / PAIRS_OF_BYTE * 8u); \
            uint masked_ = moved_ & (WEIGHT_MASK * 0x00010001u << FIRST_BIT(pair_)); \
            f16vec2 biased_ = unpackFloat2x16(masked_ | (EXPONENT_BITS(pair_) | hidden_)); \
            float bias_ = float(1024 >> int(FIRST_BIT(pair_))) + HALF_RANGE + uintBitsToFloat((entry).y); \
            precise f16vec2 integers_ = biased_ - f16vec2(float16_t(bias_)); \
            precise f16vec2 products_ = integers_ * scale_; \
            weights[(from) + pair_] = float(products_.x); \
            weights[(from) + pair_ + PAIRS] = float(products_.y); \
        } \
    }
