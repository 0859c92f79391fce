// Data types, and how their values look inside a shader.
//
// Buffers hold 32-bit words; no optional Vulkan feature is used. A value is held as its bits:
//   8, 16 and 32 bits   uint     signed integers are sign-extended, all others zero-extended
//   64 bits             uvec2    x is the low word
// A data type is named by a token, as NumPy names it (float32, int8 …); macros below turn the token into the GLSL type of
// its values, its loads and stores, and the suffix («form») of the functions that interpret such bits:
//   f32, f16, i32 (int32, int16, int8), u32 (uint32, uint16, uint8), i64, u64.
// FLOAT64 values are only ever moved, as uint64.
#ifndef DATATYPES_GLSL
#define DATATYPES_GLSL

#define CONCATENATE_(first, second) first##second
#define CONCATENATE(first, second) CONCATENATE_(first, second)

// The GLSL type of a value.
#define VALUE(type) CONCATENATE(VALUE_, type)
#define VALUE_float32 uint
#define VALUE_float16 uint
#define VALUE_uint32 uint
#define VALUE_uint16 uint
#define VALUE_uint8 uint
#define VALUE_int32 uint
#define VALUE_int16 uint
#define VALUE_int8 uint
#define VALUE_uint64 uvec2
#define VALUE_int64 uvec2

// name_form, for example FORM(is_greater, int8) is is_greater_i32.
#define FORM(name, type) CONCATENATE(CONCATENATE(name, _), CONCATENATE(FORM_, type))
#define FORM_float32 f32
#define FORM_float16 f16
#define FORM_uint32 u32
#define FORM_uint16 u32
#define FORM_uint8 u32
#define FORM_int32 i32
#define FORM_int16 i32
#define FORM_int8 i32
#define FORM_uint64 u64
#define FORM_int64 i64

// LOAD(type, words, index): the element at `index` of an array of words (a buffer or a local array).
#define LOAD(type, words, index) CONCATENATE(LOAD_, type)(words, index)
#define LOAD_float32(words, index) (words[index])
#define LOAD_uint32(words, index) (words[index])
#define LOAD_int32(words, index) (words[index])
#define LOAD_float16(words, index) ((words[(index) >> 1u] >> (((index) & 1u) * 16u)) & 0xffffu)
#define LOAD_uint16(words, index) LOAD_float16(words, index)
#define LOAD_int16(words, index) uint(int(words[(index) >> 1u] << ((1u - ((index) & 1u)) * 16u)) >> 16)
#define LOAD_uint8(words, index) ((words[(index) >> 2u] >> (((index) & 3u) * 8u)) & 0xffu)
#define LOAD_int8(words, index) uint(int(words[(index) >> 2u] << ((3u - ((index) & 3u)) * 8u)) >> 24)
#define LOAD_uint64(words, index) uvec2(words[2u * (index)], words[2u * (index) + 1u])
#define LOAD_int64(words, index) LOAD_uint64(words, index)

// The position of an element's bits inside its word, and their mask before they are moved there.
#define BIT_POSITION_8(index) (((index) & 3u) * 8u)
#define BIT_POSITION_16(index) (((index) & 1u) * 16u)
#define VALUE_MASK_8 0xffu
#define VALUE_MASK_16 0xffffu

// INSERT_bits(words, index, value): sets an element of a local array whose bits are still zero.
#define INSERT_8(words, index, value) words[(index) >> 2u] |= ((value) & VALUE_MASK_8) << BIT_POSITION_8(index)
#define INSERT_16(words, index, value) words[(index) >> 1u] |= ((value) & VALUE_MASK_16) << BIT_POSITION_16(index)
#define INSERT_32(words, index, value) words[index] = (value)
#define INSERT_64(words, index, value) words[2u * (index)] = (value).x, words[2u * (index) + 1u] = (value).y

// STORE_bits(words, index, value): stores one element into a buffer. Where elements share a word, other invocations may be
// storing its other elements at the same moment: clearing and setting this element's own bits by atomics disturbs none of
// them, and leaves bytes outside the tensor as they are. (A plain read-modify-write loses most of such bytes.)
#define STORE_8(words, index, value) \
    atomicAnd(words[(index) >> 2u], ~(VALUE_MASK_8 << BIT_POSITION_8(index))), \
    atomicOr(words[(index) >> 2u], ((value) & VALUE_MASK_8) << BIT_POSITION_8(index))
#define STORE_16(words, index, value) \
    atomicAnd(words[(index) >> 1u], ~(VALUE_MASK_16 << BIT_POSITION_16(index))), \
    atomicOr(words[(index) >> 1u], ((value) & VALUE_MASK_16) << BIT_POSITION_16(index))
#define STORE_32(words, index, value) words[index] = (value)
#define STORE_64(words, index, value) words[2u * (index)] = (value).x, words[2u * (index) + 1u] = (value).y

#endif
