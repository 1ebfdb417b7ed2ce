/* script.c - see script.h. */
#define _GNU_SOURCE
#include "script.h"

#include "answer.h"
#include "settings.h"

#include <netinet/in.h>
#include <string.h>

static const char *const action_names[ACTIONS + 1] = {"drop", "duplicate", "hold", NULL};
static const char *const what_names[WHATS + 1] = {"any", "ip",  "tcp", "data", "ack", "syn",
                                                  "fin", "rst", "udp", "icmp", NULL};

/* ---- parsing a rule ---- */

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

bool rule_parse(struct rule *rule, char **words, int count) {
    if (count < 1)
        return answer_error("script: do what? drop, duplicate, hold or clear");
    int action = index_of(action_names, words[0]);
    int what = count > 1 ? index_of(what_names, words[1]) : -1;
    if (action < 0)
        return answer_error("script: '%s' is none of drop, duplicate, hold, clear", words[0]);
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
    bool whole_tcp = h->protocol == IPPROTO_TCP && h->payload_at;
    bool has_payload = whole_tcp && h->payload_at < h->ip_at + h->ip_bytes;
    if (rule->port && rule->port != h->source_port && rule->port != h->dest_port)
        return false;
    if (rule->what == ANY)
        return true;
    if (h->version == 0)
        return false;
    switch (rule->what) {
    case IP:
        return true;
    case TCP:
        return h->protocol == IPPROTO_TCP;
    case DATA:
        return has_payload;
    case ACK: /* and nothing else */
        return whole_tcp && !has_payload &&
               (h->tcp_flags & (TCP_ACK | TCP_SYN | TCP_FIN | TCP_RST)) == TCP_ACK;
    case SYN:
        return whole_tcp && h->tcp_flags & TCP_SYN;
    case FIN:
        return whole_tcp && h->tcp_flags & TCP_FIN;
    case RST:
        return whole_tcp && h->tcp_flags & TCP_RST;
    case UDP:
        return h->protocol == IPPROTO_UDP;
    default:
        return h->protocol == (h->version == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
    }
}

static bool is_nth(const struct rule *rule) {
    for (unsigned i = 0; i < rule->nth_count; i++)
        if (rule->seen >= rule->nth[i].first && rule->seen <= rule->nth[i].last)
            return true;
    return rule->nth_count == 0;
}

/* Does the rule strike this frame? Counts it if it matches. */
static bool strikes(struct rule *rule, const struct headers *h) {
    if (!rule_matches(rule, h))
        return false;
    rule->seen++;
    bool strike = is_nth(rule) && (!rule->every || rule->seen % rule->every == 0);
    rule->struck += strike;
    return strike;
}

unsigned script_strikes(struct script *script, const struct headers *h) {
    unsigned actions = 0;
    for (struct rule *rule = script->rules; rule < script->rules + script->count; rule++)
        if (strikes(rule, h))
            actions |= 1U << rule->action;
    return actions;
}

void script_write(struct json *j, const struct script *script) {
    json_array(j, "script");
    for (const struct rule *rule = script->rules; rule < script->rules + script->count; rule++) {
        json_object(j, NULL);
        json_string(j, "action", action_names[rule->action]);
        json_string(j, "what", what_names[rule->what]);
        json_int(j, "seen", (int64_t)rule->seen);
        json_int(j, "struck", (int64_t)rule->struck);
        json_end_object(j);
    }
    json_end_array(j);
}
