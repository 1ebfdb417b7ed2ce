/*
 * wire.c - an emulated link between two network interfaces.
 *
 *     wire [OPTION]... A:B [C:D]...
 *
 * Every Ethernet frame that the interface on one side of a link receives leaves
 * through the other side, as if a cable of a chosen rate, length and quality lay
 * between. Both directions, ab and ba, are independent of each other, and each is
 *
 *     arrival -> script, chance, MTU -> queue -> transmitter -> line -> departure
 *                                       tail     rate           delay, jitter,
 *                                       drop                    overtaking
 *
 * The times are computed from the kernel's time stamp of each arrival, not from
 * the moment at which this program noticed it: a frame that leaves late makes no
 * other one late, and how late each one left is measured and told (counters).
 *
 * A side may be several interfaces, "C1,C2,C3:S": they share the link as the ports
 * of a switch would, but don't reach each other.
 *
 * Prints a line of JSON when it is ready, then obeys the commands on its standard
 * input, one a line, and answers each with a line of JSON ({"ok": true, ...} or
 * {"error": "..."}). It ends when standard input does. See --help for the commands.
 * Needs CAP_NET_RAW over the interfaces: root in a user namespace is enough.
 *
 * Here are the loop and the start. The parts, in the order in which they build on
 * each other:
 *
 *     wire_frame.h     where frames are kept, and what is in them
 *     wire_mtu.h       fragments, and ICMP about packets that are too long
 *     wire_record.h    the recording: a pcapng file
 *     wire_model.h     what a link is; chance, script, queue, transmitter, line
 *     wire_bundle.h    many segments in one system call
 *     wire_ports.h     the interfaces: frames in, frames out
 *     wire_commands.h  what the owner may say and ask
 *
 * Sources: packet(7); the kernel's Documentation/networking/packet_mmap.rst.
 */
#define _GNU_SOURCE
#include "net.h"
#include "wire_commands.h"
#include "wire_model.h"
#include "wire_ports.h"
#include "wire_record.h"

#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* ---- the loop: take what has come, send what is due, sleep until there is more ---- */

/* While frames come faster than this, wait awake: going to sleep and waking up costs more. */
#define LINGER_NS 20000
/* Clocks, commands and interfaces are looked at this often, however busy. */
#define ROUTINE_NS 1000000
/* An interface that was down is asked this often whether it still exists. */
#define DOWN_NS 100000000
#define HANDOVER_NS 100000000 /* how long a recorded frame may wait in memory */
#define MAX_MARGIN_NS 200000

static bool may_spin;
static volatile sig_atomic_t asked_to_end;

/*
 * How much earlier than needed to wake up, and wait for the rest awake: as much
 * as sleep lately ended late. Idle machines wake up slowly, busy ones at once.
 */
static int64_t margin_ns;

static void learn_margin(int64_t overslept_ns) {
    static double mean = 20000, deviation = 10000;
    /* More than that was somebody else's turn on the processor: no margin helps against it. */
    double error = (double)min_ns(overslept_ns, MAX_MARGIN_NS / 2) - mean;
    mean += error / 16;
    deviation += (fabs(error) - deviation) / 16;
    margin_ns = may_spin ? min_ns((int64_t)(mean + 2 * deviation), MAX_MARGIN_NS) : 0;
}

/* An interface that is down may come up again; one that is gone ends us. */
static void check_port(struct port *port) {
    char name[IF_NAMESIZE];
    int error;
    socklen_t size = sizeof error;
    /* Reading the error clears it. */
    getsockopt(port->socket, SOL_SOCKET, SO_ERROR, &error, &size);
    if (!if_indextoname((unsigned)port->index, name))
        fail_because("interface %s has vanished", port->name);
    port->down = !is_up(port);
}

static void check_down_ports(void) {
    for (unsigned i = 0; i < port_count; i++)
        if (ports[i].down)
            check_port(&ports[i]);
}

static bool any_down(void) {
    for (unsigned i = 0; i < port_count; i++)
        if (ports[i].down)
            return true;
    return false;
}

