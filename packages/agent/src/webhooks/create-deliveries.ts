// Composition root of webhook deliveries: an outbound client that reaches private networks but not the API server.
import { isIP } from 'node:net'
import { Terminal } from '@brokkr/runtime/errors.ts'
import { allowPrivateNetworks } from '@brokkr/runtime/http-client/address.ts'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { OperationsConfig } from '../config-operations.ts'
import type { OperationsDeps } from '../start-operations.ts'
import { version } from '../version.ts'
import { deliveriesLoop } from './deliveries-loop.ts'

export function createDeliveries({ kube, clock, log, agentId, broker, lifecycle }: OperationsDeps, agent: OperationsConfig): Loop {
  const apiServer = new URL(kube.server).hostname.replace(/^\[|\]$/g, '')
  const apiServerCidrs = isIP(apiServer) === 4 ? [`${apiServer}/32`] : isIP(apiServer) === 6 ? [`${apiServer}/128`] : []
  // Agents deliver webhooks because receivers are in private networks.
  const denied = [...agent.webhook_denied_cidrs, ...apiServerCidrs]
  const allow = { ...allowPrivateNetworks, cidrs: agent.webhook_allowed_cidrs, denied }
  const outbound = createOutbound({}, { allow, userAgent: `brokkr-agent/${version}`, schemes: ['https:', 'http:'] })
  lifecycle.onClose('webhook connections', () => outbound.close())
  const check = (url: string) => {
    if (new URL(url).hostname === apiServer)
      throw new Terminal('the receiver is the API server of this cluster, which webhooks must not reach', { code: 'address_refused' })
  }
  return deliveriesLoop({ client: broker.client, agentId, outbound, check, clock, log, everyMs: agent.webhook_interval * 1000 })
}
