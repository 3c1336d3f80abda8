/* digit_shapes.h - how people write the ten digits, as paths of a pen.
 *
 * A path is a list of points in a box of 100 x 100, x to the right and y
 * down; a smooth curve goes through them.  CORNER turns sharply at the point
 * before it, LIFT takes the pen off the paper. */
#ifndef CT_DATA_DIGIT_SHAPES_H
#define CT_DATA_DIGIT_SHAPES_H

enum { DIGIT_END = -1, DIGIT_LIFT = -2, DIGIT_CORNER = -3 };

struct digit_point {
    signed char x, y; /* x below zero: one of the marks above */
};

struct digit_shape {
    int                       label;
    float                     share; /* of this label's images */
    const struct digit_point *path;
};

extern const struct digit_shape digit_shapes[];
extern const int digit_n_shapes;

#endif
