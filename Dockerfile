# An image with the programs, built from these sources:
#
#     docker build -t verbatim .
#     docker run --rm verbatim -s 3                                               # a story
#     docker run --rm -it verbatim -m chat                                        # talk to the small model
#     docker run --rm -v "$PWD:/models" verbatim /models/model.gguf -i "The sky is"
#
# scripts/test-dockerfile runs its commands in a bare Debian, without Docker.
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc make pkg-config libc6-dev libpcre2-dev \
    libjansson-dev libutf8proc-dev libxxhash-dev libedit-dev
COPY . /source
RUN make -C /source -s -j"$(nproc)" static build/static/NOTICES \
    && make -C /source -s -o all install FROM=static/ SHARED=none PREFIX=/usr DESTDIR=/installed \
    && cp /source/build/static/NOTICES /installed/usr/share/doc/verbatim/

FROM debian:12-slim
COPY --from=build /installed /
ENTRYPOINT ["verbatim"]
