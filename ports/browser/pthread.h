/* A mutex for one thread. */
#ifndef BROWSER_PTHREAD_H
#define BROWSER_PTHREAD_H

typedef struct pthread_mutex {
    char unused;
} pthread_mutex_t;

static inline int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes) {
    (void)mutex, (void)attributes;
    return 0;
}

static inline int pthread_mutex_lock(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}

static inline int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}

static inline int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}

#endif
