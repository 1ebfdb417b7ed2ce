/*
 * answer.h - the answer to a command: one line of JSON.
 */
#pragma once

#include "json.h"

/* {"ok": true, and what the caller adds before answer_end(). */
struct json answer_begin(void);
void answer_end(struct json *j);

void answer_ok(void);

/* Always false, so that a parser can return it. */
bool answer_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
