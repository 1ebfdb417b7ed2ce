/*
 * wire_commands.h - what the owner of wire.c may say on standard input: one
 * command a line, each answered by one line of JSON. See --help.
 */
#ifndef WIRE_COMMANDS_H
#define WIRE_COMMANDS_H

#include "wire_model.h"
#include "wire_ports.h"
#include "wire_record.h"

#include <arpa/inet.h>
#include <stdarg.h>

/* ---- commands: parameters ---- */

static struct json answer_begin(void) {
    struct json j = json_start(stdout);
    json_object(&j, NULL);
    json_bool(&j, "ok", true);
    return j;
}

static void answer_end(struct json *j) {
    json_end_object(j);
    json_finish(j);
}

static void answer_ok(void) {
    struct json j = answer_begin();
    answer_end(&j);
}

/* Always false, so that a parser can return it. */
__attribute__((format(printf, 1, 2))) static bool answer_error(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct json j = json_start(stdout);
    json_object(&j, NULL);
    json_string(&j, "error", text);
    json_end_object(&j);
    json_finish(&j);
    return false;
}

enum kind { WHOLE, PROBABILITY, SWITCH, ADDRESS };

static const struct key {
    const char *name;
    size_t offset; /* in struct settings */
    enum kind kind;
    int64_t max;
    const char *help;
} keys[] = {
#define KEY(name, kind, max, help) {#name, offsetof(struct settings, name), kind, max, help}
    KEY(delay_ns, WHOLE, 10 * SECOND_NS, "one way"),
    KEY(rate_bps, WHOLE, 1000 * SECOND_NS, "bit/s; 0: as fast as the machine can"),
    KEY(framing_bytes, WHOLE, 24, "per frame: 24 (preamble, FCS, gap; short frames padded) or 0"),
    KEY(queue_packets, WHOLE, SECOND_NS, "waiting, besides the one being sent; 0: no limit"),
    KEY(queue_bytes, WHOLE, INT64_C(1) << 50, "the same in bytes of frames; 0: no limit"),
    KEY(jitter_ns, WHOLE, 10 * SECOND_NS, "delay +- this, uniform; frames keep their order"),
    KEY(loss, PROBABILITY, 1, "of a frame to be lost, before it takes a place in the queue"),
    KEY(duplicate, PROBABILITY, 1, "of a frame to come twice"),
    KEY(reorder, PROBABILITY, 1, "of a frame to be held back: those behind overtake it"),
    KEY(reorder_ns, WHOLE, 10 * SECOND_NS, "for this long"),
    KEY(seed, WHOLE, INT64_MAX, "of all chance; setting it starts the sequence again"),
    KEY(mtu, WHOLE, 65535, "longest IP packet, else it is fragmented or (DF) dropped; 0: any"),
    KEY(icmp, SWITCH, 1, "on: say so to the sender; off: a black hole"),
    KEY(router, ADDRESS, 0, "IPv4 address that says so; 0.0.0.0: the packet's destination"),
#undef KEY
};

enum { KEYS = sizeof keys / sizeof keys[0] };

static int64_t *whole_setting(struct settings *set, const struct key *key) {
    return (void *)((char *)set + key->offset);
}

static double *real_setting(struct settings *set, const struct key *key) {
    return (void *)((char *)set + key->offset);
}

/* A whole number from 0 to max, with nothing behind it. */
static bool parse_whole(const char *text, int64_t max, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *value >= 0 && *value <= max;
}

static bool set_whole(struct settings *set, const struct key *key, const char *value) {
    int64_t number;
    if (!parse_whole(value, key->max, &number))
        return answer_error("%s: '%s' is not a whole number from 0 to %lld", key->name, value,
                            (long long)key->max);
    *whole_setting(set, key) = number;
    return true;
}

static bool set_probability(struct settings *set, const struct key *key, const char *value) {
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0 && number <= 1))
        return answer_error("%s: '%s' is not a probability from 0 to 1", key->name, value);
    *real_setting(set, key) = number;
    return true;
}

