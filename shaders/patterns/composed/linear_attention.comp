// LINEAR_ATTENTION: each invocation, or eight of them, go through all tokens with one column of a head's state; columns do not know of
// one another. The sums of a column are made in eight chains, in the order that the operator's declaration has.
//
// The compile script passes ELEMENTS: then each of eight invocations has so many elements of a column, one chain's, in registers, and
// shares sums. Without it an invocation has a whole column, which lies in memory, and INVOCATIONS are a work group.
#extension GL_EXT_control_flow_attributes : enable

#define CHAINS 8u
#ifdef ELEMENTS
#define COLUMNS 32u
layout(local_size_x = 256) in;
#else
#define COLUMNS INVOCATIONS
layout(local_size_x = INVOCATIONS) in;
#endif

layout(push_constant) uniform Parameters {
    uint base_query; // where operands begin in their buffers, in words
    uint base_key, base_value, base_past, base_decay, base_rate, base_output, base_present;
    uint work_items; // work groups
    uint tokens;     // of a sequence
    uint first;      // the token to begin with, and the one behind the last
    uint end, scale;
    uint query_steps[3]; // from sequence to sequence, token to token and element to element
    uint key_steps[3], value_steps[3];
} parameters;

#define LANES 4
#include "arithmetic.glsl"
#include "buffers.glsl"

BUFFER(0, query)
BUFFER(1, key)
BUFFER(2, value)
BUFFER(3, past)
BUFFER(4, decay)
BUFFER(5, rate)
BUFFER(6, output)
BUFFER(7, present)

layout(constant_id = 2) const uint HEADS = 1u; // of values
layout(constant_id = 3) const uint KEY_HEADS = 1u;
layout(constant_id = 4) const uint QUERY_HEADS = 1u;
layout(constant_id = 5) const uint SIZE = 8u;
layout(constant_id = 6) const uint VALUE_SIZE = 8u;
layout(constant_id = 7) const bool HAS_PAST = false;
layout(constant_id = 8) const uint DECAYS = 0u; // of a token: none, one for each head, or for each element of all heads
layout(constant_id = 9) const uint RATES = 0u;  // of a token: none, one, or one for each head

#define OUTPUT_HEADS max(HEADS, QUERY_HEADS)
#define QUERIES (OUTPUT_HEADS / HEADS) // that look at a state

uint sequence, head, column;

// Where a token's keys, queries and so on begin.
uint row(uint token) { return sequence * parameters.tokens + token; }
uint key_of(uint token) {
    uint element = head / (HEADS / KEY_HEADS) * SIZE;
    return BASE_WORD(key) + sequence * parameters.key_steps[0] + token * parameters.key_steps[1] + element * parameters.key_steps[2];
}
uint query_of(uint token, uint number) {
    uint element = (head * QUERIES + number) * QUERY_HEADS / OUTPUT_HEADS * SIZE;
    uint first = sequence * parameters.query_steps[0] + token * parameters.query_steps[1];
    return BASE_WORD(query) + first + element * parameters.query_steps[2];
}
uint value_at(uint token) {
    uint element = head * VALUE_SIZE + column;
    uint first = sequence * parameters.value_steps[0] + token * parameters.value_steps[1];
    return words_value[BASE_WORD(value) + first + element * parameters.value_steps[2]];
}
uint key_at(uint first, uint element) { return words_key[first + element * parameters.key_steps[2]]; }
uint query_at(uint first, uint element) { return words_query[first + element * parameters.query_steps[2]]; }
uint decay_at(uint token, uint element) {
    uint number = DECAYS == HEADS ? head : head * SIZE + element;
    return words_decay[BASE_WORD(decay) + row(token) * DECAYS + number];
}

// What is written to the state of a token, times its key.
uint written(uint token, uint found) {
    uint value = value_at(token);
    if (RATES > 0u) {
        uint rate = words_rate[BASE_WORD(rate) + row(token) * RATES + (RATES == 1u ? 0u : head)];
        value = multiply_f32(rate, subtract_f32(value, found));
    }
    return value;
}

void store_output(uint token, uint number, uint sum) {
    uint element = (head * QUERIES + number) * VALUE_SIZE + column;
    words_output[BASE_WORD(output) + row(token) * (OUTPUT_HEADS * VALUE_SIZE) + element] = multiply_f32(sum, parameters.scale);
}

uint sum_of_chains(uint chains[CHAINS]) {
    uint pairs[CHAINS / 2u];
    for (uint i = 0u; i < CHAINS / 2u; ++i) { pairs[i] = add_f32(chains[2u * i], chains[2u * i + 1u]); }
    return add_f32(add_f32(pairs[0], pairs[1]), add_f32(pairs[2], pairs[3]));
}

#ifdef ELEMENTS
shared uint shared_chains[256];

