/* fuzz_post.c - any letters to a member of an elastic job, from who knows its
 * secret, and any bytes from who does not.
 *
 * The input is one byte that says which, and then bytes, or letters, each after
 * its length (u16). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cortado/log.h"
#include "elastic/agreement.h"
#include "elastic/post.h"
#include "elastic/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[SEAL_SECRET_BYTES] = "known";

static void send_nothing(void *arg, uint64_t to,
                         const struct elastic_message *m)
{
    uint8_t bytes[ELASTIC_WIRE_BYTES];

    (void)arg;
    (void)to;
    if (elastic_message_write(m, bytes) > sizeof(bytes))
        abort();
}

static void take_rules(struct elastic_agreement *a, uint64_t from,
                       const uint8_t *body, size_t bytes)
{
    struct elastic_message m;

    if (elastic_message_read(body, bytes, &m) == CT_OK)
        elastic_receive(a, from, &m);
    else if (!ct_last_error()[0])
        abort(); /* whatever is refused has a reason */
}

static void take(void *arg, struct post_caller *from, enum post_kind kind,
                 const uint8_t *body, size_t bytes)
{
    struct elastic_agreement *a = arg;
    struct elastic_will will;
    uint64_t id = 0;

    if (kind == POST_RULES && bytes >= 8) {
        take_rules(a, from->id, body + 8, bytes - 8);
    } else if (kind == POST_DEAD && bytes >= 8 + POST_JOB_BYTES) {
        memcpy(&id, body, 8);
        if (elastic_will_read(body + 8 + POST_JOB_BYTES,
                              bytes - 8 - POST_JOB_BYTES, &will) == CT_OK)
            elastic_dead(a, id, &will);
    }
    if (a->own.view.n > ELASTIC_MEMBERS || a->n_joiners > ELASTIC_MEMBERS ||
        a->own.view.n_full > a->own.view.n)
        abort();
}

static struct post post;
static struct elastic_agreement rules;

static void start(void)
{
    static bool started;
    struct post_config c = { .secret = secret, .what = POST_MEMBER, .door = -1,
                             .take = take, .arg = &rules };

    if (started)
        return;
    ct_log_set_level(CT_LOG_ERROR);
    card_of_this_process(&c.card);
    c.card.id = 7;
    if (seal_init() != CT_OK)
        exit(77); /* there are no elastic jobs in this build */
    if (post_start(&post, &c) != CT_OK)
        abort();
    started = true;
}

static void letters(const uint8_t *data, size_t size)
{
    struct post_caller c = { .post = &post };

    elastic_init(&rules, 7, send_nothing, &rules);
    elastic_found(&rules);
    while (size >= 2) {
        size_t n = (size_t)data[0] | (size_t)data[1] << 8;

        data += 2;
        size -= 2;
        if (n > size)
            n = size;
        post_take(&c, data, n);
        data += n;
        size -= n;
    }
    elastic_retry(&rules);
    while (post.peers)
        post_forget(&post, post.peers->card.id);
    memset(post.job, 0, sizeof(post.job));
}

static void nothing(void *arg, const uint8_t *frame, size_t bytes)
{
    (void)arg;
    (void)frame;
    (void)bytes;
    abort(); /* nobody without the secret gets so far */
}

static void strange_bytes(const uint8_t *data, size_t size)
{
    struct elastic_line l;
    int fd[2];
    uint8_t answer;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0)
        abort();
    (void)!send(fd[0], data, size < 4096 ? size : 4096, MSG_NOSIGNAL);
    line_answer(&l, fd[1], secret);
    if (line_step(&l, nothing, NULL)) {
        if (size >= SEAL_HELLO_BYTES || l.in)
            abort();
        line_close(&l);
    }
    if (recv(fd[0], &answer, 1, MSG_DONTWAIT) > 0)
        abort();
    close(fd[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    if (size == 0)
        return 0;
    if (data[0] & 1)
        strange_bytes(data + 1, size - 1);
    else
        letters(data + 1, size - 1);
    return 0;
}
