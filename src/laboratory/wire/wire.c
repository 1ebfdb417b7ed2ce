/*
 * wire.c - an emulated link between two network interfaces.
 *
 *     wire [OPTION]... A:B
 *
 * Every Ethernet frame that the interface on one side of the link receives leaves through the other
 * side, as if they were connected by a cable of a chosen rate, length and quality. The directions
 * ab and ba are independent, and each is
 *
 *     arrival -> script, loss, MTU -> queue -> transmitter -> line -> departure
 *                                     tail     rate           delay
 *                                     drop,
 *                                     AQM
 *
 * The times are computed from the kernel's time stamp of each arrival, not from the moment at which
 * this program noticed it. So a late departure does not make others late, and the lateness of each
 * frame is measured (see counters).
 *
 * A side may be several interfaces, "C1,C2,C3:S". They share the link like the ports of a switch,
 * but do not reach each other. Each may have a cable of a different length, which makes a dumbbell
 * of clients with different round-trip times.
 *
 * It prints a line of JSON when it is ready, then executes the commands on its standard input, one
 * per line, and answers each with a line of JSON ({"ok": true, ...} or {"error": "..."}). It ends
 * when standard input does. --help lists the commands. It needs CAP_NET_RAW over the interfaces;
 * root in a user namespace has it.
 *
 * This file has the loop and the start. The other files, in the order of their dependencies, are:
 *
 *     frame.h        the store of frames
 *     packet.h       the contents of a frame; fragments, and ICMP about packets that are too long
 *     ports.h        the interfaces, and the clocks
 *     recording.h    the recording as a pcapng file
 *     settings.h     the settings of the link
 *     queue.h        the queue: the next frame, and frames that are dropped or marked
 *     link.h         the arithmetic of the link (loss, MTU, transmitter, line), and its counters
 *     transfer.h     frames in and out, many per system call
 *     commands.h     the owner's commands
 *
 * Sources: packet(7); the kernel's Documentation/networking/packet_mmap.rst.
 */
#include "command_line.h"
#include "commands.h"
#include "process.h"
#include "recording.h"
#include "transfer.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the loop: receive frames, send due frames, sleep until there are more ---- */

/* Poll while frames come faster than this, since sleeping and waking up costs more. */
#define LINGER_NS 20000
/* Interval at which clocks, commands and interfaces are checked, even under load. */
#define ROUTINE_NS 1000000
#define MAX_MARGIN_NS 60000
#define MARGIN_ADDED_NS 10000

static bool may_spin;

/*
 * How much earlier than needed to wake up, to poll for the rest of the time. It is a little more
 * than the lateness of three of four recent sleeps. Idle machines wake up slowly, busy ones
 * quickly.
 *
 * A mean or a larger margin would not help. If a few sleeps end milliseconds late, another process
 * is using the processor, against which no margin helps. Polling would even do harm, since the
 * scheduler prefers processes that have hardly run.
 */
static int64_t margin_ns;

static void learn_margin(int64_t overslept_ns) {
    static int64_t quartile_ns = 20000;
    quartile_ns += overslept_ns > quartile_ns ? 750 : -250;
    quartile_ns = min_ns(max_ns(quartile_ns, 0), MAX_MARGIN_NS - MARGIN_ADDED_NS);
    margin_ns = may_spin ? quartile_ns + MARGIN_ADDED_NS : 0;
}

