/*
 * commands.h - what the owner of the wire may say on standard input: one command per line, each
 * answered by one line of JSON.
 */
#pragma once

void print_command_help(void);

/* Called when standard input has something: a read doesn't wait. At its end the program ends. */
void read_commands(void);

/* However the program ends, what was recorded is in the file. */
void finish_capture(void);
