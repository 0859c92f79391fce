// The integers of a row's chunk (packed_integers.glsl) as planes: words of their first bytes, of their second ones and so on.

// The term whose integers are bytes b of the plane words k.
#define TERM_OF_BYTE(k, b) (((k) / WORD_PARTS * 4u + (b)) * WORD_PARTS + (k) % WORD_PARTS)

// Where planes of rows lie in memory, as vectors of four words: of each chunk all lines, which are the rows with those that fill up tiles. A
// line has its planes one after the other, each in eight words; then sums of bytes, a word each, the unit, its inverse, the bits of rests, and
// the sum of the terms.
#define PLANE_SPACE (PLANES * 2u)
#define LINE_VECTORS (PLANE_SPACE + 2u)
#define LINE_AT(chunk, line, lines) (((chunk) * (lines) + (line)) * LINE_VECTORS)
#define PLANE_VECTORS ((PLANE_WORDS + 3u) / 4u) // of each
// Of the words behind planes: first sums of bytes.
#define LINE_UNIT PLANES
#define LINE_SCALE (PLANES + 1u)
#define LINE_RESTS (PLANES + 2u)
#define LINE_TERMS (PLANES + 3u)
