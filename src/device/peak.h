/* peak.h - what the device could do at most, measured. */
#ifndef CT_DEVICE_PEAK_H
#define CT_DEVICE_PEAK_H

/* Single-precision operations a second of the CPU threads in use, counting a
 * fused multiply-add as two; from a loop of nothing else, under 0.1 s.  The
 * mean lies below the best where something else runs on these cores, or on
 * the other halves of them. */
struct ct_peak {
    double best, mean;
};
struct ct_peak ct_cpu_peak_flops(void);

/* "AVX-512", "AVX2", "plain": the vector unit that loop used. */
const char *ct_cpu_vector_name(void);

#endif
