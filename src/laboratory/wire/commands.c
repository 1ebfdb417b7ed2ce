/* commands.c - see commands.h. */
#include "commands.h"

#include "link.h"
#include "pcapng.h"
#include "process.h"
#include "recording.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMAND_BYTES = 8192, MAX_WORDS = 64 };

static const char help[] =
    "\nCommands on standard input; DIR is ab, ba or both:\n"
    "  set DIR KEY=VALUE...          change parameters, from the next frame on; see below\n"
    "  script DIR ACTION WHAT [CONDITION]...\n"
    "                                ACTION: drop, duplicate, hold (for hold_ns)\n"
    "                                WHAT: any, ip, tcp, data (TCP with payload), ack (nothing\n"
    "                                but that), syn, fin, rst, udp, icmp\n"
    "                                CONDITION, all must hold: nth=3,7-9  every=50  port=5001\n"
    "  script DIR clear              forget the rules\n"
    "  access INTERFACE NANOSECONDS  one way, of the cable between the host there and the link\n"
    "  counters                      what happened since the start, or:\n"
    "  reset                         counters start from zero\n"
    "  capture BYTES PATH            record every frame in and out as pcapng, so much of each\n"
    "  capture off                   the file is complete when this has been answered\n"
    "The end of standard input ends the wire.\n"
    "\n"
    "Keys of set:\n";

void print_command_help(void) {
    fputs(help, stdout);
    settings_print_help();
}

/* ---- parameters and script ---- */

/* Parses "ab", "ba" or "both" into the directions from *first to before *end; returns false and
 * answers with an error if it is another word. */
static bool parse_direction(char **words, int count, unsigned *first, unsigned *end) {
    const char *name = count > 1 ? words[1] : "";
    bool both = strcmp(name, "both") == 0;
    *first = strcmp(name, "ba") == 0;
    *end = both ? 2 : *first + 1;
    return both || *first || strcmp(name, "ab") == 0 ||
           answer_error("%s: '%s' is not one of ab, ba, both", words[0], name);
}

static void command_set(char **words, int count) {
    struct settings sets[2];
    unsigned first, end;
    bool seeded = false;
    if (!parse_direction(words, count, &first, &end))
        return;
    for (unsigned k = first; k < end; k++) {
        sets[k] = directions[k].set;
        for (int i = 2; i < count; i++) {
            if (!settings_assign(&sets[k], words[i]))
                return;
            seeded |= strncmp(words[i], "seed=", 5) == 0;
        }
    }
    for (unsigned k = first; k < end; k++)
        link_change(&directions[k], &sets[k], seeded);
    answer_ok();
}

static void command_script(char **words, int count) {
    struct rule rule;
    unsigned first, end;
    if (!parse_direction(words, count, &first, &end))
        return;
    bool clear = count > 2 && strcmp(words[2], "clear") == 0;
    if (!clear && !rule_parse(&rule, words + 2, count - 2))
        return;
    for (unsigned k = first; k < end && !clear; k++)
        if (directions[k].script.count == MAX_RULES) {
            answer_error("script: more than %d rules", MAX_RULES);
            return;
        }
    for (unsigned k = first; k < end; k++) {
        struct script *script = &directions[k].script;
        if (clear)
            script->count = 0;
        else
            script->rules[script->count++] = rule;
    }
    answer_ok();
}

static void command_access(char **words, int count) {
    int64_t delay_ns;
    for (unsigned i = 0; count == 3 && i < port_count; i++)
        if (strcmp(ports[i].name, words[1]) == 0) {
            if (!parse_whole(words[2], 10 * SECOND_NS, &delay_ns))
                break;
            ports[i].access_ns = delay_ns;
            answer_ok();
            return;
        }
    answer_error("access: wants an interface of the wire and a delay of at most 10 s in ns");
}

/* ---- counters ---- */

static void write_counters(struct json *j, const char *name, struct direction *d) {
    const struct counters *n = &d->n;
    json_object(j, name);
    json_int(j, "packets_in", (int64_t)n->packets_in);
    json_int(j, "bytes_in", (int64_t)n->bytes_in);
    json_int(j, "packets_out", (int64_t)n->packets_out);
    json_int(j, "bytes_out", (int64_t)n->bytes_out);
    json_object(j, "dropped");
    for (int i = 0; i < REASONS; i++)
        json_int(j, reason_names[i], (int64_t)n->dropped[i]);
    /* Frames that we never saw, since the host was too fast; they are not in packets_in. */
    side_count(d->from);
    json_int(j, "ring", (int64_t)(d->from->counts.missed - d->from->counted_from.missed));
    json_end_object(j);
    json_int(j, "marked", (int64_t)n->marked);
    json_int(j, "duplicated", (int64_t)n->duplicated);
    json_int(j, "reordered", (int64_t)n->reordered);
    json_int(j, "fragmented", (int64_t)n->fragmented);
    json_int(j, "fragments", (int64_t)n->fragments);
    json_int(j, "icmp", (int64_t)n->icmp);
    json_int(j, "queue_packets", (int64_t)d->queue.packets);
    json_int(j, "queue_bytes", (int64_t)d->queue.bytes);
    json_int(j, "queue_packets_max", (int64_t)n->queue_packets_max);
    json_int(j, "queue_bytes_max", (int64_t)n->queue_bytes_max);
    json_int(j, "line_packets", (int64_t)(d->line_packets + d->outbox_count) + !!d->sending);
    lateness_write(j, n);
    json_end_object(j);
}

