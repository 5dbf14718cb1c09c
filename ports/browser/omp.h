/* OpenMP for one thread: what the core asks of it where the compiler ignores its directives. */
#ifndef BROWSER_OMP_H
#define BROWSER_OMP_H

static inline int omp_get_thread_num(void) {
    return 0;
}

static inline int omp_get_num_threads(void) {
    return 1;
}

#endif
