# The broker with its console. One bundle that runs on a bare Node.
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
RUN node scripts/bundle-broker.mjs /out

FROM ${RUNTIME_IMAGE}
WORKDIR /app
COPY --from=build --chown=0:0 /out /app
ENV NODE_ENV=production
USER 10001:10001
EXPOSE 3000 9090
ENTRYPOINT ["node", "/app/main.js"]
