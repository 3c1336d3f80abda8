/* rendezvous.c - where the processes of a job find each other. */
#include "elastic/rendezvous.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
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
#include "cortado/log.h"
#include "elastic/doors.h"
#include "elastic/places.h"
#include "elastic/roll.h"
#include "elastic/secret.h"

/* Members touch their file every few seconds (links.c).  Disks that others see
 * as well may take a moment to show it. */
static const double fresh_seconds = 20;
static const double usual_orphan  = 60;

static const int look_ms = 250;

enum { HOST_DOORS = 8 }; /* addresses of a host, at most */

const char rendezvous_again[] = "again:", rendezvous_first[] = "first:";

/* ---- Doors. */

/* An address of the n-th word of a list. */
static void add_door(struct rendezvous *r, const struct ct_ip *at,
                     uint16_t port, int n)
{
    if (r->n_knock == MEMBER_DOORS)
        return;
    r->word[r->n_knock]    = n;
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
                               size_t bytes, int n)
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
    if (!port || read_port(port + 1) == 0)
        return ct_fail(CT_EINVAL, "--rendezvous: '%s' is no host:port and no "
                       "file:FOLDER", word);
    *port++ = '\0';
    if (!*host) {
        const struct ct_ip here = ct_loopback_address();

        r->own = r->n_knock;
        add_door(r, &here, read_port(port), n);
        return CT_OK;
    }
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

            add_door(r, &ip, read_port(port), n);
        }
    freeaddrinfo(found);
    return CT_OK;
}

/* Of the list from word *at on, the hosts for which there is room.  A process
 * that joins again may skip hosts that have no address now. */
static enum ct_status add_some_hosts(struct rendezvous *r, const char **list,
                                     int *at, bool again)
{
    enum ct_status st;

    while (**list && r->n_knock <= MEMBER_DOORS - HOST_DOORS) {
        const size_t n = strcspn(*list, ",");

        st = add_host(r, *list, n, (*at)++);
        if (st != CT_OK && (!again || st != CT_ENOTFOUND))
            return st;
        *list += n + ((*list)[n] == ',');
    }
    return CT_OK;
}

static enum ct_status add_hosts(struct rendezvous *r, const char *list,
                                bool again)
{
    int at = 0;

    return add_some_hosts(r, &list, &at, again);
}

/* ---- Asking. */

enum ct_status rendezvous_ask(const struct rendezvous *r, int what,
                              char **out)
{
    const struct doors_question question = { .what = what };
    enum door_state state[MEMBER_DOORS];

    doors_ask(r->knock, r->n_knock, r->secret, &question, state, out);
    return *out ? CT_OK
                : ct_fail(CT_ENOTFOUND, "nobody who knows the secret answers "
                          "there");
}

enum ct_status rendezvous_call_roll(const char *list, const uint8_t *secret,
                                    const uint8_t *job, int what,
                                    double seconds, struct elastic_roll **out)
{
    const struct doors_question question = { what, seconds, job };
    struct rendezvous r = { .door = -1, .own = -1 };
    enum door_state state[MEMBER_DOORS];
    int n_words  = 1;
    char *answer = NULL;
    enum ct_status st;

    CT_TRY(seal_init());
    CT_TRY(add_hosts(&r, list, true)); /* not all need have a name now */
    doors_ask(r.knock, r.n_knock, secret, &question, state, &answer);
    for (const char *c = list; *c; c++)
        n_words += *c == ',';
    st = answer ? roll_read(answer, out)
                : ct_fail(doors_deny(state, r.word, r.n_knock, n_words)
                              ? CT_ENOTFOUND : CT_ECOMM,
                          "the job does not answer");
    ct_free(answer);
    return st;
}

/* ---- At hosts and ports. */

static enum ct_status open_door(struct rendezvous *r, uint16_t port,
                                bool listens)
{
    r->port = port;
    r->door = listens ? ct_listen(&r->port) : ct_reserve_port(&r->port);
    return r->door >= 0 || errno == EADDRINUSE
               ? CT_OK
               : ct_fail(CT_ECOMM, "cannot listen on port %d: %s", ntohs(port),
                         strerror(errno));
}

