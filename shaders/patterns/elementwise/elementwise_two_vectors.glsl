// How an invocation computes one vector or two, for the access orders that load and store vectors. They define before
//   TWO_VECTORS                            whether every invocation has two, but for the last ones
//   FETCH_VECTOR(item, target, arrays)     fills arrays with the operands of a vector, and target with the number that it has in the output
//
// Drivers put all calls into their places before they drop what constants exclude: what computes a vector stands at three places, where it could
// stand at six. They are chosen by conditions, not by variables, which SwiftShader does not see through (0.7 of the speed).
#define DECLARE_INPUT(n, array) uint array##n[WORDS_OF(INPUT_##n##_BITS)];
#define DECLARE_VECTOR(target, arrays) \
    uint target; \
    FOR_EACH_INPUT(DECLARE_INPUT, arrays)

void compute_two_vectors(uint item, uint second) {
    DECLARE_VECTOR(target, fetched_)
    DECLARE_VECTOR(second_target, second_)
    FETCH_VECTOR(item, target, fetched_)
    FETCH_VECTOR(second, second_target, second_)
    COMPUTE_VECTOR(target)
    COMPUTE_SECOND_VECTOR(second_target)
}

void compute_one_vector(uint item) {
    DECLARE_VECTOR(target, fetched_)
    FETCH_VECTOR(item, target, fetched_)
    COMPUTE_VECTOR(target)
}
