/*
 * Figures as a table in 100 columns: milliseconds fused and unfused, kernels fused/unfused, the rate of the
 * traffic that cannot be avoided, the ratio to a plain kernel (1 is its speed), the error, and the first run.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	FIGURE_TEXT = 32,
};

void figure(cJSON *report, const char *name, double value) {
	char text[FIGURE_TEXT];

	snprintf(text, sizeof text, "%.6g", value);
	if (isfinite(value))
		cJSON_AddRawToObject(report, name, text);
	else
		cJSON_AddNullToObject(report, name);
}

static double number(const cJSON *report, const char *name) {
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(report, name);

	if (cJSON_IsRaw(item))
		return atof(item->valuestring);
	return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

void report_machine(const char *device) {
	double load = NAN;

	if (getloadavg(&load, 1) == 1)
		printf("%s, %ld processors, load before the start %.1f\n", device,
			sysconf(_SC_NPROCESSORS_ONLN), load);
}

void report_heading(const char *device) {
	report_machine(device);
	printf("%-22s %10s %10s %8s %13s %7s %6s %9s %9s\n", "workload", "ms", "unfused", "speedup",
		"kernels", "GB/s", "ratio", "error", "first");
}

/* Right-aligned with a unit behind it, or a dash. */
static void cell(int width, int decimals, const char *unit, double value) {
	char text[FIGURE_TEXT] = "-";

	if (isfinite(value))
		snprintf(text, sizeof text, "%.*f%s", decimals, value, unit);
	printf(" %*s", width, text);
}

static void error_cell(double error) {
	if (isfinite(error))
		printf(" %9.1e", error);
	else
		printf(" %9s", "-");
}

static void kernels_cell(const cJSON *report) {
	double fused = number(report, "kernels"), unfused = number(report, "unfused_kernels");
	char text[FIGURE_TEXT] = "-";

	if (isfinite(fused) && isfinite(unfused))
		snprintf(text, sizeof text, "%.0f/%.0f", fused, unfused);
	printf(" %13s", text);
}

/* Figures that only this workload has stand below it. */
static void details(const cJSON *report) {
	const cJSON *lines = cJSON_GetObjectItemCaseSensitive(report, "details");

	for (int i = 0; i < cJSON_GetArraySize(lines); i++)
		printf("    %s\n", cJSON_GetStringValue(cJSON_GetArrayItem(lines, i)));
}

void report_row(const cJSON *report) {
	double ms = number(report, "ms"), unfused = number(report, "unfused_ms");

	printf("%-22s", cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(report, "workload")));
	cell(10, 4, "", ms);
	cell(10, 4, "", unfused);
	cell(8, 2, "x", unfused / ms);
	kernels_cell(report);
	cell(7, 1, "", number(report, "bytes") / ms / 1e6);
	cell(6, 2, "", number(report, "ratio"));
	error_cell(number(report, "max_error"));
	cell(9, 1, "", number(report, "first_ms"));
	putchar('\n');
	details(report);
	fflush(stdout);
}
