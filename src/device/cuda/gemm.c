/* gemm.c - matrix products by cuBLASLt, and small ones by product.cu.
 *
 * Its matrices are column-major: a row-major C = A B is its C^T = B^T A^T, so
 * the operands change places.  The bias of a row-major column is then that of
 * a row, which is what its epilogue adds.
 *
 * The description and the algorithm of a product are made once for each shape
 * and kept; there are as many as the net has products.  Of the algorithms that
 * the library suggests, and our own, the one that measures fastest in a
 * recorded run is taken, on the operands of the first call; its result goes
 * elsewhere meanwhile.  It is
 * kept for the next run, whose sums then have the same order. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/choice.h"
#include "device/cuda/libs.h"
#include "device/cuda/product.h"
#include "device/impl.h"
#include "device/recording.h"

/* What tells one plan from another; no padding: compared as bytes. */
struct gemm_key {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t ta, tb, a_type, b_type, c_type, epilogue;
};

struct gemm_plan {
    struct gemm_key        key;
    cublasLtMatmulDesc_t   op;
    cublasLtMatrixLayout_t a, b, c;
    int                    shares; /* blocks a tile of ours; 0: cuBLASLt */
    cublasLtMatmulAlgo_t   algo;
    size_t                 workspace;
    struct gemm_plan      *next;
};

struct ct_cuda_gemms {
    const struct ct_cuda_libs *libs;
    struct gemm_plan          *first;
};

static enum ct_status blas_check(const struct ct_device *d, cublasStatus_t e,
                                 const char *what)
{
    if (e == CUBLAS_STATUS_SUCCESS)
        return CT_OK;
    return ct_fail(e == CUBLAS_STATUS_ALLOC_FAILED ? CT_ENOMEM : CT_EDEVICE,
                   "GPU %d: %s: cuBLASLt status %d", d->id, what, (int)e);
}

