/* test_wire.c - messages of the agreement go out and come back; nothing else
 * does. */
#include "elastic/wire.h"

#include <string.h>

#include "base/rng.h"
#include "testing/test.h"

static uint64_t n_drawn;

static uint64_t draw(void)
{
    const uint64_t at = 2 * n_drawn++;

    return (uint64_t)ct_philox_word(3, 0, at) << 32 |
           ct_philox_word(3, 0, at + 1);
}

static void draw_view(struct elastic_view *v)
{
    memset(v, 0, sizeof(*v));
    v->number = (uint32_t)draw();
    v->base   = (int)(draw() % 1000) - 1;
    v->n      = (int)(draw() % 9);
    v->n_full = v->n ? (int)(draw() % (uint64_t)v->n) : 0;
    for (int i = 0; i < v->n; i++)
        v->id[i] = draw() | 1;
}

static void draw_message(struct elastic_message *m)
{
    memset(m, 0, sizeof(*m));
    m->kind     = (enum elastic_kind)(draw() % ELASTIC_N_KINDS);
    m->view     = (uint32_t)draw();
    m->ballot   = draw();
    m->about    = draw();
    m->ready    = (int)(draw() % 1000) - 1;
    m->accepted = draw() % 2 ? draw() | 1 : 0;
    if (m->kind == ELASTIC_ACCEPT || m->kind == ELASTIC_INSTALL ||
        (m->kind == ELASTIC_PROMISE && m->accepted))
        draw_view(&m->next);
}

TEST(wire, messages_come_back_as_they_went)
{
    static uint8_t data[ELASTIC_WIRE_BYTES];
    static struct elastic_message m, back;

    for (int i = 0; i < 2000; i++) {
        size_t n;

        draw_message(&m);
        n = elastic_message_write(&m, data);
        ASSERT(n <= sizeof(data));
        ASSERT_OK(elastic_message_read(data, n, &back));
        ASSERT_INT(0, memcmp(&m, &back, sizeof(m)));
        ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, n - 1, &back));
        data[n] = 0;
        ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, n + 1, &back));
    }
}

TEST(wire, wills_come_back_as_they_went)
{
    static uint8_t data[ELASTIC_WIRE_BYTES];
    static struct elastic_will w, back;

    for (int i = 0; i < 500; i++) {
        size_t n;

        memset(&w, 0, sizeof(w));
        draw_view(&w.view);
        draw_view(&w.next);
        w.promised = draw();
        w.accepted = draw();
        n = elastic_will_write(&w, data);
        ASSERT_OK(elastic_will_read(data, n, &back));
        ASSERT_INT(0, memcmp(&w, &back, sizeof(w)));
        ASSERT_STATUS(CT_EPARSE, elastic_will_read(data, n - 1, &back));
    }
}

/* The largest view fits, and one more member does not. */
TEST(wire, a_view_has_so_many_members_and_no_more)
{
    static uint8_t data[ELASTIC_WIRE_BYTES + 8];
    static struct elastic_message m, back;
    size_t n;

    memset(&m, 0, sizeof(m));
    m.kind   = ELASTIC_INSTALL;
    m.next.n = ELASTIC_MEMBERS;
    for (int i = 0; i < ELASTIC_MEMBERS; i++)
        m.next.id[i] = (uint64_t)i + 1;
    n = elastic_message_write(&m, data);
    ASSERT_OK(elastic_message_read(data, n, &back));
    data[n - 8 * ELASTIC_MEMBERS - 8] = 1; /* n: 1024 becomes 1025 */
    ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, n, &back));
    ASSERT_HAS("1025 members", ct_last_error());
}

TEST(wire, what_nobody_wrote_is_refused)
{
    static uint8_t data[ELASTIC_WIRE_BYTES];
    static struct elastic_message m, back;
    size_t n;

    memset(&m, 0, sizeof(m));
    m.kind         = ELASTIC_INSTALL;
    m.next.n       = 2;
    m.next.id[0]   = m.next.id[1] = 7;
    n = elastic_message_write(&m, data);
    ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, n, &back));
    ASSERT_HAS("twice", ct_last_error());
    m.next.id[1] = 0;
    n = elastic_message_write(&m, data);
    ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, n, &back));
    ASSERT_HAS("nobody", ct_last_error());
    m.next.n_full = 3;
    n = elastic_message_write(&m, data);
    ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, n, &back));
    ASSERT_HAS("3 of them", ct_last_error());
    data[0] = ELASTIC_N_KINDS;
    ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, n, &back));
    ASSERT_STATUS(CT_EPARSE, elastic_message_read(data, 0, &back));
}