static bool set_switch(struct settings *set, const struct key *key, const char *value) {
    bool on = strcmp(value, "on") == 0;
    if (!on && strcmp(value, "off") != 0)
        return answer_error("%s: '%s' is neither on nor off", key->name, value);
    *whole_setting(set, key) = on;
    return true;
}

static bool set_address(struct settings *set, const struct key *key, const char *value) {
    struct in_addr address;
    if (inet_pton(AF_INET, value, &address) != 1)
        return answer_error("%s: '%s' is not an IPv4 address", key->name, value);
    *whole_setting(set, key) = ntohl(address.s_addr);
    return true;
}

/* Applies "key=value"; false, with the answer given, if it is no good. */
static bool apply(struct settings *set, const char *assignment) {
    static bool (*const setters[])(struct settings *, const struct key *, const char *) = {
        [WHOLE] = set_whole,
        [PROBABILITY] = set_probability,
        [SWITCH] = set_switch,
        [ADDRESS] = set_address,
    };
    const char *value = strchr(assignment, '=');
    size_t length = value ? (size_t)(value - assignment) : 0;
    for (const struct key *key = keys; value && key < keys + KEYS; key++)
        if (strlen(key->name) == length && memcmp(key->name, assignment, length) == 0)
            return setters[key->kind](set, key, value + 1);
    return answer_error("set: '%s' is not KEY=VALUE with a KEY of --help", assignment);
}

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

/* A new rate also holds for the rest of the frame in the transmitter. */
static void change_settings(struct direction *d, const struct settings *set) {
    int64_t now = d->settled_ns;
    advance(d, now);
    int64_t old_rate = d->set.rate_bps;
    d->set = *set;
    if (!d->sending || set->rate_bps == old_rate || d->finish_ns <= now)
        return;
    double left_bits = (double)(d->finish_ns - now) * (double)old_rate;
    d->finish_ns = now + (set->rate_bps ? llrint(left_bits / (double)set->rate_bps) : 0);
}

static void command_set(char **words, int count) {
    struct direction *directions[2];
    struct settings sets[2];
    unsigned found = parse_directions(words, count, directions);
    bool seeded = false;
    for (unsigned k = 0; k < found; k++) {
        sets[k] = directions[k]->set;
        for (int i = 3; i < count; i++) {
            if (!apply(&sets[k], words[i]))
                return;
            seeded |= strncmp(words[i], "seed=", 5) == 0;
        }
    }
    for (unsigned k = 0; k < found; k++) {
        change_settings(directions[k], &sets[k]);
        if (seeded)
            directions[k]->numbered = 0;
    }
    if (found)
        answer_ok();
}

/* ---- commands: the script ---- */

/* "3,7-9": the frames meant. */
static bool parse_ranges(struct rule *rule, char *text) {
    for (char *part; (part = strsep(&text, ","));) {
        char *dash = strchr(part, '-');
        int64_t first, last;
        if (dash)
            *dash++ = '\0';
        if (!parse_whole(part, INT64_MAX, &first) || first < 1 ||
            !parse_whole(dash ? dash : part, INT64_MAX, &last) || last < first ||
            rule->nth_count == MAX_RANGES)
            return false;
        rule->nth[rule->nth_count++] = (struct range){(uint64_t)first, (uint64_t)last};
    }
    return true;
}

static bool parse_condition(struct rule *rule, char *word) {
    char *value = strchr(word, '=');
    int64_t number = 0;
    if (value)
        *value++ = '\0';
    bool is_number = value && parse_whole(value, INT64_MAX, &number);
    if (value && strcmp(word, "nth") == 0)
        return parse_ranges(rule, value) || answer_error("script: nth wants e.g. 3 or 3,7-9");
    if (!is_number)
        return answer_error("script: '%s' wants a whole number", word);
    if (strcmp(word, "every") == 0 && number > 0)
        rule->every = (uint64_t)number;
    else if (strcmp(word, "limit") == 0 && number > 0)
        rule->limit = (uint64_t)number;
    else if (strcmp(word, "from_ns") == 0)
        rule->from_ns = number;
    else if (strcmp(word, "to_ns") == 0)
        rule->to_ns = number;
    else if (strcmp(word, "port") == 0 && number > 0 && number < 65536)
        rule->port = (uint16_t)number;
    else
        return answer_error("script: no condition '%s=%s'", word, value);
    return true;
}

