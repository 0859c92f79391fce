// What pieces of chunks come to: reduction_pieces.glsl stores it, reduction.glsl joins it. Quick states, where a function has them, with a word
// behind theirs that is 0 where they are not right; otherwise states.
#ifdef QUICK_SUMS
#define Piece QuickState
#define EMPTY_PIECE NO_QUICK_STATE
#define EACH_PIECE_WORD(DO) EACH_QUICK_WORD(DO)
#define PIECE_WORDS QUICK_WORDS
#define piece_word_0(piece) quick_word_0(piece)
#define piece_word_1(piece) quick_word_1(piece)
#define piece_of_words(words) quick_state_of_words(words)
#define piece_with_block(piece, block, first, count) quick_with_block(piece, block, count)
#define pieces_joined(a, b) quick_joined(a, b)
#define piece_alone(piece) quick_alone(piece)
#define state_of_piece(piece) state_of_quick(piece)
#else
#define Piece State
#define EMPTY_PIECE EMPTY_STATE
#define EACH_PIECE_WORD(DO) EACH_STATE_WORD(DO)
#define PIECE_WORDS STATE_WORDS
#define piece_word_0(piece) state_word_0(piece)
#define piece_word_1(piece) state_word_1(piece)
#define piece_of_words(words) state_of_words(words)
#define piece_with_block(piece, block, first, count) with_block(piece, block, first, count)
#define pieces_joined(a, b) joined(a, b)
#define piece_alone(piece) (piece)
#define state_of_piece(piece) (piece)
#endif

// Where the first word of a row's piece lies, by the piece's number in the row; and how far behind it the second one does. Rows are neighbours.
#define PIECE_PLACE(base, piece, row) ((base) + (piece) * parameters.rows + (row))
#define PIECE_STEP(pieces_of_row) (parameters.rows * (pieces_of_row))
