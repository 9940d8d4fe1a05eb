/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-verbs: options, and running the halves of the tests
 *
 *   rnic-verbs [options] server [ADDR]         until the client leaves
 *   rnic-verbs [options] client ADDR [TEST]...
 *   rnic-verbs [options] self ADDR [TEST]...   both, on one device
 *   rnic-verbs list
 *
 * The client prints a line for each test and its exit status tells whether
 * all passed.
 */
#include "verbs-test.h"

#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int timeout_ms = 60000;
bool beside_siw;

static uint16_t port = 18515;
static unsigned big_mb = 64;

static const struct test_case *const groups[] = {
    message_tests, tagged_tests, setup_tests, error_tests, sharing_tests,
};

void fail(struct test *t, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(t->why, sizeof(t->why), fmt, args);
    va_end(args);
    longjmp(t->fail, 1);
}

static const struct test_case *find_test(const char *name)
{
    const struct test_case *test;
    unsigned g;

    for (test = rfc7306_tests; test->name; test++) {
        if (!strcmp(test->name, name)) {
            return test;
        }
    }

    for (g = 0; g < sizeof(groups) / sizeof(*groups); g++) {
        for (test = groups[g]; test->name; test++) {
            if (!strcmp(test->name, name)) {
                return test;
            }
        }
    }
    return NULL;
}

/* One half of a test; afterwards t->why and t->peer_why tell */
static void run_half(struct test *ctl, struct test *t,
                     const struct test_case *test, uint32_t tag)
{
    memset(t, 0, sizeof(*t));
    t->name = test->name;
    t->client = ctl->client;
    t->big_mb = big_mb;
    t->tag = tag;
    t->ctl = ctl;
    t->listener = ctl->listener;
    t->server_addr = ctl->server_addr;
    if (!setjmp(t->fail)) {
        test->run(t);
    }
    /* Destroying a QP may cut off what is still on its way to the other half,
     * so both have finished first */
    ctl_verdict(t);
    if (!t->why[0] && !t->peer_why[0]) {
        test_cleanup(t);
        ctl_verdict(t);
    } else {
        test_cleanup(t);
    }
}

static bool run_test(struct test *ctl, const struct test_case *test,
                     uint32_t tag)
{
    static struct test t;

    ctl_start(ctl, test->name, tag);
    run_half(ctl, &t, test, tag);
    if (!t.why[0] && !t.peer_why[0]) {
        printf("ok %s\n", test->name);
    } else {
        printf("not ok %s: %s%s%s%s\n", test->name, t.why[0] ? "client: " : "",
               t.why, t.peer_why[0] ? t.why[0] ? "; server: " : "server: " : "",
               t.peer_why);
    }
    fflush(stdout);
    return !t.why[0] && !t.peer_why[0];
}

static int run_tests(struct test *ctl, char **names, int count)
{
    const struct test_case *test;
    uint32_t tag = 0;
    int failed = 0, i;
    unsigned g;

    ctl_open(ctl);
    for (i = 0; i < count; i++) {
        failed += !run_test(ctl, find_test(names[i]), ++tag);
    }
    for (g = 0; !count && g < sizeof(groups) / sizeof(*groups); g++) {
        for (test = groups[g]; test->name; test++) {
            failed += !run_test(ctl, test, ++tag);
        }
    }
    ctl_close(ctl);
    if (ctl->why[0]) {
        printf("not ok control: %s\n", ctl->why);
        failed++;
    }
    return failed ? 1 : 0;
}

static int run_client(struct test *ctl, char **names, int count)
{
    ctl->client = true;
    if (setjmp(ctl->fail)) {
        printf("not ok control: %s\n", ctl->why);
        return 1;
    }
    return run_tests(ctl, names, count);
}

static int serve(struct test *ctl)
{
    static struct test t;
    const struct test_case *test;
    char name[64];
    uint32_t tag;
    int failed = 0;

    ctl_open(ctl);
    while (ctl_next(ctl, name, sizeof(name), &tag)) {
        test = find_test(name);
        CHECK(ctl, test, "the client asks for an unknown test %s", name);
        run_half(ctl, &t, test, tag);
        failed += t.why[0] || t.peer_why[0];
    }
    ctl_close(ctl);
    rdma_destroy_id(ctl->listener);
    return failed ? 1 : 0;
}

