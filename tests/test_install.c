/* `make install` and `make uninstall`: what they write, where, and what they leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fixture.h"
#include "process.h"

/* Runs a shell command with $place, an empty directory, and $make, which builds nothing. */
static void shell(const char *place, const char *command) {
    const char *build = getenv("VERBATIM_BUILD");
    char *whole = NULL;
    assert_true(asprintf(&whole,
                         "place='%s'; make() { env -u MAKEFLAGS -u MAKELEVEL make -s -o all "
                         "BUILD='%s' SHARED=none \"$@\"; }; %s",
                         place, build ? build : "build", command) > 0);
    Process p = RUN("/bin/sh", "-c", whole);
    if (p.status) fail_msg("%s\nstatus %d:\n%s%s", command, p.status, p.out, p.err);
    process_free(&p);
    free(whole);
}

/* Whatever characters stand in PREFIX and DESTDIR, all is installed there and nothing elsewhere. */
static void any_prefix_holds_the_whole(void **state) {
    (void)state;
    char *place = fixture_directory();
    shell(place, "before=$(ls -A) && "
                 "make install-strip DESTDIR=\"$place/it's\" PREFIX='/x/pre & fix|\"1\"' && "
                 "test \"$(ls -A)\" = \"$before\" && cd \"$place/it's/x/pre & fix|\"'\"1\"' && "
                 "bin/verbatim --version >/dev/null && bin/verbatim-export --help >/dev/null && "
                 "bin/verbatim-bench --help >/dev/null && bin/verbatim-get --help >/dev/null && "
                 "for p in verbatim verbatim-export verbatim-bench verbatim-get verbatim-serve; do "
                 "bin/$p --version | grep -q '^verbatim [0-9]' || { echo $p; exit 1; }; done && "
                 "grep -q MIT share/doc/verbatim/LICENSE && "
                 "for p in verbatim verbatim-export verbatim-bench verbatim-get verbatim-serve; do "
                 "test -s share/man/man1/$p.1 && "
                 "test -s share/bash-completion/completions/$p || exit 1; done && "
                 "test -s share/doc/verbatim/docs/command-line.md && "
                 "test -s share/verbatim/integrations/python/setup.py");
    /* every link between documents leads somewhere */
    shell(place, "cd \"$place\"/it\\'s/x/*/share/doc/verbatim && for d in *.md */*.md; do "
                 "for l in $(sed -e '/^```/,/^```/d' -e 's/`[^`]*`//g' \"$d\" | "
                 "grep -o '](\\([^)#: ]*\\)[)#]' | tr -d '](#)'); do "
                 "test -e \"$(dirname \"$d\")/$l\" || { echo \"$d: $l\"; exit 1; }; done; done");
    /* the programs are without debug lines */
    shell(place, "! grep -q debug_line \"$place\"/it\\'s/x/*/bin/verbatim");
    /* and all of it goes again */
    shell(place,
          "said=$(make uninstall DESTDIR=\"$place/it's\" PREFIX='/x/pre & fix|\"1\"' 2>&1) && "
          "test -z \"$(find \"$place\" ! -type d)\" && "
          "case $said in *'or, where it is set, $XDG_CACHE_HOME/verbatim'*) ;; "
          "*) echo \"$said\" && exit 1 ;; esac");
    shell(place, "rm -rf \"$place\"/*");
    fixture_remove_directory(place);
}

/* A source tree that cannot be written to is built elsewhere; only the link is left out. */
static void a_source_that_is_read_only_is_built_elsewhere(void **state) {
    (void)state;
    char *place = fixture_directory();
    shell(
        place,
        "cp -r Makefile scripts kernels \"$place\" && cd \"$place\" && mkdir -p out && touch "
        "out/run && chmod 555 . && said=$(if [ $(id -u) = 0 ]; then "
        /* root may write anywhere but where nothing can be written */
        "unshare -m sh -c 'mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" && "
        "exec make -s -o /tmp/none BUILD=/dev/shm run -o /dev/shm/run' 2>&1 || echo \"no mounts\"; "
        "else make -o out/run BUILD=out run 2>&1; fi); chmod 755 .; case $said in "
        "*'no link ./run in a source tree'* | *'no mounts'*) ;; *) echo \"$said\" && exit 1 ;; "
        "esac");
    shell(place, "rm -rf \"$place\"/*");
    fixture_remove_directory(place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_prefix_holds_the_whole),
        cmocka_unit_test(a_source_that_is_read_only_is_built_elsewhere),
    };
    return cmocka_run_group_tests_name("install", tests, NULL, NULL);
}
