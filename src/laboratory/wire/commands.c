/* commands.c - see commands.h. */
#define _GNU_SOURCE
#include "commands.h"

#include "answer.h"
#include "clocks.h"
#include "link.h"
#include "pcapng.h"
#include "process.h"
#include "recording.h"
#include "result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMAND_BYTES = 8192, MAX_WORDS = 64 };

static const char help[] =
    "\nCommands on standard input; LINK is 0 for the first pair, DIR is ab, ba or both:\n"
    "  set LINK DIR KEY=VALUE...     change parameters, from the next frame on; see below\n"
    "  script LINK DIR ACTION WHAT [CONDITION]...\n"
    "                                ACTION: drop, duplicate, hold (for hold_ns)\n"
    "                                WHAT: any, ip, tcp, data (TCP with payload), ack (nothing\n"
    "                                but that), syn, fin, rst, udp, icmp\n"
    "                                CONDITION, all must hold: nth=3,7-9  every=50  port=5001\n"
    "  script LINK DIR clear         forget the rules\n"
    "  show                          parameters and rules\n"
    "  counters                      what happened since the start, or:\n"
    "  reset                         counters start from zero\n"
    "  capture PATH [snaplen=N]      record every frame in and out as pcapng (128 bytes of each)\n"
    "  capture off                   the file is complete when this has been answered\n"
    "  quit                          so does the end of standard input\n"
    "\n"
    "Keys of set:\n";

void print_command_help(void) {
    fputs(help, stdout);
    settings_print_help();
}

/* ---- parameters and script ---- */

/* "LINK DIRECTION": the directions meant, one or two; 0, with the answer given, if none. */
static unsigned parse_directions(char **words, int count, struct direction *found[2]) {
    int64_t link;
    if (count < 3 || !parse_whole(words[1], link_count - 1, &link)) {
        answer_error("%s: LINK must be a whole number from 0 to %u", words[0], link_count - 1);
        return 0;
    }
    bool ab = strcmp(words[2], "ab") == 0, ba = strcmp(words[2], "ba") == 0;
    bool both = strcmp(words[2], "both") == 0;
    unsigned directions = 0;
    if (ab || both)
        found[directions++] = &links[link].ab;
    if (ba || both)
        found[directions++] = &links[link].ba;
    if (directions == 0)
        answer_error("%s: '%s' is none of ab, ba, both", words[0], words[2]);
    return directions;
}

static void command_set(char **words, int count) {
    struct direction *directions[2];
    struct settings sets[2];
    unsigned found = parse_directions(words, count, directions);
    bool seeded = false;
    for (unsigned k = 0; k < found; k++) {
        sets[k] = directions[k]->set;
        for (int i = 3; i < count; i++) {
            if (!settings_assign(&sets[k], words[i]))
                return;
            seeded |= strncmp(words[i], "seed=", 5) == 0;
        }
    }
    for (unsigned k = 0; k < found; k++)
        link_change(directions[k], &sets[k], seeded);
    if (found)
        answer_ok();
}

static void command_script(char **words, int count) {
    struct direction *directions[2];
    struct rule rule;
    unsigned found = parse_directions(words, count, directions);
    if (found == 0)
        return;
    bool clear = count > 3 && strcmp(words[3], "clear") == 0;
    if (!clear && !rule_parse(&rule, words + 3, count - 3))
        return;
    for (unsigned k = 0; k < found; k++)
        if (!clear && directions[k]->script.count == MAX_RULES) {
            answer_error("script: more than %d rules", MAX_RULES);
            return;
        }
    for (unsigned k = 0; k < found; k++) {
        struct script *script = &directions[k]->script;
        if (clear)
            script->count = 0;
        else
            script->rules[script->count++] = rule;
    }
    answer_ok();
}

/* ---- what is set, what happened ---- */

static void write_parameters(struct json *j, const char *name, struct direction *d) {
    json_object(j, name);
    settings_write(j, &d->set);
    script_write(j, &d->script);
    json_end_object(j);
}

static void command_show(void) {
    struct json j = answer_begin();
    json_array(&j, "links");
    for (unsigned i = 0; i < link_count; i++) {
        json_object(&j, NULL);
        json_string(&j, "a", links[i].a.name);
        json_string(&j, "b", links[i].b.name);
        write_parameters(&j, "ab", &links[i].ab);
        write_parameters(&j, "ba", &links[i].ba);
        json_end_object(&j);
    }
    json_end_array(&j);
    answer_end(&j);
}

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
    /* Never seen by us, so not in packets_in: the host was faster than this program. */
    side_count(d->from);
    json_int(j, "ring", (int64_t)(d->from->counts.missed - d->from->counted_from.missed));
    json_end_object(j);
    json_int(j, "duplicated", (int64_t)n->duplicated);
    json_int(j, "reordered", (int64_t)n->reordered);
    json_int(j, "fragmented", (int64_t)n->fragmented);
    json_int(j, "fragments", (int64_t)n->fragments);
    json_int(j, "icmp", (int64_t)n->icmp);
    json_int(j, "queue_packets", (int64_t)d->queue.packets);
    json_int(j, "queue_bytes", (int64_t)d->queue.bytes);
    json_int(j, "queue_packets_max", (int64_t)n->queue_packets_max);
    json_int(j, "queue_bytes_max", (int64_t)n->queue_bytes_max);
    json_int(j, "line_packets",
             (int64_t)(d->line.packets + d->held.packets + d->outbox_count) + !!d->sending);
    lateness_write(j, n);
    json_end_object(j);
}