#define BLAS(d, name, ...)                                                   \
    CT_TRY(blas_check((d), ct_cuda(d)->libs->name(__VA_ARGS__), #name))

static cudaDataType_t blas_type(int32_t t)
{
    return t == CT_BF16 ? CUDA_R_16BF : t == CT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static void plan_free(const struct ct_cuda_libs *l, struct gemm_plan *p)
{
    if (p->op)
        l->cublasLtMatmulDescDestroy(p->op);
    if (p->a)
        l->cublasLtMatrixLayoutDestroy(p->a);
    if (p->b)
        l->cublasLtMatrixLayoutDestroy(p->b);
    if (p->c)
        l->cublasLtMatrixLayoutDestroy(p->c);
    ct_free(p);
}

void ct_cuda_gemms_free(struct ct_cuda_gemms *g)
{
    while (g && g->first) {
        struct gemm_plan *p = g->first;

        g->first = p->next;
        plan_free(g->libs, p);
    }
    ct_free(g);
}

static enum ct_status set_op(const struct ct_device *d, struct gemm_plan *p,
                             cublasLtMatmulDescAttributes_t name,
                             const void *value, size_t bytes)
{
    BLAS(d, cublasLtMatmulDescSetAttribute, p->op, name, value, bytes);
    return CT_OK;
}

static cublasComputeType_t compute_type(const struct ct_device *d,
                                        const struct gemm_key *k)
{
    bool single = k->a_type == CT_F32 && k->b_type == CT_F32;

    return single && ct_cuda(d)->precision != CT_FP32
               ? CUBLAS_COMPUTE_32F_FAST_TF32
               : CUBLAS_COMPUTE_32F;
}

/* Operands change places: see above. */
static enum ct_status plan_describe(const struct ct_device *d,
                                    struct gemm_plan *p)
{
    const struct gemm_key *k = &p->key;
    cublasOperation_t first  = k->tb == CT_T ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = k->ta == CT_T ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t b_rows = (uint64_t)(k->tb == CT_T ? k->k : k->n);
    uint64_t b_cols = (uint64_t)(k->tb == CT_T ? k->n : k->k);
    uint64_t a_rows = (uint64_t)(k->ta == CT_T ? k->m : k->k);
    uint64_t a_cols = (uint64_t)(k->ta == CT_T ? k->k : k->m);

    BLAS(d, cublasLtMatmulDescCreate, &p->op, compute_type(d, k), CUDA_R_32F);
    CT_TRY(set_op(d, p, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)));
    CT_TRY(set_op(d, p, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                  sizeof(second)));
    CT_TRY(set_op(d, p, CUBLASLT_MATMUL_DESC_EPILOGUE, &k->epilogue,
                  sizeof(k->epilogue)));
    BLAS(d, cublasLtMatrixLayoutCreate, &p->a, blas_type(k->b_type), b_rows,
         b_cols, k->ldb);
    BLAS(d, cublasLtMatrixLayoutCreate, &p->b, blas_type(k->a_type), a_rows,
         a_cols, k->lda);
    BLAS(d, cublasLtMatrixLayoutCreate, &p->c, blas_type(k->c_type),
         (uint64_t)k->n, (uint64_t)k->m, k->ldc);
    return CT_OK;
}

/* Candidates are counted from 0.  Ours are behind all of the library's, by how
 * many blocks have one tile. */
enum { CANDIDATES = 8, OURS = 4, ALL = CANDIDATES + OURS, TURNS = 20 };

static const int shares_of[OURS] = { 1, 2, 4, 8 };

struct operands {
    const struct ct_cuda_gemm *g;
    const void *a, *b;
    void       *c;
    float       alpha, beta;
};

/* By so many blocks a tile of ours, or by `algo`. */
static enum ct_status multiply(const struct ct_device *d,
                               const struct gemm_plan *p, int shares,
                               const cublasLtMatmulAlgo_t *algo,
                               size_t workspace, const struct operands *o)
{
    if (shares > 1)
        return ct_cuda_product_by(d, o->g, shares, o->alpha, o->a, o->b,
                                  o->beta, o->c);
    if (shares == 1)
        return ct_cuda_product(d, o->g, o->alpha, o->a, o->b, o->beta, o->c);
    BLAS(d, cublasLtMatmul, ct_cuda(d)->cublaslt, p->op, &o->alpha, o->b, p->a,
         o->a, p->b, &o->beta, o->c, p->c, o->c, p->c, algo,
         ct_cuda(d)->gemm_work, workspace, ct_cuda(d)->stream);
    return CT_OK;
}

/* Milliseconds of TURNS products in a recorded run, as in a step: without the
 * time that launching takes. */
static enum ct_status time_one(const struct ct_device *d,
                               const struct gemm_plan *p, int shares,
                               const cublasLtMatmulHeuristicResult_t *h,
                               const struct operands *o, cudaEvent_t begin,
                               cudaEvent_t end, float *ms)
{
    const cublasLtMatmulAlgo_t *algo = h ? &h->algo : NULL;
    const size_t workspace           = h ? h->workspaceSize : 0;
    cudaStream_t stream              = ct_cuda_stream(d);
    struct ct_graph *graph           = NULL;
    enum ct_status st, ended;

    CT_TRY(multiply(d, p, shares, algo, workspace, o)); /* loads the kernel */
    CT_TRY(ct_graph_begin(d));
    st = CT_OK;
    for (int i = 0; i < TURNS && st == CT_OK; i++)
        st = multiply(d, p, shares, algo, workspace, o);
    ended = ct_graph_end(d, &graph);
    st    = st == CT_OK ? ended : st;
    for (int i = 0; i < 2 && st == CT_OK; i++) { /* the first to warm up */
        CT_TRY_GOTO(ct_cuda_check(d, cudaEventRecord(begin, stream), "timing"),
                    st, out);
        CT_TRY_GOTO(ct_graph_launch(graph), st, out);
        CT_TRY_GOTO(ct_cuda_check(d, cudaEventRecord(end, stream), "timing"),
                    st, out);
        CT_TRY_GOTO(ct_cuda_check(d, cudaEventSynchronize(end), "timing"), st,
                    out);
        st = ct_cuda_check(d, cudaEventElapsedTime(ms, begin, end), "timing");
    }
out:
    ct_graph_destroy(graph);
    return st;
}

/* Whether ours have a chance: the product is so small that a library's tiles
 * leave most of the GPU idle. */
static bool is_small(const struct operands *o)
{
    const double most = 1 << 26;

    return ct_impl_allowed("product", "small") && ct_cuda_product_takes(o->g) &&
           (double)o->g->m * (double)o->g->n * (double)o->g->k <= most;
}

/* Whether candidate i is there; n are the library's. */
static bool is_candidate(const struct ct_device *d, int i, int n,
                         const struct operands *o)
{
    if (i < CANDIDATES)
        return i >= 0 && i < n;
    return i < ALL && is_small(o) &&
           (i == CANDIDATES ||
            (ct_impl_allowed("product", "shared") &&
             ct_cuda_product_shares(d, o->g, shares_of[i - CANDIDATES])));
}

static enum ct_status fastest(const struct ct_device *d,
                              const struct gemm_plan *p, int n,
                              const cublasLtMatmulHeuristicResult_t *found,
                              const struct operands *o, int *best)
{
    cudaEvent_t begin = NULL, end = NULL;
    float ms, least = 0;
    enum ct_status st;

    CT_TRY_GOTO(ct_cuda_check(d, cudaEventCreate(&begin), "timing"), st, out);
    CT_TRY_GOTO(ct_cuda_check(d, cudaEventCreate(&end), "timing"), st, out);
    for (int i = 0; i < ALL; i++) {
        const bool ours = i >= CANDIDATES;

        if (!is_candidate(d, i, n, o))
            continue;
        if (time_one(d, p, ours ? shares_of[i - CANDIDATES] : 0,
                     ours ? NULL : &found[i], o, begin, end, &ms) != CT_OK)
            continue; /* it cannot after all */
        /* The library's order counts where times are about the same. */
        if (least == 0 || ms < 0.97f * least) {
            least = ms;
            *best = i;
        }
    }
    st = CT_OK;
out:
    if (begin)
        (void)cudaEventDestroy(begin);
    if (end)
        (void)cudaEventDestroy(end);
    return st;
}

static enum ct_status measure(const struct ct_device *d,
                              const struct gemm_plan *p, int n,
                              const cublasLtMatmulHeuristicResult_t *found,
                              const struct operands *o, int *best)
{
    struct operands there = *o;
    const size_t bytes    = (size_t)(p->key.m * p->key.ldc) *
                         ct_dtype_bytes((enum ct_dtype)p->key.c_type);
    enum ct_status st;

    CT_TRY(d->ops->alloc(d, bytes, "matrix product", &there.c));
    st = fastest(d, p, n, found, &there, best);
    d->ops->free(d, there.c);
    return st;
}

/* All that the choice depends on. */
static void name_of(const struct ct_device *d, const struct gemm_plan *p,
                    char *to, size_t bytes)
{
    const struct ct_cuda *g  = ct_cuda(d);
    const struct gemm_key *k = &p->key;

    snprintf(to, bytes, "product 3 %s cublaslt %zu precision %d %" PRId64
             "x%" PRId64 "x%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
             " %c%c types %d %d %d then %d%s", g->name,
             g->libs->cublasLtGetVersion(), (int)g->precision, k->m, k->n,
             k->k, k->lda, k->ldb, k->ldc, k->ta == CT_T ? 't' : 'n',
             k->tb == CT_T ? 't' : 'n', (int)k->a_type, (int)k->b_type,
             (int)k->c_type, (int)k->epilogue,
             ct_impl_allowed("product", "shared") ? " shared" : "");
}

/* What was kept, if it is one of ours or of n; or -1. */
static int kept_of(const struct ct_device *d, const struct ct_choices *c,
                   const char *name, int n, const struct operands *o)
{
    const char *text = ct_choices_find(c, name);
    int i;

    return text && sscanf(text, "%d", &i) == 1 && is_candidate(d, i, n, o)
               ? i
               : -1;
}

/* One of ours, by the most blocks a tile where they are asked for; or -1: the
 * library may have it. */
static int forced(const struct ct_device *d, const struct operands *o)
{
    int i = ALL - 1;

    if (ct_impl_allowed("product", "cublaslt") || !ct_cuda_product_takes(o->g))
        return -1;
    while (i > CANDIDATES &&
           !(ct_impl_allowed("product", "shared") &&
             ct_cuda_product_shares(d, o->g, shares_of[i - CANDIDATES])))
        i--;
    return i;
}

/* Which of all candidates; the first where it cannot be measured. */
static enum ct_status choose(const struct ct_device *d,
                             const struct gemm_plan *p, int n,
                             const cublasLtMatmulHeuristicResult_t *found,
                             const struct operands *o, int *best)
{
    struct ct_choices *c = NULL;
    enum ct_status st    = CT_OK;
    char name[256], text[16];

    *best = forced(d, o);
    if (*best >= 0)
        return CT_OK;
    *best = 0;
    if ((n < 2 && !is_small(o)) || ct_cuda(d)->host_memory)
        return CT_OK;
    name_of(d, p, name, sizeof(name));
    CT_TRY(ct_cuda_choices(d, &c));
    *best = kept_of(d, c, name, n, o);
    if (*best >= 0)
        return CT_OK;
    *best = 0;
    if (ct_cuda(d)->capturing)
        return CT_OK;
    ct_choices_alone(c);
    *best = kept_of(d, c, name, n, o);
    if (*best < 0) {
        *best = 0;
        st    = measure(d, p, n, found, o, best);
        snprintf(text, sizeof(text), "%d", *best);
        /* Who leaves ours out does so for himself. */
        if (st == CT_OK && ct_impl_allowed("product", "small"))
            ct_choices_keep(c, name, text);
    }
    ct_choices_go_on(c);
    return st;
}

static enum ct_status plan_choose(const struct ct_device *d,
                                  struct gemm_plan *p,
                                  const struct operands *o)
{
    const struct ct_cuda_libs *l = ct_cuda(d)->libs;
    cublasLtMatmulPreference_t want;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    size_t bytes = CT_CUDA_GEMM_BYTES;
    int n = 0, best;
    cublasStatus_t e;

    BLAS(d, cublasLtMatmulPreferenceCreate, &want);
    e = l->cublasLtMatmulPreferenceSetAttribute(
        want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
    if (e == CUBLAS_STATUS_SUCCESS)
        e = l->cublasLtMatmulAlgoGetHeuristic(ct_cuda(d)->cublaslt, p->op,
                                              p->a, p->b, p->c, p->c, want,
                                              CANDIDATES, found, &n);
    l->cublasLtMatmulPreferenceDestroy(want);
    CT_TRY(blas_check(d, e, "choice of a matrix product"));
    if (n == 0)
        return ct_fail(CT_EDEVICE, "GPU %d: cuBLASLt has no %lld x %lld x "
                       "%lld product", d->id, (long long)p->key.m,
                       (long long)p->key.n, (long long)p->key.k);
    CT_TRY(choose(d, p, n, found, o, &best));
    p->shares = best < CANDIDATES ? 0 : shares_of[best - CANDIDATES];
    if (p->shares == 0) {
        p->algo      = found[best].algo;
        p->workspace = found[best].workspaceSize;
    }
    return CT_OK;
}

static enum ct_status set_bias(const struct ct_device *d, struct gemm_plan *p,
                               const float *bias)
{
    cudaDataType_t type = CUDA_R_32F;

    if (!bias)
        return CT_OK;
    CT_TRY(set_op(d, p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                  sizeof(bias)));
    return set_op(d, p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                  sizeof(type));
}

static enum ct_status plan_make(const struct ct_device *d,
                                const struct gemm_key *key, const float *bias,
                                const struct operands *o,
                                struct gemm_plan **out)
{
    struct ct_cuda_gemms *all = ct_cuda(d)->gemms;
    struct gemm_plan *p;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*p), "matrix product", &p));
    p->key = *key;
    CT_TRY_GOTO(plan_describe(d, p), st, out);
    CT_TRY_GOTO(set_bias(d, p, bias), st, out);
    CT_TRY_GOTO(plan_choose(d, p, o), st, out);
    p->next    = all->first;
    all->first = *out = p;
    return CT_OK;
out:
    plan_free(all->libs, p);
    return st;
}

