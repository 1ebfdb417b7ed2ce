/*
 * filter.h - the system calls at which a recorded command stops.
 */
#pragma once

enum call_kind {
    WRITES,
    READS,
    ANSWERS,
    CONNECTS,
    LISTENS,
    SETS,
    SHUTS,
    CLOSES,
    EXECS,
    UNSEEN,
    SLEEPS,
    POLLS,
    EXITS
};
/* Where a call's number of bytes or its timeout is: in a register, or in memory that a register
   points to. */
enum call_size { NO_SIZE, REGISTER, VECTOR, MESSAGE, MESSAGES, MILLISECONDS, TIMESPEC, TIMEVAL };

/* A system call. Arguments are numbered from 0; -1 marks one that it lacks. */
struct watched_call {
    int number;
    enum call_kind kind;
    int fd;
    enum call_size how;
    int size, flags;
};

/* Returns the entry for a system call's number, or NULL. */
const struct watched_call *find_call(int number);

/* Installs the filter for the caller and its descendants; returns its listening descriptor. */
int install_filter(void);
