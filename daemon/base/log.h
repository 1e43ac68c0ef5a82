/*
 * One line a message, on standard error. Under systemd each line carries its priority (sd-daemon(3)),
 * elsewhere the program's name. Not for what a client may cause at will: that belongs in DEBUG. What people are not to be shown
 * (protocol/utf8.h), and what is no UTF-8, is written as \xNN, whoever wrote it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_NOTICE,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/* The name stands before every line; it must stay. Call once, before other threads start. */
void log_open(const char *program);
void log_set_level(enum log_level level);

/* `from` as a line of the log has it, cut where size ends; for other places that people read. The length. */
size_t log_escape(char *to, size_t size, const char *from);

void log_message(enum log_level level, const char *format, ...) FAULT_PRINTF(2, 3);

/* What a line is about, for the fields of the journal; what is 0 or NULL is none. */
struct log_subject {
	uint64_t session;            /* FUSION_SESSION, with FUSION_USER and FUSION_PROCESS */
	uint32_t uid;
	int32_t pid;
	uint64_t graph;              /* FUSION_GRAPH: 16 digits, as fusionctl tune names it */
	const char *kernel;          /* FUSION_KERNEL */
	int cl_error;                /* FUSION_CL_ERROR */
};

/* A line that has such fields where standard error is the journal, and is a line like others elsewhere. */
void log_about(enum log_level level, const struct log_subject *about, const char *format, ...) FAULT_PRINTF(3, 4);

#define log_error(...) log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_message(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)