static bool is_blocked(const struct port *port) {
    for (unsigned i = 0; i < 2 * link_count; i++) {
        const struct direction *d = direction_at(i);
        if (d->blocked && d->outbox_count && d->outbox[0]->to == port)
            return true;
    }
    return false;
}

/* Sleeps until shortly before t, an arrival, a command, or room in a send buffer. */
static void sleep_until(int64_t t) {
    static struct pollfd polls[1 + MAX_PORTS];
    polls[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (unsigned i = 0; i < port_count; i++) {
        short events = is_blocked(&ports[i]) ? POLLIN | POLLOUT : POLLIN;
        polls[1 + i] = (struct pollfd){.fd = ports[i].socket, .events = events};
    }
    int64_t left = t == NEVER ? 0 : max_ns(t - margin_ns - now_ns(), 0);
    struct timespec timeout = {left / SECOND_NS, left % SECOND_NS};
    sigset_t none;
    sigemptyset(&none);
    int ready = ppoll(polls, 1 + port_count, t == NEVER ? NULL : &timeout, &none);
    if (ready == -1 && errno != EINTR)
        fail("ppoll");
    if (ready == 0 && left > 0)
        learn_margin(now_ns() - (t - margin_ns));
    if (ready <= 0)
        return;
    for (unsigned i = 0; i < port_count; i++)
        if (polls[1 + i].revents & (POLLERR | POLLHUP | POLLNVAL))
            check_port(&ports[i]);
    if (polls[0].revents)
        read_commands();
}

/* One round; returns how many frames moved. */
static unsigned turn(int64_t now) {
    unsigned moved = 0;
    for (unsigned i = 0; i < 2 * link_count; i++)
        moved += take_arrivals(direction_at(i), now);
    now = now_ns();
    for (unsigned i = 0; i < 2 * link_count; i++) {
        advance(direction_at(i), direction_at(i)->settled_ns);
        moved += send_due(direction_at(i), now);
    }
    return moved;
}

static int64_t next_event(void) {
    int64_t next = NEVER;
    for (unsigned i = 0; i < 2 * link_count; i++)
        next = min_ns(next, next_event_ns(direction_at(i)));
    return next;
}

static void record_routine(int64_t now) {
    if (!record.on)
        return;
    record.safe_ns = NEVER;
    for (unsigned i = 0; i < port_count; i++)
        record.safe_ns = min_ns(record.safe_ns, ports[i].seen_ns);
    if (now - record.last_handover_ns >= HANDOVER_NS)
        record_hand_over(now);
}

/* Are frames coming so fast, and was the last one so near, that it isn't worth sleeping? */
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
    int64_t last_routine = 0, last_check = 0;
    while (!asked_to_end) {
        int64_t now = now_ns();
        bool moved = turn(now) > 0;
        record_routine(now);
        if (now - last_check >= DOWN_NS) {
            check_down_ports();
            last_check = now;
        }
        if (now - last_routine >= ROUTINE_NS) {
            compare_clocks();
            sleep_until(0);
            last_routine = now;
            continue;
        }
        int64_t next = next_event();
        bool soon = next != NEVER && next - margin_ns <= now;
        if (lingers(now, moved) || soon)
            continue;
        if (any_down())
            next = min_ns(next, now + DOWN_NS);
        if (record.on && record.filling->used)
            next = min_ns(next, record.last_handover_ns + HANDOVER_NS);
        sleep_until(next);
        compare_clocks();
        last_routine = now_ns();
    }
    exit(0);
}

/* ---- start ---- */

