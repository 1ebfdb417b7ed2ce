/*
 * target.h - the recorded tasks: their descriptors and their memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A copy of a task's descriptor, to be closed at once: while we hold it the socket stays open
   whatever the task does. -1 with errno: EBADF, or EPERM where we may not look. */
int borrow(pid_t task, int fd);

/* Copies from a task's memory; as many bytes as there are, up to size. */
size_t copy_from(pid_t task, uint64_t address, void *to, size_t size);
