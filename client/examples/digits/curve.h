/* A picture of how the loss fell: an SVG file. */
#pragma once

/* loss: one of each epoch, positive. 0, or -1 with a message on stderr. */
int curve_write(const char *path, const char *title, const double *loss, int epochs, double accuracy);
