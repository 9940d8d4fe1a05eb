/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the core costs, without a guest: two devices in two processes, beside
 * plain TCP between the same processes in the same run
 *
 *   core-bench [--seconds S] [--reps N] [--only TEXT]
 *
 * Repetitions are interleaved: each measures TCP and everything compared with
 * it before the next begins. Printed are medians; a ratio is the median of
 * the repetitions' own ratios. Nothing is asserted about times.
 */
#include "bench.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_REPS  99
#define IDLE_QPS  1000
#define KIB       1024u
#define MIB       (1024u * 1024)
#define GIB       (1024.0 * 1024 * 1024)
#define NEXT_TO_0 1e-9 /* a target of 0, where 0 is 'none' */

/* ---- What the processes share ---- */

double bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), compare);
    return count % 2 ? values[count / 2]
                     : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void bench_tell(struct bench_side *side, const void *data, size_t len)
{
    g_assert_cmpint(send(side->control, data, len, MSG_NOSIGNAL), ==, len);
}

void bench_hear(struct bench_side *side, void *data, size_t len)
{
    /* The other process is gone if this fails */
    if (recv(side->control, data, len, 0) != (ssize_t)len) {
        exit(1);
    }
}

static void set_place(struct bench_side *side, enum bench_place place)
{
    bool second = place == PLACE_APART && !side->client;
    cpu_set_t cpus = side->cpus;
    int cpu, found = 0;

    for (cpu = 0; place != PLACE_ANY && cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &cpus) && found++ != second) {
            CPU_CLR(cpu, &cpus);
        }
    }
    /* Fails if there is no second one: then both share the first */
    sched_setaffinity(0, sizeof(cpus), &cpus);
}

/* Both halves; false: the end */
static bool run_job(struct bench_side *side, const struct bench_job *job,
                    struct bench_result *result)
{
    set_place(side, job->place);
    switch (job->kind) {
    case JOB_QUIT:
        return false;
    case JOB_TCP_STREAM:
    case JOB_TCP_PINGPONG:
        bench_tcp(side, job, result);
        break;
    case JOB_STREAM:
        bench_stream(side, job, result);
        break;
    case JOB_PINGPONG:
        bench_pingpong(side, job, result);
        break;
    case JOB_IDLE:
        bench_idle(side, job, result);
        break;
    case JOB_REGISTER:
        if (side->client) {
            bench_register(side, job, result);
        }
        break;
    }
    return true;
}

static void serve(struct bench_side *side)
{
    struct bench_job job;

    /* Also if the client fails */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_side_init(side, false);
    bench_tell(side, "", 1);
    do {
        bench_hear(side, &job, sizeof(job));
    } while (run_job(side, &job, NULL));
    bench_side_free(side);
}

/* ---- What is measured ---- */

enum unit {
    MB_S, /* more is better */
    KMSG_S,
    US, /* less is better, like all that follow */
    WAKEUPS_S,
    KIB_QP,
    MS,
};

static const char *const unit_names[] = {
    "MB/s", "k msg/s", "us", "/s", "KiB", "ms",
};

struct bench_case {
    const char *name;
    struct bench_job job;
    enum unit unit;
    /* A row of TCP: those after it are compared with it */
    bool reference;
    /* 0: none. Of the ratio, or, without a reference, of the value */
    double target;
};

/* Another group: its first row of TCP is what the others are compared with */
#define HEADING(name_)                                                         \
    {                                                                          \
        .name = name_                                                          \
    }
#define TCP(size_)                                                             \
    {                                                                          \
        .name = "TCP, one stream", .unit = MB_S, .reference = true, .job = {   \
            .kind = JOB_TCP_STREAM,                                            \
            .size = size_                                                      \
        }                                                                      \
    }
#define TCP_PINGPONG(name_, wait_, place_)                                     \
    {                                                                          \
        .name = name_, .unit = US, .reference = true, .job = {                 \
            .kind = JOB_TCP_PINGPONG,                                          \
            .size = 64,                                                        \
            .wait = wait_,                                                     \
            .place = place_                                                    \
        }                                                                      \
    }
#define STREAM(name_, opcode_, size_, crc_, unit_, target_)                    \
    {                                                                          \
        .name = name_, .unit = unit_, .target = target_, .job = {              \
            .kind = JOB_STREAM,                                                \
            .opcode = RNIC_WR_##opcode_,                                       \
            .size = size_,                                                     \
            .crc = crc_                                                        \
        }                                                                      \
    }
#define PINGPONG(name_, wait_, place_, target_)                                \
    {                                                                          \
        .name = name_, .unit = US, .target = target_, .job = {                 \
            .kind = JOB_PINGPONG,                                              \
            .size = 64,                                                        \
            .wait = wait_,                                                     \
            .place = place_                                                    \
        }                                                                      \
    }
