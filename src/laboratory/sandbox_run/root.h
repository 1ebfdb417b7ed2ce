/*
 * root.h - the root directory of a submission, with read-only parts of the system and a folder in
 * memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct root {
    const char *given;    /* a folder that becomes /given, or NULL */
    int64_t folder_bytes; /* memory for all writable places */
    uid_t uid;            /* owner of /submission */
    gid_t gid;
    /* Prevents writes to /proc, which the kernel allows root without a capability, as in a
       laboratory made by root. */
    bool proc_read_only;
};

/* Makes a path of the machine visible, read-only; call it before make_root(). */
void add_bind(const char *path);

/* Enters the new root, in the caller's new mount namespace, and changes to /submission. */
void make_root(const struct root *root);
