/* settings.c - see settings.h. */
#include "settings.h"

#include "ports.h"
#include "process.h"

#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

struct json answer_begin(void) {
    struct json j = json_start(stdout, false);
    json_bool(&j, "ok", true);
    return j;
}

void answer_ok(void) {
    struct json j = answer_begin();
    json_finish(&j);
}

bool answer_error(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct json j = json_start(stdout, false);
    json_string(&j, "error", text);
    json_finish(&j);
    return false;
}

/* ---- parameters ---- */

const struct settings default_settings = {
    .queue_packets = 1000,
    .hold_ns = 1000000,
    .icmp = 1,
};

enum kind { WHOLE, PROBABILITY, SWITCH, DISCIPLINE };

static const char *const discipline_names[DISCIPLINES + 1] = {"tail_drop", "codel", "fq_codel",
                                                              "pie", NULL};

static const struct key {
    const char *name;
    size_t offset; /* offset in struct settings */
    enum kind kind;
    int64_t max;
    const char *help;
} keys[] = {
#define KEY(name, kind, max, help) {#name, offsetof(struct settings, name), kind, max, help}
    KEY(delay_ns, WHOLE, 10 * SECOND_NS, "one way"),
    KEY(rate_bps, WHOLE, 1000 * SECOND_NS,
        "bit/s, framing included; 0: as fast as the machine can"),
    KEY(queue_packets, WHOLE, SECOND_NS, "waiting, besides the one being sent; 0: no limit"),
    KEY(aqm, DISCIPLINE, 0, "tail_drop, codel, fq_codel or pie: which frames the queue drops"),
    KEY(ecn, SWITCH, 1, "on: they mark what they would drop, where the packet allows it"),
    KEY(target_ns, WHOLE, 10 * SECOND_NS, "the wait that they aim at; 0: 5 ms, pie 15 ms"),
    KEY(interval_ns, WHOLE, 10 * SECOND_NS, "codel: a wait persists; pie: update; 0: 100, 15 ms"),
    KEY(loss, PROBABILITY, 1, "of a frame to be lost, before it takes a place in the queue"),
    KEY(seed, WHOLE, INT64_MAX, "of all chance; setting it starts the sequence again"),
    KEY(hold_ns, WHOLE, 10 * SECOND_NS, "how long the script holds a frame"),
    KEY(mtu, WHOLE, 65535, "longest IP packet, else fragmented or (DF, IPv6) dropped; 0: any"),
    KEY(icmp, SWITCH, 1, "on: say so to the sender; off: a black hole"),
#undef KEY
};

static int index_of(const char *const *names, const char *name) {
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

bool parse_whole(const char *text, int64_t max, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *value >= 0 && *value <= max;
}

static bool assign(const struct key *key, void *setting, const char *value) {
    int64_t *whole = setting;
    double *number = setting;
    char *end;
    switch (key->kind) {
    case WHOLE:
        return parse_whole(value, key->max, whole) ||
               answer_error("%s: '%s' is not a whole number from 0 to %lld", key->name, value,
                            (long long)key->max);
    case SWITCH:
        *whole = strcmp(value, "on") == 0;
        return *whole || strcmp(value, "off") == 0 ||
               answer_error("%s: '%s' is neither on nor off", key->name, value);
    case DISCIPLINE:
        *whole = index_of(discipline_names, value);
        return *whole >= 0 || answer_error("%s: '%s' is not one of tail_drop, codel, fq_codel, pie",
                                           key->name, value);
    default:
        *number = strtod(value, &end);
        return (end != value && *end == '\0' && *number >= 0 && *number <= 1) ||
               answer_error("%s: '%s' is not a probability from 0 to 1", key->name, value);
    }
}

bool settings_assign(struct settings *set, const char *assignment) {
    const char *value = strchr(assignment, '=');
    size_t length = value ? (size_t)(value - assignment) : 0;
    for (const struct key *key = keys; value && key < keys + COUNT(keys); key++)
        if (strlen(key->name) == length && memcmp(key->name, assignment, length) == 0)
            return assign(key, (char *)set + key->offset, value + 1);
    return answer_error("set: '%s' is not KEY=VALUE with a KEY of --help", assignment);
}

void settings_print_help(void) {
    for (const struct key *key = keys; key < keys + COUNT(keys); key++)
        printf("  %-14s %s\n", key->name, key->help);
}

static const char *const action_names[ACTIONS + 1] = {"drop", "duplicate", "hold", NULL};
static const char *const what_names[WHATS + 1] = {"any", "ip",  "tcp", "data", "ack", "syn",
                                                  "fin", "rst", "udp", "icmp", NULL};

/* ---- the script: parsing a rule ---- */

/* Parses the numbers of frames, such as "3,7-9". */
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
    else if (strcmp(word, "port") == 0 && number > 0 && number < 65536)
        rule->port = (uint16_t)number;
    else
        return answer_error("script: no condition '%s=%s'", word, value);
    return true;
}

bool rule_parse(struct rule *rule, char **words, int count) {
    if (count < 1)
        return answer_error("script: do what? drop, duplicate, hold or clear");
    int action = index_of(action_names, words[0]);
    int what = count > 1 ? index_of(what_names, words[1]) : -1;
    if (action < 0)
        return answer_error("script: '%s' is not one of drop, duplicate, hold, clear", words[0]);
    if (what < 0)
        return answer_error("script: %s what? any, ip, tcp, data, ack, syn, fin, rst, udp or icmp",
                            words[0]);
    *rule = (struct rule){.action = (enum action)action, .what = (enum what)what};
    for (int i = 2; i < count; i++)
        if (!parse_condition(rule, words[i]))
            return false;
    return true;
}

/* ---- applying it ---- */

bool rule_matches(const struct rule *rule, const struct headers *h) {
    bool is_tcp = h->protocol == IPPROTO_TCP, whole_tcp = is_tcp && h->payload_at;
    bool has_payload = whole_tcp && h->payload_at < h->end;
    const uint8_t others = TCP_SYN | TCP_FIN | TCP_RST;
    const bool is[WHATS] = {
        [ANY] = true,
        [IP] = h->ip,
        [TCP] = is_tcp,
        [DATA] = has_payload,
        [ACK] = whole_tcp && !has_payload && (h->tcp_flags & (TCP_ACK | others)) == TCP_ACK,
        [SYN] = whole_tcp && h->tcp_flags & TCP_SYN,
        [FIN] = whole_tcp && h->tcp_flags & TCP_FIN,
        [RST] = whole_tcp && h->tcp_flags & TCP_RST,
        [UDP] = h->protocol == IPPROTO_UDP,
        [ICMP] = h->ip && h->protocol == (h->ip == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6),
    };
    bool port_fits = !rule->port || rule->port == h->source_port || rule->port == h->dest_port;
    return port_fits && is[rule->what];
}

static bool is_nth(const struct rule *rule) {
    for (unsigned i = 0; i < rule->nth_count; i++)
        if (rule->seen >= rule->nth[i].first && rule->seen <= rule->nth[i].last)
            return true;
    return rule->nth_count == 0;
}

unsigned script_strikes(struct script *script, const struct headers *h) {
    unsigned actions = 0;
    for (struct rule *rule = script->rules; rule < script->rules + script->count; rule++) {
        if (!rule_matches(rule, h))
            continue;
        rule->seen++;
        if (is_nth(rule) && (!rule->every || rule->seen % rule->every == 0))
            actions |= 1U << rule->action;
    }
    return actions;
}
