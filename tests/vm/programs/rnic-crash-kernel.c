/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rnic-crash-kernel: loads a kernel that takes over when this one crashes
 *
 * It goes into the memory that crashkernel= keeps for it, gets the initial RAM
 * disk that this kernel was started with (kept by retain_initrd), and this
 * kernel's parameters. It starts without any driver of this kernel having been
 * told, so it finds every device as it was at work.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INITRD "/sys/firmware/initrd"

static void die(const char *what)
{
    fprintf(stderr, "rnic-crash-kernel: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The parameters of this kernel but crashkernel=, and one CPU */
static void make_parameters(char *to, size_t size)
{
    char line[4096];
    FILE *f = fopen("/proc/cmdline", "r");
    char *word;

    if (!f || !fgets(line, sizeof(line), f)) {
        die("/proc/cmdline");
    }
    fclose(f);
    snprintf(to, size, "nr_cpus=1");
    for (word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        if (strncmp(word, "crashkernel=", 12)) {
            strncat(to, " ", size - strlen(to) - 1);
            strncat(to, word, size - strlen(to) - 1);
        }
    }
}

static int open_file(const char *name)
{
    int fd = open(name, O_RDONLY);

    if (fd < 0) {
        die(name);
    }
    return fd;
}

int main(int argc, char **argv)
{
    char parameters[4096];

    if (argc != 2) {
        fputs("usage: rnic-crash-kernel BZIMAGE\n", stderr);
        return 2;
    }
    make_parameters(parameters, sizeof(parameters));
    if (syscall(SYS_kexec_file_load, open_file(argv[1]), open_file(INITRD),
                strlen(parameters) + 1, parameters,
                (unsigned long)KEXEC_FILE_ON_CRASH)) {
        die("kexec_file_load");
    }
    return 0;
}
