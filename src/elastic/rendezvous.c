/* rendezvous.c - where the processes of a job find each other. */
#include "elastic/rendezvous.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "elastic/bytes.h"
#include "elastic/secret.h"

/* A job that is busy beginning takes a moment to answer. */
static const double answer_seconds = 10;

/* ---- Doors. */

static void add_door(struct rendezvous *r, const struct ct_ip *at,
                     uint16_t port)
{
    if (r->n_knock < MEMBER_DOORS)
        r->knock[r->n_knock++] = (struct elastic_door){ *at, port };
}

static struct ct_ip ip_of(const struct sockaddr *a)
{
    const struct sockaddr_in *four = (const void *)a;
    const struct sockaddr_in6 *six = (const void *)a;
    struct ct_ip out               = { .family = a->sa_family };

    if (a->sa_family == AF_INET)
        memcpy(out.ip, &four->sin_addr, 4);
    else
        memcpy(out.ip, &six->sin6_addr, 16);
    return out;
}

/* 0: that is no port. */
static uint16_t read_port(const char *text)
{
    char *end;
    const long n = strtol(text, &end, 10);

    return *text && !*end && n > 0 && n <= UINT16_MAX ? htons((uint16_t)n) : 0;
}

/* One `host:port` of a list; [host]:port for IPv6. */
static enum ct_status add_host(struct rendezvous *r, const char *text,
                               size_t bytes)
{
    const struct addrinfo wish = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found     = NULL;
    char word[300], *port, *host = word;
    int error;

    if (bytes >= sizeof(word))
        return ct_fail(CT_EINVAL, "--rendezvous: an address of %zu letters",
                       bytes);
    memcpy(word, text, bytes);
    word[bytes] = '\0';
    port        = strrchr(word, ':');
    if (!port || port == word || read_port(port + 1) == 0)
        return ct_fail(CT_EINVAL, "--rendezvous: '%s' is no host:port and no "
                       "file:FOLDER", word);
    *port++ = '\0';
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        host++;
    }
    error = getaddrinfo(host, port, &wish, &found);
    if (error != 0)
        return ct_fail(CT_ENOTFOUND, "--rendezvous: %s: %s", host,
                       gai_strerror(error));
    for (struct addrinfo *a = found; a; a = a->ai_next)
        if (a->ai_family == AF_INET || a->ai_family == AF_INET6) {
            const struct ct_ip ip = ip_of(a->ai_addr);

            add_door(r, &ip, read_port(port));
        }
    freeaddrinfo(found);
    return CT_OK;
}

static enum ct_status add_hosts(struct rendezvous *r, const char *list)
{
    while (*list) {
        const size_t n = strcspn(list, ",");

        CT_TRY(add_host(r, list, n));
        list += n + (list[n] == ',');
    }
    return CT_OK;
}

/* Is that an address of this machine? */
static bool is_here(const struct ct_ip *ip)
{
    static const uint8_t six_loopback[16] = { [15] = 1 };
    struct ct_ip own[CARD_ADDRESSES];
    const int n = ct_list_addresses(own, CARD_ADDRESSES);

    if (ip->family == AF_INET ? ip->ip[0] == 127
                              : memcmp(ip->ip, six_loopback, 16) == 0)
        return true;
    for (int i = 0; i < n; i++)
        if (own[i].family == ip->family &&
            memcmp(own[i].ip, ip->ip, ip->family == AF_INET ? 4 : 16) == 0)
            return true;
    return false;
}

/* ---- Asking. */

struct asking {
    char *answer; /* owned; NULL: none yet */
    bool  failed;
};

static void take_answer(void *arg, const uint8_t *frame, size_t bytes)
{
    struct asking *a = arg;

    if (a->answer || bytes < 1 || frame[0] != POST_TELL)
        return;
    if (ct_alloc(bytes, 1, "an answer", &a->answer) != CT_OK) {
        a->failed = true;
        return;
    }
    memcpy(a->answer, frame + 1, bytes - 1);
    a->answer[bytes - 1] = '\0';
}

static void put_question(struct elastic_line *l, int what)
{
    const uint8_t question[2] = { POST_ASK, (uint8_t)what };
    uint8_t hello[CARD_WIRE_BYTES + 64];
    struct writer w = { hello };
    struct elastic_card card;

    card_of_this_process(&card);
    card.id = 1;
    put(&w, POST_HELLO, 1);
    put(&w, POST_VERSION, 1);
    put(&w, POST_GUEST, 1);
    for (int i = 0; i < POST_JOB_BYTES + 8; i++)
        put(&w, 0, 1);
    w.at += card_write(&card, w.at);
    (void)!line_put(l, hello, (size_t)(w.at - hello));
    (void)!line_put(l, question, sizeof(question));
}

/* NULL: nobody who knows the secret answers there; *silent: in time; *no_road:
 * this host has none to that address. */
