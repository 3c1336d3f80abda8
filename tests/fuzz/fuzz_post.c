/* fuzz_post.c - any letters to a member of an elastic job, from who knows its
 * secret, any answers to what it asked, and any bytes from who does not know
 * the secret.
 *
 * The first byte of the input says which; then come bytes, or letters, each
 * after its length (u16). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/doors.h"
#include "elastic/member_inner.h"
#include "elastic/wire.h"

#include "../../apps/join_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t secret[SEAL_SECRET_BYTES] = "known";

/* A member without a thread: nobody is called. */
static struct elastic_member member;

static void check_member(void)
{
    const struct elastic_agreement *a = &member.a;

    if (a->own.view.n > ELASTIC_MEMBERS || a->n_joiners > ELASTIC_MEMBERS ||
        a->own.view.n_full > a->own.view.n)
        abort();
}

static void take(void *arg, struct post_caller *from, enum post_kind kind,
                 const uint8_t *body, size_t bytes)
{
    member_on_letter(arg, from, kind, body, bytes);
    check_member();
}

static void start(void)
{
    static bool started;
    struct post_config c = { .secret = secret, .what = POST_MEMBER, .door = -1,
                             .take = take, .arg = &member };

    if (started)
        return;
    ct_log_set_level(CT_LOG_ERROR + 1);
    card_of_this_process(&c.card);
    c.card.id = 7;
    if (seal_init() != CT_OK)
        exit(77); /* there are no elastic jobs in this build */
    member.config.description = "/\ntrain\n";
    member.config.suspect     = member.config.orphan = 1;
    if (will_page_create(&member.page_file, &member.page) != CT_OK ||
        post_start(&member.post, &c) != CT_OK ||
        pthread_mutex_init(&member.lock, NULL) != 0 ||
        pthread_cond_init(&member.change, NULL) != 0)
        abort();
    started = true;
}

/* Member 7, alone in view 1, which it trains in. */
static void begin(void)
{
    elastic_init(&member.a, 7, member_send_rules, &member);
    elastic_found(&member.a);
    member.given    = member.a.own.view;
    member.job_done = member.over = false;
    member.given_up = 0;
    memset(&member.losses, 0, sizeof(member.losses));
    memset(&member.written, 0xff, sizeof(member.written));
}

static void end(void)
{
    struct elastic_place place = { 0 };
    struct ct_text text        = { 0 };

    elastic_retry(&member.a);
    member_settle(&member);
    check_member();
    member_describe(&member, true, &text);
    member_describe(&member, false, &text);
    ct_text_fini(&text);
    member_tell_view(&member, &place);
    while (member.post.peers)
        post_forget(&member.post, member.post.peers->card.id);
    memset(member.post.job, 0, sizeof(member.post.job));
}

/* The next of letters that follow each other. */
static bool next_letter(const uint8_t **data, size_t *size,
                        const uint8_t **letter, size_t *n)
{
    if (*size < 2)
        return false;
    *n = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
    *size -= 2;
    if (*n > *size)
        *n = *size;
    *letter = *data + 2;
    *data += 2 + *n;
    *size -= *n;
    return true;
}

static void letters(const uint8_t *data, size_t size)
{
    struct post_caller c = { .post = &member.post };
    const uint8_t *letter;
    size_t n;

    begin();
    while (next_letter(&data, &size, &letter, &n))
        post_take(&c, letter, n);
    end();
}

/* What a description of a job becomes: the words of a command line. */
static void read_description(char *text)
{
    const struct join_flags f = { .ranks = 2, .secret_file = "s" };
    char room[256], *folder   = NULL;
    struct join_words w       = { .room = room, .bytes = sizeof(room) };

    if (join_words_build(text, "file:/meet", &f, &w, &folder) != CT_OK)
        abort(); /* nothing in it can be too long */
    for (int i = 0; i < w.n; i++)
        if (strlen(w.word[i]) > 1 << 20)
            abort();
    ct_free(w.word);
}

static void answers(const uint8_t *data, size_t size)
{
    struct post_peer q = { .post = &member.post };
    const uint8_t *letter;
    size_t n;

    member.post.refusal[0] = '\0';
    while (next_letter(&data, &size, &letter, &n)) {
        char *text = doors_read_answer(letter, n);

        post_take_answer(&q, letter, n);
        if (text)
            read_description(text);
        ct_free(text);
    }
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
    else if (data[0] & 2)
        answers(data + 1, size - 1);
    else
        letters(data + 1, size - 1);
    return 0;
}
