# The agent. One bundle that runs on a bare Node.
# BUILD_IMAGE: Node 24 with npm and a shell. RUNTIME_IMAGE: Node 24 with `node` on its PATH; it needs no shell. Both by digest.
ARG BUILD_IMAGE
ARG RUNTIME_IMAGE

FROM ${BUILD_IMAGE} AS build
ARG BUILD_IMAGE
ARG RUNTIME_IMAGE
RUN case "${BUILD_IMAGE} ${RUNTIME_IMAGE}" in *@sha256:*\ *@sha256:*) ;; *) echo "name BUILD_IMAGE and RUNTIME_IMAGE by digest" >&2; exit 1 ;; esac
WORKDIR /src
COPY . .
RUN npm ci
RUN node scripts/bundle-agent.mjs /out

FROM ${RUNTIME_IMAGE}
WORKDIR /app
COPY --from=build --chown=0:0 /out /app
ENV NODE_ENV=production MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=65536
USER 10001:10001
EXPOSE 8080
ENTRYPOINT ["node", "--max-semi-space-size=4", "--heap-growing-percent=10", "--v8-pool-size=1", "/app/agent.mjs"]
