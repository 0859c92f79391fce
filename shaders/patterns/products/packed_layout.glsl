// Where the parts of rows lie that packed_parts.glsl makes, as vectors of eight FLOAT16. Lines are the rows with those that fill up
// tiles.
//
// A term is the sum of three FLOAT16, its parts. With the exponent e of a chunk's largest magnitude the first one is a multiple of 2^(e - 10),
// the second one of p 2^-23 (p as of packed_integers.glsl), each what is left rounded to nearest even, and the third one is the rest. They are
// integers below 2^12 of those units, and the third ones below 2^24 / 32 / (the largest weight) of 2^-24, unless a chunk's terms are so large
// that it has an infinity as its first part: sums of their products with weights are exact in FLOAT32.
//
// Of a chunk there is a plane of each part, with all lines. Of a line's 32 terms (of chunks of 16 the latter half is zeros) a vector has eight
// neighbours, a word a pair, in the order in which weights come as pairs out of their words: an invocation of a quad loads what it has of
// right matrices. Behind all planes a word for each chunk of eight lines says whether it has third parts.
//
// Processors are told the largest magnitude of each line's chunk alone, as FLOAT32, and in its lowest bit whether there are third parts.
#ifndef PACKED_LAYOUT_GLSL
#define PACKED_LAYOUT_GLSL

#define PARTS 3u
#define PART_VECTORS 4u
#define PART_AT(chunk, part, line, lines) ((((chunk) * PARTS + (part)) * (lines) + (line)) * PART_VECTORS)
#define FLAG_AT(chunk, line, lines, chunks) (PART_AT(chunks, 0u, 0u, lines) * 4u + (line) / 8u * (chunks) + (chunk))

// Exponents of FLOAT32, by such a magnitude: of p, of the units of first and second parts, and of what rounds to such multiples. All FLOAT16
// are multiples of 2^-24; of zeros alone any exponents are right.
#define EXPONENT_OF_PEAK(peak) (((peak) + 0x20000u >> 23u) + 1u)
#define FIRST_UNIT(peak) (max((peak) >> 23u, 113u) - 10u)
#define SECOND_UNIT(peak) (max(EXPONENT_OF_PEAK(peak), 64u) - 23u)
#define BIAS_OF(exponent) uintBitsToFloat((exponent) + 23u << 23u | 0x400000u)

#endif
