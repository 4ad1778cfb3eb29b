/* A library for LD_PRELOAD. It resolves names as usual, except while the file that HANGING_RESOLVER names exists. Then
 * every lookup hangs, as with a resolver that does not answer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    const char *file = getenv("HANGING_RESOLVER");
    while (file != NULL && access(file, F_OK) == 0) usleep(20000);
    int (*resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");
    return resolve == NULL ? EAI_SYSTEM : resolve(name, service, hints, found);
}
