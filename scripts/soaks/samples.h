/* Measures the times of single operations, and reports on many of them in one line of four figures. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* The times of single operations in nanoseconds. */
struct samples {
    uint32_t *times;
    size_t count, room;
};

/* Returns the time of a monotonic clock in seconds. */
static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Returns the processor time of this process in seconds. */
static inline double processor_time(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static inline void reserve(struct samples *samples, size_t more) {
    while (samples->room < samples->count + more) samples->room = samples->room ? samples->room * 2 : 1 << 16;
    samples->times = realloc(samples->times, samples->room * sizeof *samples->times);
    if (samples->times == NULL) abort();
}

static inline void sample(struct samples *samples, double seconds) {
    if (samples->count == samples->room) reserve(samples, 1);
    samples->times[samples->count++] = (uint32_t)(seconds * 1e9);
}

static inline void merge(struct samples *into, struct samples *from) {
    reserve(into, from->count);
    memcpy(into->times + into->count, from->times, from->count * sizeof *from->times);
    into->count += from->count;
    free(from->times);
}

static int by_time(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Prints the operations a second, the processor time of one operation, and the 50th and 99th percentile of their times. All but the
 * first figure are in microseconds. Frees the samples. */
static inline void report(struct samples *samples, double seconds, double processor) {
    size_t count = samples->count;
    if (count == 0) {
        puts("0 0 0 0");
    } else {
        qsort(samples->times, count, sizeof *samples->times, by_time);
        printf("%.1f %.2f %.2f %.2f\n", (double)count / seconds, processor * 1e6 / (double)count,
               samples->times[count / 2] / 1e3, samples->times[count * 99 / 100] / 1e3);
    }
    fflush(stdout);
    free(samples->times);
    *samples = (struct samples){0};
}

/* Runs the operation once without measuring it, then repeatedly for some seconds, and reports on the repetitions. */
static inline void repeat(void (*operation)(void), double seconds) {
    operation();
    struct samples samples = {0};
    double began = now(), spent = processor_time(), before = began, until = began + seconds;
    while (before < until) {
        operation();
        double after = now();
        sample(&samples, after - before);
        before = after;
    }
    report(&samples, before - began, processor_time() - spent);
}

#endif
