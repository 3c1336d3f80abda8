/* doors.c - asks who is behind some doors. */
#include "elastic/doors.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "elastic/bytes.h"
#include "elastic/roll.h"

/* A job that is busy beginning takes a moment to answer. */
static const double answer_seconds = 10;

/* One door. */
struct asking {
    struct elastic_line line;
    bool                asked;
    char               *answer; /* owned; NULL: none yet */
};

char *doors_read_answer(const uint8_t *letter, size_t bytes)
{
    char *text = NULL;

    if (bytes < 1 || letter[0] != POST_TELL ||
        ct_alloc(bytes, 1, "an answer", &text) != CT_OK)
        return NULL;
    memcpy(text, letter + 1, bytes - 1);
    text[bytes - 1] = '\0';
    return text;
}

static void take_answer(void *arg, const uint8_t *frame, size_t bytes)
{
    struct asking *a = arg;

    if (!a->answer)
        a->answer = doors_read_answer(frame, bytes);
}

static void put_question(struct elastic_line *l,
                         const struct doors_question *q)
{
    uint8_t question[2 + POST_JOB_BYTES] = { POST_ASK, (uint8_t)q->what };
    size_t bytes                         = 2;
    uint8_t hello[CARD_WIRE_BYTES + 72];
    struct writer w = { hello };
    struct elastic_card card;

    card_of_this_process(&card);
    card.id = 1;
    put(&w, POST_HELLO, 1);
    put(&w, POST_VERSION, 1);
    put(&w, POST_GUEST, 1);
    for (int i = 0; i < 2 * POST_JOB_BYTES + 8 + 8; i++)
        put(&w, 0, 1);
    w.at += card_write(&card, w.at);
    (void)!line_put(l, hello, (size_t)(w.at - hello));
    if (q->what == MEMBER_ASK_END) {
        memcpy(question + bytes, q->job, POST_JOB_BYTES);
        bytes += POST_JOB_BYTES;
    }
    (void)!line_put(l, question, bytes);
}

/* What a line that came to its end says of its host: who refuses is there, and
 * has no door.  Who hangs up may be a member with too many callers, or one that
 * has just ended. */
static enum door_state state_of_end(const struct elastic_line *l)
{
    const bool was_there = l->error == 0 || l->error == ECONNRESET ||
                           l->error == EPIPE;

    return l->error == ECONNREFUSED ? DOOR_SHUT
           : was_there              ? DOOR_HUNG_UP
                                    : DOOR_UNREACHED;
}

/* Something has come, or can be written. */
static void step(struct asking *a, const struct doors_question *question,
                 enum door_state *state)
{
    if (!line_step(&a->line, take_answer, a)) {
        *state = state_of_end(&a->line);
    } else if (a->line.state == LINE_OPEN && !a->asked) {
        put_question(&a->line, question);
        a->asked = true;
    }
    if (a->line.state != LINE_CLOSED && a->line.state != LINE_CALLING)
        *state = DOOR_SILENT; /* so far */
    if (a->answer && question->job && !roll_is_of(a->answer, question->job)) {
        line_close(&a->line);
        *state = DOOR_OF_OTHERS;
    } else if (a->answer) {
        *state = DOOR_ANSWERED;
    }
}

static int list_open(const struct asking *a, int n, struct pollfd *out,
                     int *which)
{
    int n_open = 0;

    for (int i = 0; i < n; i++) {
        if (a[i].line.state == LINE_CLOSED)
            continue;
        which[n_open] = i;
        out[n_open++] = (struct pollfd){
            a[i].line.fd,
            (short)(POLLIN | (line_wants_to_write(&a[i].line) ? POLLOUT : 0)),
            0 };
    }
    return n_open;
}

/* The first that answered; -1: none has. */
static int wait_for_one(struct asking *a, int n,
                        const struct doors_question *question,
                        enum door_state *state)
{
    const double end = ct_now() + (question->seconds > 0 ? question->seconds
                                                         : answer_seconds);
    struct pollfd p[MEMBER_DOORS];
    int which[MEMBER_DOORS], n_open;

    while ((n_open = list_open(a, n, p, which)) > 0 && ct_now() < end) {
        if (poll(p, (nfds_t)n_open, 100) <= 0)
            continue;
        for (int k = 0; k < n_open; k++) {
            if (p[k].revents == 0)
                continue;
            step(&a[which[k]], question, &state[which[k]]);
            if (state[which[k]] == DOOR_ANSWERED)
                return which[k];
        }
    }
    return -1;
}

void doors_ask(const struct elastic_door *door, int n, const uint8_t *secret,
               const struct doors_question *question, enum door_state *state,
               char **answer)
{
    struct asking *a = NULL;
    int first;

    *answer = NULL;
    for (int i = 0; i < n; i++)
        state[i] = DOOR_UNREACHED;
    if (n == 0 || ct_alloc((size_t)n, sizeof(*a), "doors", &a) != CT_OK)
        return;
    for (int i = 0; i < n; i++)
        if (!line_call(&a[i].line, &door[i].at, door[i].port, secret))
            state[i] = state_of_end(&a[i].line);
    first = wait_for_one(a, n, question, state);
    if (first >= 0) {
        *answer         = a[first].answer;
        a[first].answer = NULL;
    }
    for (int i = 0; i < n; i++) {
        line_close(&a[i].line);
        ct_free(a[i].answer);
    }
    ct_free(a);
}

bool doors_deny(const enum door_state *state, const int *host, int n,
                int n_hosts)
{
    bool denies[MEMBER_DOORS] = { false };
    int n_denied              = 0;

    if (n_hosts > MEMBER_DOORS)
        return false;
    for (int i = 0; i < n; i++) {
        if (state[i] != DOOR_SHUT && state[i] != DOOR_OF_OTHERS &&
            state[i] != DOOR_UNREACHED)
            return false;
        denies[host[i]] |= state[i] != DOOR_UNREACHED;
    }
    for (int k = 0; k < n_hosts; k++)
        n_denied += denies[k];
    return n_denied == n_hosts;
}