// The sum of a column, of what each of its invocations has.
uint shared_sum(uint own, uint chain, uint own_column) {
    barrier(); // what was shared before has been read
    shared_chains[chain * COLUMNS + own_column] = own;
    barrier();
    uint chains[CHAINS];
    for (uint i = 0u; i < CHAINS; ++i) { chains[i] = shared_chains[i * COLUMNS + own_column]; }
    return sum_of_chains(chains);
}

void go_through_tokens(uint state, bool is_inside) {
    uint own_column = index_in_group() % COLUMNS;
    uint chain = index_in_group() / COLUMNS;
    uint elements[ELEMENTS];
    for (uint i = 0u; i < ELEMENTS; ++i) {
        uint element = CHAINS * i + chain;
        elements[i] = HAS_PAST && element < SIZE ? words_past[BASE_WORD(past) + state + element * VALUE_SIZE] : 0u;
    }
    for (uint token = parameters.first; token < parameters.end; ++token) {
        uint key = key_of(token);
        uint sum = 0u;
        for (uint i = 0u; i < ELEMENTS; ++i) {
            uint element = CHAINS * i + chain;
            if (element < SIZE) {
                if (DECAYS > 0u) { elements[i] = multiply_f32(elements[i], decay_at(token, element)); }
                sum = RATES > 0u ? add_f32(sum, multiply_f32(elements[i], key_at(key, element))) : sum;
            }
        }
        uint more = written(token, RATES > 0u ? shared_sum(sum, chain, own_column) : 0u);
        for (uint i = 0u; i < ELEMENTS; ++i) {
            uint element = CHAINS * i + chain;
            if (element < SIZE) { elements[i] = add_f32(elements[i], multiply_f32(key_at(key, element), more)); }
        }
        for (uint number = 0u; number < QUERIES; ++number) {
            uint query = query_of(token, number);
            sum = 0u;
            for (uint i = 0u; i < ELEMENTS; ++i) {
                uint element = CHAINS * i + chain;
                if (element < SIZE) { sum = add_f32(sum, multiply_f32(elements[i], query_at(query, element))); }
            }
            uint total = shared_sum(sum, chain, own_column);
            if (chain == 0u && is_inside) { store_output(token, number, total); }
        }
    }
    for (uint i = 0u; i < ELEMENTS; ++i) {
        uint element = CHAINS * i + chain;
        if (element < SIZE && is_inside) {
            words_present[BASE_WORD(present) + state + element * VALUE_SIZE] = elements[i];
        }
    }
}
#else
void go_through_tokens(uint state, bool is_inside) {
    if (!is_inside) { return; }
    uint past = BASE_WORD(past) + state;
    uint present = BASE_WORD(present) + state;
    for (uint token = parameters.first; token < parameters.end; ++token) {
        bool is_first = token == parameters.first;
        uint key = key_of(token);
        uint chains[CHAINS];
        for (uint i = 0u; i < CHAINS; ++i) { chains[i] = 0u; }
        for (uint first = 0u; first < SIZE; first += CHAINS) {
            [[unroll]] for (uint i = 0u; i < CHAINS; ++i) {
                uint element = first + i;
                if (element < SIZE) {
                    uint x = 0u;
                    if (!is_first) {
                        x = words_present[present + element * VALUE_SIZE];
                    } else if (HAS_PAST) {
                        x = words_past[past + element * VALUE_SIZE];
                    }
                    if (DECAYS > 0u) { x = multiply_f32(x, decay_at(token, element)); }
                    if (RATES > 0u) { chains[i] = add_f32(chains[i], multiply_f32(x, key_at(key, element))); }
                    words_present[present + element * VALUE_SIZE] = x;
                }
            }
        }
        uint more = written(token, sum_of_chains(chains));
        for (uint number = 0u; number < QUERIES; ++number) {
            uint query = query_of(token, number);
            for (uint i = 0u; i < CHAINS; ++i) { chains[i] = 0u; }
            for (uint first = 0u; first < SIZE; first += CHAINS) {
                [[unroll]] for (uint i = 0u; i < CHAINS; ++i) {
                    uint element = first + i;
                    if (element < SIZE) {
                        uint x = words_present[present + element * VALUE_SIZE];
                        if (number == 0u) {
                            x = add_f32(x, multiply_f32(key_at(key, element), more));
                            words_present[present + element * VALUE_SIZE] = x;
                        }
                        chains[i] = add_f32(chains[i], multiply_f32(x, query_at(query, element)));
                    }
                }
            }
            store_output(token, number, sum_of_chains(chains));
        }
    }
}
#endif

void main() {
    WORK_GROUP(group)
    uint blocks = (VALUE_SIZE + COLUMNS - 1u) / COLUMNS;
    uint state = group / blocks;
    uint own_column = group % blocks * COLUMNS + index_in_group() % COLUMNS;
    sequence = state / HEADS;
    head = state % HEADS;
    column = min(own_column, VALUE_SIZE - 1u);
    go_through_tokens(state * SIZE * VALUE_SIZE + column, own_column < VALUE_SIZE);
}
