/*
 * target.h - the recorded tasks: their descriptors and their memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Duplicates a task's descriptor. Close it soon, since it keeps the socket open even if the task
   closes it. Returns -1 with errno EBADF, or EPERM if we may not look. */
int borrow(pid_t task, int fd);

/* Returns the process of a task, which may be one of its threads. */
pid_t process_of(pid_t task);

/* Reads the text of /proc/TASK/NAME, which is empty if that cannot be read. */
void read_about(pid_t task, const char *name, char *text, size_t size);

/* Copies up to size bytes from a task's memory; returns the number available. */
size_t copy_from(pid_t task, uint64_t address, void *to, size_t size);
