// CACHED_ATTENTION: where a key and its value lie in the caches, counted in heads of keys. With BEAMS a key of the past is that of the
// sequence of the same group that a buffer `beams` names; `parameters` has beam_width and beam_places then.

#ifdef BEAMS
uint row_of_key(uint sequence, uint key_head, uint past, uint key) {
    uint source = sequence;
    if (key < past) {
        uint beam = words_beams[BASE_WORD(beams) + sequence * parameters.beam_places + min(key, parameters.beam_places - 1u)];
        source = sequence - sequence % parameters.beam_width + min(beam, parameters.beam_width - 1u);
    }
    return (source * KEY_HEADS + key_head) * parameters.capacity + key;
}
#define KEY_ROW(first, key) row_of_key(sequence, scale_head, past, key)
#else
#define KEY_ROW(first, key) ((first) + (key))
#endif