static char *ask_door(const struct rendezvous *r,
                      const struct elastic_door *door, int what, bool *silent,
                      bool *no_road)
{
    const double end      = ct_now() + answer_seconds;
    struct elastic_line l = { 0 };
    struct asking a       = { 0 };
    bool asked            = false;

    *silent = *no_road = false;
    if (!line_call(&l, &door->at, door->port, r->secret)) {
        *no_road = l.error == ENETUNREACH;
        return NULL;
    }
    while (!a.answer && !a.failed && ct_now() < end) {
        struct pollfd p = { l.fd, POLLIN, 0 };

        if (line_wants_to_write(&l))
            p.events |= POLLOUT;
        if (poll(&p, 1, 100) <= 0)
            continue;
        if (!line_step(&l, take_answer, &a))
            break;
        if (l.state == LINE_OPEN && !asked) {
            put_question(&l, what);
            asked = true;
        }
    }
    *silent = !a.answer && !a.failed && l.state != LINE_CLOSED &&
              l.state != LINE_CALLING;
    line_close(&l);
    return a.answer;
}

enum ct_status rendezvous_ask(const struct rendezvous *r, int what,
                              char **out)
{
    for (int i = 0; i < r->n_knock; i++) {
        bool silent, no_road;

        *out = ask_door(r, &r->knock[i], what, &silent, &no_road);
        if (*out)
            return CT_OK;
    }
    return ct_fail(CT_ENOTFOUND, "nobody who knows the secret answers there");
}

/* Who takes a call and says nothing may be a job that stands still, and a host
 * without a network sees no job at all: nobody begins another one beside it. */
static enum ct_status find_job(const struct rendezvous *r, bool *found)
{
    int n_away = 0, n_cut_off = 0; /* addresses of others */

    *found = false;
    for (int i = 0; i < r->n_knock && !*found; i++) {
        bool silent, no_road;
        char *answer = ask_door(r, &r->knock[i], MEMBER_ASK_JSON, &silent,
                                &no_road);

        *found = answer != NULL;
        n_away += !is_here(&r->knock[i].at);
        n_cut_off += no_road;
        ct_free(answer);
        if (silent)
            return ct_fail(CT_EIO, "--rendezvous: somebody listens on port %d "
                           "and does not answer; if that is no process of "
                           "this job, meet elsewhere",
                           ntohs(r->knock[i].port));
    }
    if (!*found && n_away > 0 && n_cut_off == n_away)
        return ct_fail(CT_EIO, "--rendezvous: this host has no network to any "
                       "of the %d addresses where the job may be; start again "
                       "when it has", n_away);
    return CT_OK;
}

/* ---- At hosts and ports. */

static enum ct_status open_door(struct rendezvous *r, uint16_t port)
{
    r->port = port;
    r->door = ct_listen(&r->port);
    return r->door >= 0 || errno == EADDRINUSE
               ? CT_OK
               : ct_fail(CT_ECOMM, "cannot listen on port %d: %s", ntohs(port),
                         strerror(errno));
}

/* Whoever gets the first address begins the job, unless it is found at
 * another. */
static enum ct_status open_at_hosts(struct rendezvous *r, const char *list)
{
    bool first = false, found;

    CT_TRY(add_hosts(r, list));
    for (int i = 0; i < r->n_knock && r->door < 0; i++) {
        if (!is_here(&r->knock[i].at))
            continue;
        CT_TRY(open_door(r, r->knock[i].port));
        first = r->door >= 0 && r->knock[i].port == r->knock[0].port &&
                is_here(&r->knock[0].at);
    }
    if (first) {
        struct rendezvous others = *r;

        others.n_knock = 0;
        for (int i = 0; i < r->n_knock; i++)
            if (!is_here(&r->knock[i].at) || r->knock[i].port != r->port)
                others.knock[others.n_knock++] = r->knock[i];
        CT_TRY(find_job(&others, &found));
        r->founds = !found;
    }
    return r->door >= 0 ? CT_OK : open_door(r, 0);
}

/* ---- In a folder. */

static bool is_address_file(const char *name)
{
    const char *end = strrchr(name, '.');

    return end && strcmp(end, ".address") == 0;
}

/* Lines of `address port`. */
static void read_addresses(struct rendezvous *r, const char *path)
{
    char *text = NULL, *save = NULL, ip[64];
    size_t n   = 0;
    int port;

    if (ct_file_read(path, &text, &n) != CT_OK)
        return; /* its owner has just left */
    for (char *line = strtok_r(text, "\n", &save); line;
         line       = strtok_r(NULL, "\n", &save)) {
        struct ct_ip at = { 0 };

        if (sscanf(line, "%63s %d", ip, &port) != 2 || port < 1 ||
            port > 65535)
            continue;
        at.family = strchr(ip, ':') ? AF_INET6 : AF_INET;
        if (inet_pton(at.family, ip, at.ip) == 1)
            add_door(r, &at, htons((uint16_t)port));
    }
    ct_free(text);
}

typedef void (*each_fn)(struct rendezvous *r, const char *path);

static void remove_file(struct rendezvous *r, const char *path)
{
    (void)r;
    unlink(path);
}

