// The outbound proxy for requests to the broker, chosen from HTTPS_PROXY, HTTP_PROXY and NO_PROXY. TLS to the broker runs inside the
// proxy's CONNECT tunnel, so certificate, name and pin are verified as without a proxy, and the proxy cannot read the PAK.
import type { Agent, Dispatcher } from 'undici'

export { findProxy, type ProxyEnv } from '@brokkr/runtime/http-client/proxy-env.ts'

/** Undici's proxy support is imported only if a proxy is configured, to save memory. */
export async function openProxyAgent(
  proxy: URL,
  options: Omit<Agent.Options, 'connect'> & { readonly connect: { readonly timeout: number } },
): Promise<Dispatcher> {
  const { Pool, ProxyAgent } = await import('undici')
  const { connect, ...pool } = options
  const { timeout } = connect
  // Applies the connect timeout to the CONNECT request. Undici's default of 300 s would block later requests too.
  const clientFactory = (origin: URL, proxyOptions: object) =>
    new Pool(origin, { ...proxyOptions, headersTimeout: timeout, connectTimeout: timeout })
  // Plain HTTP is tunneled too, so that the proxy cannot buffer a stream.
  return new ProxyAgent({ ...pool, uri: proxy.href, requestTls: connect, proxyTunnel: true, clientFactory })
}
