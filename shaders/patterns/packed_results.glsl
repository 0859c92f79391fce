// Results of 4, 8 or 16 bits that lie one behind the other: an invocation stores a word of them. Included behind the function of an
// element, with ELEMENT_RESULT(value, element), which declares `value`: the bits of an element's result, by its number in the order of
// memory. Bits behind the tensor stay as they are. STORE_IF_PACKED(item) of the main function does so where the results lie so.
#if OUTPUT_BITS < 32
#define ELEMENTS_OF_WORD (32u / OUTPUT_BITS)

// Those bits of a word of the output that the mask has. Other invocations may be setting others at the same moment.
void store_bits(uint word, uint bits, uint mask) {
    if (mask == 0xffffffffu) {
        words_output[word] = bits;
    } else {
        atomicAnd(words_output[word], ~mask);
        atomicOr(words_output[word], bits);
    }
}

void store_word(uint item) {
    uint bits[1], mask[1];
    bits[0] = 0u;
    mask[0] = 0u;
    for (uint lane = 0u; lane < ELEMENTS_OF_WORD; ++lane) {
        uint element = item * ELEMENTS_OF_WORD + lane;
        if (element < parameters.elements) {
            ELEMENT_RESULT(value, element)
            INSERT(OUTPUT_BITS, bits, lane, value);
            INSERT(OUTPUT_BITS, mask, lane, 0xffffffffu);
        }
    }
    store_bits(BASE_WORD(output) + item, bits[0], mask[0]);
}

#define STORE_IF_PACKED(item) if (OUTPUT_PACKED) { store_word(item); return; }
#else
#define STORE_IF_PACKED(item)
#endif
