/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU's qtest library wants of QEMU's utilities, so that those need not
 * be built for it
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"

void error_report(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void warn_report(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int error_printf(const char *fmt, ...)
{
    va_list ap;
    int ret;

    va_start(ap, fmt);
    ret = vfprintf(stderr, fmt, ap);
    va_end(ap);
    return ret;
}

void qemu_set_cloexec(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0) {
        perror("FD_CLOEXEC");
        abort();
    }
}