static void write_recording(struct json *j) {
    if (!recording_is_on())
        return;
    int error = recording_error();
    json_object(j, "capture");
    json_string(j, "path", recording_path());
    json_int(j, "packets", (int64_t)recording_packets());
    if (error)
        json_string(j, "error", strerror(error));
    json_end_object(j);
}

static void command_counters(void) {
    struct json j = answer_begin();
    json_int(&j, "memory_bytes", (int64_t)(store_bytes()));
    json_int(&j, "cpu_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    json_int(&j, "clock_steps", (int64_t)clock_steps);
    write_recording(&j);
    json_array(&j, "links");
    for (unsigned i = 0; i < link_count; i++) {
        json_object(&j, NULL);
        write_counters(&j, "ab", &links[i].ab);
        write_counters(&j, "ba", &links[i].ba);
        json_end_object(&j);
    }
    json_end_array(&j);
    answer_end(&j);
}

static void command_reset(void) {
    for (unsigned i = 0; i < 2 * link_count; i++) {
        side_count(side_at(i));
        side_at(i)->counted_from = side_at(i)->counts;
        direction_at(i)->n = (struct counters){0};
    }
    clock_steps = 0;
    answer_ok();
}

/* ---- the recording ---- */

/* The kernel's counts stand where they stand; what is reported is what was added since. */
static void start_counting(struct side *side) {
    side_count(side);
    side->recorded_from = side->counts;
}

static int64_t recorded_from_ns;

static void capture_start(const char *path, uint32_t snaplen) {
    static uint8_t header[(2 * MAX_LINKS + 1) * PCAPNG_BLOCK_BYTES];
    size_t used = pcapng_section(header, "tcplab wire");
    for (unsigned i = 0; i < 2 * link_count; i++) {
        char text[64];
        snprintf(text, sizeof text, "link %u, side %c", i / 2, i % 2 ? 'b' : 'a');
        used += pcapng_interface(header + used, LINKTYPE_ETHERNET, snaplen, side_at(i)->name, text);
        start_counting(side_at(i));
    }
    recorded_from_ns = now_ns();
    if (recording_start(path, snaplen, header, used))
        answer_ok();
    else
        answer_error("capture: %s: %s", path, strerror(errno));
}

static int capture_stop(void) {
    static uint8_t blocks[2 * MAX_LINKS * PCAPNG_BLOCK_BYTES];
    size_t used = 0;
    for (unsigned i = 0; i < 2 * link_count; i++) {
        struct side *side = side_at(i);
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
    if (!recording_is_on()) {
        answer_error("capture: none is on");
        return;
    }
    int error = capture_stop();
    if (error) {
        answer_error("capture: %s: %s", recording_path(), strerror(error));
        return;
    }
    struct json j = answer_begin();
    json_int(&j, "packets", (int64_t)recording_packets());
    answer_end(&j);
}

/* "capture PATH [snaplen=N]"; the path may contain spaces. */
static void command_capture(char *arguments) {
    char *option = strrchr(arguments, ' ');
    int64_t snaplen = DEFAULT_SNAPLEN;
    if (option && strncmp(option, " snaplen=", 9) == 0) {
        *option = '\0';
        if (!parse_whole(option + 9, MAX_SNAPLEN, &snaplen) || snaplen < ETH_HLEN) {
            answer_error("capture: snaplen must be a whole number from %d to %d", ETH_HLEN,
                         MAX_SNAPLEN);
            return;
        }
    }
    if (strcmp(arguments, "off") == 0)
        capture_off();
    else if (*arguments == '\0' || strlen(arguments) >= MAX_PATH)
        answer_error("capture: wants the path of a file, or off");
    else if (recording_is_on())
        answer_error("capture: already writing %s", recording_path());
    else
        capture_start(arguments, (uint32_t)snaplen);
}

void finish_capture(void) {
    int error = recording_is_on() ? capture_stop() : 0;
    if (error)
        fprintf(stderr, "wire: capture %s: %s\n", recording_path(), strerror(error));
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
    else if (strcmp(command, "show") == 0)
        command_show();
    else if (strcmp(command, "counters") == 0)
        command_counters();
    else if (strcmp(command, "reset") == 0)
        command_reset();
    else if (strcmp(command, "quit") == 0)
        exit(0);
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
    /* The owner is gone, and so are we. */
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
