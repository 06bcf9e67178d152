// Which outbound proxy the usual environment variables name for an address. Pure.
import { isIP } from 'node:net'
import { Terminal } from '../errors.ts'
import { isCidr, isInside } from './address.ts'

export type ProxyEnv = Readonly<Record<string, string | undefined>>

/**
 * `HTTPS_PROXY` for https, `HTTP_PROXY` for http, else `ALL_PROXY`; lower-case names count first. Null: no proxy, because none is
 * named, `NO_PROXY` names the host, or the target is on this machine.
 */
export function findProxy(target: URL, env: ProxyEnv): URL | null {
  const names = [target.protocol === 'https:' ? 'https_proxy' : 'http_proxy', 'all_proxy']
  const [name, text] = names.map((each) => [each, readVariable(env, each)] as const).find(([, value]) => value !== '') ?? []
  if (name === undefined || text === undefined || isDirect(target, readVariable(env, 'no_proxy'))) return null
  const url = URL.canParse(text) ? new URL(text) : null
  // The value may hold a password, so it is not quoted.
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw new Terminal(`${name.toUpperCase()} is not the address of an HTTP proxy: give it as http://[user:password@]host:port`)
  return url
}

const readVariable = (env: ProxyEnv, name: string): string => (env[name] || env[name.toUpperCase()] || '').trim()

function isDirect(target: URL, noProxy: string): boolean {
  const host = target.hostname.replace(/^\[|\]$/g, '').toLowerCase()
  if (host === 'localhost' || (isIP(host) > 0 && isInside(host, ['127.0.0.0/8', '::1/128']))) return true
  const port = target.port || (target.protocol === 'https:' ? '443' : '80')
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => entry !== '' && isNamed(entry, host, port))
}

/** `*`, a host with all below it, `.domain`, `*.domain`, an address, a network; each but a network also with `:port`. */
function isNamed(entry: string, host: string, port: string): boolean {
  if (isCidr(entry)) return isIP(host) > 0 && isInside(host, [entry])
  const [, bracketed, plain = entry, entryPort] = /^(?:\[(.+)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? []
  if (entryPort !== undefined && entryPort !== port) return false
  const name = (bracketed ?? plain).replace(/^\*?\./, '')
  return name === '*' || host === name || (isIP(host) === 0 && host.endsWith(`.${name}`))
}
