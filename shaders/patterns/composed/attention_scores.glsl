// CACHED_ATTENTION: what becomes of the product of a query and a key. Included behind attention_results.glsl; `parameters` has the
// members scale, cap, inverse_cap and, without APPENDS, those of the bias, and there is a buffer `bias`.

#include "hyperbolic.glsl"

layout(constant_id = 8) const uint SIZE = 64u; // of a head of queries and keys
layout(constant_id = 9) const bool HAS_CAP = false;
#ifndef APPENDS
layout(constant_id = 10) const bool HAS_BIAS = false;
layout(constant_id = 14) const bool HAS_ORIGINS = false; // whether keys are counted from a place of each sequence, behind `total`
#endif

#define UNSEEN 0xffffffffu

float bent(float score) {
    precise float ratio = score * uintBitsToFloat(parameters.inverse_cap);
    precise float result = uintBitsToFloat(tanh_f32(as_result(ratio))) * uintBitsToFloat(parameters.cap);
    return uintBitsToFloat(as_result(result));
}

float scaled(float sum) {
    precise float result = sum * uintBitsToFloat(parameters.scale);
    return uintBitsToFloat(as_result(result));
}

#ifdef APPENDS
#define with_bias(score, sequence, head, token, key) (score)
#else
float with_bias(float score, uint sequence, uint head, uint token, uint key) {
    if (!HAS_BIAS) { return score; }
    uint column = HAS_ORIGINS ? key + words_total[BASE_WORD(total) + 1u + sequence] : key;
    if (column >= parameters.bias_keys) { return score; }
    uint offset = sequence * parameters.bias_sequence + head * parameters.bias_head + token * parameters.bias_token
        + column * parameters.bias_key;
    precise float total = score + uintBitsToFloat(NUMBER_AT(bias, offset));
    return uintBitsToFloat(as_result(total));
}
#endif

float score_of(float sum, uint sequence, uint head, uint token, uint key) {
    float score = scaled(sum);
    if (HAS_CAP) { score = bent(score); }
    return with_bias(score, sequence, head, token, key);
}

// Numbers by which scores stand in order, the largest one first: the least of them tells the peak.
uint order_of(float score) { return uint(rank_f32(floatBitsToUint(score), ABOVE_ALL)) ^ 0x7fffffffu; }

float peak_of(uint least) {
    int rank = int(least ^ 0x7fffffffu);
    return least == UNSEEN ? NO_PEAK : uintBitsToFloat(uint(rank ^ int(uint(rank >> 31) & MAGNITUDE_F32)));
}
