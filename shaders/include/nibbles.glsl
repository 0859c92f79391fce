// The data types of 4 bits, of which eight lie in a word, the first one in its lowest bits: what datatypes.glsl has of all others.
#ifndef NIBBLES_GLSL
#define NIBBLES_GLSL

#include "datatypes.glsl"

#define VALUE_uint4 uint
#define VALUE_int4 uint
#define FORM_uint4 u32
#define FORM_int4 i32

// The element of a word that has the index: the index's lowest three bits count.
#define UNPACKED_uint4(word, index) (((word) >> (((index) & 7u) * 4u)) & 0xfu)
#define UNPACKED_int4(word, index) uint(int((word) << ((7u - ((index) & 7u)) * 4u)) >> 28)

#define BIT_POSITION_4(index) (((index) & 7u) * 4u)
#define VALUE_MASK_4 0xfu
#define INSERT_4(words, index, value) words[(index) >> 3u] |= ((value) & VALUE_MASK_4) << BIT_POSITION_4(index)

uint saturated_int4(int x) { return uint(min(max(x, -8), 7)); }
uint saturated_uint4(int x) { return uint(min(max(x, 0), 15)); }

#endif
