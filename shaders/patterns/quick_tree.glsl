// Sums in two words of a work group's 256 lanes, joined four neighbours at a time, these fours in the same way, and so on: what the lanes of a row
// come to, of the first row for the first invocation, of the second one for the second, …. The includer defines
//   LANES_OF_TREE      lanes of a row: a power of four, more than one
//
// Sums are normalized: their second words are at most half a place of the first ones. Four neighbours lie in a vector, and what these come to behind all of their kind. No sum is looked at: a lane whose sum has to be made anew gives NaN, and
// so becomes all that it is joined with.
#ifndef QUICK_TREE_GLSL
#define QUICK_TREE_GLSL

shared vec4 quick_highs[64 + 16 + 4 + 1];
shared vec4 quick_lows[64 + 16 + 4 + 1];

Double sum_of_vector(uint at) {
    vec4 highs = quick_highs[at];
    vec4 lows = quick_lows[at];
    Double sum = normalized_sum(Double(highs.x, lows.x), Double(highs.y, lows.y));
    sum = normalized_sum(sum, Double(highs.z, lows.z));
    return normalized_sum(sum, Double(highs.w, lows.w));
}

void share_quick(uint at, Double sum) {
    quick_highs[at >> 2u][at & 3u] = sum.high;
    quick_lows[at >> 2u][at & 3u] = sum.low;
}

Double quick_tree(uint slot, Double sum) {
    share_quick(slot, sum);
    barrier();
    if (slot < 64u) {
        sum = sum_of_vector(slot);
        if (LANES_OF_TREE > 4u) { share_quick(256u + slot, sum); }
    }
    if (LANES_OF_TREE > 4u) {
        barrier();
        if (slot < 16u) {
            sum = sum_of_vector(64u + slot);
            if (LANES_OF_TREE > 16u) { share_quick(320u + slot, sum); }
        }
    }
    if (LANES_OF_TREE > 16u) {
        barrier();
        if (slot < 4u) {
            sum = sum_of_vector(80u + slot);
            if (LANES_OF_TREE > 64u) { share_quick(336u + slot, sum); }
        }
    }
    if (LANES_OF_TREE > 64u) {
        barrier();
        if (slot < 1u) { sum = sum_of_vector(84u); }
    }
    return sum;
}

// Whether it is a number: all of its lanes' sums were right.
bool is_number(Double sum) { return (floatBitsToUint(sum.high) & MAGNITUDE_F32) < INFINITY_F32; }

#endif
