// What kernels of products are told behind the places of their operands. Included inside the block of push constants.
    uint work_items; // work groups or invocations, as the kernel counts
    uint rows, columns, terms, row_tiles, column_tiles;
    // Which segments come SEQUENTIAL now: a processor's driver may not be given all at once.
    uint first_segment, end_segment;
#if SHAPE_AT_RUN_TIME
    uint flags;
#endif
    // Strides in elements.
    uint left_row, left_term, left_outer, left_inner;
#if CONVOLUTION && SHAPE_AT_RUN_TIME
    uint addend_row, input_image, input_channel, input_height, input_width, output_image, output_channel, output_height;
    uint output_width;
    // Height and width in the halves of a word: there is no room for more.
    uint filter_sizes, output_steps, filter_steps, firsts, input_sizes, output_sizes;
#elif CONVOLUTION
    uint addend_row, input_image, input_channel, input_depth, input_height, input_width, output_image, output_channel;
    uint output_depth, output_height, output_width;
#else
    uint right_column, right_term, right_outer;
#ifndef RIGHT_IS_PACKED // for which there is no room
    uint right_inner;
#endif
    uint addend_row, addend_column, addend_outer, addend_inner, output_row, output_column, output_outer, output_inner;
    uint inner_batches;
#ifndef ALPHA_IS_ONE
    uint alpha;
#endif
    uint beta;
#endif