/* All hosts of the list but for this process itself. */
static void list_hosts(const struct rendezvous *r, struct places *out)
{
    char name[PLACE_BYTES], ip[INET6_ADDRSTRLEN];

    memset(out, 0, sizeof(*out));
    for (int i = 0; i < r->n_knock; i++) {
        const struct elastic_door *d = &r->knock[i];

        if (places_is_here(&d->at) && d->port == r->port)
            continue;
        if (i == 0 || r->word[i] != r->word[i - 1] || out->n == 0) {
            if (!inet_ntop(d->at.family, d->at.ip, ip, sizeof(ip)))
                ip[0] = '\0';
            snprintf(name, sizeof(name), "%s:%d", ip, ntohs(d->port));
            places_add(out, name, true);
        }
        places_add_door(out, d);
    }
}

/* Asks all of them, as many at a time as there is room for.  who: of
 * PLACE_BYTES. */
static enum ct_status ask_hosts(const struct rendezvous *r, const char *list,
                                enum places_verdict *out, char *who)
{
    int at = 0;

    *out = PLACES_NO_JOB;
    do {
        struct rendezvous some = { .port = r->port, .own = -1 };
        enum places_verdict found;
        struct places others;
        const char *silent = "";

        CT_TRY(add_some_hosts(&some, &list, &at, false));
        list_hosts(&some, &others);
        places_find_job(&others, r->secret, &found, &silent);
        if (found == PLACES_UNKNOWN)
            snprintf(who, PLACE_BYTES, "%s", silent);
        if (found != PLACES_NO_JOB)
            *out = found;
    } while (*list && *out != PLACES_JOB);
    return CT_OK;
}

static enum ct_status look_at_hosts(struct rendezvous *r, const char *list,
                                    const struct places_patience *p)
{
    const double begin = ct_now();
    enum places_verdict found;
    char who[PLACE_BYTES];

    for (;;) {
        CT_TRY(ask_hosts(r, list, &found, who));
        r->founds = found == PLACES_NO_JOB;
        if (found != PLACES_UNKNOWN)
            return CT_OK;
        CT_TRY(places_wait(who, begin, p));
    }
}

/* Whether the ranks of a lost agent may still have their port, which is in use.
 * They answer there, or take connections.  A connection of any other program
 * may have the port as its own end: then a call is refused.  Ranks that have no
 * place in a view yet refuse calls, too, but not for longer than `orphan`.
 * Another job that has the same secret answers with another number. */
static bool may_still_run(const struct rendezvous *r,
                          const struct places_patience *p)
{
    const double end = ct_now() + p->most;
    const struct elastic_door door = { ct_loopback_address(),
                                       r->knock[0].port };
    const bool knows_job = member_job_began(r->job) > 0;
    const struct doors_question question = {
        .what = MEMBER_ASK_ROLL, .job = knows_job ? r->job : NULL };
    enum door_state state;
    char *answer;

    do {
        doors_ask(&door, 1, r->secret, &question, &state, &answer);
        ct_free(answer);
        if (state != DOOR_SHUT)
            return state != DOOR_OF_OTHERS;
        poll(NULL, 0, look_ms);
    } while (ct_now() < end && !places_gives_up(p));
    return false;
}

static bool takes_word(const char **list, const char *word)
{
    const bool yes = strncmp(*list, word, strlen(word)) == 0;

    *list += yes ? strlen(word) : 0;
    return yes;
}

/* Whoever gets the first address begins the job, unless it is found at another.
 * At the others nobody listens until a rank is in the job: who looks for one
 * need not wait for them. */
