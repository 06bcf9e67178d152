// The connection pool alone: importing all of undici (fetch, caches, web sockets) adds 13 MiB more, unless somebody else does so anyway.
declare module 'undici/lib/dispatcher/agent.js' {
  export { Agent as default } from 'undici'
}
