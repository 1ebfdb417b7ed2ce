/*
 * net.h - what every program of the course shares: the usual headers of the system, sockets, and
 *
 *     process.h         starting, failing, ending; children, files, clocks
 *     command_line.h    options, arguments, --help
 *     socket_options.h  options of a socket, and what the kernel granted
 *     tcp_info.h        what the kernel knows of a connection
 *     result.h          costs, and the result as text or JSON
 *     json.h            JSON, member by member
 *     event_log.h       what happened when (--log)
 *     cached_file.h     a file, and how much of it is in the page cache
 *
 * Each NAME.h has its NAME.c; every program is linked with all of them.
 */
#pragma once

#include "cached_file.h"
#include "command_line.h"
#include "event_log.h"
#include "json.h"
#include "process.h"
#include "result.h"
#include "socket_options.h"
#include "tcp_info.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- connecting and listening ---- */

/* A SOCK_STREAM or SOCK_DGRAM socket connected to the first of the host's addresses that answers.
   prepare (or NULL) is called on the socket before connect(): buffer sizes and the MSS must be
   known when the SYN leaves. */
int connect_to(int type, const char *host, const char *port, void (*prepare)(int fd));

/* A socket bound to the port, and listening if it is SOCK_STREAM; IPv4 clients reach it as well as
   IPv6 ones. prepare as above: accepted sockets inherit. */
int listen_on(int type, const char *port, void (*prepare)(int fd));

int local_port(int fd);

/* Prints the listening port for the parent process. */
void announce(FILE *out, int listener);

/* The next client; the deadline and the congestion control are set on its socket. */
int accept_from(int listener);

/* ---- the deadline ---- */

/* How long poll(2) may wait: the deadline in milliseconds, or -1 for ever. */
int deadline_ms(void);

/* Whether the deadline has passed since this moment of CLOCK_MONOTONIC. */
bool past_deadline(int64_t start_ns);

/* Ends the program: what failed with errno, or with no progress for the deadline. */
_Noreturn void fail_transfer(const char *what);

/* The deadline of one socket's receiving, where a program wants another: 0 means for ever. */
void set_receive_limit(int fd, double limit_s);

/* ---- sending and receiving ---- */

/* As recv(2), but never fails and is not interrupted by signals. 0 at the end of the stream. */
size_t receive(int fd, void *buffer, size_t size, int flags);

/* As send(2), but sends everything; returns how many system calls it took. */
int64_t send_all(int fd, const void *buffer, size_t size, int flags);

/* Reads until size bytes are there or the stream ends; returns the bytes, adds the calls. */
size_t receive_all(int fd, void *buffer, size_t size, int64_t *calls);

/* Says "no more" and waits for the peer's end: afterwards it has read everything. */
void finish_sending(int fd, const char *peer);

/* MSG_ZEROCOPY: for each send the kernel reports when it no longer needs the memory, and whether it
   copied the data after all. Waits for more reports. */
struct zerocopy {
    int64_t sends, done, copied, system_calls;
};

void await_zerocopy(int fd, struct zerocopy *z);
