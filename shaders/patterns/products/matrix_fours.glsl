// Four elements of an operand, which are loaded in one step and looked at in a later one: what lies between them is computed while
// memory is waited for. Padding is +0 here, which changes no sum of finite numbers.

// As they were loaded: four words that hold an element each (of FLOAT16 the upper half where `odd` has the element's bit), or, with
// vectors, as many words as four elements fill.
struct Four {
    uvec4 words;
    uint odd;
};

#if OPERAND_BITS == 32
#define LOAD_VECTOR(name, index) Four(fours_##name[(index) >> 2u], 0u)
#define LOAD_ELEMENT(four, i, name, index) (four).words[i] = words_##name[index];
#else
#define LOAD_VECTOR(name, index) Four(uvec4(pairs_##name[(index) >> 2u], 0u, 0u), 0u)
#define LOAD_ELEMENT(four, i, name, index) \
    (four).words[i] = words_##name[(index) >> 1u]; \
    (four).odd |= ((index) & 1u) << (i);
#endif

#if OPERAND_BITS == 16
// A zero may be -0 here: no sum begins with one, so that it changes none.
uvec4 operands_of(Four four, bool is_vector) {
    if (is_vector) { return uvec4(float32_from_float16_pair(four.words.x), float32_from_float16_pair(four.words.y)); }
    uvec4 bits = four.words >> ((uvec4(four.odd) >> uvec4(0u, 1u, 2u, 3u) & 1u) << 4u);
    return uvec4(
        float32_from_float16(bits.x), float32_from_float16(bits.y), float32_from_float16(bits.z), float32_from_float16(bits.w));
}
#else
uvec4 operands_of(Four four, bool is_vector) {
    return uvec4(operand(four.words.x), operand(four.words.y), operand(four.words.z), operand(four.words.w));
}
#endif
