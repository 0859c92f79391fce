// Four elements of an operand, which are loaded in one step and looked at in a later one: what lies between them is computed while
// memory is waited for. Padding is +0 here, which changes no sum of finite numbers.
#ifndef MATRIX_FOURS_GLSL
#define MATRIX_FOURS_GLSL

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

uvec4 operands_of(Four four, bool is_vector)
{
    uvec4 bits = four.words;
#if OPERAND_BITS == 16
    if (is_vector) {
        bits = uvec4(bits.x & 0xffffu, bits.x >> 16u, bits.y & 0xffffu, bits.y >> 16u);
    } else {
        bits = bits >> ((uvec4(four.odd) >> uvec4(0u, 1u, 2u, 3u) & 1u) << 4u) & 0xffffu;
    }
#endif
    return uvec4(operand(bits.x), operand(bits.y), operand(bits.z), operand(bits.w));
}

uint classes_of(uvec4 four) { return class_of(four.x) | class_of(four.y) | class_of(four.z) | class_of(four.w); }

#endif