static enum ct_status open_at_hosts(struct rendezvous *r, const char *list,
                                    const struct places_patience *p)
{
    const bool joins = takes_word(&list, rendezvous_again);
    const bool again = joins || takes_word(&list, rendezvous_first);
    bool first       = false;

    CT_TRY(add_hosts(r, list, joins));
    for (int i = 0; i < r->n_knock && r->door < 0 && (i == 0 || !again); i++) {
        const bool is_first = r->knock[i].port == r->knock[0].port &&
                              places_is_here(&r->knock[0].at) && !joins;

        if (!places_is_here(&r->knock[i].at) || (r->own >= 0 && i != r->own))
            continue;
        CT_TRY(open_door(r, r->knock[i].port, is_first));
        first = r->door >= 0 && is_first;
    }
    r->is_taken = again && r->door < 0 && may_still_run(r, p);
    if (r->is_taken)
        return ct_fail(CT_EIO, "--rendezvous: port %d of this host is in use: "
                       "ranks of the agent before this one may still run",
                       ntohs(r->knock[0].port));
    if (places_gives_up(p))
        return ct_fail(CT_ESTOP, "this process was asked to end before it "
                       "began");
    if (first)
        return look_at_hosts(r, list, p);
    return r->door >= 0 ? CT_OK : open_door(r, 0, true);
}

/* ---- In a folder. */

static bool is_address_file(const char *name)
{
    const char *end = strrchr(name, '.');

    return end && strcmp(end, ".address") == 0;
}

/* Lines of `address port`. */
static void read_addresses(const char *path, struct places *out)
{
    char *text = NULL, *save = NULL, ip[64];
    size_t n   = 0;
    int port;

    if (ct_file_read(path, &text, &n) != CT_OK)
        return; /* its owner has just left */
    for (char *line = strtok_r(text, "\n", &save); line;
         line       = strtok_r(NULL, "\n", &save)) {
        struct elastic_door d = { 0 };

        if (sscanf(line, "%63s %d", ip, &port) != 2 || port < 1 ||
            port > 65535)
            continue;
        d.at.family = strchr(ip, ':') ? AF_INET6 : AF_INET;
        d.port      = htons((uint16_t)port);
        if (inet_pton(d.at.family, ip, d.at.ip) == 1)
            places_add_door(out, &d);
    }
    ct_free(text);
}

/* Seconds since 1970, by the clock of the disk; 0: nobody knows. */
static double time_of_disk(int fd)
{
    struct stat about;

    return futimens(fd, NULL) == 0 && fstat(fd, &about) == 0
               ? (double)about.st_mtim.tv_sec
               : 0;
}

/* A file of addresses. */
struct address_file {
    char            name[PLACE_BYTES];
    struct timespec touched;
};

