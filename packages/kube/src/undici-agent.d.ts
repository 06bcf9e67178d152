// The connection pool alone: all of undici (fetch, caches, web sockets) costs 13 MiB more of resident memory in every process.
declare module 'undici/lib/dispatcher/agent.js' {
  export { Agent as default } from 'undici'
}
