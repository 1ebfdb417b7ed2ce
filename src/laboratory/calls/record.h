/*
 * record.h - the log of a recorded command, with one line of words per event.
 *
 *     NS write SOCKET PID BYTES STATE    passes bytes to TCP; "more" with MSG_MORE, "zerocopy" with
 *                                        MSG_ZEROCOPY. Also "read", "shutdown", "close"
 *     NS socket SOCKET PID LOCAL PORT PEER PORT NODELAY CORK SNDBUF RCVBUF MSS CONGESTION
 *                                        a connection, before the first line that names it
 *     NS listen SOCKET PID ADDRESS PORT  before the call
 *     NS connect SOCKET PID ADDRESS PORT
 *     NS failed SOCKET PID ADDRESS PORT ERRNO
 *                                        the attempt failed, as the program's next call on the
 *                                        socket shows. ERRNO is EINPROGRESS if it gave up, the
 *                                        reason if the host has no route, or otherwise 0
 *     NS accept SOCKET PID               SOCKET is the one that listens
 *     NS other SOCKET PID CALL KIND ADDRESS PORT
 *                                        "read", "write" or "connect" on a socket of KIND udp or
 *                                        unix, whose address is a path
 *     NS sleep 0 PID DURATION_NS         clock_nanosleep(2)
 *     NS poll 0 PID TIMEOUT_NS [KIND ADDRESS PORT]
 *                                        poll(2), select(2), epoll_wait(2); -1 without a timeout
 *     NS used 0 PID PROCESS CPU_NS DELAY_NS STOPPED_NS
 *                                        CPU time of the process, the time for which the task PID
 *                                        waited for a CPU, and our stops and waits for a CPU
 *     NS option SOCKET PID NAME VALUE    before the option is set
 *     NS exec 0 PID PATH
 *     NS unseen 0 PID WHAT               cannot be seen: io_uring, 32-bit, setuid, not-allowed
 *     NS exit 0 PID STATUS               the command has ended
 *     NS end 0 0 CALLS LOGGED STOPPED_NS number of calls, number of logged ones, and the total time
 *                                        for which we stopped them
 *
 * NS is the start of the call on CLOCK_REALTIME, the captures' clock. SOCKET is the kernel's cookie
 * (SO_COOKIE). BYTES is the number that the program requests. STATE is the kernel's state then:
 *
 *     WRITTEN READ UNREAD      bytes passed to TCP, read from it, ready to be read
 *     UNACKED CWND SSTHRESH SACKED LOST RETRANS     segments
 *     NOTSENT WINDOW           bytes
 *     SNDBUF_US RWND_US        total time limited by the send buffer, and by the peer's window
 *     RTT_US MIN_RTT_US        smoothed, smallest
 *     RETRANSMITTED            segments in total
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

void open_record(const char *path, int64_t most);

/* Examines a call while its task waits. */
void look_at(const struct seccomp_notif *notice, int64_t now_ns);

/* Logs the call if it continues; stopped_ns is the time that its task waited. */
void write_down(bool goes_on, int64_t stopped_ns);

void log_exit(pid_t child, int status);
void flush_log(void);
void close_record(void);
