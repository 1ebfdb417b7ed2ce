/*
 * socket_options.h - set a socket's options, and read back the values that the kernel granted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Call setsockopt and getsockopt for int options; name is for the message. */
void set_option(int fd, int level, int option, int64_t value, const char *name);
int get_option(int fd, int level, int option, const char *name);

/* Sets the congestion control of --congestion, if any. Call it before connect() and again
   afterwards, since a route with "congctl" overrides it. */
void choose_congestion(int fd);

/* The values that the kernel granted, which may differ from the requested ones. */
struct socket_options {
    bool is_tcp;
    char congestion[16]; /* TCP_CA_NAME_MAX, which is not in the kernel's user headers */
    int mss, nodelay;    /* only for TCP */
    int sndbuf_bytes, rcvbuf_bytes;
    char local[96], peer[96]; /* "10.0.0.1 port 9000" */
};

struct socket_options read_options(int fd);

/* Sets when a receiver acknowledges: by the kernel's choice, as late as possible, or immediately.
   The latter two last only until the kernel changes the mode, so call this after every read.
   Returns the number of system calls made, 0 or 1. */
enum quickack { QUICKACK_ON, QUICKACK_OFF, QUICKACK_ALWAYS };
extern const char *const quickack_names[];
int set_quickack(int fd, int when);