/* ready: told when clients may come, or -1 */
static int run_server(struct test *ctl, int ready)
{
    if (setjmp(ctl->fail)) {
        fprintf(stderr, "server: %s\n", ctl->why);
        return 1;
    }
    test_listen(ctl, port);
    if (ready >= 0 && write(ready, "", 1) != 1) {
        return 1;
    }
    if (ready < 0) {
        printf("listening on port %u\n", port);
        fflush(stdout);
    }
    return serve(ctl);
}

/* The server in a process of its own, made before anything of verbs is */
static int run_self(struct test *ctl, char **names, int count)
{
    int ready[2], status, rc;
    char octet;
    pid_t child;

    if (pipe(ready) || (child = fork()) < 0) {
        perror("rnic-verbs");
        return 1;
    }
    if (!child) {
        close(ready[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run_server(ctl, ready[1]));
    }
    close(ready[1]);
    if (read(ready[0], &octet, 1) != 1) {
        printf("not ok control: the server did not start\n");
        waitpid(child, &status, 0);
        return 1;
    }
    rc = run_client(ctl, names, count);
    if (rc) {
        kill(child, SIGTERM);
    }
    waitpid(child, &status, 0);
    if (!rc && status) {
        printf("not ok control: the server's status is 0x%x\n", status);
        rc = 1;
    }
    return rc;
}

static int list(void)
{
    const struct test_case *test;
    unsigned g;

    for (g = 0; g < sizeof(groups) / sizeof(*groups); g++) {
        for (test = groups[g]; test->name; test++) {
            puts(test->name);
        }
    }
    return 0;
}

static void set_address(struct test *ctl, const char *text)
{
    struct addrinfo hints = {
        .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *info;
    char service[8];
    int err;

    snprintf(service, sizeof(service), "%u", port);
    err = getaddrinfo(text, service, &hints, &info);
    if (err) {
        fprintf(stderr, "rnic-verbs: %s: %s\n", text, gai_strerror(err));
        exit(2);
    }
    memcpy(&ctl->server_addr, info->ai_addr, info->ai_addrlen);
    freeaddrinfo(info);
}

static void usage(void)
{
    fputs("usage: rnic-verbs [-s] [-p PORT] [-t SECONDS] [-m MEBIBYTES] "
          "server [ADDR]\n"
          "       rnic-verbs ... client ADDR [TEST]...\n"
          "       rnic-verbs ... self ADDR [TEST]...\n"
          "       rnic-verbs list\n"
          "-s: nothing that siw does not bear, which is at the other end;\n"
          "-t: of a single wait; -m: size of the big region\n",
          stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    static struct test ctl;
    const char *mode;
    int opt, i, err;

    while ((opt = getopt(argc, argv, "+p:st:m:")) != -1) {
        switch (opt) {
        case 's':
            beside_siw = true;
            break;
        case 'p':
            port = atoi(optarg);
            break;
        case 't':
            timeout_ms = atoi(optarg) * 1000;
            break;
        case 'm':
            big_mb = atoi(optarg);
            break;
        default:
            usage();
        }
    }
    argv += optind;
    argc -= optind;
    if (argc < 1) {
        usage();
    }
    mode = argv[0];
    if (!strcmp(mode, "list")) {
        return list();
    }
    /* One half of the test "fork" forks while it has memory registered */
    err = ibv_fork_init();
    if (err) {
        fprintf(stderr, "ibv_fork_init: %s\n", strerror(err));
        return 1;
    }
    ctl.ctl = &ctl;
    ctl.name = "control";
    if (!strcmp(mode, "server") && argc <= 2) {
        set_address(&ctl, argc == 2 ? argv[1] : "::");
        return run_server(&ctl, -1);
    }
    if (argc < 2) {
        usage();
    }
    set_address(&ctl, argv[1]);
    for (i = 2; i < argc; i++) {
        if (!find_test(argv[i])) {
            fprintf(stderr, "rnic-verbs: no test %s\n", argv[i]);
            return 2;
        }
    }
    if (!strcmp(mode, "client")) {
        return run_client(&ctl, argv + 2, argc - 2);
    }
    if (!strcmp(mode, "self")) {
        return run_self(&ctl, argv + 2, argc - 2);
    }
    usage();
}
