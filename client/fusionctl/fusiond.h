/*
 * Running the program fusiond for what it alone knows: its configuration and its cache folder.
 */
#pragma once

enum fusiond_output {
	FUSIOND_ANSWERS,             /* what it says of errors goes to standard error */
	FUSIOND_ALL,                 /* ... is part of the text */
};

/*
 * argument: what follows the program's name, up to a NULL. *textp, to be freed, is what it printed; NULL where memory was
 * short. The status of waitpid(2), or -1.
 */
int fusiond_run(const char *const argument[], enum fusiond_output output, char **textp);
