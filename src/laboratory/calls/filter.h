/*
 * filter.h - which system calls a recorded command stops at.
 */
#pragma once

enum call_kind { WRITES, READS, ANSWERS, CONNECTS, LISTENS, SETS, SHUTS, CLOSES, EXECS, UNSEEN };
/* Where a call says how many bytes: in a register, or in memory behind one. */
enum call_size { NO_SIZE, REGISTER, VECTOR, MESSAGE, MESSAGES };

/* A system call: its arguments are counted from 0; -1 for what it has not. */
struct watched_call {
    int number;
    enum call_kind kind;
    int fd;
    enum call_size how;
    int size, flags;
};

/* The row of a system call's number, or NULL. */
const struct watched_call *find_call(int number);

/* For the calling task and all that it will start; returns the descriptor to listen at. */
int install_filter(void);
