// The integers that packed_integers.glsl has of a row's terms.
#ifndef PACKED_TERMS_GLSL
#define PACKED_TERMS_GLSL

#ifdef IS_WIDE
#define PLANES 4u // bytes of a term's integer
#define UNIT_BITS 31u // integers are multiples of p 2^-31
#else
#define PLANES 3u
#define UNIT_BITS 23u
#endif
#define REST_UNIT 3.814697265625e-06 // 2^-18: of m, in those of integers

// The exponent of p, as FLOAT32 has it: p is the least power of two of which the largest magnitude is less than 127/128.
#define EXPONENT_OF(peak) (((peak) + 0x20000u >> 23u) + 1u)
// Whether integers hold the terms of a chunk, by the largest magnitude. Of wide ones p is from 2^-30 to 2^40 then: nothing that is made of them
// is denormal.
bool is_in_range(uint peak) {
#ifdef IS_WIDE
    uint exponent = EXPONENT_OF(peak);
    return peak == 0u || (exponent >= 97u && exponent <= 167u);
#else
    return peak < INFINITY_F32;
#endif
}
// Whether a chunk has terms below p 2^-31 that are no zeros, by the smallest magnitude (lowest_of): m is off by a large part of these, so that
// sums below THIN_NUMBER are not good enough.
#define THIN_NUMBER 8192.0
bool is_thin(uint peak, uint lowest) {
#ifdef IS_WIDE
    return peak != 0u && lowest < (EXPONENT_OF(peak) - 31u << 24u) - 1u;
#else
    return false;
#endif
}
// p 2^-UNIT_BITS, by which integers are what they stand for, and 2^23 / p. Of zeros alone both are 0; out of range the first
// is NaN. Of thin chunks the first is negative.
float unit_of(uint peak, bool in_range, bool thin) {
    uint unit = peak == 0u ? 0u : EXPONENT_OF(peak) - UNIT_BITS << 23u;
    return uintBitsToFloat(in_range ? thin ? unit | SIGN_F32 : unit : NAN_F32);
}
float units_of(uint peak, bool in_range) {
    return uintBitsToFloat(peak == 0u || !in_range ? 0u : 277u - EXPONENT_OF(peak) << 23u);
}

#define ROUNDS_FROM 12582912.0 // 3 * 2^22: a sum with it has an integer in its lowest bits, rounded to nearest even
#define ROUNDS_FROM_BITS 0x4b400000
#ifdef IS_WIDE
// What is left over of a term counts where the term is below so many p 2^-23: else it is off by half of a 2^-24 of it for each term, at most, of
// a segment's. A power of two.
float rest_limit() { return 65536.0 / float(1 << min(findMSB(parameters.terms), 10)); }
// The integer of a term times 2^23 / p, which is 256 n + q, and what is left over, where it counts: else zero. Of magnitudes, whose sums with
// 2^23 are below 2^24.
int integer_of_term(float number, out float left_over) {
    precise float biased = abs(number) + 8388608.0;
    precise float nearest = biased - 8388608.0;
    precise float behind = abs(number) - nearest;
    precise float byte_biased = behind * 256.0 + ROUNDS_FROM;
    precise float byte_nearest = byte_biased - ROUNDS_FROM;
    precise float left = behind * 256.0 - byte_nearest;
    int integer = (int(floatBitsToUint(biased)) - 0x4b000000) * 256 + int(floatBitsToUint(byte_biased)) - ROUNDS_FROM_BITS;
    left_over = abs(number) < rest_limit() ? uintBitsToFloat(floatBitsToUint(left) ^ floatBitsToUint(number) & SIGN_F32) : 0.0;
    return number < 0.0 ? -integer : integer;
}
// m of a term, by that.
int rest_of_left_over(float left_over) {
    precise float biased = left_over * 262144.0 + ROUNDS_FROM; // 2^18
    return int(floatBitsToUint(biased)) - ROUNDS_FROM_BITS;
}
#else
// n of a term, and what is left over: that is below 2^10, so that sums with 3 * 2^22 leave all larger numbers as they are.
int integer_of_term(float number, out float left_over) {
    precise float biased = number + ROUNDS_FROM;
#ifdef IS_FOR_PROCESSORS
    // By the bits: where SwiftShader's optimizer unrolls a loop, the copies lose NoContraction, and it takes the two sums for none.
    float rounded = float(int(floatBitsToUint(biased)) - ROUNDS_FROM_BITS);
    float nearest = (floatBitsToUint(number) & MAGNITUDE_F32) < 0x4a800000u ? rounded : number; // 2^22
#else
    precise float nearest = biased - ROUNDS_FROM;
#endif
    precise float left = number - nearest;
    left_over = left;
    return int(nearest);
}
// m of a term, by what is left over of its number.
int rest_of_left_over(float left_over) {
    precise float rest = left_over * 262144.0; // 2^18
    return int(rest);
}
#endif
// The bytes of four integers: a word of the first ones, one of the second and so on. With 128 added to each byte none is negative, and its
// highest bit is turned over.
#ifdef IS_WIDE
#define BYTES uvec4
uvec4 bytes_of(ivec4 integers) {
    uvec4 biased = uvec4(integers) + 0x80808080u;
#else
#define BYTES uvec3
uvec3 bytes_of(ivec4 integers) {
    uvec4 biased = uvec4(integers + 0x808080);
#endif
    uvec2 low = biased.xy & 0xffffu | biased.zw << 16u;
    uvec2 high = biased.xy >> 16u | biased.zw & 0xffff0000u;
    uvec3 words = uvec3(high.x & 0xff00ffu | (high.y & 0xff00ffu) << 8u, low.x >> 8u & 0xff00ffu | low.y & 0xff00ff00u,
        low.x & 0xff00ffu | (low.y & 0xff00ffu) << 8u);
#ifdef IS_WIDE
    return uvec4(high.x >> 8u & 0xff00ffu | high.y & 0xff00ff00u, words) ^ 0x80808080u;
#else
    return words ^ 0x80808080u;
#endif
}

#ifdef IS_WIDE
// The number that integers of four bytes are, or sums of products with them, rounded once: by upper halves and lower ones, below 2^29.
#define UPPER_HALF(integer) (int(uint(integer) + 32768u) >> 16)
float number_of_halves(int upper, int lower) {
    int whole = upper + (lower >> 16);
    return exact_product_plus(float(whole >> 8), 16777216.0, float((whole & 255) << 16 | lower & 0xffff)); // 2^24
}
#endif
// What a sum of products with m stands for. It is rounded once, by a sum: devices may round integers of more than 24 bits as they like.
float rest_of_sum(int sum) {
    float rounded = exact_product_plus(float(sum >> 16), 65536.0, float(sum & 0xffff));
    precise float rest = rounded * REST_UNIT;
    return rest;
}

#endif