static int index_of(const char *const *names, const char *name) {
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static bool parse_rule(struct rule *rule, char **words, int count) {
    int action = index_of(action_names, words[3]);
    int what = count > 4 ? index_of(what_names, words[4]) : -1;
    if (action < 0)
        return answer_error("script: '%s' is none of drop, duplicate, hold, clear", words[3]);
    if (what < 0)
        return answer_error("script: %s what? any, ip, tcp, data, ack, syn, fin, rst, udp or icmp",
                            words[3]);
    *rule =
        (struct rule){.action = (enum action)action, .what = (enum what)what, .to_ns = INT64_MAX};
    for (int i = 5; i < count; i++)
        if (!parse_condition(rule, words[i]))
            return false;
    return true;
}

static void command_script(char **words, int count) {
    struct direction *directions[2];
    struct rule rule;
    unsigned found = parse_directions(words, count, directions);
    if (found == 0)
        return;
    if (count < 4) {
        answer_error("script: do what? drop, duplicate, hold or clear");
        return;
    }
    bool clear = strcmp(words[3], "clear") == 0;
    if (!clear && !parse_rule(&rule, words, count))
        return;
    for (unsigned k = 0; k < found; k++)
        if (!clear && directions[k]->rule_count == MAX_RULES) {
            answer_error("script: more than %d rules", MAX_RULES);
            return;
        }
    for (unsigned k = 0; k < found; k++) {
        if (clear)
            directions[k]->rule_count = 0;
        else
            directions[k]->rules[directions[k]->rule_count++] = rule;
    }
    answer_ok();
}

/* ---- commands: what is set, what happened ---- */

static void write_setting(struct json *j, struct settings *set, const struct key *key) {
    char text[INET_ADDRSTRLEN];
    if (key->kind == PROBABILITY) {
        json_double(j, key->name, *real_setting(set, key));
    } else if (key->kind == SWITCH) {
        json_bool(j, key->name, *whole_setting(set, key));
    } else if (key->kind == ADDRESS) {
        uint32_t address = htonl((uint32_t)*whole_setting(set, key));
        json_string(j, key->name, inet_ntop(AF_INET, &address, text, sizeof text));
    } else {
        json_int(j, key->name, *whole_setting(set, key));
    }
}

static void write_parameters(struct json *j, const char *name, struct direction *d) {
    json_object(j, name);
    for (const struct key *key = keys; key < keys + KEYS; key++)
        write_setting(j, &d->set, key);
    json_array(j, "script");
    for (const struct rule *rule = d->rules; rule < d->rules + d->rule_count; rule++) {
        json_object(j, NULL);
        json_string(j, "action", action_names[rule->action]);
        json_string(j, "what", what_names[rule->what]);
        json_int(j, "seen", (int64_t)rule->seen);
        json_int(j, "struck", (int64_t)rule->struck);
        json_end_object(j);
    }
    json_end_array(j);
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

static void read_side_counts(struct side *side) {
    for (unsigned i = 0; i < side->port_count; i++) {
        struct tpacket_stats stats;
        socklen_t size = sizeof stats;
        /* Reading them sets the kernel's to zero. */
        if (getsockopt(side->ports[i].socket, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == -1)
            continue;
        side->counts.received += stats.tp_packets;
        side->counts.missed += stats.tp_drops;
    }
}

static int64_t late_percentile_ns(const struct counters *n, double share) {
    uint64_t wanted = (uint64_t)ceil(share * (double)n->packets_out), seen = 0;
    for (unsigned i = 0; i < BUCKETS && n->packets_out; i++)
        if ((seen += n->late[i]) >= wanted)
            return min_ns(bucket_top_ns(i), n->late_ns_max);
    return 0;
}

static void write_lateness(struct json *j, const struct counters *n) {
    json_object(j, "late_ns");
    json_int(j, "p50", late_percentile_ns(n, 0.5));
    json_int(j, "p90", late_percentile_ns(n, 0.9));
    json_int(j, "p99", late_percentile_ns(n, 0.99));
    json_int(j, "p999", late_percentile_ns(n, 0.999));
    json_int(j, "max", n->late_ns_max);
    json_end_object(j);
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
    read_side_counts(d->from);
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
    write_lateness(j, n);
    json_end_object(j);
}

static void write_recording(struct json *j) {
    if (!record.on)
        return;
    int error = record_error();
    json_object(j, "capture");
    json_string(j, "path", record.path);
    json_int(j, "packets", (int64_t)record.packets);
    if (error)
        json_string(j, "error", strerror(error));
    json_end_object(j);
}

static void command_counters(void) {
    struct json j = answer_begin();
    json_int(&j, "memory_bytes", (int64_t)(store.touched * CELL_BYTES));
    json_int(&j, "cpu_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    json_int(&j, "clock_steps", (int64_t)clock_steps);
    /* CLOCK_BOOTTIME runs on while the machine sleeps, CLOCK_MONOTONIC doesn't. */
    json_int(&j, "suspended_ns", clock_ns(CLOCK_BOOTTIME) - now_ns());
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
        read_side_counts(side_at(i));
        side_at(i)->counted_from = side_at(i)->counts;
        direction_at(i)->n = (struct counters){0};
    }
    clock_steps = 0;
    answer_ok();
}

/* ---- commands: the recording ---- */

/* The kernel's counts stand where they stand; what is reported is what was added since. */
static void start_counting(struct side *side) {
    read_side_counts(side);
    side->recorded_from = side->counts;
}

static void capture_start(const char *path, uint32_t snaplen) {
    static uint8_t header[(2 * MAX_LINKS + 1) * 256];
    size_t used = section_block(header);
    for (unsigned i = 0; i < 2 * link_count; i++) {
        char text[64];
        snprintf(text, sizeof text, "link %u, side %c", i / 2, i % 2 ? 'b' : 'a');
        used += interface_block(header + used, side_at(i)->name, text, snaplen);
        start_counting(side_at(i));
    }
    if (record_start(path, snaplen, real_minus_monotonic_ns, header, used))
        answer_ok();
    else
        answer_error("capture: %s: %s", path, strerror(errno));
}

static int capture_stop(void) {
    static uint8_t blocks[2 * MAX_LINKS * 128];
    size_t used = 0;
    for (unsigned i = 0; i < 2 * link_count; i++) {
        struct side *side = side_at(i);
        read_side_counts(side);
        used += statistics_block(
            blocks + used, i, side->counts.received - side->recorded_from.received,
            side->counts.missed - side->recorded_from.missed, record_time(now_ns()));
    }
    return record_stop(blocks, used);
}

static void capture_off(void) {
    if (!record.on) {
        answer_error("capture: none is on");
        return;
    }
    int error = capture_stop();
    if (error) {
        answer_error("capture: %s: %s", record.path, strerror(error));
        return;
    }
    struct json j = answer_begin();
    json_int(&j, "packets", (int64_t)record.packets);
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
    else if (*arguments == '\0' || strlen(arguments) >= sizeof record.path)
        answer_error("capture: wants the path of a file, or off");
    else if (record.on)
        answer_error("capture: already writing %s", record.path);
    else
        capture_start(arguments, (uint32_t)snaplen);
}

/* However the program ends, what was recorded is in the file. */
static void finish_capture(void) {
    int error = record.on ? capture_stop() : 0;
    if (error)
        fprintf(stderr, "wire: capture %s: %s\n", record.path, strerror(error));
}

/* ---- commands ---- */

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

/* Called when standard input has something: a read doesn't wait. */
static void read_commands(void) {
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

#endif
