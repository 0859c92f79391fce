#ifndef HAS_EPILOGUE // whether what a graph has behind a product is computed with it: matrix_epilogue.glsl, product_epilogue.glsl
#define HAS_EPILOGUE 0
#endif

// Where the operands of one batch or group begin. It is handed from function to function: drivers keep in memory what is a variable of
// the whole shader.
struct Batch {
    uint left, right, addend;
    uint results; // or totals, where those are written
    uint totals;  // that are read
#if HAS_EPILOGUE && CONVOLUTION
    uint channel; // of the output, the group's first
#endif
};