static int compare_newest(const void *left, const void *right)
{
    const struct address_file *a = left, *b = right;

    if (a->touched.tv_sec != b->touched.tv_sec)
        return a->touched.tv_sec < b->touched.tv_sec ? 1 : -1;
    if (a->touched.tv_nsec != b->touched.tv_nsec)
        return a->touched.tv_nsec < b->touched.tv_nsec ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* Those of a folder, for the caller to ct_free. */
static enum ct_status find_files(DIR *dir, struct address_file **out,
                                 size_t *n)
{
    size_t room = 0;

    for (struct dirent *e; (e = readdir(dir));) {
        struct stat about;

        if (!is_address_file(e->d_name) || strlen(e->d_name) >= PLACE_BYTES ||
            fstatat(dirfd(dir), e->d_name, &about, 0) != 0)
            continue;
        if (*n == room) {
            struct address_file *more = NULL;

            room = room > 0 ? 2 * room : 64;
            CT_TRY(ct_alloc(room, sizeof(*more), "files of addresses", &more));
            if (*n > 0)
                memcpy(more, *out, *n * sizeof(*more));
            ct_free(*out);
            *out = more;
        }
        memcpy((*out)[*n].name, e->d_name, strlen(e->d_name) + 1);
        (*out)[(*n)++].touched = about.st_mtim;
    }
    return CT_OK;
}

/* All files of addresses, those first that were touched last: processes that
 * were killed leave theirs, and there may be any number of them.  Of one that a
 * member has touched lately, at `now`, the member may live, though nobody may
 * reach it. */
static enum ct_status list_files(const char *folder, double now,
                                 struct places *out)
{
    DIR *dir                   = opendir(folder);
    struct address_file *files = NULL;
    size_t n                   = 0;
    enum ct_status st;

    memset(out, 0, sizeof(*out));
    if (!dir)
        return ct_fail(CT_EIO, "--rendezvous: %s: %s", folder,
                       strerror(errno));
    st = find_files(dir, &files, &n);
    closedir(dir);
    if (n > 0)
        qsort(files, n, sizeof(*files), compare_newest);
    for (size_t i = 0; i < n && st == CT_OK; i++) {
        struct ct_text path = { 0 };

        places_add(out, files[i].name,
                   now == 0 || now - (double)files[i].touched.tv_sec <
                                   fresh_seconds);
        if (out->lost)
            break; /* those that follow are older */
        ct_text_addf(&path, "%s/%s", folder, files[i].name);
        if (path.failed)
            st = CT_ENOMEM;
        else
            read_addresses(path.s, out);
        ct_text_fini(&path);
    }
    ct_free(files);
    return st;
}

static void knock_at(struct rendezvous *r, const struct places *p)
{
    memcpy(r->knock, p->door, sizeof(r->knock));
    r->n_knock = p->n_doors;
}

static enum ct_status leave_address(struct rendezvous *r, const char *folder)
{
    struct ct_ip own[CARD_ADDRESSES];
    const int n         = ct_list_addresses(own, CARD_ADDRESSES);
    struct ct_text text = { 0 }, path = { 0 };
    char host[64] = "", ip[INET6_ADDRSTRLEN], real[PATH_MAX];
    enum ct_status st;

    (void)!gethostname(host, sizeof(host) - 1);
    for (int i = 0; i < n; i++)
        if (inet_ntop(own[i].family, own[i].ip, ip, sizeof(ip)))
            ct_text_addf(&text, "%s %d\n", ip, ntohs(r->port));
    ct_text_addf(&text, "127.0.0.1 %d\n", ntohs(r->port));
    /* Containers restart with the same name and process number: a file of a new
     * process has another name than the one that was left. */
    ct_text_addf(&path, "%s/%s-%ld-%08x.address", folder, host, (long)getpid(),
                 (unsigned)(uint64_t)(1e9 * ct_now()));
    st = text.failed || path.failed
             ? CT_ENOMEM
             : ct_file_write(path.s, text.s, text.n_bytes);
    if (st == CT_OK && realpath(path.s, real)) /* who touches it may go */
        r->file = ct_strdup(real, "a file of addresses");
    ct_text_fini(&text);
    ct_text_fini(&path);
    return st;
}

static bool has_place(const struct places *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->name[i], name) == 0)
            return true;
    return false;
}

/* With the lock held, where no job was found at `seen`: *first if nobody has
 * come since.  What those who are gone left behind goes, too. */
static enum ct_status begin_in_folder(struct rendezvous *r, const char *folder,
                                      double now, const struct places *seen,
                                      bool *first)
{
    struct places come;

    CT_TRY(list_files(folder, now, &come));
    *first = true;
    for (int i = 0; i < come.n; i++)
        *first &= has_place(seen, come.name[i]);
    if (!*first)
        return CT_OK;
    for (int i = 0; i < come.n; i++) {
        struct ct_text path = { 0 };

        ct_text_addf(&path, "%s/%s", folder, come.name[i]);
        if (!path.failed)
            unlink(path.s);
        ct_text_fini(&path);
    }
    r->founds = true;
    CT_TRY(open_door(r, 0, true));
    return leave_address(r, folder);
}

/* Looks for the job, which may take a while, without the lock; of those who
 * find none, one at a time begins it. */
static enum ct_status meet_in_folder(struct rendezvous *r, const char *folder,
                                     int lock, const struct places_patience *p)
{
    const double begin = ct_now();
    struct places seen;
    const char *who = "";
    enum places_verdict found;
    bool first = false;

    while (!first) {
        const double now = time_of_disk(lock);

        CT_TRY(list_files(folder, now, &seen));
        places_find_job(&seen, r->secret, &found, &who);
        if (found == PLACES_JOB) {
            CT_TRY(list_files(folder, now, &seen));
            knock_at(r, &seen);
            CT_TRY(open_door(r, 0, false));
            if (leave_address(r, folder) != CT_OK)
                CT_WARN("This process cannot be found by its folder, but the "
                        "job can: %s", ct_last_error());
            return CT_OK;
        }
        if (found == PLACES_UNKNOWN) {
            CT_TRY(places_wait(who, begin, p));
            continue;
        }
        if (flock(lock, LOCK_EX) != 0)
            return ct_fail(CT_EIO, "--rendezvous: cannot lock %s/lock: %s",
                           folder, strerror(errno));
        CT_TRY(begin_in_folder(r, folder, now, &seen, &first));
        flock(lock, LOCK_UN);
    }
    return CT_OK;
}

