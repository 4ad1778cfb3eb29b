// Keeps timers on monotonic clocks from libfaketime 0.9.10, which takes each absolute time of timerfd_settime(2) for one of the wall
// clock. Loaded before it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static unsigned char of_wall_clock[65536];

int timerfd_create(clockid_t clock, int flags) {
    int timer = (int)syscall(SYS_timerfd_create, clock, flags);
    if (timer >= 0 && timer < (int)sizeof of_wall_clock) of_wall_clock[timer] = clock == CLOCK_REALTIME;
    return timer;
}

int timerfd_settime(int timer, int flags, const struct itimerspec *value, struct itimerspec *old) {
    static int (*next)(int, int, const struct itimerspec *, struct itimerspec *);
    if (timer < 0 || timer >= (int)sizeof of_wall_clock || !of_wall_clock[timer])
        return (int)syscall(SYS_timerfd_settime, timer, flags, value, old);
    if (next == NULL) next = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT, "timerfd_settime");
    return next(timer, flags, value, old);
}