/* Sleeps until shortly before t, an arrival, a command, or room in a send buffer. */
static void sleep_until(int64_t t) {
    static struct pollfd polls[1 + MAX_PORTS];
    polls[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (unsigned i = 0; i < port_count; i++)
        polls[1 + i] = (struct pollfd){.fd = ports[i].socket, .events = POLLIN};
    for (unsigned i = 0; i < 2; i++)
        if (directions[i].blocked && directions[i].outbox_count)
            polls[1 + (directions[i].outbox[0]->to - ports)].events |= POLLOUT;
    int64_t left = t == NEVER ? 0 : max_ns(t - margin_ns - now_ns(), 0);
    struct timespec timeout = {left / SECOND_NS, left % SECOND_NS};
    int ready = ppoll(polls, 1 + port_count, t == NEVER ? NULL : &timeout, NULL);
    if (ready == -1 && errno != EINTR)
        fail("ppoll");
    if (ready == 0 && left > 0)
        learn_margin(now_ns() - (t - margin_ns));
    if (ready <= 0)
        return;
    for (unsigned i = 0; i < port_count; i++)
        if (polls[1 + i].revents & (POLLERR | POLLHUP | POLLNVAL))
            port_check(&ports[i]);
    if (polls[0].revents)
        read_commands();
}

/* Does one round; returns the number of frames moved. */
static unsigned turn(int64_t now) {
    unsigned moved = 0;
    for (unsigned i = 0; i < 2; i++)
        moved += take_arrivals(&directions[i], now);
    now = now_ns();
    for (unsigned i = 0; i < 2; i++) {
        link_advance(&directions[i], directions[i].settled_ns);
        moved += send_due(&directions[i], now);
    }
    return moved;
}

/* Returns whether sleeping is not worthwhile, because frames are frequent and one came recently. */
static bool lingers(int64_t now, bool moved) {
    static int64_t last_ns, gap_ns;
    int64_t since_ns = now - last_ns;
    if (moved) {
        gap_ns += (min_ns(since_ns, SECOND_NS) - gap_ns) / 8;
        last_ns = now;
    }
    return may_spin && gap_ns < LINGER_NS && since_ns < LINGER_NS;
}

_Noreturn static void run(void) {
    int64_t last_routine = 0;
    for (;;) {
        int64_t now = now_ns();
        bool moved = turn(now) > 0;
        recording_routine(now);
        if (now - last_routine >= ROUTINE_NS) {
            compare_clocks();
            sleep_until(0);
            last_routine = now;
            continue;
        }
        int64_t next =
            min_ns(link_next_event_ns(&directions[0]), link_next_event_ns(&directions[1]));
        bool soon = next != NEVER && next - margin_ns <= now;
        if (lingers(now, moved) || soon)
            continue;
        sleep_until(min_ns(next, recording_due_ns()));
        compare_clocks();
        last_routine = now_ns();
    }
}

/* ---- start ---- */

static int64_t memory_mib = 512;
static bool offload;

static const struct program_option options[MAX_OPTIONS] = {
    {"offload", 'o', NULL, "carry super-segments (TSO/GSO) unsplit", .flag = &offload},
    {"memory", 'm', "MIB", "memory limit for frames in flight", .number = &memory_mib, .min = 1,
     .max = 1 << 20},
};

static const struct command command = {
    .usage = "wire [OPTION]... A:B",
    .summary =
        "Forwards frames between the network interfaces A and B through an emulated link. A side\n"
        "may be several interfaces, as in C1,C2,C3:S, which then share the link.\n\n"
        "Memory is taken as needed: 2 KiB per frame of MTU 1500, so for each direction\n"
        "(rate x delay + queue) x 1.4. A capture takes up to 13 MiB more; the receive ring of\n"
        "each interface, in kernel memory, 8 MiB (--offload: 32).",
    .options = options,
    .arguments = {1, 1},
    .bare = true,
    .more_help = print_command_help,
};

/* Request short time slices, so that the scheduler runs us sooner when others are busy
   (sched_setattr(2); since Linux 6.12, ignored before). */
static void ask_for_short_slices(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attributes = {.size = sizeof attributes, .runtime_ns = 100000};
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int main(int argc, char **argv) {
    char **arguments = parse_command_line(argc, argv, &command);
    cpu_set_t cpus;
    /* With one processor, polling would keep it from the hosts. */
    may_spin = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
    learn_margin(20000);
    prctl(PR_SET_TIMERSLACK, 1UL);
    ask_for_short_slices();
    store_open((size_t)memory_mib << 20);
    compare_clocks();
    link_open(arguments[0], offload);
    atexit(finish_capture);
    end_input_on_signals();
    signal(SIGXFSZ, SIG_IGN); /* let the write report a recording too long for `ulimit -f` */
    struct json j = json_start(stdout, false);
    json_bool(&j, "ready", true);
    json_bool(&j, "offload", offload);
    json_finish(&j);
    run();
}
