/* Stands in for pyxis: a SPANK plug-in with those of its options that jobs of this project use. It gives a task the
 * environment of the image that the stand-in of enroot imported, and leaves it in the node's own file system. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1);

static char *image, *mounts;

static int set_image(int value, const char *argument, int remote)
{
	image = strdup(argument);
	return 0;
}

static int set_mounts(int value, const char *argument, int remote)
{
	mounts = strdup(argument);
	return 0;
}

static int set_nothing(int value, const char *argument, int remote)
{
	return 0;
}

struct spank_option spank_options[] = {
	{"container-image", "IMAGE", "the image to use for the container", 1, 0, set_image},
	{"container-mounts", "SRC:DST", "bind mounts inside the container", 1, 0, set_mounts},
	{"no-container-mount-home", NULL, "do not bind mount the user's home", 0, 0, set_nothing},
	SPANK_OPTIONS_TABLE_END
};

int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
	char line[PATH_MAX * 4];
	FILE *file;

	if (!image)
		return 0;
	if (!mounts || access(strndup(mounts, strcspn(mounts, ":")), R_OK)) {
		slurm_error("pyxis: couldn't mount %s", mounts ? mounts : "nothing");
		return -1;
	}
	if (!(file = fopen(image, "r"))) {
		slurm_error("pyxis: failed to import %s", image);
		return -1;
	}
	while (fgets(line, sizeof(line), file)) {
		char *value = strchr(line, '=');
		line[strcspn(line, "\n")] = 0;
		if (value) {
			*value++ = 0;
			spank_setenv(spank, line, value, 1);
		}
	}
	fclose(file);
	return 0;
}
