// The rate of a step of ADAM_OPTIMIZER: LearningRate * (sqrt(1 - Beta2^T) / (1 - Beta1^T)). Each difference is computed with 127 binary places and
// rounded once to FLOAT32, and so is each step that follows.
#include "composed/adam_rate.glsl"
#include "arithmetic.glsl"
#include "division.glsl"

// A number from 0 to 1 as a multiple of 2^-127, the low word first.
struct Share {
    uint words[4];
};

// The low places of a product are cut off: one of T factors is too small by less than 2^-127 times 2 T. T times the power that is left of a
// Beta below 1 is at most 2^24, so that a difference, which is at least 2^-24, loses less than 2^-77 of itself.
Share product_of(Share a, Share b) {
    uint whole[8];
    for (int i = 0; i < 8; ++i) { whole[i] = 0u; }
    for (int i = 0; i < 4; ++i) {
        uint carried = 0u;
        for (int j = 0; j < 4; ++j) {
            uint high, low;
            umulExtended(a.words[i], b.words[j], high, low);
            low += carried;
            high += uint(low < carried);
            whole[i + j] += low;
            carried = high + uint(whole[i + j] < low);
        }
        whole[i + 4] = carried;
    }
    Share result;
    for (int i = 0; i < 4; ++i) { result.words[i] = (whole[i + 4] << 1) | (whole[i + 3] >> 31); }
    return result;
}

Share power_of(Share base, uint exponent) {
    Share power = Share(uint[4](0u, 0u, 0u, 0x80000000u));
    for (int bit = 0; bit < 32; ++bit) {
        if (((exponent >> bit) & 1u) != 0u) { power = product_of(power, base); }
        base = product_of(base, base);
    }
    return power;
}

// 1 - share, rounded to nearest even.
uint float32_of_rest(Share share) {
    uint words[4]; // the difference
    uint borrow = 0u;
    for (int i = 0; i < 4; ++i) {
        uint minuend = i == 3 ? 0x80000000u : 0u;
        words[i] = minuend - share.words[i] - borrow;
        borrow = uint(share.words[i] > minuend || (share.words[i] == minuend && borrow != 0u));
    }
    int top = 3;
    while (top > 0 && words[top] == 0u) {
        --top;
    }
    if (words[top] == 0u) { return 0u; }
    // The leading 64 bits, the first of them set, and whether there are more.
    uint next = top > 0 ? words[top - 1] : 0u;
    uint last = top > 1 ? words[top - 2] : 0u;
    int offsets = 31 - findMSB(words[top]);
    uint high = words[top];
    uint low = next;
    if (offsets > 0) {
        high = (high << offsets) | (next >> (32 - offsets));
        low = (next << offsets) | (last >> (32 - offsets));
        last <<= offsets;
    }
    bool has_more = last != 0u || (top > 2 && words[0] != 0u);
    uint rest = (high << 24) | uint(low != 0u || has_more); // of which half is 2^31
    uint significand = high >> 8;
    int exponent = 32 * top + 31 - offsets - 127;
    uint bits = uint(exponent + 126) * SMALLEST_NORMAL_F32 + significand; // the leading bit adds one to the exponent
    return bits + uint(rest > 0x80000000u || (rest == 0x80000000u && (significand & 1u) != 0u));
}

// A number of steps, truncated toward zero and saturated.
uint count_f32(uint x) {
    int exponent = int((x >> 23) & 0xffu) - 127;
    if (int(x) < 0 || int(x) > int(INFINITY_F32) || exponent < 0) { return 0u; }
    if (exponent > 31) { return 0xffffffffu; }
    uint significand = (x & 0x7fffffu) | SMALLEST_NORMAL_F32;
    return exponent > 23 ? significand << (exponent - 23) : significand >> (23 - exponent);
}
uint count_f16(uint x) { return count_f32(float32_from_float16(x)); }
uint count_u32(uint x) { return x; }

uint rate_of_step(uint step) {
    uint count = FORM(count, STEP)(step);
    uint first = float32_of_rest(power_of(Share(parameters.beta_1), count));
    uint second = float32_of_rest(power_of(Share(parameters.beta_2), count));
    return multiply_f32(parameters.learning_rate, divide_f32(sqrt_f32(second), first));
}