static const char help[] =
    "usage: wire [OPTION]... A:B [C:D]...\n"
    "Forward frames between the network interfaces A and B through an emulated link. A side\n"
    "may be several interfaces, as in C1,C2,C3:S, which then share the link.\n"
    "\n"
    "  -o, --offload      carry super-segments (TSO/GSO) whole\n"
    "  -m, --memory MIB   the most that frames in flight may take, all links together (512).\n"
    "                     Taken as needed: 2 KiB a frame of MTU 1500, so for each direction\n"
    "                     (rate x delay + queue) x 1.4. A capture takes 11 MiB more\n"
    "  -r, --ring MIB     receive ring of each interface, in kernel memory (8; --offload: 32)\n"
    "  -h, --help         this text\n"
    "\n"
    "Commands on standard input; LINK is 0 for the first pair, DIR is ab, ba or both:\n"
    "  set LINK DIR KEY=VALUE...     change parameters, from the next frame on; see below\n"
    "  script LINK DIR ACTION WHAT [CONDITION]...\n"
    "                                ACTION: drop, duplicate, hold (for reorder_ns)\n"
    "                                WHAT: any, ip, tcp, data (TCP with payload), ack (nothing\n"
    "                                but that), syn, fin, rst, udp, icmp\n"
    "                                CONDITION, all must hold: nth=3,7-9  every=50  limit=2\n"
    "                                port=5001  from_ns=T  to_ns=T (since the first WHAT)\n"
    "  script LINK DIR clear         forget the rules\n"
    "  show                          parameters and rules\n"
    "  counters                      what happened since the start, or:\n"
    "  reset                         counters start from zero\n"
    "  capture PATH [snaplen=N]      record every frame in and out as pcapng (128 bytes of each)\n"
    "  capture off                   the file is complete when this has been answered\n"
    "  quit                          so does the end of standard input\n"
    "\n"
    "Keys of set:\n";

static void print_help(void) {
    fputs(help, stdout);
    for (const struct key *key = keys; key < keys + KEYS; key++)
        printf("  %-14s %s\n", key->name, key->help);
}

static void end(int signal_number) {
    asked_to_end = signal_number;
}

/* Blocked but for the time asleep: a signal can't slip in between the check and the sleep. */
static void catch_signals(void) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        sigaction(caught[i], &(struct sigaction){.sa_handler = end}, NULL);
        sigaddset(&blocked, caught[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a recording too long for `ulimit -f`: the write says so */
}

/*
 * Ask for the processor in short slices: then the scheduler lets us in sooner when
 * others are at work (sched_setattr(2); since Linux 6.12, before it is ignored).
 */
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

static void announce_ready(void) {
    struct json j = json_start(stdout);
    json_object(&j, NULL);
    json_bool(&j, "ready", true);
    json_int(&j, "links", link_count);
    json_bool(&j, "offload", offload);
    json_end_object(&j);
    json_finish(&j);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"offload", no_argument, NULL, 'o'},
        {"memory", required_argument, NULL, 'm'},
        {"ring", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int64_t memory_mib = 512, ring_mib = 0;
    for (int option; (option = getopt_long(argc, argv, "om:r:h", options, NULL)) != -1;) {
        switch (option) {
        case 'o':
            offload = true;
            break;
        case 'm':
            memory_mib = whole_number("--memory", optarg, 1, 1 << 20);
            break;
        case 'r':
            ring_mib = whole_number("--ring", optarg, 1, 1024);
            break;
        case 'h':
            print_help();
            return 0;
        default:
            usage_error("unknown option");
        }
    }
    if (optind == argc)
        usage_error("wants a pair of interfaces like eth0:eth1");
    if (argc - optind > MAX_LINKS)
        usage_error("%d links: at most %d", argc - optind, MAX_LINKS);
    if (ring_mib == 0)
        ring_mib = offload ? 32 : 8;

    cpu_set_t cpus;
    /* With one processor, waiting awake would keep it from the hosts. */
    may_spin = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
    learn_margin(20000);
    prctl(PR_SET_TIMERSLACK, 1UL);
    ask_for_short_slices();
    store_open((size_t)memory_mib << 20);
    compare_clocks();
    for (int i = optind; i < argc; i++)
        link_open(argv[i], (size_t)ring_mib << 20);
    atexit(finish_capture);
    catch_signals();
    announce_ready();
    run();
}