#define PINGPONGS(place_)                                                      \
    TCP_PINGPONG("TCP, epoll_wait() before each recv()", WAIT_ONE_SLEEP,       \
                 place_),                                                      \
        PINGPONG("Send, application is the engine", WAIT_ONE_SLEEP, place_,    \
                 1.3),                                                         \
        PINGPONG("Send, engine thread, CQ polled", WAIT_POLL, place_, 0),      \
        PINGPONG("Send, engine thread, CQ event", WAIT_EVENT, place_, 0)
#define STREAMS(size_, write_target_, write_crc_target_)                       \
    TCP(size_), STREAM("Write", WRITE, size_, false, MB_S, write_target_),     \
        STREAM("Write, CRC on", WRITE, size_, true, MB_S, write_crc_target_),  \
        STREAM("Send", SEND, size_, false, MB_S, 0),                           \
        STREAM("Send, CRC on", SEND, size_, true, MB_S, 0),                    \
        STREAM("Read", READ, size_, false, MB_S, 0),                           \
        STREAM("Read, CRC on", READ, size_, true, MB_S, 0)

static const struct bench_case cases[] = {
    HEADING("1 MiB"),
    STREAMS(MIB, 0.95, 0.5),
    { .name = "Write, scattered 4 KiB pages",
      .unit = MB_S,
      .job = { .kind = JOB_STREAM,
               .opcode = RNIC_WR_WRITE,
               .size = MIB,
               .scattered = true } },
    HEADING("64 KiB"),
    STREAMS(64 * KIB, 0, 0),
    HEADING("4 KiB"),
    STREAMS(4 * KIB, 0, 0),
    HEADING("64 octets, inline, posted in batches"),
    STREAM("Send", SEND, 64, false, KMSG_S, 1000),
    STREAM("Send, CRC on", SEND, 64, true, KMSG_S, 0),
    STREAM("Write", WRITE, 64, false, KMSG_S, 0),
    HEADING("64 octets one way, sleeping, on one processor"),
    PINGPONGS(PLACE_TOGETHER),
    HEADING("64 octets one way, sleeping, a processor each"),
    PINGPONGS(PLACE_APART),
    HEADING("64 octets one way, spinning, a processor each"),
    TCP_PINGPONG("TCP, recv() until it is there", WAIT_ONE_SPIN, PLACE_APART),
    PINGPONG("Send, application is the engine", WAIT_ONE_SPIN, PLACE_APART,
             1.3),
    HEADING("At rest"),
    { .name = "wake-ups with 1000 idle QPs",
      .unit = WAKEUPS_S,
      .target = NEXT_TO_0,
      .job = { .kind = JOB_IDLE, .qps = IDLE_QPS } },
    { .name = "memory for each idle QP",
      .unit = KIB_QP,
      .target = 64,
      .job = { .kind = JOB_IDLE, .qps = IDLE_QPS } },
    { .name = "registering 1 GiB of 4 KiB pages",
      .unit = MS,
      .target = 20,
      .job = { .kind = JOB_REGISTER, .size = 1024 * MIB } },
};

#define NUM_CASES G_N_ELEMENTS(cases)

static bool is_heading(const struct bench_case *c)
{
    return c->job.kind == JOB_QUIT;
}

static double value_of(enum unit unit, const struct bench_result *r)
{
    switch (unit) {
    case MB_S:
        return r->octets / r->seconds / 1e6;
    case KMSG_S:
        return r->messages / r->seconds / 1e3;
    case US:
        return r->round_trip_us / 2;
    case WAKEUPS_S:
        return r->wakeups / r->seconds;
    case KIB_QP:
        return r->qp_octets / KIB;
    case MS:
        return r->register_us / 1e3;
    }
    g_assert_not_reached();
}

/* ---- Repetitions ---- */

struct samples {
    double value[MAX_REPS], ratio[MAX_REPS];
    double cpu[2][MAX_REPS]; /* client, server: seconds for each GiB */
    unsigned count;
    bool compared;
};

static void run_case(struct bench_side *side, const struct bench_case *c,
                     double seconds, double *reference, struct samples *s)
{
    struct bench_result result = { 0 };
    struct bench_job job = c->job;
    unsigned at = s->count++;

    job.seconds = seconds;
    bench_tell(side, &job, sizeof(job));
    run_job(side, &job, &result);
    s->value[at] = value_of(c->unit, &result);
    s->cpu[0][at] = result.octets ? result.client_cpu / result.octets * GIB : 0;
    s->cpu[1][at] = result.octets ? result.server_cpu / result.octets * GIB : 0;
    s->compared =
        *reference && !c->reference && c->unit <= US && c->unit != KMSG_S;
    if (s->compared) {
        s->ratio[at] = s->value[at] / *reference;
    }
    if (c->reference) {
        *reference = s->value[at];
    }
}

