/* Loaded before Redis, it lets a test hold up the syncs of the append-only file: fdatasync does not return while the file that
   AUXO_HOLD names is there. The file that AUXO_HELD names is made when a sync waits. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    while (access(getenv("AUXO_HOLD"), F_OK) == 0) {
        close(creat(getenv("AUXO_HELD"), 0600));
        usleep(1000);
    }
    return real(fd);
}
