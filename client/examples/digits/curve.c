/* See curve.h: epochs from left to right, the loss on a logarithmic axis with a line for each power of ten. */
#include "curve.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 400, LEFT = 70, RIGHT = 20, TOP = 50, BOTTOM = 50 };

/* Losses below this are drawn as this. */
#define LEAST 1e-9

struct axes {
	int low, high;               /* powers of ten */
	int epochs;
};

static double x_of(const struct axes *a, int epoch) {
	return LEFT + (double)(WIDTH - LEFT - RIGHT) * epoch / (a->epochs > 1 ? a->epochs - 1 : 1);
}

static double y_of(const struct axes *a, double loss) {
	double part = (log10(loss > LEAST ? loss : LEAST) - a->low) / (a->high - a->low);

	return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part;
}

static struct axes axes_of(const double *loss, int epochs) {
	double least = loss[0], most = loss[0];

	for (int i = 1; i < epochs; i++) {
		least = loss[i] < least ? loss[i] : least;
		most = loss[i] > most ? loss[i] : most;
	}
	least = floor(log10(least > LEAST ? least : LEAST));
	most = ceil(log10(most > LEAST ? most : LEAST));
	return (struct axes){ (int)least, (int)(most > least ? most : least + 1), epochs };
}

static void put_axes(FILE *f, const struct axes *a) {
	for (int power = a->low; power <= a->high; power++) {
		double y = y_of(a, pow(10, power));

		fprintf(f, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT, y);
		fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8, y + 4, pow(10, power));
	}
	for (int i = 0; i < 5; i++) {
		int epoch = (a->epochs - 1) * i / 4;

		fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(a, epoch), HEIGHT - BOTTOM + 20, epoch + 1);
	}
	fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">epoch</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
}

int curve_write(const char *path, const char *title, const double *loss, int epochs, double accuracy) {
	struct axes a = axes_of(loss, epochs);
	FILE *f = fopen(path, "w");
	int failed;

	if (!f) {
		fprintf(stderr, "digits: cannot write %s: %s\n", path, strerror(errno));
		return -1;
	}
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		WIDTH, HEIGHT);
	fprintf(f, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
	fprintf(f, "<text x=\"%d\" y=\"28\" font-size=\"15\">%s: loss of each epoch, %.2f %% of held-out digits right</text>\n", LEFT, title,
		100 * accuracy);
	put_axes(f, &a);
	fprintf(f, "<polyline fill=\"none\" stroke=\"#0060c0\" stroke-width=\"2\" points=\"");
	for (int i = 0; i < epochs; i++)
		fprintf(f, "%.1f,%.1f ", x_of(&a, i), y_of(&a, loss[i]));
	fprintf(f, "\"/>\n</svg>\n");
	failed = ferror(f);
	if (fclose(f) || failed) {
		fprintf(stderr, "digits: cannot write %s\n", path);
		return -1;
	}
	return 0;
}
