// The machine's clock as a test sets it: a process that preloads this reads CLOCK_REALTIME, and gettimeofday, from the file that MOVED_CLOCK
// names, eight bytes of milliseconds since the epoch. It stands still until the test moves it. Clocks that only ever go on run as they do,
// ahead by as many milliseconds as the next eight bytes say. Where the last eight are not zero, these may grow: who waits for a time of such
// a clock then looks for it again every 20 ms.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_timerfd_settime)(int, int, const struct itimerspec *, struct itimerspec *);
static volatile const int64_t *milliseconds;

__attribute__((constructor)) static void begin(void) {
  real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  real_timerfd_settime = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT, "timerfd_settime");
  const char *path = getenv("MOVED_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, 3 * sizeof *milliseconds, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) milliseconds = mapped;
}

int clock_gettime(clockid_t id, struct timespec *time) {
  if (!real_clock_gettime) begin();
  if ((id == CLOCK_MONOTONIC || id == CLOCK_BOOTTIME) && milliseconds) {
    int result = real_clock_gettime(id, time);
    time->tv_sec += milliseconds[1] / 1000;
    return result;
  }
  if (id != CLOCK_REALTIME || !milliseconds) return real_clock_gettime(id, time);
  int64_t now = *milliseconds;
  time->tv_sec = now / 1000;
  time->tv_nsec = now % 1000 * 1000000;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec time;
  if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

static const struct timespec soon = {.tv_nsec = 20000000};

int timerfd_settime(int file, int flags, const struct itimerspec *next, struct itimerspec *last) {
  if (!real_timerfd_settime) begin();
  struct timespec wait = next->it_value;
  if (!milliseconds || !milliseconds[2] || (!wait.tv_sec && !wait.tv_nsec)) return real_timerfd_settime(file, flags, next, last);
  // Times of day are far beyond those since a machine's start.
  if ((flags & TFD_TIMER_ABSTIME) && wait.tv_sec < 1000000000) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    int64_t left = (wait.tv_sec - now.tv_sec) * 1000000000 + wait.tv_nsec - now.tv_nsec;
    // None at all would stop it.
    wait = left < 1 ? (struct timespec){.tv_nsec = 1} : (struct timespec){left / 1000000000, left % 1000000000};
    flags &= ~TFD_TIMER_ABSTIME;
  }
  struct itimerspec moved = {next->it_interval, wait};
  if (!(flags & TFD_TIMER_ABSTIME) && (wait.tv_sec || wait.tv_nsec > soon.tv_nsec)) moved.it_value = soon;
  return real_timerfd_settime(file, flags, &moved, last);
}
