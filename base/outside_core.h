/* Functions that the core build (make core) leaves out. There the declaration becomes an inline
 * function with the statements of `absent`, which refuse or do nothing. (The Makefile lets them
 * leave parameters unused.) */
#ifndef BASE_OUTSIDE_CORE_H
#define BASE_OUTSIDE_CORE_H

#ifdef VERBATIM_CORE
#define OUTSIDE_CORE(declaration, absent)                                                          \
    static inline declaration {                                                                    \
        absent                                                                                     \
    }
#else
#define OUTSIDE_CORE(declaration, absent) declaration;
#endif

#endif
