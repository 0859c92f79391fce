// CACHED_ATTENTION, where shares are an output: the largest score of each row, by a work group of its own; what a share of a key is
// multiplied by, which is less than 1 where a sink has the largest; and what it is divided by. Sums are taken over every 256th key, and
// these added in their order: by places alone.

#include "composed/attention_shown_operands.glsl"

shared uint least; // place of a score from the largest down
shared float sums[KEYS];

void main() {
    WORK_GROUP(group)
    uint own = index_in_group();
    Row row = row_at(group);
    if (own == 0u) { least = UNSEEN; }
    barrier();
    for (uint key = own; key <= row.seen.y; key += KEYS) {
        if (key >= row.seen.x) { atomicMin(least, order_of(score_at(row, key))); }
    }
    barrier();
    float peak = peak_of(least);
    bool has_peak = floatBitsToUint(peak) != 0xff800000u;
    precise float sum = 0.0;
    for (uint key = own; key <= row.seen.y; key += KEYS) {
        if (key >= row.seen.x) {
            precise float below = score_at(row, key) - peak;
            sum = sum + (has_peak ? share_of(below) : 0.0);
        }
    }
    sums[own] = sum;
    barrier();
    if (own != 0u) { return; }
    precise float all = 0.0;
    for (uint i = 0u; i < KEYS; ++i) { all = all + sums[i]; }
    float weight = has_peak ? 1.0 : 0.0;
    if (has_peak && (HAS_SINK || HAS_EMPTY_SINK)) {
        float score = 0.0;
        if (HAS_SINK) { score = uintBitsToFloat(NUMBER_AT(sink, row.head)); }
        vec2 weights = weights_of(peak, score);
        weight = weights.x;
        all = weighted(all, 1.0, weights);
    }
    uint target = BASE_WORD(result) + 3u * group;
    words_result[target] = floatBitsToUint(peak);
    words_result[target + 1u] = floatBitsToUint(weight);
    words_result[target + 2u] = as_result(all);
}