static void command_counters(void) {
    struct json j = answer_begin();
    json_int(&j, "memory_bytes", (int64_t)(store_bytes()));
    json_int(&j, "cpu_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    json_int(&j, "clock_steps", (int64_t)clock_steps);
    write_counters(&j, "ab", &directions[0]);
    write_counters(&j, "ba", &directions[1]);
    json_finish(&j);
}

static void command_reset(void) {
    for (unsigned i = 0; i < 2; i++) {
        side_count(&sides[i]);
        sides[i].counted_from = sides[i].counts;
        directions[i].n = (struct counters){0};
    }
    clock_steps = 0;
    answer_ok();
}

/* ---- the recording ---- */

static int64_t recorded_from_ns;

static void capture_start(const char *path, uint32_t snaplen) {
    static uint8_t header[3 * PCAPNG_BLOCK_BYTES];
    size_t used = pcapng_section(header, "tcplab wire");
    for (unsigned i = 0; i < 2; i++) {
        used +=
            pcapng_interface(header + used, snaplen, sides[i].name, i == 0 ? "side a" : "side b");
        /* The final report counts from here. */
        side_count(&sides[i]);
        sides[i].recorded_from = sides[i].counts;
    }
    recorded_from_ns = now_ns();
    if (recording_start(path, snaplen, header, used))
        answer_ok();
    else
        answer_error("capture: %s: %s", path, strerror(errno));
}

static int capture_stop(void) {
    static uint8_t blocks[2 * PCAPNG_BLOCK_BYTES];
    size_t used = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct side *side = &sides[i];
        side_count(side);
        struct pcapng_counts counts = {
            .interface = i,
            .began_ns = recording_time(recorded_from_ns),
            .ended_ns = recording_time(now_ns()),
            .received = side->counts.received - side->recorded_from.received,
            .dropped = side->counts.missed - side->recorded_from.missed,
        };
        used += pcapng_statistics(blocks + used, &counts);
    }
    return recording_stop(blocks, used);
}

static void capture_off(void) {
    if (!recording.on) {
        answer_error("capture: none is on");
        return;
    }
    int error = capture_stop();
    if (error) {
        answer_error("capture: %s: %s", recording.path, strerror(error));
        return;
    }
    struct json j = answer_begin();
    json_int(&j, "packets", (int64_t)recording.packets);
    json_finish(&j);
}

/* Handles "off", or "SNAPLEN PATH"; the path may contain spaces. */
static void command_capture(char *arguments) {
    char *snaplen_text = strsep(&arguments, " "), *path = arguments;
    int64_t snaplen;
    if (!path && strcmp(snaplen_text, "off") == 0)
        capture_off();
    else if (!path || *path == '\0')
        answer_error("capture: wants a length and the path of a file, or off");
    else if (!parse_whole(snaplen_text, MAX_SNAPLEN, &snaplen) || snaplen < ETH_HLEN)
        answer_error("capture: the length must be a whole number from %d to %d", ETH_HLEN,
                     MAX_SNAPLEN);
    else if (recording.on)
        answer_error("capture: already writing %s", recording.path);
    else
        capture_start(path, (uint32_t)snaplen);
}

void finish_capture(void) {
    int error = recording.on ? capture_stop() : 0;
    if (error)
        fprintf(stderr, "wire: capture %s: %s\n", recording.path, strerror(error));
}

/* ---- all commands ---- */

static void obey(char *line) {
    char *words[MAX_WORDS], *rest = line;
    int count = 0;
    line[strcspn(line, "\r")] = '\0';
    if (strncmp(line, "capture ", 8) == 0) {
        command_capture(line + 8);
        return;
    }
    for (char *word; count < MAX_WORDS && (word = strsep(&rest, " \t"));)
        if (*word)
            words[count++] = word;
    const char *command = count ? words[0] : "";
    if (rest)
        answer_error("%s: more than %d words", command, MAX_WORDS);
    else if (strcmp(command, "set") == 0)
        command_set(words, count);
    else if (strcmp(command, "script") == 0)
        command_script(words, count);
    else if (strcmp(command, "access") == 0)
        command_access(words, count);
    else if (strcmp(command, "counters") == 0)
        command_counters();
    else if (strcmp(command, "reset") == 0)
        command_reset();
    else
        answer_error("no command '%s'; see --help", command);
}

void read_commands(void) {
    static char buffer[COMMAND_BYTES + 1];
    static size_t used;
    ssize_t got = read(STDIN_FILENO, buffer + used, COMMAND_BYTES - used);
    if (got == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == -1)
        fail("reading commands");
    /* The owner is gone, so we end too. */
    if (got == 0)
        exit(0);
    used += (size_t)got;
    buffer[used] = '\0';
    char *line = buffer;
    for (char *end; (end = memchr(line, '\n', (size_t)(buffer + used - line))); line = end + 1) {
        *end = '\0';
        obey(line);
    }
    used = (size_t)(buffer + used - line);
    memmove(buffer, line, used);
    if (used == COMMAND_BYTES)
        fail_because("a command of more than %d bytes", COMMAND_BYTES);
}