static enum ct_status plan_of(const struct ct_device *d,
                              const struct ct_cuda_gemm *g,
                              const struct operands *o,
                              struct gemm_plan **out)
{
    struct ct_cuda *s   = ct_cuda(d);
    struct gemm_key key = {
        g->m, g->n, g->k, g->lda, g->ldb, g->ldc, g->ta, g->tb, g->a_type,
        g->b_type, g->c_type,
        g->bias ? g->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
        : g->relu ? CUBLASLT_EPILOGUE_RELU
                  : CUBLASLT_EPILOGUE_DEFAULT,
    };

    if (!s->gemms) {
        CT_TRY(ct_alloc(1, sizeof(*s->gemms), "matrix products", &s->gemms));
        s->gemms->libs = s->libs;
    }
    for (struct gemm_plan *p = s->gemms->first; p; p = p->next)
        if (memcmp(&key, &p->key, sizeof(key)) == 0) {
            *out = p;
            return CT_OK;
        }
    return plan_make(d, &key, g->bias, o, out);
}

enum ct_status ct_cuda_gemm_run(const struct ct_device *d,
                                const struct ct_cuda_gemm *g, float alpha,
                                const void *a, const void *b, float beta,
                                void *c)
{
    const struct operands o = { g, a, b, c, alpha, beta };
    struct gemm_plan *p;

    if (g->m == 0 || g->n == 0)
        return CT_OK;
    CT_TRY(plan_of(d, g, &o, &p));
    CT_TRY(set_bias(d, p, g->bias));
    return multiply(d, p, p->shares, p->shares ? NULL : &p->algo, p->workspace,
                    &o);
}

enum ct_status ct_cuda_gemm(const struct ct_device *d, enum ct_transpose ta,
                            enum ct_transpose tb, int64_t m, int64_t n,
                            int64_t k, float alpha, const float *a,
                            int64_t lda, const float *b, int64_t ldb,
                            float beta, float *c, int64_t ldc)
{
    const struct ct_cuda_gemm g = { .ta = ta, .tb = tb, .m = m, .n = n, .k = k,
                                    .lda = lda, .ldb = ldb, .ldc = ldc };

    if (k == 0)
        return beta == 0 ? ct_cuda_fill(d, m * n, 0, c)
                         : ct_cuda_scale(d, m * n, beta, c);
    return ct_cuda_gemm_run(d, &g, alpha, a, b, beta, c);
}
