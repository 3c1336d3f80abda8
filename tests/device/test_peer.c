/* test_peer.c - whose memory an address is in. */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/peer.h"
#include "testing/test.h"

TEST(peer, threads_of_a_process_read_each_others_arrays)
{
    struct ct_peer_memory *one = NULL, *other = NULL;
    struct ct_peer_address a;
    const float *x = NULL;
    float y[2]     = { 1, 2 };

    ASSERT_OK(ct_peer_create(ct_device_cpu(), 2, &one));
    ASSERT_OK(ct_peer_create(ct_device_cpu(), 2, &other));
    ct_peer_array(one)[0] = 3;
    ct_peer_array(one)[1] = 5;
    a = ct_peer_address(one);
    ASSERT_OK(ct_peer_open(other, &a, &x));
    ASSERT_OK(ct_peer_add(other, 2, x, y));
    ASSERT_FLOAT(4, y[0], 0);
    ASSERT_FLOAT(7, y[1], 0);
    ct_peer_close(other, &a, x);
    ct_peer_destroy(one);
    ct_peer_destroy(other);
}

static int to_other[2];

/* Tells where its array is, and stays. */
static int lend(void *arg)
{
    struct ct_peer_memory *m = NULL;
    struct ct_peer_address a;

    (void)arg;
    if (ct_peer_create(ct_device_cpu(), 2, &m) != CT_OK)
        return 2;
    a = ct_peer_address(m);
    if (write(to_other[1], &a, sizeof(a)) != (ssize_t)sizeof(a))
        return 2;
    pause();
    return 0;
}

/* 0: it takes that array for none of its own. */
static int borrow(void *arg)
{
    struct ct_peer_memory *m = NULL;
    struct ct_peer_address a;
    const float *x = NULL;

    (void)arg;
    if (read(to_other[0], &a, sizeof(a)) != (ssize_t)sizeof(a) ||
        ct_peer_create(ct_device_cpu(), 2, &m) != CT_OK)
        return 2;
    return ct_peer_open(m, &a, &x) == CT_OK;
}

/* As the first process of a container of its own. */
static pid_t start(int (*run)(void *arg), char *stack, size_t bytes)
{
    return clone(run, stack + bytes, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD,
                 NULL);
}

TEST(peer, equal_process_ids_of_two_containers_are_told_apart)
{
    static char stack[2][1 << 16];
    pid_t lender, borrower;
    int status = -1;

    ASSERT(pipe(to_other) == 0);
    lender = start(lend, stack[0], sizeof(stack[0]));
    if (lender < 0)
        test_skip("this machine gives no namespaces of process ids");
    borrower = start(borrow, stack[1], sizeof(stack[1]));
    ASSERT(borrower > 0);
    ASSERT(waitpid(borrower, &status, 0) == borrower);
    kill(lender, SIGKILL);
    ASSERT(waitpid(lender, NULL, 0) == lender);
    ASSERT_INT(0, WEXITSTATUS(status));
}
