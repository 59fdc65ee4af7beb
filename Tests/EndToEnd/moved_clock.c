// The machine's clock as a test sets it: a process that preloads this reads CLOCK_REALTIME, and gettimeofday, from the file that MOVED_CLOCK
// names, eight bytes of milliseconds since the epoch. It stands still until the test moves it. Other clocks run as they do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static volatile const int64_t *milliseconds;

__attribute__((constructor)) static void begin(void) {
  real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("MOVED_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *milliseconds, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) milliseconds = mapped;
}

int clock_gettime(clockid_t id, struct timespec *time) {
  if (!real_clock_gettime) begin();
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
