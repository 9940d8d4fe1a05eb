/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads the device into the distribution's unmodified QEMU, or says why not
 *
 * The same file serves as a plugin (-plugin rnic.so) and for LD_PRELOAD. It
 * refers to no QEMU symbol: so it loads into any QEMU, far enough to explain
 * itself, and does nothing in other programs that inherit LD_PRELOAD.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "qemu/qemu-plugin.h"
#include "loadable-config.h"

/* The beginning of VersionInfo (qapi/control.json) */
typedef struct VersionSeen {
    struct {
        long long major, minor, micro;
    } * qemu;
    char *package;
} VersionSeen;

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static bool loaded;

/*
 * QEMU names the function by which its own modules prove that they belong to
 * it after a hash of its version, package version and configure script. The
 * program does not export that name, but it has the string.
 */
static int find_stamp(struct dl_phdr_info *info, size_t size, void *found)
{
    static const char stamp[] = "qemu_stamp" RNIC_QEMU_STAMP;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && !(p->p_flags & PF_W) &&
            memmem((const void *)(info->dlpi_addr + p->p_vaddr), p->p_filesz,
                   stamp, sizeof(stamp))) {
            *(bool *)found = true;
        }
    }
    return 1; /* the first object is the program itself, so stop here */
}

/* _exit(): QEMU's exit handlers expect more of it to be set up */
static void __attribute__((noreturn)) refuse(void)
{
    fflush(stderr);
    _exit(1);
}

static void refuse_other_build(void)
{
    VersionSeen *(*query)(void *) = dlsym(RTLD_DEFAULT, "qmp_query_version");
    VersionSeen *v = query ? query(NULL) : NULL;

    fprintf(stderr,
            "rnic: this device was built for QEMU %s (%s), but this "
            "program is ",
            RNIC_QEMU_VERSION, RNIC_QEMU_PKGVERSION);
    if (v) {
        fprintf(stderr, "QEMU %lld.%lld.%lld (%s).\n", v->qemu->major,
                v->qemu->minor, v->qemu->micro, v->package);
    } else {
        fprintf(stderr, "another build.\n");
    }
    fprintf(stderr,
            "rnic: for the QEMU of the installed qemu-system-x86 "
            "package run scripts/vm, which rebuilds the device; for a QEMU "
            "built from source run scripts/build-qemu SOURCE.\n");
    refuse();
}

static void __attribute__((constructor)) rnic_load(void)
{
    char path[PATH_MAX + sizeof(RNIC_DEVICE_FILE)];
    bool same_build = false;
    Dl_info self;

    if (!dlsym(RTLD_DEFAULT, "register_module_init") ||
        !dlsym(RTLD_DEFAULT, "pci_register_bar")) {
        if (!strncmp(program_invocation_short_name, "qemu-system", 11)) {
            fprintf(stderr,
                    "rnic: this QEMU was configured without "
                    "--enable-modules, so no device can be loaded into it. "
                    "Build the device into it: scripts/build-qemu SOURCE\n");
            refuse();
        }
        return; /* some other program */
    }
    unsetenv("LD_PRELOAD"); /* QEMU's own children need none of this */

    dl_iterate_phdr(find_stamp, &same_build);
    if (!same_build) {
        refuse_other_build();
    }

    if (!dladdr(rnic_load, &self) || !realpath(self.dli_fname, path)) {
        fprintf(stderr, "rnic: cannot find the folder of this file: %s\n",
                strerror(errno));
        refuse();
    }
    strcpy(strrchr(path, '/') + 1, RNIC_DEVICE_FILE);
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        fprintf(stderr, "rnic: %s\n", dlerror());
        refuse();
    }
    loaded = true;
}

/* A pattern of -trace or of '-d trace:', if it is about this device */
static void enable_trace(void (*enable)(const char *), const char *text)
{
    char *pattern = strndup(text, strcspn(text, ","));

    if (pattern && !strncmp(pattern + (*pattern == '-'), "rnic", 4)) {
        enable(pattern);
    }
    free(pattern);
}

/*
 * QEMU has enabled the trace events of its command line before it loaded this
 * plugin, and did not know the device's. It keeps no copy of the options.
 */
static void enable_traces(void)
{
    void (*enable)(const char *) = dlsym(RTLD_DEFAULT, "trace_enable_events");
    FILE *file = fopen("/proc/self/cmdline", "r");
    char *text = NULL;
    size_t size = 0;
    char option = 0;

    while (enable && file && getdelim(&text, &size, '\0', file) > 0) {
        const char *name = text + strspn(text, "-");

        if (option == 't') {
            enable_trace(enable, text + (strncmp(text, "enable=", 7) ? 0 : 7));
        } else if (option == 'd') {
            for (const char *item = text; item; item = strchr(item, ',')) {
                item += *item == ',';
                if (!strncmp(item, "trace:", 6)) {
                    enable_trace(enable, item + 6);
                }
            }
        }
        option = 0;
        if (*text == '-' && (!strcmp(name, "trace") || !strcmp(name, "d"))) {
            option = *name;
        }
    }
    free(text);
    if (file) {
        fclose(file);
    }
}

/* No code is instrumented: -plugin is only the way in */
QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
                                           const qemu_info_t *info, int argc,
                                           char **argv)
{
    if (!loaded) {
        fprintf(stderr, "rnic: only a system emulator can have this device\n");
        return -1;
    }
    if (argc > 0) {
        fprintf(stderr,
                "rnic: '%s': the plugin takes no arguments, give the "
                "device's properties to -device rnic\n",
                argv[0]);
        return -1;
    }
    enable_traces();
    return 0;
}
