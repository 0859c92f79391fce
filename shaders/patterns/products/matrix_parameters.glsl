// What kernels of products are told behind the places of their operands. Included inside the block of push constants.
    uint work_items; // work groups or invocations, as the kernel counts
    uint rows;
    uint columns;
    uint terms;
    uint row_tiles;
    uint column_tiles;
    // Which segments come SEQUENTIAL now: a processor's driver may not be given all at once.
    uint first_segment;
    uint end_segment;
#if SHAPE_AT_RUN_TIME
    uint flags;
#endif
    // Strides in elements.
    uint left_row;
    uint left_term;
    uint left_outer;
    uint left_inner;
#if CONVOLUTION && SHAPE_AT_RUN_TIME
    uint addend_row;
    uint input_image;
    uint input_channel;
    uint input_height;
    uint input_width;
    uint output_image;
    uint output_channel;
    uint output_height;
    uint output_width;
    // Height and width in the halves of a word: there is no room for more.
    uint filter_sizes;
    uint output_steps;
    uint filter_steps;
    uint firsts;
    uint input_sizes;
    uint output_sizes;
#elif CONVOLUTION
    uint addend_row;
    uint input_image;
    uint input_channel;
    uint input_depth;
    uint input_height;
    uint input_width;
    uint output_image;
    uint output_channel;
    uint output_depth;
    uint output_height;
    uint output_width;
#else
    uint right_column;
    uint right_term;
    uint right_outer;
#ifndef RIGHT_IS_PACKED // for which there is no room
    uint right_inner;
#endif
    uint addend_row;
    uint addend_column;
    uint addend_outer;
    uint addend_inner;
    uint output_row;
    uint output_column;
    uint output_outer;
    uint output_inner;
    uint inner_batches;
    uint alpha;
    uint beta;
#endif
