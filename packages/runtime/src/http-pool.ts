// Connections to HTTP servers and requests over them: the pool of undici and nothing else of it. Its fetch, caches and web sockets
// would take several MiB in every process, used or not.
import type * as undici from 'undici'
import request from 'undici/lib/api/api-request.js'
import every from 'undici/lib/core/errors.js'
import Agent from 'undici/lib/dispatcher/agent.js'

/** The same is done to all of its classes when all of undici is loaded. */
Object.assign(Agent.prototype, { request })

export const HttpPool: typeof undici.Agent = Agent
export const errors: typeof undici.errors = every
