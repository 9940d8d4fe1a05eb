/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command agent of a test guest. It runs shell commands that arrive on a
 * virtio console port, several at a time, and sends back their output and
 * status. There is no terminal anywhere, so bytes pass unchanged.
 *
 * Each message is one line of text; those that carry data name its length and
 * are followed by exactly so many bytes. TAG is a number of the sender's.
 *
 *   to the guest                     from the guest
 *   run TAG LEN  command             ready UPTIME
 *   in TAG LEN   standard input      out TAG LEN   output (both streams)
 *                (0: end of input)   exit TAG STATUS
 *   kill TAG SIGNAL
 *
 * STATUS is the shell's: the exit status, or 128 + signal. It is sent when the
 * command's own process is gone and what it wrote was sent; a child that it
 * leaves behind must have its output redirected.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_COMMANDS   64
#define LINE_MAX_BYTES 64

struct command {
    bool used;
    unsigned long tag;
    pid_t pid;
    int pidfd;
    int out;       /* read end of its stdout and stderr */
    int in;        /* write end of its stdin, or -1 */
    bool in_eof;   /* close in when the bytes below are written */
    char *pending; /* stdin that it has not taken yet */
    size_t pending_len;
};

static struct command commands[MAX_COMMANDS];
static int port;

static void fail(const char *what)
{
    fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *xrealloc(void *p, size_t len)
{
    p = realloc(p, len);
    if (!p) {
        fail("realloc");
    }
    return p;
}

/* Blocks while the host does not read; the host's reader always does. */
static void port_write(const void *data, size_t len)
{
    const char *p = data;

    while (len) {
        ssize_t n = write(port, p, len);

        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) {
                poll(&(struct pollfd){ port, POLLOUT, 0 }, 1, -1);
                continue;
            }
            fail("port");
        }
        p += n;
        len -= n;
    }
}

/* Exactly LEN bytes; false when the host has closed the port. */
static bool port_read(void *data, size_t len)
{
    char *p = data;

    while (len) {
        ssize_t n = read(port, p, len);

        if (n == 0) {
            return false;
        }
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) {
                poll(&(struct pollfd){ port, POLLIN, 0 }, 1, -1);
                continue;
            }
            fail("port");
        }
        p += n;
        len -= n;
    }
    return true;
}

static struct command *command_find(unsigned long tag)
{
    for (int i = 0; i < MAX_COMMANDS; i++) {
        if (commands[i].used && commands[i].tag == tag) {
            return &commands[i];
        }
    }
    return NULL;
}

static void send_exit(unsigned long tag, int status)
{
    char line[LINE_MAX_BYTES];

    port_write(line,
               snprintf(line, sizeof(line), "exit %lu %d\n", tag, status));
}

static void send_out(unsigned long tag, const char *data, size_t len)
{
    char line[LINE_MAX_BYTES];

    port_write(line, snprintf(line, sizeof(line), "out %lu %zu\n", tag, len));
    port_write(data, len);
}

static void command_run(unsigned long tag, const char *text)
{
    struct command *c = NULL;
    int in[2], out[2];
    pid_t pid;

    for (int i = 0; i < MAX_COMMANDS && !c; i++) {
        if (!commands[i].used) {
            c = &commands[i];
        }
    }
    if (!c) {
        static const char full[] = "agent: too many commands at a time\n";

        send_out(tag, full, sizeof(full) - 1);
        send_exit(tag, 126);
        return;
    }
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
        fail("pipe");
    }
    pid = fork();
    if (pid < 0) {
        fail("fork");
    }
    if (!pid) {
        /* its own group, so that a signal reaches all that it started */
        setsid();
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(out[1], 2);
        signal(SIGPIPE, SIG_DFL);
        execl("/bin/sh", "sh", "-c", text, NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    *c = (struct command){
        .used = true,
        .tag = tag,
        .pid = pid,
        .pidfd = syscall(SYS_pidfd_open, pid, 0),
        .out = out[0],
        .in = in[1],
    };
    if (c->pidfd < 0) {
        fail("pidfd_open");
    }
}

/* Pass on what one read gets; as read(), 0 at the end of the output. */
static ssize_t command_output(struct command *c)
{
    static char buf[65536];
    ssize_t n = read(c->out, buf, sizeof(buf));

    if (n > 0) {
        send_out(c->tag, buf, n);
    }
    return n;
}

static void command_input(struct command *c)
{
    while (c->in >= 0 && c->pending_len) {
        ssize_t n = write(c->in, c->pending, c->pending_len);

        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n < 0) {
            /* it reads no more: drop the rest, as a shell's pipe does */
            c->pending_len = 0;
            c->in_eof = true;
            break;
        }
        c->pending_len -= n;
        memmove(c->pending, c->pending + n, c->pending_len);
    }
    if (c->in >= 0 && c->in_eof) {
        close(c->in);
        c->in = -1;
    }
}

