// Where an operand of an exact product lies: lines of BLOCK_TERMS terms and more, each term as three signed bytes.
//
// A block of a line has an exponent of its own: its terms are integers n of 23 bits, |n| <= 2^22, times p * 2^-22, where p is the least power
// of two that no magnitude of the block is above. n = 65536 s0 + 256 s1 + s2, each byte of -128 to 127. A magnitude is a byte, too: so many
// units of its block, rounded down and at most 127, that no term is smaller than its magnitude times the unit.
//
// In vectors of 16 bytes, for each copy (batch): the bytes s0 of all lines, s1, s2, magnitudes; then of all copies for each block and
// line its numbers, as bits: p, the sum of its magnitudes, that sum and what is left out of it by six products, and the unit, with IS_EXACT
// where no term was rounded. All are zero where all terms are, and where something is out of range but for IS_OUT.

#define BLOCK_TERMS 256u
#define BLOCK_VECTORS 16u
#define BLOCKS ((parameters.terms + (BLOCK_TERMS - 1u)) / BLOCK_TERMS)
#define LINE_VECTORS (BLOCKS * BLOCK_VECTORS)
#define MAGNITUDES 3u // the plane behind those of the bytes
#define IS_OUT 1u
#define IS_EXACT 2u
#define UNIT_OF(numbers) ((numbers).w & ~3u)

uint plane_at(uint copy, uint plane, uint lines) { return (4u * copy + plane) * lines * LINE_VECTORS; }
uint block_at(uint copies, uint copy, uint block, uint lines) { return plane_at(copies, 0u, lines) + (copy * BLOCKS + block) * lines; }