/* Headings and rows that @only is part of, and what they are compared with */
static bool chosen(unsigned at, const char *only)
{
    unsigned i, heading = at;
    bool named = false;

    while (!is_heading(&cases[heading])) {
        heading--;
    }
    if (!only || strstr(cases[heading].name, only) ||
        strstr(cases[at].name, only)) {
        return true;
    }
    if (!is_heading(&cases[at]) && !cases[at].reference) {
        return false;
    }
    for (i = heading + 1; i < NUM_CASES && !is_heading(&cases[i]); i++) {
        named |= strstr(cases[i].name, only) != NULL;
    }
    return named;
}

static void print_row(const struct bench_case *c, struct samples *s)
{
    double value = bench_median(s->value, s->count), ratio = 0, judged;
    const char *verdict = "";

    if (s->compared) {
        ratio = bench_median(s->ratio, s->count);
    }
    judged = s->compared ? ratio : value;
    if (c->target) {
        verdict = (c->unit < US ? judged >= c->target : judged <= c->target)
                      ? "met"
                      : "missed";
    }
    printf("  %-38s %9.*f %-8s", c->name, value < 100 ? 2 : 0, value,
           unit_names[c->unit]);
    if (s->compared) {
        printf(" %5.2f", ratio);
    } else {
        printf(" %5s", "");
    }
    if (c->target > NEXT_TO_0) {
        printf(" %7g", c->target);
    } else {
        printf(" %7s", c->target ? "0" : "");
    }
    printf(" %-7s", verdict);
    if (c->unit == MB_S) {
        printf(" %6.3f %6.3f", bench_median(s->cpu[0], s->count),
               bench_median(s->cpu[1], s->count));
    }
    printf("\n");
}

static void print_loads(const char *when)
{
    double loads[3] = { 0 };

    getloadavg(loads, 3);
    printf("load average %s: %.2f %.2f %.2f\n", when, loads[0], loads[1],
           loads[2]);
}

static void measure(struct bench_side *side, double seconds, unsigned reps,
                    const char *only)
{
    g_autofree struct samples *samples = g_new0(struct samples, NUM_CASES);
    struct bench_job quit = { .kind = JOB_QUIT };
    unsigned rep, i;

    printf("%ld processors, %u repetitions of %g s\n",
           sysconf(_SC_NPROCESSORS_ONLN), reps, seconds);
    print_loads("before");
    fflush(stdout);
    for (rep = 0; rep < reps; rep++) {
        double reference = 0;

        for (i = 0; i < NUM_CASES; i++) {
            if (is_heading(&cases[i])) {
                reference = 0;
            } else if (chosen(i, only)) {
                run_case(side, &cases[i], seconds, &reference, &samples[i]);
            }
        }
    }
    bench_tell(side, &quit, sizeof(quit));
    print_loads("after");
    printf("  %-38s %9s %-8s %5s %7s %-7s %s\n", "", "", "", "ratio", "target",
           "", "engine s/GiB");
    printf("  %-38s %9s %-8s %5s %7s %-7s %6s %6s\n", "", "", "", "to TCP", "",
           "", "client", "server");
    for (i = 0; i < NUM_CASES; i++) {
        if (is_heading(&cases[i])) {
            if (chosen(i, only)) {
                printf("%s\n", cases[i].name);
            }
        } else if (samples[i].count) {
            print_row(&cases[i], &samples[i]);
        }
    }
}

/* A socket a QP, and some */
static void raise_descriptors(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    double seconds = 0.4;
    int reps = 5;
    g_autofree char *only = NULL;
    const GOptionEntry entries[] = {
        { "seconds", 's', 0, G_OPTION_ARG_DOUBLE, &seconds,
          "how long to measure each [0.4]", "S" },
        { "reps", 'r', 0, G_OPTION_ARG_INT, &reps, "repetitions [5]", "N" },
        { "only", 'o', 0, G_OPTION_ARG_STRING, &only,
          "rows and headings with this in their name", "TEXT" },
        { NULL }
    };
    g_autoptr(GOptionContext) context = g_option_context_new("");
    g_autoptr(GError) error = NULL;
    struct bench_side side = { 0 };
    struct th_options options;
    int control[2], status;
    pid_t pid;

    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error) ||
        seconds <= 0 || reps < 1 || reps > MAX_REPS) {
        fprintf(stderr, "core-bench: %s\n",
                error ? error->message : "a number is out of range");
        return 2;
    }
    raise_descriptors();
    /* Both processes use the fabric that is chosen here */
    th_options_init(&options);
    side.credits = eventfd(0, EFD_CLOEXEC);
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control), ==, 0);
    sched_getaffinity(0, sizeof(side.cpus), &side.cpus);
    pid = fork();
    g_assert_cmpint(pid, >=, 0);
    side.control = control[pid == 0];
    close(control[pid != 0]);
    if (pid == 0) {
        serve(&side);
        return 0;
    }
    bench_side_init(&side, true);
    bench_hear(&side, &(char){ 0 }, 1);
    measure(&side, seconds, reps, only);
    bench_side_free(&side);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