static void command_end(struct command *c)
{
    int status;

    while (command_output(c) > 0) {
    }
    if (waitpid(c->pid, &status, 0) != c->pid) {
        fail("waitpid");
    }
    close(c->pidfd);
    close(c->out);
    if (c->in >= 0) {
        close(c->in);
    }
    free(c->pending);
    c->used = false;
    send_exit(c->tag, WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                          : WEXITSTATUS(status));
}

/* One message from the host; false when it has closed the port. */
static bool message(void)
{
    char line[LINE_MAX_BYTES], verb[8];
    unsigned long tag, value;
    size_t len = 0;
    struct command *c;

    do {
        if (len == sizeof(line) - 1 || !port_read(&line[len], 1)) {
            return false;
        }
    } while (line[len++] != '\n');
    line[len] = 0;
    if (sscanf(line, "%7s %lu %lu", verb, &tag, &value) != 3) {
        errno = EPROTO;
        fail(line);
    }
    if (!strcmp(verb, "run")) {
        char *text = xrealloc(NULL, value + 1);

        if (!port_read(text, value)) {
            return false;
        }
        text[value] = 0;
        command_run(tag, text);
        free(text);
    } else if (!strcmp(verb, "in")) {
        char *data = xrealloc(NULL, value + 1);

        if (!port_read(data, value)) {
            return false;
        }
        c = command_find(tag);
        if (c) {
            c->pending = xrealloc(c->pending, c->pending_len + value + 1);
            memcpy(c->pending + c->pending_len, data, value);
            c->pending_len += value;
            c->in_eof |= !value;
            command_input(c);
        }
        free(data);
    } else if (!strcmp(verb, "kill")) {
        c = command_find(tag);
        if (c) {
            kill(-c->pid, value);
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    char line[LINE_MAX_BYTES];
    FILE *uptime = fopen("/proc/uptime", "r");
    double seconds = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: agent PORT\n");
        return 2;
    }
    port = open(argv[1], O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (port < 0) {
        fail(argv[1]);
    }
    signal(SIGPIPE, SIG_IGN);
    if (uptime) {
        if (fscanf(uptime, "%lf", &seconds) != 1) {
            seconds = 0;
        }
        fclose(uptime);
    }
    port_write(line, snprintf(line, sizeof(line), "ready %.2f\n", seconds));

    for (;;) {
        struct pollfd fds[1 + 3 * MAX_COMMANDS];
        int index[1 + 3 * MAX_COMMANDS];
        int n = 1;

        fds[0] = (struct pollfd){ port, POLLIN, 0 };
        for (int i = 0; i < MAX_COMMANDS; i++) {
            struct command *c = &commands[i];

            if (!c->used) {
                continue;
            }
            index[n] = i;
            fds[n++] = (struct pollfd){ c->pidfd, POLLIN, 0 };
            if (c->out >= 0) {
                index[n] = i;
                fds[n++] = (struct pollfd){ c->out, POLLIN, 0 };
            }
            if (c->in >= 0 && c->pending_len) {
                index[n] = i;
                fds[n++] = (struct pollfd){ c->in, POLLOUT, 0 };
            }
        }
        if (poll(fds, n, -1) < 0) {
            if (errno == EINTR) {
                continue;
            }
            fail("poll");
        }
        for (int k = 1; k < n; k++) {
            struct command *c = &commands[index[k]];

            if (!fds[k].revents || !c->used) {
                continue;
            }
            if (fds[k].fd == c->pidfd) {
                command_end(c);
            } else if (fds[k].fd == c->out) {
                if (command_output(c) == 0) {
                    /* it closed its output, but has not ended */
                    close(c->out);
                    c->out = -1;
                }
            } else {
                command_input(c);
            }
        }
        if (fds[0].revents & POLLIN) {
            if (!message()) {
                return 0;
            }
        } else if (fds[0].revents & (POLLHUP | POLLERR)) {
            return 0;
        }
    }
}
