/* clahe.h - contrast-limited adaptive histogram equalisation of a gray image,
 * with OpenCV's 8 x 8 tiles and a clip limit of 4. */
#ifndef CT_DATA_CLAHE_H
#define CT_DATA_CLAHE_H

void ct_clahe(unsigned char *y, int width, int height);

#endif