static enum ct_status each_file(struct rendezvous *r, const char *folder,
                                each_fn fn)
{
    DIR *dir = opendir(folder);

    if (!dir)
        return ct_fail(CT_EIO, "--rendezvous: %s: %s", folder,
                       strerror(errno));
    for (struct dirent *e; (e = readdir(dir));) {
        struct ct_text path = { 0 };

        if (!is_address_file(e->d_name))
            continue;
        ct_text_addf(&path, "%s/%s", folder, e->d_name);
        if (!path.failed)
            fn(r, path.s);
        ct_text_fini(&path);
    }
    closedir(dir);
    return CT_OK;
}

static enum ct_status leave_address(struct rendezvous *r, const char *folder)
{
    struct ct_ip own[CARD_ADDRESSES];
    const int n         = ct_list_addresses(own, CARD_ADDRESSES);
    struct ct_text text = { 0 }, path = { 0 };
    char host[64] = "", ip[INET6_ADDRSTRLEN];
    enum ct_status st;

    (void)!gethostname(host, sizeof(host) - 1);
    for (int i = 0; i < n; i++)
        if (inet_ntop(own[i].family, own[i].ip, ip, sizeof(ip)))
            ct_text_addf(&text, "%s %d\n", ip, ntohs(r->port));
    ct_text_addf(&text, "127.0.0.1 %d\n", ntohs(r->port));
    ct_text_addf(&path, "%s/%s-%ld.address", folder, host, (long)getpid());
    st = text.failed || path.failed
             ? CT_ENOMEM
             : ct_file_write(path.s, text.s, text.n_bytes);
    ct_text_fini(&text);
    r->file = path.s;
    return st;
}

/* One at a time looks for the job, and begins it where there is none. */
static enum ct_status meet_in_folder(struct rendezvous *r, const char *folder)
{
    struct rendezvous found = *r;
    bool is_there;

    found.n_knock = 0;
    CT_TRY(each_file(&found, folder, read_addresses));
    CT_TRY(find_job(&found, &is_there));
    r->founds = !is_there;
    if (r->founds) {
        CT_TRY(each_file(r, folder, remove_file));
    } else {
        memcpy(r->knock, found.knock, sizeof(r->knock));
        r->n_knock = found.n_knock;
    }
    CT_TRY(open_door(r, 0));
    return leave_address(r, folder);
}

static enum ct_status open_in_folder(struct rendezvous *r, const char *folder)
{
    struct ct_text lock = { 0 };
    enum ct_status st;
    int fd;

    ct_text_addf(&lock, "%s/lock", folder);
    if (lock.failed)
        return CT_ENOMEM;
    fd = open(lock.s, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ct_text_fini(&lock);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        st = ct_fail(CT_EIO, "--rendezvous: cannot lock %s/lock: %s", folder,
                     strerror(errno));
    else
        st = meet_in_folder(r, folder);
    if (fd >= 0)
        close(fd);
    return st;
}

/* ---- */

static const char *folder_of(const char *where)
{
    return where && strncmp(where, "file:", 5) == 0 ? where + 5 : NULL;
}

static enum ct_status find_secret(struct rendezvous *r, const char *folder,
                                  const char *secret_file, bool make)
{
    struct ct_text text = { 0 };
    char *path          = NULL;
    enum ct_status st   = CT_OK;

    if (secret_file)
        return secret_read(secret_file, make, r->secret);
    if (folder) {
        ct_text_addf(&text, "%s/secret", folder);
        path = text.s;
        st   = text.failed ? CT_ENOMEM : CT_OK;
    } else {
        st = secret_default_path(&path);
    }
    if (st == CT_OK)
        st = secret_read(path, make, r->secret);
    ct_free(path);
    return st;
}

static enum ct_status rendezvous_init(struct rendezvous *r, const char *where,
                                      const char *secret_file, bool make)
{
    const char *folder = folder_of(where);

    memset(r, 0, sizeof(*r));
    r->door = -1;
    CT_TRY(seal_init());
    if (folder && make && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return ct_fail(CT_EIO, "--rendezvous: %s: %s", folder,
                       strerror(errno));
    return find_secret(r, folder, secret_file, make);
}

enum ct_status rendezvous_open(struct rendezvous *r, const char *where,
                               const char *secret_file)
{
    CT_TRY(rendezvous_init(r, where, secret_file, true));
    if (folder_of(where))
        return open_in_folder(r, folder_of(where));
    if (where && where[0])
        return open_at_hosts(r, where);
    r->founds = true;
    return open_door(r, 0);
}

enum ct_status rendezvous_find(struct rendezvous *r, const char *where,
                               const char *secret_file)
{
    const char *folder = folder_of(where);

    CT_TRY(rendezvous_init(r, where, secret_file, false));
    return folder ? each_file(r, folder, read_addresses)
                  : add_hosts(r, where);
}

void rendezvous_look(struct rendezvous *r, const char *where)
{
    const char *folder = folder_of(where);

    if (!folder)
        return;
    r->n_knock = 0;
    (void)!each_file(r, folder, read_addresses); /* then it waits */
}

void rendezvous_close(struct rendezvous *r)
{
    if (r->door >= 0)
        close(r->door);
    if (r->file)
        unlink(r->file);
    ct_free(r->file);
    r->door = -1;
    r->file = NULL;
}
