// The loop of offsets.glsl, behind the file's OPERATION.
#if OUTPUT_BITS < 32
#define PER_WORD (32u / OUTPUT_BITS)
#else
#define PER_WORD 1u
#endif

void main() {
    uint item = invocation_index();
    uint first = item * PER_WORD;
    if (item >= (parameters.count - 1u) / PER_WORD + 1u) { return; }
#if OUTPUT_BITS == 64
    pairs_output[(BASE_WORD(output) >> 1u) + item] = OPERATION(first);
#else
    uint bits = 0u;
    uint own = 0u;
    for (uint offset = 0u; offset < PER_WORD; ++offset) {
        if (parameters.count - first > offset) {
            uint mask = 0xffffffffu >> (32u - uint(OUTPUT_BITS));
            bits |= (OPERATION(first + offset) & mask) << (offset * uint(OUTPUT_BITS));
            own |= mask << (offset * uint(OUTPUT_BITS));
        }
    }
    uint word = BASE_WORD(output) + item;
    if (own == 0xffffffffu) {
        words_output[word] = bits;
    } else {
        atomicAnd(words_output[word], ~own);
        atomicOr(words_output[word], bits);
    }
#endif
}
