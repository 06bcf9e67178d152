# The processor of data flows, with replay and preview. The sources as the tests run them, with the production packages of the lockfile.
# BUILD_IMAGE: Node 24 with npm and a shell. RUNTIME_IMAGE: Node 24 at the path NODE; it needs no shell. Both by digest.
ARG BUILD_IMAGE
ARG RUNTIME_IMAGE

FROM ${BUILD_IMAGE} AS build
ARG BUILD_IMAGE
ARG RUNTIME_IMAGE
ARG NODE=/usr/local/bin/node
RUN case "${BUILD_IMAGE} ${RUNTIME_IMAGE}" in *@sha256:*\ *@sha256:*) ;; *) echo "name BUILD_IMAGE and RUNTIME_IMAGE by digest" >&2; exit 1 ;; esac
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages packages
RUN npm ci --omit=dev --omit=optional --workspace packages/cli
# `brokkr` is on the PATH and starts without a shell.
RUN sed -i "1s|.*|#!${NODE}|" packages/cli/src/main.ts && find packages -name '*.test.ts' -delete

FROM ${RUNTIME_IMAGE}
WORKDIR /app
COPY --from=build --chown=0:0 /app /app
ENV NODE_ENV=production PATH=/app/node_modules/.bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 10001:10001
EXPOSE 9090
ENTRYPOINT ["brokkr"]
CMD ["dataflow", "processor"]
