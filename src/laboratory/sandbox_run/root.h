/*
 * root.h - the root directory that a submission sees: parts of the system, read-only, and a folder
 * in memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct root {
    const char *given;    /* a folder that becomes /given, or NULL */
    int64_t folder_bytes; /* of memory, for all that may be written */
    uid_t uid;            /* whose /submission is */
    gid_t gid;
    /* Where the kernel lets root write to /proc without a capability, as in a laboratory that root
       made, this is what prevents it. */
    bool proc_read_only;
};

/* Makes a path of the machine visible, read-only. Before make_root(). */
void add_bind(const char *path);

/* Enters the new root, in a mount namespace of the caller's own; starts in /submission. */
void make_root(const struct root *root);
