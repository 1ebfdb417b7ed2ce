/*
 * record.h - the log of a recorded command: one line per event, words separated by spaces.
 *
 *     NS write SOCKET PID BYTES STATE    hands bytes to TCP; "more" with MSG_MORE, "zerocopy" with
 *                                        MSG_ZEROCOPY. Also "read", "shutdown", "close"
 *     NS socket SOCKET PID LOCAL PORT PEER PORT NODELAY CORK SNDBUF RCVBUF MSS CONGESTION
 *                                        a connection, before the first line that names it
 *     NS listen SOCKET PID ADDRESS PORT  it is about to
 *     NS connect SOCKET PID ADDRESS PORT
 *     NS accept SOCKET PID               of the socket that listens
 *     NS option SOCKET PID NAME VALUE    it is about to be set
 *     NS exec 0 PID PATH
 *     NS unseen 0 PID WHAT               what we cannot see: io_uring, 32-bit, setuid, not-allowed
 *     NS exit 0 PID STATUS               the command has ended
 *     NS end 0 0 CALLS LOGGED STOPPED_NS for how many calls, how many of them are here, and how
 *                                        long we let them wait in all
 *
 * NS is CLOCK_REALTIME, the captures' clock, when the call began; SOCKET is the kernel's cookie
 * (SO_COOKIE); BYTES is what the program asks for. STATE is what the kernel knew just then:
 *
 *     WRITTEN READ UNREAD      bytes handed to TCP, taken from it, ready to be taken
 *     UNACKED CWND SSTHRESH SACKED LOST RETRANS     segments
 *     NOTSENT WINDOW           bytes
 *     SNDBUF_US RWND_US        how long the send buffer, the peer's window were in the way, in all
 *     RTT_US MIN_RTT_US        smoothed, smallest
 *     RETRANSMITTED            segments, in all
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

void open_record(const char *path, int64_t most);

/* Finds out about a call, whose task waits. */
void look_at(const struct seccomp_notif *notice, int64_t now_ns);

/* Writes down what was found, if the call goes on; stopped_ns is how long its task waited. */
void write_down(bool goes_on, int64_t stopped_ns);

void log_exit(pid_t child, int status);
void flush_log(void);
void close_record(void);