static enum ct_status open_in_folder(struct rendezvous *r, const char *folder,
                                     const struct places_patience *p)
{
    struct ct_text lock = { 0 };
    enum ct_status st;
    int fd;

    ct_text_addf(&lock, "%s/lock", folder);
    if (lock.failed)
        return CT_ENOMEM;
    fd = open(lock.s, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ct_text_fini(&lock);
    if (fd < 0)
        return ct_fail(CT_EIO, "--rendezvous: cannot open %s/lock: %s", folder,
                       strerror(errno));
    st = meet_in_folder(r, folder, fd, p);
    close(fd); /* and its lock */
    return st;
}

/* ---- */

static const char *folder_of(const char *where)
{
    return where && strncmp(where, "file:", 5) == 0 ? where + 5 : NULL;
}

/* A launcher tells its agents more than the secret. */
static enum ct_status read_orders(struct rendezvous *r)
{
    char more[64], job[40] = "";

    CT_TRY(secret_read_line(r->secret, more, sizeof(more)));
    if (sscanf(more, "%16" SCNx64 " %39s", &r->agent, job) > 1 &&
        !roll_read_job(job, r->job))
        return ct_fail(CT_EPARSE, "standard input: '%s' is no job", job);
    return CT_OK;
}

static enum ct_status find_secret(struct rendezvous *r, const char *folder,
                                  const char *secret_file, bool make)
{
    struct ct_text text = { 0 };
    char *path          = NULL;
    enum ct_status st   = CT_OK;

    if (secret_file && strcmp(secret_file, "-") == 0)
        return read_orders(r);
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
    r->door = r->own = -1;
    CT_TRY(seal_init());
    if (folder && make && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return ct_fail(CT_EIO, "--rendezvous: %s: %s", folder,
                       strerror(errno));
    return find_secret(r, folder, secret_file, make);
}

enum ct_status rendezvous_open_while(struct rendezvous *r, const char *where,
                                     const char *secret_file,
                                     const struct places_patience *p)
{
    CT_TRY(rendezvous_init(r, where, secret_file, true));
    if (folder_of(where))
        return open_in_folder(r, folder_of(where), p);
    if (where && where[0])
        return open_at_hosts(r, where, p);
    r->founds = true;
    return open_door(r, 0, true);
}

enum ct_status rendezvous_open_within(struct rendezvous *r, const char *where,
                                      const char *secret_file, double orphan)
{
    const struct places_patience p = { .most = orphan };

    return rendezvous_open_while(r, where, secret_file, &p);
}

enum ct_status rendezvous_open(struct rendezvous *r, const char *where,
                               const char *secret_file)
{
    return rendezvous_open_within(r, where, secret_file, usual_orphan);
}

/* Doors of those who are there now. */
static enum ct_status read_folder(struct rendezvous *r, const char *folder)
{
    struct places now;

    CT_TRY(list_files(folder, 0, &now));
    knock_at(r, &now);
    return CT_OK;
}

enum ct_status rendezvous_find(struct rendezvous *r, const char *where,
                               const char *secret_file)
{
    const char *folder = folder_of(where);

    CT_TRY(rendezvous_init(r, where, secret_file, false));
    return folder ? read_folder(r, folder) : add_hosts(r, where, false);
}

void rendezvous_look(struct rendezvous *r, const char *where)
{
    const char *folder = folder_of(where);

    if (!folder)
        return;
    r->n_knock = 0;
    (void)!read_folder(r, folder); /* then it waits */
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
