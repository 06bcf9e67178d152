// Opens the socket of an outbound request: resolves the name once, checks all addresses and connects to one of them, so that a
// second lookup cannot return another address. Verifies TLS against the name, version 1.2 or later.
import { lookup as systemLookup } from 'node:dns/promises'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { type Failure, Retryable, Terminal, toError } from '../errors.ts'
import { type Allow, checkAddress, isAllowedHost } from './address.ts'

/** All addresses of a host name. */
export type Lookup = (host: string) => Promise<readonly string[]>
export type ConnectDeps = {
  lookup: Lookup
  secureContext: () => SecureContext
  /** Skips verification of the peer; only if the user of a connector configured it. */
  skipVerification?: boolean
}
export type Target = { protocol: string; host: string; port: number }

const addressesMax = 4

export async function connectChecked(deps: ConnectDeps, target: Target, allow: Allow, timeoutMs: number): Promise<Socket> {
  const deadlineMs = performance.now() + timeoutMs
  const addresses = await resolveChecked(deps.lookup, target.host, allow, timeoutMs)
  let failure: Failure | undefined
  for (const address of addresses.slice(0, addressesMax)) {
    const outcome = await dial(deps, target, address, deadlineMs - performance.now())
    if ('socket' in outcome) return outcome.socket
    failure = outcome.failure
    if (failure instanceof Terminal) break
  }
  throw failure ?? new Retryable(`${target.host} has no address`, { code: 'unreachable' })
}

/** The addresses of a host, all of them checked; for connectors that open sockets of their own. One forbidden address refuses the host. */
export async function resolveChecked(lookup: Lookup, host: string, allow: Allow, timeoutMs: number): Promise<readonly string[]> {
  const addresses = isIP(host) ? [host] : await resolve(lookup, host, timeoutMs)
  if (!isAllowedHost(host, allow)) for (const address of addresses) checkAddress(address, allow, host)
  return addresses
}

export const lookupAll: Lookup = async (host) => (await systemLookup(host, { all: true, order: 'verbatim' })).map(({ address }) => address)

async function resolve(lookup: Lookup, host: string, timeoutMs: number): Promise<readonly string[]> {
  const limit = Promise.withResolvers<never>()
  const timer = setTimeout(() => limit.reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  try {
    return await Promise.race([lookup(host), limit.promise])
  } catch (cause) {
    throw new Retryable(`${host} could not be resolved: check its spelling and the DNS of this machine`, { code: 'unreachable', cause })
  } finally {
    clearTimeout(timer)
  }
}

type OpenedSocket = { socket: Socket } | { failure: Failure }

function dial(deps: ConnectDeps, target: Target, address: string, timeoutMs: number): Promise<OpenedSocket> {
  const isTls = target.protocol === 'https:'
  const socket = isTls ? openTls(deps, target, address) : connectTcp({ host: address, port: target.port })
  const { promise, resolve: settle } = Promise.withResolvers<OpenedSocket>()
  const fail = (cause: unknown) => {
    socket.destroy()
    settle({ failure: rejectedConnection(toError(cause), target, address) })
  }
  const timer = setTimeout(() => fail(new Error('no connection in time')), Math.max(1, timeoutMs))
  socket.once('error', fail).once('close', () => fail(new Error('closed while connecting')))
  socket.once(isTls ? 'secureConnect' : 'connect', () => {
    socket.off('error', fail).removeAllListeners('close')
    settle({ socket: socket.setNoDelay(true).setKeepAlive(true, 60_000) })
  })
  return promise.finally(() => clearTimeout(timer))
}

/** The host is an address, so Node makes no lookup; the certificate must match the requested host name. */
function openTls(deps: ConnectDeps, target: Target, address: string): Socket {
  return connectTls({
    host: address,
    port: target.port,
    ...(isIP(target.host) ? {} : { servername: target.host }),
    secureContext: deps.secureContext(),
    rejectUnauthorized: deps.skipVerification !== true, // explicit, so that no environment variable can change it
    ALPNProtocols: ['http/1.1'],
  })
}

const certificateCodes =
  /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|EPROTO$|HOSTNAME_MISMATCH$|INVALID_CA$|INVALID_PURPOSE$|PATH_LENGTH_)/

/** Terminal for a certificate that does not fit, else Retryable. */
export function rejectedConnection(cause: Error & { code?: unknown }, target: Target, address: string): Failure {
  const where = `${target.protocol}//${target.host}:${target.port}`
  if (!certificateCodes.test(String(cause.code)))
    return new Retryable(`${where} could not be reached at ${address}`, { code: 'unreachable', cause })
  return new Terminal(
    `${where} did not prove who it is: its certificate must be valid, name this host and come from a known authority (TLS 1.2 or newer)`,
    {
      code: 'tls_refused',
      cause,
    },
  )
}
