// The parts of undici that http-pool.ts is made of.
declare module 'undici/lib/dispatcher/agent.js' {
  export { Agent as default } from 'undici'
}
declare module 'undici/lib/api/api-request.js' {
  export { request as default } from 'undici'
}
declare module 'undici/lib/core/errors.js' {
  export { errors as default } from 'undici'
}
