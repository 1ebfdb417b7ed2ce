/*
 * net.h - shared parts of all programs of the course: the usual system headers, sockets, and
 *
 *     process.h         starting, failing, ending; children, files, clocks
 *     command_line.h    options, arguments, --help
 *     socket_options.h  options of a socket, and the values that the kernel granted
 *     tcp_info.h        the kernel's information on a connection
 *     result.h          costs, and the result as text or JSON
 *     json.h            JSON, member by member
 *     event_log.h       events and their times (--log)
 *     cached_file.h     a file, and its share in the page cache
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

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- connecting and listening ---- */

/* Returns a SOCK_STREAM or SOCK_DGRAM socket connected to the host's first address that answers.
   prepare (or NULL) is called on the socket before connect(), since buffer sizes and the MSS must
   be set before the SYN leaves. */
int connect_to(int type, const char *host, const char *port, void (*prepare)(int fd));

/* Returns a socket bound to the port for IPv4 and IPv6, which listens if it is SOCK_STREAM. prepare
   is called before that, since accepted sockets inherit its settings. Prints the port to `out`, if
   that is not NULL, for the parent process. */
int listen_on(int type, const char *port, void (*prepare)(int fd), FILE *out);

int local_port(int fd);

/* Accepts the next client, and sets the deadline and the common options on its socket. */
int accept_from(int listener);

/* ---- the deadline ---- */

/* Returns the timeout of poll(2), the deadline in milliseconds or -1. */
int deadline_ms(void);

/* Returns whether the deadline has passed since this time of CLOCK_MONOTONIC. */
bool past_deadline(int64_t start_ns);

/* Ends the program and reports that `what` failed with errno or made no progress. */
_Noreturn void fail_transfer(const char *what);

/* Sets a different deadline for one socket's receiving; 0 means no limit. */
void set_receive_limit(int fd, double limit_s);

/* ---- sending and receiving ---- */

/* Like recv(2), but never fails or is interrupted by signals. Returns 0 at the stream's end. */
size_t receive(int fd, void *buffer, size_t size, int flags);

/* Like send(2), but sends everything; returns the number of system calls. */
int64_t send_all(int fd, const void *buffer, size_t size, int flags);

/* Reads until size bytes have arrived or the stream ends; returns the bytes, and adds the calls. */
size_t receive_all(int fd, void *buffer, size_t size, int64_t *calls);

/* Shuts down sending and waits for the peer's end, after which it has read everything. */
void finish_sending(int fd, const char *peer);

/* Waits for reports of MSG_ZEROCOPY. For each send the kernel reports when it no longer needs the
   memory, and whether it copied the data after all. */
struct zerocopy {
    int64_t sends, done, copied, system_calls;
};

void await_zerocopy(int fd, struct zerocopy *z);
