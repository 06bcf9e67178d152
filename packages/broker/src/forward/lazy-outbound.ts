// The HTTP client for other hosts, loaded with the first request, which saves memory in brokers that send none.
import type { Outbound, OutboundOptions } from '@brokkr/runtime/http-client/outbound-client.ts'

export function createLazyOutbound(options: OutboundOptions): Outbound {
  let opening: Promise<Outbound> | null = null
  const load = () =>
    (opening ??= import('@brokkr/runtime/http-client/outbound-client.ts').then(({ createOutbound }) => createOutbound({}, options)))
  return {
    request: async (request) => (await load()).request(request),
    open: async (request) => (await load()).open(request),
    close: async () => (await opening)?.close(),
  }
}
